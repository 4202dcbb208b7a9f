"""The builds of a program with probes: one counts tokens, the others record them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyopencl as cl

from memsim.errors import KernelError
from tracegen.devices.program import built
from tracegen.probes.tokens import TokenEncoding


class Builds:
    """The builds of a probed program for one context, each made when it is first needed."""

    def __init__(
        self, context: Any, source: str, names: Sequence[str], options: Sequence[str]
    ) -> None:
        self.context, self.source = context, source
        self.names, self.options = tuple(names), list(options)
        self.built: dict[TokenEncoding | None, dict[str, Any]] = {}

    def kernel(self, name: str, recording: TokenEncoding | None) -> Any:
        """The kernel that records tokens in an encoding; for None, the kernel that counts them.

        Raises KernelError with the compiler's message where the program does not build.
        """
        if recording not in self.built:
            self.built[recording] = self._build(recording)
        return self.built[recording][name]

    def _build(self, recording: TokenEncoding | None) -> dict[str, Any]:
        options = [*self.options, *(recording.build_options if recording is not None else ())]
        try:
            return built(self.context, self.source, self.names, options)
        except cl.Error as error:
            text = " ".join(str(error).split())
            raise KernelError(f"kernel {', '.join(self.names)} does not build: {text}") from error
