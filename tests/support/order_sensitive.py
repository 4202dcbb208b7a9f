"""A small trace and machine whose hit ratios depend on the order of requests."""

from __future__ import annotations

import numpy as np

from memsim.machine.model import Machine
from memsim.trace.model import Trace
from tests.support.small_machines import level, machine
from tests.support.traces import make_trace


def trace(n_groups: int = 12) -> Trace:
    """Loads and stores of few lines by many groups: hits depend on the order."""
    rng = np.random.default_rng(0)
    return make_trace(
        [
            [
                [(int(rng.integers(0, 2)), rng.choice(40, 3, replace=False)) for _ in range(6)]
                for _ in range(2)
            ]
            for _ in range(n_groups)
        ],
        ("load", "store"),
        whole=False,
    )


def on() -> Machine:
    return machine(
        level("L1", ways=4, sets=2, replacement="random"),
        level(
            "L2",
            ways=4,
            sets=4,
            cores_per_instance=3,
            write_policy="write_back",
            write_allocate="lazy_fetch_on_read",
        ),
        cores=3,
        max_groups=2,
        miss_turns=3,
    )
