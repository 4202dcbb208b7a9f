"""The latency hidden factor: how much of a basic block's latency a core's other sub-groups hide.

After Yuan et al., *A GPU Computational Model Based on Latency Hidden Factor* (Journal of Software
21, 2010). J = TLP * BLP sub-groups are resident on a core: TLP in each group, and BLP groups. A
sub-group's program is cut into basic blocks where it must wait. Block i issues for ILP_i cycles. Its
data begin to arrive La_i cycles later and occupy the channel that the core's sub-groups share for
Bw_i cycles. For the j-th sub-group,

    idle_ij = D_ij - N_ij
    D_ij = La_i + Bw_i + (j - 1) max{0, Bw_i - ILP_i}
    N_ij = ILP_i (J - j) + (j - 1) min{ILP_{i+1}, max{ILP_i, Bw_i}}

N_ij is the time in which the other sub-groups issue instructions. LH_ij = max{0, idle_ij / D_ij} is the
factor: the fraction of the latency that remains visible (sections 2.3 and 2.4). Where block i ends with
a barrier, all data of a group must arrive before any of its sub-groups continues; the (j - 1) of D is
then rounded up, and that of N down, to a multiple of TLP.

Time of one round of resident groups (section 2.5), where block 1 follows block NBB:

    corrected   max{ sum_i (J ILP_i + max_j D_ij LH_ij), J sum_i Bw_i }
    paper       sum_i (J ILP_i + sum_j D_ij LH_ij)

D_ij LH_ij is the idle time accumulated up to sub-group j, so the sum over j that the paper prints counts
it J times. tests/calib/prediction/test_latency_hiding.py compares both with an event simulation.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from memsim.errors import MemsimError

Floats = npt.NDArray[np.float64]
Mode = Literal["corrected", "paper"]


class LatencyHidingError(MemsimError):
    """The model does not apply to these blocks or this residency."""


@dataclass(frozen=True, kw_only=True)
class Blocks:
    """The distinct pairs of a basic block and its successor, and how often each pair occurs.

    count : (n,) occurrences in one sub-group's program; fractional where programs were averaged over
        sub-groups
    issue_cycles, next_issue_cycles : (..., n) ILP_i and ILP_{i+1}
    latency_cycles, bandwidth_cycles : (..., n) La_i and Bw_i
    barrier : (n,) whether block i ends with a barrier

    Arrays may have leading axes (trials). A million equal blocks are one row.

    Raises LatencyHidingError where a value is negative or not finite.
    """

    count: Floats
    issue_cycles: Floats
    next_issue_cycles: Floats
    latency_cycles: Floats
    bandwidth_cycles: Floats
    barrier: npt.NDArray[np.bool_]

    def __post_init__(self) -> None:
        for name in (
            *("count", "issue_cycles", "next_issue_cycles"),
            *("latency_cycles", "bandwidth_cycles"),
        ):
            value = np.asarray(getattr(self, name), np.float64)
            if not (np.isfinite(value).all() and (value >= 0).all()):
                raise LatencyHidingError(f"{name} must be finite and not negative")
            object.__setattr__(self, name, value)
        object.__setattr__(self, "barrier", np.asarray(self.barrier, np.bool_))


def denominator(blocks: Blocks, tlp: int, blp: int) -> Floats:
    """D_ij, (..., n, J): latency and transfer time of block i for sub-group j."""
    before = _before(tlp, blp)
    rounded = np.where(blocks.barrier[:, None], -(-before // tlp) * tlp, before)
    gap = np.maximum(0.0, blocks.bandwidth_cycles - blocks.issue_cycles)
    return np.asarray(
        (blocks.latency_cycles + blocks.bandwidth_cycles)[..., None] + rounded * gap[..., None]
    )


def hiding(blocks: Blocks, tlp: int, blp: int) -> Floats:
    """N_ij, (..., n, J): cycles that the other sub-groups issue while sub-group j waits."""
    before = _before(tlp, blp)
    rounded = np.where(blocks.barrier[:, None], before // tlp * tlp, before)
    after = tlp * blp - 1 - before
    following = np.minimum(
        blocks.next_issue_cycles, np.maximum(blocks.issue_cycles, blocks.bandwidth_cycles)
    )
    return np.asarray(blocks.issue_cycles[..., None] * after + rounded * following[..., None])


def hidden_factor(blocks: Blocks, tlp: int, blp: int) -> Floats:
    """LH_ij, (..., n, J): the fraction of D_ij that nothing hides.

    It is the paper's LatencyHiddenCon where block i ends without a barrier, else LatencyHiddenSyn.
    """
    d = denominator(blocks, tlp, blp)
    visible = np.maximum(0.0, d - hiding(blocks, tlp, blp))
    return np.divide(visible, d, out=np.zeros_like(d), where=d > 0)


def idle_cycles(blocks: Blocks, tlp: int, blp: int, mode: Mode = "corrected") -> Floats:
    """(..., n) idle cycles of the core at one occurrence of each block."""
    idle = np.maximum(0.0, denominator(blocks, tlp, blp) - hiding(blocks, tlp, blp))
    _check(mode)
    return np.asarray(idle.max(axis=-1) if mode == "corrected" else idle.sum(axis=-1))


def round_cycles(blocks: Blocks, tlp: int, blp: int, mode: Mode = "corrected") -> Any:
    """(...) TimeOneRep: cycles from the start of the resident groups until all of them have ended.

    Raises LatencyHidingError where tlp or blp is below 1, or the mode is unknown.
    """
    j = tlp * blp
    per_block = j * blocks.issue_cycles + idle_cycles(blocks, tlp, blp, mode)
    total = (blocks.count * per_block).sum(axis=-1)
    if mode == "paper":
        return total
    return np.maximum(total, j * (blocks.count * blocks.bandwidth_cycles).sum(axis=-1))


def _before(tlp: int, blp: int) -> npt.NDArray[np.int64]:
    """(J,) j - 1: sub-groups that run before the j-th."""
    if tlp < 1 or blp < 1:
        raise LatencyHidingError(f"tlp and blp must be at least 1, got {tlp} and {blp}")
    return np.arange(tlp * blp, dtype=np.int64)


def _check(mode: str) -> None:
    if mode not in get_args(Mode):
        raise LatencyHidingError(f"mode must be one of {', '.join(get_args(Mode))}, got {mode}")
