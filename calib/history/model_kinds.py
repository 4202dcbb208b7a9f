"""StarPU's kinds of model: which of them are calibrated, which fit, and which fits best.

The kinds are `history` (the mean of a key), `power law`, `power law with offset`, `linear regression` and
`neighbours in size`.
For models that are common to several devices, the history measures the speed-up of each device.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from calib.history.errors import HistoryError
from calib.history.neighbours import Neighbours, neighbours
from calib.history.records import Record
from calib.history.regression import (
    FIT_LIMIT,
    LEAST_SAMPLES,
    Linearised,
    PowerLaw,
    Question,
    linear,
    power_law,
    power_law_with_offset,
)
from calib.history.statistics import two_modes
from memsim.report import percent

HISTORY = "history"
VARIATION_LIMIT = 0.25
"""Above this standard deviation, relative to the mean, a key's mean does not predict its launches."""

LEFT_OUT = 12
"""Most keys in leave-one-out validation: a nonlinear fit takes milliseconds."""

Fitted = PowerLaw | Linearised | Neighbours
Fit = Callable[[Iterable[Record]], Fitted | None]

REGRESSIONS: dict[str, Fit] = {
    "power law": power_law,
    "power law with offset": power_law_with_offset,
    "linear regression": linear,
    "neighbours in size": neighbours,
}


@dataclass(frozen=True, kw_only=True)
class SpeedUp:
    """How many times faster a device is than the reference, over layouts that ran on both.

    low, high : the extremes over layouts; where they differ much, one factor does not describe the device
    """

    factor: float
    low: float
    high: float
    n_layouts: int


def relative_speed_ups(records: Sequence[Record], reference: str) -> dict[str, SpeedUp]:
    """device -> its speed-up over the reference: the geometric mean over (kernel, layout) that ran on both.

    Raises HistoryError where the reference device has no calibrated key.
    """
    means = {
        (r.key.device, r.key.kernel, r.key.layout): r.accepted.mean
        for r in records
        if r.accepted.n >= LEAST_SAMPLES
    }
    if not any(device == reference for device, _, _ in means):
        raise HistoryError(f"there is no calibrated history of the reference device {reference}")
    speed_ups = {}
    for device in sorted({device for device, _, _ in means}):
        ratios = [
            means[(reference, kernel, layout)] / mean
            for (other, kernel, layout), mean in means.items()
            if other == device and (reference, kernel, layout) in means
        ]
        if ratios:
            speed_ups[device] = SpeedUp(
                factor=math.exp(float(np.mean(np.log(ratios)))),
                low=min(ratios),
                high=max(ratios),
                n_layouts=len(ratios),
            )
    return speed_ups


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """The quality of one kind of model for one kernel on one device.

    error : relative error on keys that it was not fitted to (leave-one-out); for `history` the mean
        variation of a key; nan where it is unknown
    """

    kind: str
    n_samples: int
    n_keys: int
    reason: str
    calibrated: bool = False
    fits: bool = False
    error: float = math.nan
    model: Fitted | None = None


def verdicts(records: Sequence[Record]) -> list[Verdict]:
    """Every kind of model for the keys of one kernel on one device, best first.

    The best one is calibrated, fits, and has the least error; of equal ones, a law goes before neighbours.
    """
    unsorted = [_history(records), *(_regression(name, records) for name in REGRESSIONS)]
    return sorted(
        unsorted,
        key=lambda v: (not v.calibrated, not v.fits, math.isnan(v.error), round(v.error, 6)),
    )


def history_misfit(record: Record) -> str:
    """Why a key's mean does not predict its launches; empty where it does."""
    variation = record.accepted.variation
    if not variation > VARIATION_LIMIT:
        return ""
    modes = two_modes(record.recent)
    why = f"a launch deviates {percent(variation, 0)} from the mean"
    return why if modes is None else f"{why}; {modes}"


def _history(records: Sequence[Record]) -> Verdict:
    ready = [r for r in records if r.accepted.n >= LEAST_SAMPLES]
    samples = sum(r.accepted.n for r in records)
    if not ready:
        most = max((r.accepted.n for r in records), default=0)
        reason = (
            f"{len(records)} layouts, none of them with {LEAST_SAMPLES} samples (at most {most})"
        )
        return Verdict(kind=HISTORY, n_samples=samples, n_keys=len(records), reason=reason)
    error = float(np.mean([r.accepted.variation for r in ready]))
    bad = [why for r in ready if (why := history_misfit(r))]
    reason = f"{len(ready)} of {len(records)} layouts have {LEAST_SAMPLES} samples"
    if bad:
        reason += f"; {len(bad)} do not repeat: {bad[0]}"
    # Layouts that do not recur, as in irregular applications, need a regression.
    irregular = len(ready) < len(records) / 2
    return Verdict(
        kind=HISTORY,
        n_samples=samples,
        n_keys=len(records),
        calibrated=True,
        fits=not irregular and len(bad) <= len(ready) / 2,
        error=error,
        reason=reason,
    )


def _regression(name: str, records: Sequence[Record]) -> Verdict:
    fit = REGRESSIONS[name]
    model = fit(records)
    if model is None:
        samples, reason = sum(r.accepted.n for r in records), _why_not(name, records)
        return Verdict(kind=name, n_samples=samples, n_keys=len(records), reason=reason)
    error = left_out_error(fit, records)
    judged = model.misfit if math.isnan(error) else max(error, model.misfit)
    reason = model.formula
    if not math.isnan(model.misfit):
        reason += f"; its error on the layouts' means is {percent(model.misfit, 1)} (rms)"
    if not math.isnan(error):
        reason += f", on layouts left out {percent(error, 1)}"
    if math.isnan(judged):
        reason += "; there are too few layouts to know its error"
    calibrated = model.n_samples >= LEAST_SAMPLES
    return Verdict(
        kind=name,
        n_samples=model.n_samples,
        n_keys=model.n_keys,
        calibrated=calibrated,
        fits=calibrated and judged <= FIT_LIMIT,
        error=judged,
        reason=reason if calibrated else f"{reason}; {_too_few(model.n_samples)}",
        model=model,
    )


def _why_not(name: str, records: Sequence[Record]) -> str:
    samples = sum(r.accepted.n for r in records)
    if samples < LEAST_SAMPLES:
        return _too_few(samples)
    if name == "neighbours in size":
        return "needs two sizes"
    if name == "linear regression":
        return "needs terms that vary, and more layouts than terms"
    return "the sizes are too similar, or the times do not grow with them"


def _too_few(samples: int) -> str:
    return f"{samples} samples of the {LEAST_SAMPLES} it needs"


def left_out_error(fit: Fit, records: Sequence[Record]) -> float:
    """Root mean square of the relative errors in leave-one-out validation; nan for too few keys.

    Keys at the ends of the range are not left out, because this would be extrapolation. Of the other
    keys, LEFT_OUT are left out, evenly spaced.
    """
    usable = sorted((r for r in records if r.accepted.n > 0), key=lambda r: r.size_bytes)
    inner = np.linspace(1, len(usable) - 2, min(LEFT_OUT, max(len(usable) - 2, 0)))
    missed = []
    for index in sorted(set(map(int, inner))):
        model = fit(usable[:index] + usable[index + 1 :])
        if model is None:
            continue
        left_out = usable[index]
        question = Question(size_bytes=left_out.size_bytes, terms=left_out.terms)
        try:
            time_s, _, _ = model.predict(question)
        except HistoryError:
            time_s = 0.0
        missed.append(time_s / left_out.accepted.mean - 1)
    return float(np.sqrt(np.mean(np.square(missed)))) if missed else math.nan
