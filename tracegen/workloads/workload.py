"""A workload: a kernel together with the arguments that it is launched with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Workload:
    """A Loopy kernel and its arguments.

    kernel : loopy.TranslationUnit, with its inames already split and tagged for the device
    arguments : argument name -> numpy array or number, as the kernel's executor takes them; Loopy
        derives missing sizes from shapes, and allocates missing outputs
    check : called with the outputs (name -> array) after a run; raises AssertionError where they
        are wrong
    source_file : the user's own file, where the kernel was written
    registers_per_item : 32-bit registers of a work-item on the target, if known
    """

    kernel: Any
    arguments: Mapping[str, Any] = field(default_factory=dict)
    check: Callable[[Mapping[str, Any]], None] | None = None
    source_file: str | None = None
    registers_per_item: int | None = None
