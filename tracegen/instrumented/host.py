"""Runs a kernel through Loopy's own host code, with probed kernels in place of the plain ones.

Loopy's invoker derives sizes, allocates outputs and enqueues each launch through `Kernels`, which hands
the launch, with its arguments bound, to an observer instead of running it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import loopy as lp
import numpy as np
import pyopencl as cl
from loopy.target.pyopencl_execution import (
    PyOpenCLExecutionWrapperGenerator,
    PyOpenCLExecutor,
    _KernelInfo,
)

from memsim.errors import KernelError
from tracegen.devices.program import Builds
from tracegen.instrumented.instrument import Instrumented, instrument
from tracegen.instrumented.launch import LoopyLaunch, Observer, Proxy
from tracegen.instrumented.sites import UserFile
from tracegen.instrumented.target import marked_code, refuse_unseen
from tracegen.workloads.checks import check_array, check_gaps, number
from tracegen.workloads.loopy_unit import as_kernel_error, inlined
from tracegen.workloads.workload import Workload


@dataclass(frozen=True)
class PreparedLoopy:
    """A workload whose kernel is typed, scheduled and instrumented for one context.

    kernel : the scheduled Loopy kernel, whose linearization is what each launch runs
    """

    workload: Workload
    kernel: Any
    instrumented: Instrumented
    executor: Any
    context: Any

    @property
    def name(self) -> str:
        return str(self.kernel.name)

    @property
    def source(self) -> str:
        """The OpenCL C that Loopy generates, without probes."""
        return self.instrumented.plain

    @property
    def launch_names(self) -> tuple[str, ...]:
        return tuple(program.name for program in self.instrumented.programs)

    def on(self, context: Any) -> PreparedLoopy:
        """The same workload, to run on a context."""
        self.executor.context = self.executor.kernels.builds.context = context
        return PreparedLoopy(self.workload, self.kernel, self.instrumented, self.executor, context)

    def run(self, observer: Observer) -> dict[str, Any]:
        """Calls observer with every launch in order; returns the outputs, name -> array."""
        queue = cl.CommandQueue(self.context)
        arguments = {}
        for name, value in self.workload.arguments.items():
            written = name in self.kernel.arg_dict and self.kernel.arg_dict[name].is_output
            copied = written and isinstance(value, np.ndarray)
            arguments[name] = value.copy() if copied else value
        self.executor.observer = observer
        with as_kernel_error(self.kernel.name):
            _, outputs = self.executor(queue, out_host=True, **arguments)
        queue.finish()
        return dict(outputs)


def prepare(workload: Workload, context: Any) -> PreparedLoopy:
    """Schedules and instruments a workload's kernel; context may be None where nothing will run.

    Raises KernelError where Loopy refuses it or something of it cannot be traced.
    """
    t_unit = workload.kernel
    if not isinstance(t_unit, lp.TranslationUnit):
        raise KernelError(
            f"a workload's kernel must be a loopy.TranslationUnit, got {type(t_unit).__name__}"
        )
    names = sorted(t_unit.entrypoints)
    if len(names) != 1:
        raise KernelError(
            f"a workload's kernel must have one entrypoint, got {len(names)}:"
            f" {', '.join(names) or 'none'}; select one with TranslationUnit.with_entrypoints"
        )
    name = names[0]
    with as_kernel_error(name):
        t_unit = inlined(t_unit)
        refuse_unseen(t_unit[name])
        t_unit = lp.set_options(t_unit, return_dict=True)
        executor = _Executor(context, t_unit, entrypoint=name)
        dtypes = executor.arg_to_dtype(
            {
                key: value if hasattr(value, "dtype") else np.asarray(value)
                for key, value in known_arguments(t_unit[name], workload).items()
            }
        )
        executor.prepare(dtypes, UserFile.read(workload.source_file, workload.origin))
    return PreparedLoopy(workload, executor.kernel, executor.instrumented, executor, context)


def known_arguments(kernel: Any, workload: Workload) -> Mapping[str, Any]:
    """The arguments that are given. Raises KernelError for one that the kernel has not or cannot take."""
    for name, value in workload.arguments.items():
        if name not in kernel.arg_dict:
            raise KernelError(
                f"kernel {kernel.name} has no argument {name}; it has {', '.join(kernel.arg_dict)}"
            )
        what, argument = f"argument {name} of kernel {kernel.name}", kernel.arg_dict[name]
        if value is not None and isinstance(argument, lp.ValueArg):
            number(what, getattr(argument.dtype, "numpy_dtype", None), value)
        elif value is not None:
            check_gaps(what, check_array(what, value))
    return {name: value for name, value in workload.arguments.items() if value is not None}


class WrapperGenerator(PyOpenCLExecutionWrapperGenerator):  # type: ignore[misc]
    def generate_invocation(
        self, gen: Any, kernel: Any, kai: Any, host_program_name: str, args: Any
    ) -> None:
        names = ", ".join(f"{name!r}: {name}" for name in kai.passed_arg_names)
        gen(f"_lpy_cl_kernels.bind({{{names}}})")
        super().generate_invocation(gen, kernel, kai, host_program_name, args)


class _Executor(PyOpenCLExecutor):  # type: ignore[misc]
    observer: Observer
    user: UserFile

    def prepare(self, dtypes: Any, user: UserFile) -> None:
        self.user = user
        t_unit = self.get_typed_and_scheduled_translation_unit(dtypes)
        self.scheduled, self.kernel = t_unit, t_unit[self.entrypoint]
        result, table = marked_code(t_unit)
        self.result = result
        self.instrumented = instrument(result.device_code(), table)
        with lp.CacheMode(False):
            self.invoker = WrapperGenerator()(t_unit, self.entrypoint, result)
        self._check_plain(t_unit)
        names = [program.name for program in self.instrumented.programs]
        options = build_options(self.kernel)
        self.kernels = Kernels(self, Builds(self.context, self.instrumented.probed, names, options))

    def _check_plain(self, t_unit: Any) -> None:
        """That the code without marks is what Loopy generates."""
        if lp.generate_code_v2(t_unit).device_code() != self.instrumented.plain:
            # Loopy may have kept code of a process in which sets were ordered differently.
            with lp.CacheMode(False):
                plain = lp.generate_code_v2(t_unit).device_code()
            assert plain == self.instrumented.plain, "marks changed the code that Loopy generates"

    def translation_unit_info(self, arg_to_dtype: Any = None) -> Any:
        return _KernelInfo(cl_kernels=self.kernels, invoker=self.invoker)


def build_options(kernel: Any) -> list[str]:
    """The compiler options that a Loopy kernel names."""
    options = kernel.options.build_options
    return [options] if isinstance(options, str) else list(options)


class Kernels:
    """Stands for Loopy's compiled kernels, and for the pyopencl module, in Loopy's host code."""

    def __init__(self, executor: _Executor, builds: Builds) -> None:
        self.executor, self.builds = executor, builds
        self.values: Mapping[str, Any] = {}

    def __getattr__(self, name: str) -> Proxy:
        return Proxy(self, name)

    def bind(self, values: Mapping[str, Any]) -> None:
        self.values = values
        self.n_launched = 0

    def enqueue_nd_range_kernel(
        self, queue: Any, proxy: Proxy, gsize: Any, lsize: Any, *_: Any
    ) -> Any:
        grid = tuple(int(extent) for extent in gsize)
        shape = tuple(int(extent) for extent in lsize)
        launch = LoopyLaunch(proxy, queue, self.n_launched, grid, shape)
        self.n_launched += 1
        self.executor.observer(launch)
        return cl.enqueue_marker(queue) if queue.context else None
