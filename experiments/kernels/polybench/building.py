"""Construction, splitting and checks that PolyBench's and Rodinia's workloads share."""

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
    """A Loopy kernel whose instructions run in the order of the text, with only the barriers of the
    text.

    Loopy checks for missing barriers by array. It would require barriers that the CUDA kernels do
    not have, where work-items write entries that no other work-item reads.
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
    # Loopy also reports a race where a single work-item of a single group writes.
    races = frozenset(f"write_race({instruction.id})" for instruction in instructions)
    return t_unit.with_kernel(kernel.copy(instructions=instructions, silenced_warnings=races))


def along(kernel: Any, *inames: str, items: int = 256) -> Any:
    """Split each of these inames, which have launches of their own, into groups of `items`
    work-items."""
    for iname in inames:
        kernel = lp.split_iname(kernel, iname, items, outer_tag="g.0", inner_tag="l.0")
    return kernel


def tiles(kernel: Any, *pairs: tuple[str, str], rows: int = 8, columns: int = 32) -> Any:
    """Split each (row, column) pair of inames into groups of `rows` x `columns` work-items."""
    for row, column in pairs:
        kernel = lp.split_iname(kernel, row, rows, outer_tag="g.1", inner_tag="l.1")
        kernel = lp.split_iname(kernel, column, columns, outer_tag="g.0", inner_tag="l.0")
    return kernel


def near(name: str, result: Any, exact: Any, scale: Any, terms: int, real: Any) -> None:
    """Assert |result - exact| <= gamma scale with gamma = m eps / (1 - m eps) for m rounded
    operations.

    This is the bound of a sum of `terms` products in any order, where scale is the sum of their
    magnitudes (Higham, *Accuracy and Stability of Numerical Algorithms*, section 3.1).
    """
    rounded = (terms + 4) * float(np.finfo(real).eps)
    assert rounded < 0.5, f"{terms} terms are too many for {real}"
    error = np.abs(np.asarray(result, np.float64) - exact)
    bound = rounded / (1 - rounded) * np.asarray(scale)
    assert (error <= bound).all(), f"{name} is off by up to {error.max()}"


def wide(array: Any) -> FloatArray:
    """The array in double precision."""
    return np.asarray(array, np.float64)
