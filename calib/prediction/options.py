"""The options of a prediction, for `memsim predict` and for `calib.predict`, and how wrong its times were."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from memsim.options import MOST_JOBS, MOST_SEED, Options, option

Mode = Literal["simulated", "paper"]
Solver = Literal["events", "equation"]
Latency = Literal["slowest", "expected"]

TIME_ERROR_PERCENT = 29.0
"""The error of a predicted time on machines with which none was compared: within it lie nine of ten of the times
of the machines that were, each machine counting alike (experiments/data/time_errors.csv)."""
TENSOR_ERROR_PERCENT = 25.0
"""The least error of a time with tensor cores: within it lie nine of ten of 45 measured times of products on four machines, each
counting alike (experiments/data/time_errors.csv)."""


@dataclass(frozen=True, kw_only=True)
class PredictOptions(Options):
    """How a time is predicted."""

    mode: Mode = option(
        "simulated",
        "Where latencies and bytes come from: a replay of the kernel's trace; or, as in the paper, one"
        " latency and one bandwidth for all accesses, without caches.",
    )
    solver: Solver = option(
        "events",
        "How blocks are combined into a time: an event simulation of the sub-groups, or the paper's"
        " equation in its corrected form.",
    )
    latency: Latency = option(
        "slowest",
        "How long a basic block waits for its accesses: the expected value of the largest latency, or"
        " the largest of the expected latencies.",
        flags=(),
    )
    trials: int | None = option(
        None,
        "Trials of the replay.",
        least=1,
        most=1_000_000,
        default_text="as many as 'memsim profile' replays",
    )
    seed: int = option(
        0, "Trial i of the replay depends on (seed, i) alone.", least=0, most=MOST_SEED
    )
    jobs: int | None = option(
        None,
        "Worker processes; the result does not depend on their number.",
        least=1,
        most=MOST_JOBS,
        default_text="usable cores; 1 for a small replay",
        recorded=False,
    )
    warm: bool = option(
        False,
        "Predict one of many repeated launches, which begins with what the one before has left in the caches"
        " behind L1.",
    )
    registers: int | None = option(
        None, "32-bit registers per work-item, in place of the trace's.", least=1
    )
    groups_per_core: int | None = option(
        None, "Resident groups per core, in place of those that the occupancy allows.", least=1
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.warm and self.mode == "paper":
            raise self.error("warm (--warm) needs a replay: in mode paper there are no caches")
