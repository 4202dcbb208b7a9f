"""The options of tuning: the command line and Python keywords derive from them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from memsim.errors import MemsimError
from memsim.options import MOST_JOBS, MOST_SEED, Options, option


@dataclass(frozen=True, kw_only=True)
class TuneOptions(Options):
    """How configurations are predicted."""

    error: ClassVar[type[MemsimError]] = MemsimError

    seed: int = option(
        0, "Trial i of each replay depends on (seed, i) alone.", least=0, most=MOST_SEED
    )
    jobs: int | None = option(
        None,
        "Worker processes; the result does not depend on their number.",
        least=1,
        most=MOST_JOBS,
        default_text="usable cores",
        recorded=False,
    )
    scheduler: str | None = option(
        None,
        "Predict on a Dask cluster, for example tcp://host:8786; it needs the packages of memsim[dask].",
        metavar="ADDRESS",
        default_text="this computer",
        recorded=False,
    )
