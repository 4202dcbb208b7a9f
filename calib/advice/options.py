"""The options of advice, for `memsim advise` and for `calib.advise`."""

from __future__ import annotations

from dataclasses import dataclass

from memsim.options import MOST_JOBS, MOST_SEED, Options, option


@dataclass(frozen=True, kw_only=True)
class AdviseOptions(Options):
    """What is tried, and for how long."""

    budget: float = option(
        300.0,
        "Time to spend on changes, once the kernel as it is has been predicted. What could not be tried in"
        " it is listed.",
        above=0.0,
        unit="seconds",
        metavar="SECONDS",
    )
    best: int = option(
        5,
        "Number of changes whose times are predicted again with all trials, after a first look at every"
        " change with few.",
        least=1,
    )
    trials: int = option(16, "Trials of the final predictions.", least=2)
    first_trials: int = option(4, "Trials of the first look.", least=2)
    seed: int = option(0, "Trial i depends on (seed, i) alone.", least=0, most=MOST_SEED)
    jobs: int | None = option(
        None,
        "Worker processes of a replay; the result does not depend on their number.",
        least=1,
        most=MOST_JOBS,
        default_text="usable cores; 1 for a small replay",
        recorded=False,
    )
    depth: int = option(2, "Most remedies that are combined.", least=1, most=4)
