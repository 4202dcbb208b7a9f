"""The options of a replay, declared once for the command, for Python and for the documentation."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

from memsim.errors import MemsimError, ReplayError
from memsim.options import MOST_JOBS, MOST_SEED, Options, option

Sampler = Literal["wrr", "lrr", "gto", "gty", "uniform"]
GREEDY = ("gto", "gty")
"""Samplers that model the schedulers of a core's sub-cores and the memory pipe that these share."""
Dispatch = Literal["first_free", "round_robin"]
"""How groups are assigned to cores: in order of number, each to the core that is free first, as
hardware does it; or by their number (Baghsorkhi et al. 2012)."""
Backend = Literal["local", "dask"]

DEFAULT_TRIALS, DEFAULT_HALF_WIDTH = 64, 0.005
LEAST_TRIALS, FEWEST_TRIALS, LEAST_S = 8, 4, 16.0
"""Trials that are replayed where neither their number nor a half-width is given, whatever the budget: the first number, or,
where they would take more than so many seconds, down to the second."""
MOST_TRIALS = 1024
"""The limit where only the half-width is given."""
QUICK_TRIALS = 5
"""One ordering of each of three places, of the start of a layer of groups, and of that of the launch."""
DEFAULT_BUDGET_S = 30.0
REQUESTS_PER_S = 15_000_000
"""Requests a second by which a budget is converted into a number of trials: what one core of a server of
2020 replays, so that results depend on the budget and not on the computer."""
WORTH_WORKERS = 10_000_000
"""Requests in all trials together whose replay takes longer than worker processes take to start."""
LEAST_WAVES = 3
"""A snapshot of as many has a wave that warms the caches, one that is counted, and one that follows."""


def warmup_waves_of(n_waves: int) -> int:
    """The waves that warm the caches: half of a snapshot, whose last wave is not counted either.

    In one below three waves none does, and everything is counted, as where a launch begins: what groups do
    after they were in progress for a while is not like the rest, for most have loaded what they share.
    """
    return 0 if n_waves < LEAST_WAVES else (n_waves - 1) // 2


@dataclass(frozen=True, kw_only=True)
class ReplayOptions(Options):
    """How a trace is replayed. Trial i depends on (seed, i) alone, whatever runs it."""

    error: ClassVar[type[MemsimError]] = ReplayError

    trials: int | None = option(
        None,
        "Number of random orderings to replay: an upper limit where a half-width is given, otherwise"
        " the exact number.",
        least=1,
        most=1_000_000,
        default_text=f"as many as the budget allows, at most {DEFAULT_TRIALS}",
    )
    ci: float | None = option(
        None,
        "Stop once the 95 % interval of every hit ratio has this half-width, as a fraction (0.005 is"
        f" half a point). Without a number of trials, at most {MOST_TRIALS} are replayed.",
        above=0,
        below=1,
        metavar="HALF_WIDTH",
        default_text=f"{DEFAULT_HALF_WIDTH}, or a quarter of what else is open; none where the number"
        " of trials is given",
    )
    budget: float | None = option(
        None,
        "Seconds of one core that the trials may take at"
        f" {REQUESTS_PER_S // 10**6} million requests a second; at least {LEAST_TRIALS} trials are"
        f" replayed, of long traces {FEWEST_TRIALS}. They end earlier once the interval of every hit ratio due to the ordering is"
        " narrow, or small beside what else is open.",
        above=0,
        metavar="SECONDS",
        default_text=f"{DEFAULT_BUDGET_S:g}, unless trials or a half-width are given",
    )
    quick: bool = option(
        False,
        f"Replay {QUICK_TRIALS} random orderings of one set of snapshots and no more: an answer within"
        " seconds, with wide intervals.",
    )
    seed: int = option(0, "Seed of the random orderings.", least=0, most=MOST_SEED)
    jobs: int | None = option(
        None,
        "Workers: threads for a replay whose trials take less than about four seconds, else processes."
        " Results do not depend on their number.",
        least=1,
        most=MOST_JOBS,
        default_text="usable cores; 1 for a small replay",
    )
    sampler: Sampler = option(
        "wrr",
        "How a core chooses its next sub-group: weighted round robin; loose round robin, which skips those"
        " that wait for data; greedy, then oldest or youngest: each of the core's schedulers stays with a"
        " sub-group until it must wait for data; or a random one of those that are ready.",
    )
    dispatch: Dispatch = option(
        "first_free",
        "How groups are assigned to cores: in order of number, each to the core that is free first, as"
        " hardware does it; or by their number.",
    )
    registers: int | None = option(
        None,
        "32-bit registers per work-item, in place of the trace's; they limit the occupancy.",
        least=1,
        default_text="those of the trace",
    )
    groups_per_core: int | None = option(
        None,
        "Resident groups per core, in place of the occupancy that resources allow.",
        least=1,
        default_text="from the occupancy",
    )
    warm: bool = option(
        False,
        "Repeat the launch with caches kept, and count the last one: L1 begins empty, the levels behind it with"
        " what the launch before has left.",
    )
    random_bases: bool = option(False, "Place the arrays at new addresses in every trial.")
    backend: Backend = option("local", "Where trials run: on this computer or on a Dask cluster.")
    scheduler: str | None = option(
        None, "Address of the Dask scheduler, such as tcp://host:8786.", metavar="ADDRESS"
    )
    deviation: bool | None = option(
        None,
        "Whether the first groups are in progress when counting begins, as inside a launch.",
        flags=(),
        default_text="yes for a snapshot from inside a launch",
    )
    counts_start: bool | None = option(
        None,
        "Whether what they did until then is counted too: the launch begins with them.",
        flags=(),
        default_text="yes for a snapshot below three waves, unless waves that warm the caches are given",
    )
    warmup_waves: int | None = option(
        None,
        "Waves of resident groups that warm the caches and are not counted.",
        least=0,
        flags=(),
        default_text="half of a snapshot's waves but the last; 0 for a whole launch, or below three waves",
    )
    weights: Any = option(
        None,
        "(n_subgroup,) number of bulk sequences that each sub-group issues in one turn; not where the"
        " sampler is greedy.",
        flags=(),
        default_text="1 each",
    )
    miss_kinds: bool = option(
        True,
        "Whether misses are told apart into cold, capacity and conflict misses, which takes two more replays a"
        " level; without it all of these are 0.",
        flags=(),
    )
    scratch: Path | None = option(
        None,
        "Folder for the workers' files; every worker must be able to read it.",
        flags=(),
        default_text="a temporary folder",
        recorded=False,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.budget is not None and (self.trials is not None or self.ci is not None):
            raise self.error(
                "budget (--budget) decides on the number of trials: leave out trials (--trials) and ci"
                " (--ci)"
            )
        if self.quick and not (self.trials is self.ci is self.budget is None):
            raise self.error(
                "quick (--quick) decides on the number of trials: leave out trials (--trials), ci (--ci) and"
                " budget (--budget)"
            )
        if self.scheduler is not None and self.backend != "dask":
            raise self.error(
                "scheduler (--scheduler) applies to backend dask (--backend dask) only"
            )
        if self.backend == "dask" and self.scheduler is None:
            raise self.error(
                "backend dask needs the address of a scheduler (--scheduler), for example"
                " tcp://host:8786"
            )
        if self.weights is not None and self.sampler in GREEDY:
            raise self.error(
                f"weights apply to samplers that take turns, not to a greedy one, got {self.sampler}"
            )

    @property
    def is_open_ended(self) -> bool:
        """Whether neither the number of trials nor a half-width was given."""
        return self.trials is None and self.ci is None and not self.quick

    def most_trials(self, n_requests: int) -> int:
        """How many trials are replayed at most, with so many requests each."""
        if self.trials is not None:
            return self.trials
        if self.quick:
            return QUICK_TRIALS
        if self.ci is not None:
            return MOST_TRIALS
        budget_s = DEFAULT_BUDGET_S if self.budget is None else self.budget
        affordable = int(budget_s * REQUESTS_PER_S / max(n_requests, 1))
        return min(max(affordable, LEAST_TRIALS), DEFAULT_TRIALS)

    def least_trials(self, n_requests: int) -> int:
        """How many trials suffice, with so many requests each, if what the ordering leaves open is small beside all else."""
        affordable = int(LEAST_S * REQUESTS_PER_S / max(n_requests, 1))
        return min(max(affordable, FEWEST_TRIALS), LEAST_TRIALS)

    @property
    def half_width(self) -> float | None:
        """The half-width at which a replay stops; None where all trials are replayed."""
        return DEFAULT_HALF_WIDTH if self.is_open_ended else self.ci

    def workers(self, n_requests: int) -> int:
        """Worker processes for a replay of so many requests a trial."""
        most_trials = self.most_trials(n_requests)
        if self.jobs is not None:
            return min(self.jobs, most_trials)
        return min(usable_cores(), most_trials) if self.is_long(n_requests) else 1

    def is_long(self, n_requests: int) -> bool:
        """Whether a replay of so many requests a trial takes long enough for workers and for progress."""
        return self.most_trials(n_requests) * n_requests > WORTH_WORKERS

    def to_json(self) -> dict[str, Any]:
        """What provenance records, with the resolved half-width."""
        plain = super().to_json()
        if self.weights is not None:
            plain["weights"] = [int(weight) for weight in self.weights]
        return {**plain, "ci": self.half_width}


def usable_cores() -> int:
    """Cores that this process may run on; in a container fewer than the machine has."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
