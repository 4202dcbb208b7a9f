"""Builds of a probed program: one that counts, and one for each way to record."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import pyopencl as cl

from memsim.errors import KernelError
from tracegen.instrumented.launch import TokenEncoding


class Builds:
    """The builds of one program for one context, each made when first needed."""

    def __init__(self, context: Any, source: str, name: str, options: Sequence[str]) -> None:
        self.context, self.source, self.name = context, source, name
        self.options = list(options)
        self.made: dict[TokenEncoding | None, Any] = {}

    def kernel(self, recording: TokenEncoding | None) -> Any:
        """The kernel that records so; the one that counts where that is None.

        Raises KernelError with the compiler's words where it does not build.
        """
        if recording not in self.made:
            self.made[recording] = self._built(recording)
        return self.made[recording]

    def _built(self, recording: TokenEncoding | None) -> Any:
        options = list(self.options)
        if recording is not None:
            name = "uint" if recording.bytes == 4 else "ulong"
            options += ["-DTG_RECORD", f"-DTG_TOKEN={name}"]
            options += [f"-DTG_SHIFT={recording.position_shift}"]
            options += ["-DTG_TRUSTED"] if recording.trusted else []
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                program = cl.Program(self.context, self.source).build(options=options)
                return cl.Kernel(program, self.name)
        except cl.Error as error:
            text = " ".join(str(error).split())
            raise KernelError(f"kernel {self.name} does not build: {text}") from error
