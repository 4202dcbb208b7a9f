"""The options of a calibration, for `memsim calibrate` and for calib.fitting.calibration.calibrate."""

from __future__ import annotations

from dataclasses import dataclass

from calib.timing.defaults import MOST_LAUNCHES, TRIAL_S, TRIALS, Statistic
from memsim.options import MOST_SEED, Options, option


@dataclass(frozen=True, kw_only=True)
class CalibrateOptions(Options):
    """How measurement kernels are timed and a model is fitted to them."""

    device: str = option(
        "",
        "Parts of the names of an OpenCL platform and device.",
        metavar="PLATFORM[:DEVICE]",
        default_text="the device that passes a test build",
    )
    trials: int = option(TRIALS, "Trials of each kernel.", least=1, most=1_000_000)
    statistic: Statistic = option(
        "median",
        "Which statistic of the trials is taken as a kernel's time; the mean omits outliers.",
    )
    rounds: int = option(
        1,
        "Passes over all kernels, among which the trials are divided, at most one for each trial; more"
        " passes give steadier times on a busy machine.",
        least=1,
    )
    longest_s: float | None = option(
        None,
        "Stop the trials of a kernel, after at least five, once they have taken this long together.",
        least=0,
        unit="s",
        metavar="SECONDS",
        flags=("--longest",),
    )
    trial_s: float = option(
        TRIAL_S,
        "Duration of a trial: the median of as many consecutive launches as fit into it, at most"
        f" {MOST_LAUNCHES}.",
        least=0,
        unit="s",
        metavar="SECONDS",
        flags=("--trial",),
    )
    seed: int = option(
        0, "Seed of the kernels' data and of the fit's starts.", least=0, most=MOST_SEED
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.rounds > self.trials:
            raise self.error(
                f"rounds (--rounds) must be at most trials (--trials), {self.trials}, which are divided among"
                f" them, got {self.rounds}"
            )
