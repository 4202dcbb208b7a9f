"""The latency hidden factor: how much of a basic block's waiting a core's other sub-groups cover.

After Yuan et al., *A GPU Computational Model Based on Latency Hidden Factor* (Journal of Software
21, 2010). J = TLP * BLP sub-groups are resident on a core: TLP in a group, BLP groups. A sub-group's
program is cut into basic blocks where it must wait. Block i issues for ILP_i cycles; its data begin
to come La_i later and take Bw_i on the channel that the core's sub-groups share. For the j-th of them,

    idle_ij = D_ij - N_ij
    D_ij = La_i + Bw_i + (j - 1) max{0, Bw_i - ILP_i}
    N_ij = ILP_i (J - j) + (j - 1) min{ILP_{i+1}, max{ILP_i, Bw_i}}

N_ij is what the other sub-groups issue meanwhile; LH_ij = max{0, idle_ij / D_ij} is the factor, the part
that stays visible (sections 2.3 and 2.4). Where block i ends with a barrier, the (j - 1) of D is rounded
up and that of N down to a multiple of TLP: all data of a group must be there before any of its
sub-groups goes on.

Time of one round of resident groups (section 2.5), block NBB being followed by block 1:

    corrected   max{ sum_i (J ILP_i + max_j D_ij LH_ij), J sum_i Bw_i }
    paper       sum_i (J ILP_i + sum_j D_ij LH_ij)

D_ij LH_ij is the idle time gathered up to sub-group j, so the sum over j that is printed counts it J
times; tests/calib/prediction/test_latency_hiding.py has both against an event simulation.
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
    """Blocks or residency that the model cannot take."""


@dataclass(frozen=True, kw_only=True)
class Blocks:
    """Distinct pairs of a basic block and the one that follows it, and how often each occurs.

    count : (n,) times that the pair is met in one sub-group's program; not whole where programs were
        averaged over sub-groups
    issue_cycles, next_issue_cycles : (..., n) ILP_i and ILP_{i+1}
    latency_cycles, bandwidth_cycles : (..., n) La_i and Bw_i
    barrier : (n,) whether block i ends with a barrier

    Leading axes (trials) may stand before the last. A million blocks alike are one row.
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


def cyclic(
    issue_cycles: npt.ArrayLike,
    latency_cycles: npt.ArrayLike,
    bandwidth_cycles: npt.ArrayLike,
    barrier: npt.ArrayLike | None = None,
) -> Blocks:
    """The blocks of a program listed one by one, (..., n) each; the last is followed by the first."""
    issue = np.asarray(issue_cycles, np.float64)
    n = issue.shape[-1]
    return Blocks(
        count=np.ones(n),
        issue_cycles=issue,
        next_issue_cycles=np.roll(issue, -1, axis=-1),
        latency_cycles=np.asarray(latency_cycles, np.float64),
        bandwidth_cycles=np.asarray(bandwidth_cycles, np.float64),
        barrier=np.zeros(n, np.bool_) if barrier is None else np.asarray(barrier, np.bool_),
    )


def denominator(blocks: Blocks, tlp: int, blp: int) -> Floats:
    """D_ij, (..., n, J): latency and transfer as sub-group j of block i meets them."""
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
    """LH_ij, (..., n, J): the part of D_ij that nothing hides. LatencyHiddenCon where block i ends
    without a barrier, LatencyHiddenSyn where it ends with one."""
    d = denominator(blocks, tlp, blp)
    visible = np.maximum(0.0, d - hiding(blocks, tlp, blp))
    return np.divide(visible, d, out=np.zeros_like(d), where=d > 0)


def idle_cycles(blocks: Blocks, tlp: int, blp: int, mode: Mode = "corrected") -> Floats:
    """(..., n) cycles that the core stands idle at one occurrence of each block."""
    idle = np.maximum(0.0, denominator(blocks, tlp, blp) - hiding(blocks, tlp, blp))
    _check(mode)
    return np.asarray(idle.max(axis=-1) if mode == "corrected" else idle.sum(axis=-1))


def round_cycles(blocks: Blocks, tlp: int, blp: int, mode: Mode = "corrected") -> Any:
    """(...) TimeOneRep: cycles from when the resident groups start to when they all have ended.

    Raises LatencyHidingError where tlp or blp is below 1, or the mode is unknown.
    """
    j = tlp * blp
    each = j * blocks.issue_cycles + idle_cycles(blocks, tlp, blp, mode)
    total = (blocks.count * each).sum(axis=-1)
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
