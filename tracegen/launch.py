"""Runs a kernel through Loopy's own host code, with the probed kernels in place of the plain ones.

Loopy's invoker finds sizes, allocates outputs and enqueues each launch through `Kernels`, which
hands every launch, arguments bound, to an observer instead of running it.
"""

from __future__ import annotations

import contextlib
import io
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import loopy as lp
import numpy as np
import pyopencl as cl
from loopy.diagnostic import LoopyError
from loopy.kernel.data import AddressSpace, ArrayArg
from loopy.schedule.tools import (
    get_subkernel_arg_info,
    temporaries_read_in_subkernel,
    temporaries_written_in_subkernel,
)
from loopy.target.pyopencl_execution import (
    PyOpenCLExecutionWrapperGenerator,
    PyOpenCLExecutor,
    _KernelInfo,
)
from pymbolic import evaluate

from memsim.errors import KernelError, MemsimError
from tracegen.instrument import Instrumented, Program, instrument
from tracegen.probe import marked_code, refuse_unseen
from tracegen.workload import Workload


@dataclass(frozen=True)
class TokenEncoding:
    """How a token holds a position and an index: `position << position_shift | index`.

    trusted : the recording run cannot differ from the counting run, which checked every index
    """

    bytes: int
    position_shift: int
    trusted: bool = False

    @classmethod
    def smallest(cls, n_positions: int, largest_array: int, trusted: bool) -> TokenEncoding:
        """Four bytes where every position and index fits, else eight."""
        shift = 32 - max(n_positions - 1, 1).bit_length()
        fits = largest_array <= 1 << shift
        return cls(4, shift, trusted) if fits else cls(8, 48, trusted)

    def split(self, token: int) -> tuple[int, int]:
        """The position and the index of a token."""
        return token >> self.position_shift, token & ((1 << self.position_shift) - 1)

    @property
    def dtype(self) -> Any:
        return np.uint32 if self.bytes == 4 else np.uint64


@dataclass(frozen=True)
class Prepared:
    """A workload whose kernel is typed, scheduled and instrumented for one context.

    kernel : the scheduled loopy kernel; its linearization says what each launch runs
    """

    workload: Workload
    kernel: Any
    instrumented: Instrumented
    executor: Any
    context: Any

    @property
    def launch_names(self) -> tuple[str, ...]:
        return tuple(program.name for program in self.instrumented.programs)

    def run(self, observer: Callable[[BoundLaunch], None]) -> dict[str, Any]:
        """Calls observer with every launch in order; returns the outputs, name -> array."""
        queue = cl.CommandQueue(self.context)
        arguments = {}
        for name, value in self.workload.arguments.items():
            written = name in self.kernel.arg_dict and self.kernel.arg_dict[name].is_output
            copied = written and isinstance(value, np.ndarray)
            arguments[name] = value.copy() if copied else value
        self.executor.observer = observer
        with _as_kernel_error(self.kernel.name):
            _, outputs = self.executor(queue, out_host=True, **arguments)
        queue.finish()
        return dict(outputs)


def prepare(workload: Workload, context: Any) -> Prepared:
    """Schedules and instruments a workload's kernel.

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
    with _as_kernel_error(name):
        t_unit = _inlined(t_unit)
        refuse_unseen(t_unit[name])
        t_unit = lp.set_options(t_unit, return_dict=True)
        executor = _Executor(context, t_unit, entrypoint=name)
        dtypes = executor.arg_to_dtype(
            {
                key: value if hasattr(value, "dtype") else np.asarray(value)
                for key, value in _known_arguments(t_unit[name], workload).items()
            }
        )
        executor.prepare(dtypes)
    return Prepared(workload, executor.kernel, executor.instrumented, executor, context)


def _known_arguments(kernel: Any, workload: Workload) -> Mapping[str, Any]:
    for name in workload.arguments:
        if name not in kernel.arg_dict:
            raise KernelError(
                f"kernel {kernel.name} has no argument {name}; it has {', '.join(kernel.arg_dict)}"
            )
    return {name: value for name, value in workload.arguments.items() if value is not None}


def _inlined(t_unit: Any) -> Any:
    from loopy.kernel.function_interface import CallableKernel

    while True:
        callees = [
            name
            for name, callee in t_unit.callables_table.items()
            if isinstance(callee, CallableKernel) and name not in t_unit.entrypoints
        ]
        if not callees:
            return t_unit
        before = len(callees)
        for name in callees:
            if name in t_unit.callables_table:
                t_unit = lp.inline_callable_kernel(t_unit, str(name))
        if len(t_unit.callables_table) >= before + len(t_unit.entrypoints):
            t_unit = t_unit.with_entrypoints(t_unit.entrypoints)
            callees = [c for c in callees if c in t_unit.callables_table]
            if len(callees) == before:
                return t_unit


@contextlib.contextmanager
def _as_kernel_error(name: str) -> Iterator[None]:
    """Turns what Loopy and OpenCL raise into KernelError, and keeps Loopy from printing."""
    printed = io.StringIO()
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(printed):
            warnings.simplefilter("ignore")
            yield
    except MemsimError:
        raise
    except LoopyError as error:
        raise KernelError(f"kernel {name}: {_one_line(error)}") from error
    except (cl.Error, TypeError, ValueError, RuntimeError, NotImplementedError) as error:
        raise KernelError(f"kernel {name} cannot be run: {_one_line(error)}") from error


def _one_line(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


class _WrapperGenerator(PyOpenCLExecutionWrapperGenerator):  # type: ignore[misc]
    def generate_invocation(
        self, gen: Any, kernel: Any, kai: Any, host_program_name: str, args: Any
    ) -> None:
        names = ", ".join(f"{name!r}: {name}" for name in kai.passed_arg_names)
        gen(f"_lpy_cl_kernels.bind({{{names}}})")
        super().generate_invocation(gen, kernel, kai, host_program_name, args)


class _Executor(PyOpenCLExecutor):  # type: ignore[misc]
    observer: Callable[[BoundLaunch], None]

    def prepare(self, dtypes: Any) -> None:
        t_unit = self.get_typed_and_scheduled_translation_unit(dtypes)
        self.kernel = t_unit[self.entrypoint]
        result, table = marked_code(t_unit)
        self.instrumented = instrument(result.device_code(), table)
        with lp.CacheMode(False):
            plain = lp.generate_code_v2(t_unit).device_code()
            self.invoker = _WrapperGenerator()(t_unit, self.entrypoint, result)
        assert plain == self.instrumented.plain, "marks changed the code that Loopy generates"
        options = t_unit[self.entrypoint].options.build_options
        self.kernels = Kernels(self, _Builds(self.context, self.instrumented, options))

    def translation_unit_info(self, arg_to_dtype: Any = None) -> Any:
        return _KernelInfo(cl_kernels=self.kernels, invoker=self.invoker)


class _Builds:
    """The two builds of the probed code, each made when first needed."""

    def __init__(self, context: Any, instrumented: Instrumented, options: Any) -> None:
        self.context, self.instrumented = context, instrumented
        self.options = [options] if isinstance(options, str) else list(options)
        self.recordings: dict[TokenEncoding, Any] = {}

    @cached_property
    def counting(self) -> Any:
        return self._build([])

    def recording(self, encoding: TokenEncoding) -> Any:
        if encoding not in self.recordings:
            name = "uint" if encoding.bytes == 4 else "ulong"
            options = [f"-DTG_TOKEN={name}", f"-DTG_SHIFT={encoding.position_shift}"]
            options += ["-DTG_TRUSTED"] if encoding.trusted else []
            self.recordings[encoding] = self._build(["-DTG_RECORD", *options])
        return self.recordings[encoding]

    def _build(self, options: list[str]) -> Any:
        program = cl.Program(self.context, self.instrumented.probed)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return program.build(options=[*self.options, *options])
        except cl.Error as error:
            names = ", ".join(program.name for program in self.instrumented.programs)
            raise KernelError(f"kernel {names} does not build: {_one_line(error)}") from error


class Kernels:
    """What Loopy's host code takes for its compiled kernels and for the pyopencl module."""

    def __init__(self, executor: _Executor, builds: _Builds) -> None:
        self.executor, self.builds = executor, builds
        self.values: Mapping[str, Any] = {}

    def __getattr__(self, name: str) -> _Proxy:
        return _Proxy(self, name)

    def bind(self, values: Mapping[str, Any]) -> None:
        self.values = values
        self.n_launched = 0

    def enqueue_nd_range_kernel(
        self, queue: Any, proxy: _Proxy, gsize: Any, lsize: Any, *_: Any
    ) -> Any:
        grid = tuple(int(extent) for extent in gsize)
        shape = tuple(int(extent) for extent in lsize)
        launch = BoundLaunch(proxy, queue, self.n_launched, grid, shape)
        self.n_launched += 1
        self.executor.observer(launch)
        return cl.enqueue_marker(queue)


class _Proxy:
    """One kernel function with the arguments that host code sets."""

    def __init__(self, kernels: Kernels, name: str) -> None:
        self.kernels, self.name = kernels, name
        self.info = get_subkernel_arg_info(kernels.executor.kernel, name)
        self.num_args = len(self.info.passed_names)
        self.arguments: dict[int, tuple[str, Any]] = {}

    def _set_arg_multi(self, pairs: Sequence[Any]) -> None:
        for index, value in zip(pairs[::2], pairs[1::2], strict=True):
            self.arguments[index] = ("object", value)

    def _set_arg_buf_multi(self, pairs: Sequence[Any]) -> None:
        for index, value in zip(pairs[::2], pairs[1::2], strict=True):
            self.arguments[index] = ("bytes", value)

    def _set_arg_buf_pack_multi(self, triples: Sequence[Any]) -> None:
        for index, code, value in zip(triples[::3], triples[1::3], triples[2::3], strict=True):
            self.arguments[index] = ("pack", (code, value))

    def argument(self, name: str) -> Any:
        return self.arguments[self.info.passed_names.index(name)][1]


class BoundLaunch:
    """One launch with its arguments, not yet run.

    grid : groups along each axis; group_shape : work-items along each axis of a group
    """

    def __init__(
        self,
        proxy: _Proxy,
        queue: Any,
        index: int,
        grid: tuple[int, ...],
        group_shape: tuple[int, ...],
    ) -> None:
        self.proxy, self.queue, self.index = proxy, queue, index
        self.grid, self.group_shape = grid, group_shape
        self.name = proxy.name
        self.program: Program = proxy.kernels.executor.instrumented.program(proxy.name)
        self.kernel = proxy.kernels.executor.kernel
        self.n_groups = int(np.prod(grid, dtype=np.int64))
        self.group_items = int(np.prod(group_shape, dtype=np.int64))
        self.context = proxy.kernels.executor.context

    @cached_property
    def values(self) -> dict[str, int]:
        """Integer arguments by name."""
        return {
            name: int(value)
            for name, value in self.proxy.kernels.values.items()
            if isinstance(value, (int, np.integer))
        }

    def array_shape(self, name: str) -> tuple[int, ...]:
        bound = self.proxy.kernels.values.get(name)
        if bound is not None:
            return tuple(int(extent) for extent in bound.shape)
        array = self.kernel.get_var_descriptor(name)
        return tuple(int(evaluate(extent, self.values)) for extent in array.shape)

    def array_bytes(self, name: str) -> int:
        """Bytes from an array's first byte to behind its last one."""
        bound = self.proxy.kernels.values.get(name)
        if bound is not None:
            if 0 in bound.shape:
                return 0
            spans = zip(bound.shape, bound.strides, strict=True)
            extent = sum((n - 1) * stride for n, stride in spans)
            return int(bound.offset + extent + bound.dtype.itemsize)
        array = self.kernel.get_var_descriptor(name)
        return 0 if 0 in self.array_shape(name) else int(evaluate(array.nbytes, self.values))

    @cached_property
    def array_names(self) -> tuple[str, ...]:
        """Every global array of the kernel: arguments in order, then temporaries by name."""
        arguments = [
            argument.name
            for argument in self.kernel.args
            if isinstance(argument, ArrayArg)
            and argument.address_space == AddressSpace.GLOBAL
            and self.proxy.kernels.values.get(argument.name) is not None
        ]
        temporaries = sorted(
            variable.name
            for variable in self.kernel.temporary_variables.values()
            if variable.address_space == AddressSpace.GLOBAL
            and variable.initializer is None
            and not variable.base_storage
        )
        return (*arguments, *temporaries)

    @cached_property
    def local_memory_bytes(self) -> int:
        names = temporaries_read_in_subkernel(self.kernel, self.name)
        names |= temporaries_written_in_subkernel(self.kernel, self.name)
        variables = [self.kernel.temporary_variables[name] for name in names]
        return sum(
            int(evaluate(variable.nbytes, self.values))
            for variable in variables
            if variable.address_space == AddressSpace.LOCAL
        )

    @cached_property
    def repeatable(self) -> bool:
        """Whether two runs take the same paths, whatever the order of work-items."""
        read = {probe.array for probe in self.program.probes if probe.kind == "load"}
        written = {probe.array for probe in self.program.probes if probe.kind == "store"}
        atomics = any(probe.kind == "atomic" for probe in self.program.probes)
        return not (read & written) and not atomics and self.local_memory_bytes == 0

    def written_and_read(self) -> list[Any]:
        """Buffers whose old content matters to a second run."""
        read = {probe.array for probe in self.program.probes if probe.kind in ("load", "atomic")}
        names = sorted(read & set(self.proxy.info.written_names))
        buffers = [self.proxy.argument(name) for name in names]
        return [buffer for buffer in buffers if buffer is not None]

    def enqueue(
        self,
        *,
        recording: TokenEncoding | None,
        n_groups: int,
        buffers: Sequence[Any],
        sizes: Sequence[int],
    ) -> None:
        """Runs the groups that the buffer of group ids lists.

        buffers : tokens, offsets, counts, group ids, fault; sizes : elements of program.arrays
        """
        builds = self.proxy.kernels.builds
        build = builds.counting if recording is None else builds.recording(recording)
        kernel = getattr(build, self.name)
        dummy = buffers[-1]
        for index, (kind, value) in self.proxy.arguments.items():
            if kind == "object":
                kernel._set_arg_multi((index, dummy if value is None else value))
            elif kind == "bytes":
                kernel._set_arg_buf_multi((index, value))
            else:
                kernel._set_arg_buf_pack_multi((index, *value))
        grid = (*self.grid, 1, 1)
        extra: list[Any] = [*buffers, np.uint32(grid[0]), np.uint32(grid[1])]
        extra += [np.int64(size) for size in sizes]
        for offset, value in enumerate(extra):
            kernel.set_arg(self.proxy.num_args + offset, value)
        shape = (*self.group_shape, 1, 1)[: max(len(self.group_shape), 1)]
        cl.enqueue_nd_range_kernel(self.queue, kernel, (n_groups * shape[0], *shape[1:]), shape)


def element_bytes(kernel: Any, name: str) -> int:
    """Size of the C element that a subscript of a global array addresses."""
    array = kernel.get_var_descriptor(name)
    length = array.vector_length()
    dtype = kernel.target.vector_dtype(array.dtype, length) if length > 1 else array.dtype
    return int(dtype.numpy_dtype.itemsize)
