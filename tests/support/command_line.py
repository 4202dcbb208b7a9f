"""What the fixture run_memsim is, and what it returns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Ended:
    """The exit code and the output of a command line."""

    code: int
    out: str
    err: str


RunMemsim = Callable[..., Ended]
