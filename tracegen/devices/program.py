"""Builds of OpenCL programs."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from typing import Any

import pyopencl as cl

from memsim.errors import KernelError, one_line

MOST_LETTERS = 252
"""PoCL's cache has a file NAME.so for a kernel, whose name may have 255 bytes. Where it cannot make the
file, PoCL ends the process."""


def built(
    context: Any, source: str, names: Iterable[str], options: Sequence[str]
) -> dict[str, Any]:
    """The kernels of a program by name, which a macro makes shorter where it is too long for a driver.

    Raises pyopencl.Error where the program does not build.
    """
    short = {
        name: name if len(name) <= MOST_LETTERS else f"memsim_kernel_{k}"
        for k, name in enumerate(names)
    }
    renamed = [f"-D{name}={other}" for name, other in short.items() if name != other]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = cl.Program(context, source).build(options=[*options, *renamed])
        return {name: cl.Kernel(program, other) for name, other in short.items()}


class Builds:
    """The builds of a probed program for one context, each made when it is first needed."""

    def __init__(
        self, context: Any, source: str, names: Sequence[str], options: Sequence[str]
    ) -> None:
        self.context, self.source = context, source
        self.names, self.options = tuple(names), list(options)
        self.built: dict[tuple[str, ...], dict[str, Any]] = {}

    def kernel(self, name: str, further: tuple[str, ...] = ()) -> Any:
        """The kernel of the build with further options.

        Raises KernelError with the compiler's message where the program does not build.
        """
        if further not in self.built:
            options = [*self.options, *further]
            try:
                self.built[further] = built(self.context, self.source, self.names, options)
            except cl.Error as error:
                raise KernelError(
                    f"kernel {', '.join(self.names)} does not build: {one_line(error)}"
                ) from error
        return self.built[further][name]
