"""Programs of basic blocks that repeat for ever, and their time by the event simulation."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from calib.prediction.event_simulation import events
from calib.prediction.latency_hiding import Blocks


def cyclic(
    issue_cycles: npt.ArrayLike,
    latency_cycles: npt.ArrayLike,
    bandwidth_cycles: npt.ArrayLike,
    barrier: npt.ArrayLike | None = None,
) -> Blocks:
    """The blocks of a cyclic program, given one by one; arguments are (..., n)."""
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


def simulate(blocks: Blocks, tlp: int, blp: int, *, rounds: int = 1) -> float:
    """Cycles of one of `rounds` runs of a cyclic program."""
    result = events(
        blocks.issue_cycles.tolist(),
        blocks.latency_cycles.tolist(),
        blocks.bandwidth_cycles,
        blocks.barrier.tolist(),
        tlp=tlp,
        blp=blp,
        rounds=rounds,
    )
    return result.end_cycles / rounds
