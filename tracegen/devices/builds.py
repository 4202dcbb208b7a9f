"""The builds of a program with probes: one counts tokens, the others record them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyopencl as cl

from memsim.errors import KernelError
from tracegen.devices.program import built


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
                text = " ".join(str(error).split())
                raise KernelError(
                    f"kernel {', '.join(self.names)} does not build: {text}"
                ) from error
        return self.built[further][name]
