"""Kernels made ready for a device: Loopy generates their code, a thread has their programs built.

A build takes a compiler a quarter of a second, in which Python is free for the next kernel's code, or
to count. None goes on while a kernel is timed: `built_beside` ends when all are done.
"""

from __future__ import annotations

import contextlib
import functools
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

from memsim.errors import KernelError


@contextlib.contextmanager
def built_beside(kernels: Iterable[Any], context: Any) -> Iterator[None]:
    """Has kernels built for a device while the caller does something else; none builds at its end.

    kernels : loopy.TranslationUnit; those that are one object are built once. Raises KernelError
    where no code can be generated; what does not build is told when it is run.
    """
    import pyopencl as cl

    # Of the thread's, too: filters are the whole process's, and this thread's are nested in these.
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
def prepared(kernel: Any, context: Any) -> Prepared:
    """A kernel whose program is being built, or is; kept, so that sizes share a build.

    kernel : loopy.TranslationUnit. Raises KernelError where no code can be generated.
    """
    return Prepared(kernel, context)


@contextlib.contextmanager
def as_kernel_error(name: str) -> Iterator[None]:
    """Turns what Loopy and OpenCL raise into KernelError in one line."""
    import pyopencl as cl
    from loopy.diagnostic import LoopyError

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    except LoopyError as error:
        raise KernelError(f"kernel {name}: {' '.join(str(error).split())}") from error
    except cl.Error as error:
        raise KernelError(f"kernel {name} cannot be run: {error}") from error


@functools.cache
def _beside() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(1, "memsim-build")


class Prepared:
    """A kernel's code, and its program once it is built.

    unit, program : None where Loopy itself must build at a run: the types of arguments are known only then,
        or it takes arrays apart
    """

    def __init__(self, kernel: Any, context: Any) -> None:
        import loopy as lp

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

    # What follows raises the errors of Loopy and OpenCL, which are for `as_kernel_error`.

    def run(self, queue: Any, arguments: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
        """Launches; the event of the last launch, and the outputs by name."""
        if self.program is None:
            return self.executor(queue, **arguments)  # type: ignore[no-any-return]
        self.executor.check_for_required_array_arguments(arguments.keys())
        return self.invoker(self.program.result(), queue, None, None, None, **arguments)  # type: ignore[no-any-return]

    def one_launch(self, arguments: Mapping[str, Any]) -> bool:
        """Whether a run is a single launch, which the device itself times."""
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
