"""Prepares kernels for a device: Loopy generates code while a thread builds programs.

A compiler takes about a quarter of a second per program, during which Python can generate the next
kernel's code or count. No program is built while a kernel is timed: `built_beside` waits for all.
"""

from __future__ import annotations

import contextlib
import functools
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any


@contextlib.contextmanager
def built_beside(kernels: Iterable[Any], context: Any) -> Iterator[None]:
    """Builds kernels for a device while the caller's block runs; waits for all at its end.

    kernels : loopy.TranslationUnit; each object is built once. Raises KernelError if no code can be
    generated; a program that does not build raises when it is run.
    """
    import pyopencl as cl

    # Also for the thread: warning filters are process-wide.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cl.CompilerWarning)
        distinct = {id(kernel): kernel for kernel in kernels}
        programs = [prepared(kernel, context).program for kernel in distinct.values()]
        try:
            yield
        finally:
            for program in programs:
                if program is not None:
                    program.exception()


@functools.lru_cache(maxsize=64)
def prepared(kernel: Any, context: Any) -> LaunchableKernel:
    """A kernel whose program is built or being built; cached, so that all sizes share one build.

    kernel : loopy.TranslationUnit. Raises KernelError if no code can be generated.
    """
    return LaunchableKernel(kernel, context)


@functools.cache
def _beside() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(1, "memsim-build")


class LaunchableKernel:
    """A kernel's code and, once it is built, its program.

    unit, program : None if Loopy must build during a run, because the types of arguments are only
        known then or because it splits arrays
    """

    def __init__(self, kernel: Any, context: Any) -> None:
        import loopy as lp

        from tracegen.workloads import as_kernel_error

        (name,) = kernel.entrypoints
        self.name = str(name)
        self.unit: Any = None
        self.program: Future[SimpleNamespace] | None = None
        with as_kernel_error(self.name):
            kernel = lp.set_options(kernel, return_dict=True, no_numpy=True)
            self.executor = kernel.executor(context)
            if self.executor.has_runtime_typed_args or self.executor.packing_controller is not None:
                return
            self.unit = self.executor.get_typed_and_scheduled_translation_unit(None)
            code = lp.generate_code_v2(self.unit)
            self.invoker = self.executor.get_invoker(self.unit, name, code)
            options = list(self.unit[name].options.build_options)
            self.program = _beside().submit(_built, context, code.device_code(), options)

    # The methods below raise errors of Loopy and OpenCL; callers use `as_kernel_error`.

    def run(self, queue: Any, arguments: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
        """Launches the kernel; returns the event of the last launch and the outputs by name."""
        if self.program is None:
            return self.executor(queue, **arguments)  # type: ignore[no-any-return]
        self.executor.check_for_required_array_arguments(arguments.keys())
        return self.invoker(self.program.result(), queue, None, None, None, **arguments)  # type: ignore[no-any-return]

    def one_launch(self, arguments: Mapping[str, Any]) -> bool:
        """Whether a run is a single launch, which the device can time."""
        unit = self.unit
        if unit is None:
            types = self.executor.arg_to_dtype(arguments)
            unit = self.executor.get_typed_and_scheduled_translation_unit(types)
        return _is_one_launch(unit[self.name].linearization)


def _is_one_launch(linearization: Sequence[Any]) -> bool:
    from loopy.schedule import CallKernel, EnterLoop

    first = next(k for k, item in enumerate(linearization) if isinstance(item, CallKernel))
    launches = sum(isinstance(item, CallKernel) for item in linearization)
    return launches == 1 and not any(isinstance(item, EnterLoop) for item in linearization[:first])


def _built(context: Any, code: str, options: list[str]) -> SimpleNamespace:
    import pyopencl as cl

    program = cl.Program(context, code).build(options=options)
    names = program.kernel_names.split(";")
    return SimpleNamespace(**{name: getattr(program, name) for name in names})
