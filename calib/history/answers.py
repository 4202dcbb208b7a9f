"""Predictions from a history, each with its kind of model, number of samples and interval.

The prediction for a key with ten samples is their mean. With fewer samples, their mean is combined with a
prior: the kernel's regression if one fits, else the more certain of its neighbours in size and of a model
that the caller provides. Without samples, the prior is the prediction.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from calib.history.errors import HistoryError
from calib.history.key import Key
from calib.history.model_kinds import HISTORY, Fitted, Verdict, history_misfit, verdicts
from calib.history.neighbours import Neighbours, neighbours
from calib.history.records import Record
from calib.history.regression import (
    LEAST_SAMPLES,
    NORMAL_95,
    UNKNOWN_VARIATION,
    Question,
    student,
)
from calib.history.store import Store
from memsim.report import UNKNOWN, number_of, percent, seconds, seconds_range

BLEND = "blend"
MORE_THAN_LAYOUT = (
    "no model of the layout or size can fit; distinguish these launches by a term: a linear regression"
    " over it is the better kind"
)


@dataclass(frozen=True, kw_only=True)
class Prior:
    """A model's time for a launch that was never timed.

    deviation : relative standard deviation of the model's error
    kind : the model, as the answer names it: `calibrated model`, `uncalibrated model`
    calibrated : False for a model whose deviation is assumed
    note : what the time comes from, where the kind does not tell
    """

    time_s: float
    deviation: float
    kind: str
    calibrated: bool = True
    note: str = ""

    def __post_init__(self) -> None:
        if not (math.isfinite(self.time_s) and self.time_s > 0.0 and self.deviation > 0.0):
            raise HistoryError(
                f"a prior needs a time and a deviation above 0, got {self.time_s} s and"
                f" {self.deviation}"
            )


AskPrior = Callable[[Key, Question], Prior | None]
"""The model to use where the history has too few samples; it returns None where it has no prediction."""


@dataclass(frozen=True, kw_only=True)
class Answer:
    """A predicted time.

    kind : the kind of model
    low_s, high_s : interval of the next launch's time at CONFIDENCE, if the model fits
    n_samples : the samples that the model is based on
    calibrated : whether there are enough samples and enough different sizes
    fits : False where the model's error is known to be large; `note` then names a better kind
    note : how the time was obtained, in a sentence or two
    """

    time_s: float
    low_s: float
    high_s: float
    kind: str
    n_samples: int = 0
    calibrated: bool = False
    fits: bool = True
    note: str

    def __str__(self) -> str:
        interval = seconds_range(self.low_s, self.high_s, 4)
        samples = number_of(self.n_samples, "sample")
        return (
            seconds(self.time_s, 4)
            + (f" (95 % interval: {interval})" if interval != UNKNOWN else "")
            + f" by {self.kind}"
            + (f" on {samples}" if self.n_samples else "")
            + ("" if self.calibrated else ", not calibrated")
            + f"{'' if self.fits else ', does not fit'}: {self.note}"
        )


def answer(
    store: Store,
    key: Key,
    *,
    size_bytes: int = 0,
    terms: Mapping[str, float] | None = None,
    prior: AskPrior | None = None,
    last: AskPrior | None = None,
    kind: str | None = None,
) -> Answer:
    """The predicted time of a launch.

    prior : used where the history has too few samples, no regression of it fits, and its neighbours in size
        are less certain
    last : used where nothing else is known, not even neighbours in size
    kind : requires one kind of model, even where it does not fit; the answer then names a better one

    Raises HistoryError where nothing is known; the message lists samples under other drivers.
    """
    record = store.get(key)
    if kind is None and record is not None and record.accepted.n >= LEAST_SAMPLES:
        return _by_history(record)
    records = store.records(kernel=key.kernel, device=key.device, driver=key.driver)
    question = Question(
        size_bytes=size_bytes or (record.size_bytes if record else 0),
        terms=terms or (record.terms if record else None),
    )
    if kind is not None:
        return _of_kind(kind, record, records, question)
    before = _regression_prior(records, question) or _other_prior(
        key, records, question, prior, last
    )
    if record is not None and record.accepted.n > 0:
        if before is None:
            return _few_samples(record)
        return blend(record, before, _usual_variation(records))
    if before is None:
        raise HistoryError(_nothing(store, key, records, question))
    return _by_prior(before, _aside(store, key))


def fresh_time(store: Store, key: Key, max_age_s: float) -> float | None:
    """The mean time of a key that is calibrated, fits, and was measured recently; None otherwise.

    It serves as the value of the features `f_cl_wall_time_...`.

    max_age_s : greatest age of the last sample, in seconds
    """
    record = store.get(key)
    if record is None or record.accepted.n < LEAST_SAMPLES:
        return None
    if time.time() - record.last_at > max_age_s or history_misfit(record):
        return None
    return record.accepted.mean


def blend(record: Record, before: Prior, usual_variation: float = UNKNOWN_VARIATION) -> Answer:
    """A few samples combined with a prior, weighted by their variances.

    In logarithms, with the prior's deviation p and the deviation s/sqrt(n) of the samples' mean, the weight
    of the samples is w = p^2 / (p^2 + s^2/n) (a normal variable with a normal prior). s is pooled from the
    key's squared deviations and two samples of the usual variation.
    """
    state = record.accepted
    squares = state.m2 / state.mean**2
    s2 = (squares + 2 * usual_variation**2) / (state.n - 1 + 2)
    of_mean, of_prior = s2 / state.n, before.deviation**2
    weight = of_prior / (of_prior + of_mean)
    time_s = math.exp(weight * math.log(state.mean) + (1 - weight) * math.log(before.time_s))
    left = math.sqrt(of_prior * of_mean / (of_prior + of_mean) + s2)
    factor = math.exp(NORMAL_95 * left)
    return Answer(
        time_s=time_s,
        low_s=time_s / factor,
        high_s=time_s * factor,
        kind=BLEND,
        n_samples=state.n,
        note=(
            f"{state.n} samples have the mean {seconds(state.mean, 4)} (standard error"
            f" {percent(math.sqrt(of_mean), 1)}) and the weight {weight:.2f}; the {before.kind} predicts"
            f" {seconds(before.time_s, 4)} (standard error {percent(before.deviation, 0)}) and has the weight"
            f" {1 - weight:.2f}"
        ),
    )


def _by_history(record: Record) -> Answer:
    state = record.accepted
    half = student(state.n - 1) * state.deviation * math.sqrt(1 + 1 / state.n)
    misfit = history_misfit(record)
    note = f"mean of {state.n} launches of this layout"
    if record.rejected:
        note += f", without {number_of(record.rejected, 'outlier')}"
    if misfit:
        note += f"; {misfit}: {MORE_THAN_LAYOUT}"
    elif shift := _drift(record):
        note += f"; {shift}"
    return Answer(
        time_s=state.mean,
        low_s=max(state.mean - half, 0.0),
        high_s=state.mean + half,
        kind=HISTORY,
        n_samples=state.n,
        calibrated=True,
        fits=not misfit,
        note=note,
    )


def _drift(record: Record) -> str:
    """A sentence where the latest launches differ from the mean of all; else empty."""
    state = record.accepted
    if len(record.recent) == 0 or record.seen <= 2 * len(record.recent):
        return ""
    recent = float(np.median(record.recent))
    if abs(recent - state.mean) <= 4 * state.deviation:
        return ""
    return f"the median of the latest {len(record.recent)} launches is {seconds(recent, 4)}: it has changed"


def _few_samples(record: Record) -> Answer:
    state = record.accepted
    variation = state.variation if state.n > 1 else UNKNOWN_VARIATION
    if state.n <= 2:
        variation = max(UNKNOWN_VARIATION, variation)
    width = student(max(state.n - 1, 1)) * variation * math.sqrt(1 + 1 / state.n)
    return Answer(
        time_s=state.mean,
        low_s=state.mean * max(1 - width, 0.0),
        high_s=state.mean * (1 + width),
        kind=HISTORY,
        n_samples=state.n,
        note=f"{state.n} of the {LEAST_SAMPLES} samples of a calibrated mean, and no other model",
    )


def _by_prior(before: Prior, aside: str) -> Answer:
    factor = math.exp(NORMAL_95 * before.deviation)
    return Answer(
        time_s=before.time_s,
        low_s=before.time_s / factor,
        high_s=before.time_s * factor,
        kind=before.kind,
        calibrated=before.calibrated,
        note=(
            f"this layout was never timed here; the time is that of the {before.kind}"
            f"{f', {before.note}' if before.note else ''}{aside}"
        ),
    )


def _regression_prior(records: Sequence[Record], question: Question) -> Prior | None:
    """The best regression that is calibrated and fits; its deviation comes from its interval."""
    for verdict in verdicts(records):
        if verdict.model is None or not verdict.fits:
            continue
        if not _can_ask(verdict.kind, question):
            continue
        found = _prior_of(verdict.model, question, verdict.error)
        if found is not None:
            return found
    return None


def _prior_of(model: Fitted, question: Question, error: float = 0.0) -> Prior | None:
    """A model's time with its interval as a deviation, at least `error`; None where it has no time."""
    try:
        time_s, _, high_s = model.predict(question)
    except HistoryError:
        return None
    return Prior(
        time_s=time_s,
        deviation=max(math.log(high_s / time_s) / NORMAL_95, error, 1e-6),
        kind=model.kind if model.covers(question) else f"{model.kind} beyond the measured range",
        calibrated=model.n_samples >= LEAST_SAMPLES,
        note=model.around(question) if isinstance(model, Neighbours) else "",
    )


def _other_prior(
    key: Key,
    records: Sequence[Record],
    question: Question,
    prior: AskPrior | None,
    last: AskPrior | None,
) -> Prior | None:
    """The more certain of the neighbours in size and the caller's model, if the model's error was measured;
    `last` where there is neither."""
    sizes = neighbours(records)
    near = None if sizes is None else _prior_of(sizes, question)
    given = None if prior is None else prior(key, question)
    if near is None:
        return given or (None if last is None else last(key, question))
    if given is None or not given.calibrated:
        return near
    return min(near, given, key=lambda model: model.deviation)


def _can_ask(kind: str, question: Question) -> bool:
    return bool(question.terms) if kind == "linear regression" else question.size_bytes > 0


def _of_kind(
    kind: str, record: Record | None, records: Sequence[Record], question: Question
) -> Answer:
    ranked = verdicts(records)
    verdict = next((v for v in ranked if v.kind == kind), None)
    if verdict is None:
        kinds = ", ".join(v.kind for v in ranked)
        raise HistoryError(f"there is no kind of model {kind!r}: choose one of {kinds}")
    if kind == HISTORY:
        if record is None or record.accepted.n == 0:
            raise HistoryError(f"no history of this layout: {_better(ranked, HISTORY)}")
        ready = record.accepted.n >= LEAST_SAMPLES
        return _by_history(record) if ready else _few_samples(record)
    if verdict.model is None:
        raise HistoryError(f"{kind} is not calibrated: {verdict.reason}; {_better(ranked, kind)}")
    if not _can_ask(kind, question):
        raise HistoryError(f"{kind} needs the {'terms' if kind.startswith('linear') else 'size'}")
    time_s, low_s, high_s = verdict.model.predict(question)
    note = verdict.reason
    if not verdict.fits:
        note += f"; its error on left-out layouts is {percent(verdict.error, 0)}: {_better(ranked, kind)}"
    if not verdict.model.covers(question):
        note += "; beyond the measured range"
    return Answer(
        time_s=time_s,
        low_s=low_s,
        high_s=high_s,
        kind=kind,
        n_samples=verdict.n_samples,
        calibrated=True,
        fits=verdict.fits,
        note=note,
    )


def _better(ranked: Sequence[Verdict], than: str) -> str:
    for verdict in ranked:
        if verdict.kind != than and verdict.calibrated and verdict.fits:
            return f"{verdict.kind} is the better kind ({verdict.reason})"
    return f"no other kind fits: {MORE_THAN_LAYOUT}"


def _usual_variation(records: Sequence[Record]) -> float:
    known = [r.accepted.variation for r in records if r.accepted.n >= LEAST_SAMPLES]
    return max(float(np.median(known)), 1e-3) if known else UNKNOWN_VARIATION


def _aside(store: Store, key: Key) -> str:
    others = store.other_drivers(key)
    if not others:
        return ""
    samples = sum(r.accepted.n for r in others)
    drivers = ", ".join(sorted({r.key.driver or "unnamed" for r in others}))
    return f"; {samples} samples under other drivers ({drivers}) are not used"


def _nothing(store: Store, key: Key, records: Sequence[Record], question: Question) -> str:
    sizes = sorted({one.size_bytes for one in records if one.size_bytes})
    why = ""
    if sizes and question.size_bytes:
        asked, low, high = (f"{size:,.0f}" for size in (question.size_bytes, sizes[0], sizes[-1]))
        why = f": {asked} bytes are outside the {len(sizes)} recorded sizes, {low} to {high}, and no law fits these"
    return (
        f"nothing is known of {key.kernel} on {key.device} with layout {key.layout:08x}{why}"
        f"{_aside(store, key)}; name a model or a machine for such cases, or run the kernel"
    )
