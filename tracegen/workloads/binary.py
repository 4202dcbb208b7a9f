"""A compiled kernel: a file of PTX or machine code, its arguments, and its launch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tracegen.workloads.checks import check_fields


@dataclass(frozen=True, kw_only=True)
class BinaryWorkload:
    """A kernel of a `.ptx`, `.cubin`, `.hsaco` or `.amdgcn` file, with its arguments and launch sizes.

    path : the file
    kernel : its symbol in the file; not needed where there is only one
    arguments : the values in the order of the parameters, or name -> value in that order, for names in reports. A
        pointer takes a numpy array (parameters that take the same array share its memory) or None, a struct a numpy
        scalar of its layout, all else a number, which gets the parameter's size
    grid : blocks along each axis; block : threads along each axis of a block
    shared_bytes : dynamic shared memory of a block
    check : called with the arrays (name -> array) after a run; raises AssertionError where they are wrong
    registers_per_item : 32-bit registers of a thread on the target, if known better than the file does
    """

    path: str | Path | None = None
    kernel: str | None = None
    arguments: Mapping[str, Any] | Sequence[Any] = ()
    grid: int | tuple[int, ...] = 0
    block: int | tuple[int, ...] = 0
    shared_bytes: int = 0
    check: Callable[[Mapping[str, Any]], None] | None = None
    registers_per_item: int | None = None

    def __post_init__(self) -> None:
        check_fields(self)
