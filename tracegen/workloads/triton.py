"""A workload in Triton: a kernel of a Python file, its arguments, and its grid."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tracegen.workloads.checks import check_fields


@dataclass(frozen=True, kw_only=True)
class TritonWorkload:
    """A `@triton.jit` function, also one under `@triton.autotune` and `@triton.heuristics`, with its arguments and grid.

    kernel : the function; the command line puts there what `kernel.py:NAME` names
    arguments : parameter name -> value, or the values in the order of the parameters: numpy arrays, torch tensors, None
        and numbers; constants of the compilation may be among them
    grid : groups along each axis, or a function of all arguments by name, as Triton takes it
    settings : further constants of the compilation, and options as `num_warps` and `num_stages`
    config : which of the autotuner's configurations, from 0
    check : called with the arrays (name -> array) after a run; raises AssertionError where they are wrong
    registers_per_item : 32-bit registers of a thread on the target, if known
    """

    kernel: Any = None
    arguments: Mapping[str, Any] | Sequence[Any] = field(default_factory=dict)
    grid: Any = 0
    settings: Mapping[str, Any] = field(default_factory=dict)
    config: int = 0
    check: Callable[[Mapping[str, Any]], None] | None = None
    registers_per_item: int | None = None

    @property
    def configurations(self) -> list[str]:
        """The autotuner's configurations in words, `BLOCK=64 num_warps=4`; none of a kernel without an autotuner."""
        kernel = self.kernel
        while kernel is not None and not hasattr(kernel, "configs"):
            kernel = getattr(kernel, "fn", None)
        listed = [] if kernel is None else [one.all_kwargs() for one in kernel.configs]
        return [" ".join(f"{name}={value}" for name, value in one.items()) for one in listed]

    def __post_init__(self) -> None:
        check_fields(self, skipped=("grid",) if callable(self.grid) else ())
