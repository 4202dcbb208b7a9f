"""A workload: a kernel together with the arguments that it is launched with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tracegen.workloads.checks import check_fields
from tracegen.workloads.origin import Origin, origin_of_caller


@dataclass(frozen=True)
class Workload:
    """A Loopy kernel and its arguments.

    kernel : loopy.TranslationUnit, with its inames already split and tagged for the device
    arguments : argument name -> numpy array or number, as the kernel's executor takes them; Loopy
        derives missing sizes from shapes, and allocates missing outputs
    check : called with the outputs (name -> array) after a run; raises AssertionError where they
        are wrong
    source_file : the user's own file, where the kernel was written
    origin : the call that made the kernel, with the lines of its instructions, if it is known
    registers_per_item : 32-bit registers of a work-item on the target, if known
    """

    kernel: Any
    arguments: Mapping[str, Any] = field(default_factory=dict)
    check: Callable[[Mapping[str, Any]], None] | None = None
    source_file: str | None = None
    registers_per_item: int | None = None
    origin: Origin | None = None

    def __post_init__(self) -> None:
        check_fields(self)
        if self.origin is None and (origin := origin_of_caller(self.kernel)) is not None:
            object.__setattr__(self, "origin", origin)
            object.__setattr__(self, "source_file", self.source_file or origin.file)
