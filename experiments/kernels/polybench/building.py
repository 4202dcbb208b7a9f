"""What PolyBench's and Rodinia's workloads share: how they are made, split and checked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import loopy as lp
import numpy as np
import numpy.typing as npt

Real = Literal["float32", "float64"]
FloatArray = npt.NDArray[np.float64]

ALPHA, BETA = 1.5, 0.75
"""The scalars of the level 2 and 3 kernels."""


def make(
    name: str, domains: Sequence[str], text: str, arguments: Sequence[Any], assumptions: str
) -> Any:
    """A Loopy kernel whose instructions run in the order of the text, with the text's barriers only.

    Loopy looks for accesses that a barrier must keep apart array by array; where a group's work-items
    write entries that no other one reads, it would ask for barriers that CUDA's kernels have not.
    """
    t_unit = lp.make_kernel(
        list(domains),
        text,
        list(arguments),
        name=name,
        assumptions=assumptions,
        seq_dependencies=True,
        lang_version=(2018, 2),
    )
    kernel = t_unit[name]
    others = frozenset((instruction.id, "any") for instruction in kernel.instructions)
    instructions = [i.copy(no_sync_with=i.no_sync_with | others) for i in kernel.instructions]
    # Loopy takes what one group of one work-item writes for a race as well.
    races = frozenset(f"write_race({instruction.id})" for instruction in instructions)
    return t_unit.with_kernel(kernel.copy(instructions=instructions, silenced_warnings=races))


def along(kernel: Any, *inames: str, items: int = 256) -> Any:
    """Each of these inames over groups of `items` work-items, for launches of their own."""
    for iname in inames:
        kernel = lp.split_iname(kernel, iname, items, outer_tag="g.0", inner_tag="l.0")
    return kernel


def tiles(kernel: Any, *pairs: tuple[str, str], rows: int = 8, columns: int = 32) -> Any:
    """Each (row, column) pair of inames over groups of `rows` x `columns` work-items."""
    for row, column in pairs:
        kernel = lp.split_iname(kernel, row, rows, outer_tag="g.1", inner_tag="l.1")
        kernel = lp.split_iname(kernel, column, columns, outer_tag="g.0", inner_tag="l.0")
    return kernel


def near(name: str, found: Any, exact: Any, scale: Any, terms: int, real: Any) -> None:
    """Asserts |found - exact| <= gamma scale, gamma = m eps / (1 - m eps) for m rounded operations.

    That is the bound of a sum of `terms` products in any order, where scale is the sum of their
    magnitudes (Higham, *Accuracy and Stability of Numerical Algorithms*, section 3.1).
    """
    rounded = (terms + 4) * float(np.finfo(real).eps)
    assert rounded < 0.5, f"{terms} terms are too many for {real}"
    error = np.abs(np.asarray(found, np.float64) - exact)
    bound = rounded / (1 - rounded) * np.asarray(scale)
    assert (error <= bound).all(), f"{name} is off by up to {error.max()}"


def wide(array: Any) -> FloatArray:
    return np.asarray(array, np.float64)
