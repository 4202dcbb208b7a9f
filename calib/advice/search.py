"""The search: remedies one by one, then combinations of those that help, within a budget of time."""

from __future__ import annotations

import dataclasses
import functools
import math
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from calib.advice.bounds import Change, upper_bounds
from calib.advice.facts import Facts
from calib.advice.launch import Reload, launch_changes, shapes, triton_options
from calib.advice.layout import axis_order, padded_pitch
from calib.advice.local_memory import staged, tiled
from calib.advice.loops import interchanged, shared_sum, swizzled, unrolled
from calib.advice.mapping import group_shape, other_lanes, swapped_lanes
from calib.advice.options import AdviseOptions
from calib.advice.results import Advice, Tried
from calib.advice.trial import (
    Changed,
    Kind,
    Measured,
    measured,
    outputs_of,
    predicted,
    try_change,
    try_variant,
    try_workload,
)
from calib.advice.variants import Proposal, Variant
from calib.advice.vectors import vectorised
from calib.prediction import Prediction, PredictOptions
from memsim.errors import MemsimError, one_line
from memsim.machine import Machine
from memsim.trace import Trace
from tracegen.options import TraceOptions

Remedy = Callable[[Facts], Iterable[Proposal]]
"""Reads a kernel, and proposes what may help. Whether it is legal and pays is found out by trying it."""
REMEDIES: Mapping[str, Remedy] = {
    "swap lanes": swapped_lanes,
    "other lanes": other_lanes,
    "stage": staged,
    "tile": tiled,
    "axis order": axis_order,
    "share a sum": shared_sum,
    "interchange": interchanged,
    "unroll": unrolled,
    "vectorise": vectorised,
    "group shape": group_shape,
    "group order": swizzled,
    "pad": padded_pitch,
}
"""Name -> remedy, in the order in which they are tried."""

T = TypeVar("T")
Apart = Callable[[Callable[[], T], float], T]
"""Runs work that may crash or not end: (work, seconds that it may take) -> what it returns."""
Progress = Callable[[int, int, str], None]
"""Called with (tried, known so far, what is tried now)."""

COMBINED = 3
"""Best changes that further remedies are added to."""
HELPFUL = 1.02
"""A gain from which a remedy is combined with others."""
MOST_RESERVED = 0.4
"""Part of the budget that is kept for the final predictions, at most."""
LONGEST_REASON = 160
THEN = "; "
"""Between the phrases of changes that are combined."""
LEAST_LIMIT_S, SLOWEST = 20.0, 4
"""A change may take this time to try, or so many times as long as the kernel as it is."""


@dataclass
class Search:
    """Tries changes of one workload on one machine.

    settings, reload : those of a command, with which the workload can be made again
    """

    workload: Any
    machine: Machine
    options: AdviseOptions
    apart: Apart[Any]
    progress: Progress = lambda *_: None
    settings: Mapping[str, str] = field(default_factory=dict)
    reload: Reload | None = None
    tracing: TraceOptions = field(default_factory=TraceOptions)
    tried: list[Tried] = field(default_factory=list)
    untried: list[str] = field(default_factory=list)
    base: dict[int, Measured] = field(default_factory=dict)
    variants: dict[int, Variant] = field(default_factory=dict)

    @property
    def elapsed_s(self) -> float:
        """Since the kernel as it is has been predicted."""
        return time.monotonic() - self.start

    def run(self) -> Advice:
        """Everything that fits the budget, which begins when the kernel as it is has been predicted; a Ctrl-C
        ends it with what is done."""
        with warnings.catch_warnings():  # Loopy calls what islpy will remove
            warnings.simplefilter("ignore", DeprecationWarning)
            return self._run()

    def _run(self) -> Advice:
        interrupted = False
        prediction, traces = self._first_look()
        try:
            cost = _cost(prediction)
            if self.is_loopy:
                self._try_singly(cost)
            self._try_others(prediction, traces)
            self._try_together(cost)
            self._confirm()
        except KeyboardInterrupt:
            interrupted = True
        return Advice(
            kernel=prediction.kernel,
            machine=self.machine.name,
            base=self.base,
            tried=self.tried,
            untried=self.untried,
            interrupted=interrupted,
            elapsed_s=self.elapsed_s,
            notes=tuple(prediction.notes),
        )

    @property
    def is_loopy(self) -> bool:
        from tracegen import Workload

        return isinstance(self.workload, Workload)

    def _predict_options(self, trials: int) -> PredictOptions:
        return PredictOptions(trials=trials, seed=self.options.seed, jobs=self.options.jobs)

    @property
    def _few(self) -> PredictOptions:
        """Of a first look."""
        return self._predict_options(min(self.options.first_trials, self.options.trials))

    def _in_time(self, changes: Sequence[tuple[Tried, T]]) -> Iterator[tuple[Tried, T]]:
        """Changes one by one while there is time; the names of those that are left are kept."""
        for k, change in enumerate(changes):
            if self._is_late():
                self.untried += [other.what for other, _ in changes[k:]]
                return
            known = len(self.tried) + len(changes) - k
            self.progress(len(self.tried), known, change[0].what)
            yield change

    def _first_look(self) -> tuple[Prediction, list[Trace]]:
        """The kernel as it is, predicted with few trials and with all of them."""
        final = self._predict_options(self.options.trials)
        begin = time.monotonic()
        prediction, traces = self.apart(
            lambda: predicted(self.workload, self.machine, final, self.tracing), math.inf
        )
        self.start = time.monotonic()
        self.final_s = self.start - begin
        whole = measured(prediction, traces[0])
        few = min(self.options.first_trials, self.options.trials)
        # Trial i depends on the seed and i alone: the first trials are those of a shorter prediction.
        self.base = {
            self.options.trials: whole,
            few: dataclasses.replace(whole, seconds=whole.seconds[:few]),
        }
        return prediction, traces

    def _try_singly(self, cost: Mapping[str, float]) -> None:
        """Every remedy for Loopy kernels."""
        user = Variant(workload=self.workload)
        self.reference = self.apart(lambda: outputs_of(user), math.inf)
        self._try_all(user, cost, set(REMEDIES), ())

    def _try_together(self, cost: Mapping[str, float]) -> None:
        """Remedies that help, added to the changes that help most."""
        helpful = {name for k in self._helpful(1) for name in self.tried[k].remedies}
        for depth in range(2, self.options.depth + 1):
            for k in self._helpful(depth - 1)[:COMBINED]:
                one = self.tried[k]
                others = helpful - set(one.remedies)
                self._try_all(self.variants[k], cost, others, one.remedies, one.what)

    def _try_others(self, prediction: Prediction, traces: Sequence[Trace]) -> None:
        """Changes of the launch, for any language, and upper bounds from the trace."""
        of_groups = shapes(self.workload, self.settings, self.reload, self.machine.n_cores)
        of_triton = triton_options(self.workload, self.machine)
        for remedy, (what, other) in (
            *(("group shape", one) for one in of_groups),
            *(("options", one) for one in of_triton),
        ):
            if not self._is_late():
                one = Tried(what=what, remedies=(remedy,), kind="launch")
                look = functools.partial(try_workload, other, self.machine, self._few, self.tracing)
                self._record(one, look)
        start = Changed(traces=traces, options=self._few)
        kinds: tuple[tuple[Kind, Iterable[Change]], ...] = (
            ("launch", launch_changes(self.workload, prediction, traces, self.tracing)),
            ("upper bound", upper_bounds(prediction, traces)),
        )
        changes = [
            (Tried(what=one.what, remedies=(one.remedy,), kind=kind, code=one.code), one.alter)
            for kind, listed in kinds
            for one in listed
        ]
        for tried, alter in self._in_time(changes):
            self._record(tried, functools.partial(try_change, prediction, alter, start))

    def _is_late(self) -> bool:
        """Whether the time that is left is needed for the final predictions."""
        final_s = self.options.best * self.final_s
        return self._left_s() < min(final_s, MOST_RESERVED * self.options.budget)

    def _record(self, one: Tried, work: Callable[[], Measured]) -> None:
        """Tries a change, and notes why where that fails."""
        try:
            one = dataclasses.replace(one, measured=self.apart(work, self._limit_s()))
        except Exception as error:
            one = dataclasses.replace(one, reason=reason_of(error))
        self.tried.append(one)

    def _helpful(self, n_remedies: int) -> list[int]:
        """Changes of the kernel that gain, best first, as positions in `tried`."""
        found = [
            k
            for k in self.variants
            if self.tried[k].measured is not None
            and len(self.tried[k].remedies) == n_remedies
            and self._gain(self.tried[k]) >= HELPFUL
        ]
        return sorted(found, key=lambda k: -self._gain(self.tried[k]))

    def _gain(self, one: Tried) -> float:
        assert one.measured is not None
        after = one.measured.seconds
        return float((self.base[len(after)].seconds / after).mean())

    def _try_all(
        self,
        start: Variant,
        cost: Mapping[str, float],
        names: set[str],
        before: tuple[str, ...],
        what: str = "",
    ) -> None:
        """Every proposal of some remedies for a variant."""
        facts = Facts(start.workload, cost)
        proposals = [
            (
                Tried(
                    what=f"{what}{THEN}{proposal.what}" if what else proposal.what,
                    remedies=(*before, name),
                ),
                proposal,
            )
            for name, remedy in REMEDIES.items()
            if name in names
            for proposal in _proposed(remedy(facts))
            if not self._is_tried(what, proposal.what)
        ]
        for tried, proposal in self._in_time(proposals):
            self._try(start, proposal, tried)

    def _is_tried(self, what: str, then: str) -> bool:
        """Whether the same changes have been predicted in another order."""
        changes = {*what.split(THEN), then}
        return any(set(one.what.split(THEN)) == changes for one in self.tried if one.measured)

    def _try(self, start: Variant, proposal: Proposal, one: Tried) -> None:
        try:
            variant = start.then(proposal.steps, proposal.layouts)
        except Exception as error:  # Loopy has no one error for what it refuses
            self.tried.append(dataclasses.replace(one, reason=reason_of(error)))
            return
        kind: Kind = "layout" if any(one.moves for one in variant.layouts) else "kernel"
        self.variants[len(self.tried)] = variant
        self._record(
            dataclasses.replace(one, code=variant.code, kind=kind),
            functools.partial(
                try_variant, variant, self.reference, self.machine, self._few, self.tracing
            ),
        )

    def _confirm(self) -> None:
        """Predicts the best again with all trials."""
        if self.options.trials <= self.options.first_trials:
            return
        options = self._predict_options(self.options.trials)
        found = [k for k, one in enumerate(self.tried) if one.measured and k in self.variants]
        found.sort(key=lambda k: -self._gain(self.tried[k]))
        for k in found[: self.options.best]:
            one, workload = self.tried[k], self.variants[k].workload
            if self._left_s() <= 0:
                return
            self.progress(len(self.tried), len(self.tried), f"again: {one.what}")
            try:
                look = functools.partial(predicted, workload, self.machine, options, self.tracing)
                prediction, traces = self.apart(look, self._left_s())
            except MemsimError:  # the budget ended: the first look stays
                return
            assert one.measured is not None
            again = measured(prediction, traces[0], one.measured.difference)
            self.tried[k] = dataclasses.replace(one, measured=again)

    def _limit_s(self) -> float:
        """The time that one change may take: a loop of a wrong transformation may not end."""
        return min(self._left_s(), max(LEAST_LIMIT_S, SLOWEST * self.final_s))

    def _left_s(self) -> float:
        return self.options.budget - self.elapsed_s


def advise(
    workload: Any,
    machine: Machine,
    options: AdviseOptions | None = None,
    *,
    tracing: TraceOptions | None = None,
    **changes: Any,
) -> Advice:
    """What would make a workload faster on a machine, tried in simulation.

    workload : a tracegen.Workload, OpenCLWorkload or CudaWorkload
    options, changes : fields of AdviseOptions; changes replace those of `options`
    tracing : by which tracer and compiler its accesses are found

    Everything runs in this process; `memsim advise` runs kernels in processes of their own. Raises
    KernelError where the workload itself cannot be run or traced.
    """
    options = (options or AdviseOptions()).replace(**changes)
    tracing = tracing or TraceOptions()
    return Search(workload, machine, options, lambda work, _: work(), tracing=tracing).run()


def _proposed(proposals: Iterable[Proposal]) -> Sequence[Proposal]:
    """Proposals; none where a remedy cannot read the kernel."""
    try:
        return list(proposals)
    except Exception:  # Loopy has no one error for what it refuses
        return []


def _cost(prediction: Prediction) -> dict[str, float]:
    """Array -> bytes that the first level requests from below for it, of all arrays' bytes."""
    if prediction.replay is None:
        return {}
    data = prediction.replay.dataset
    moved = data["read_bytes"].isel(level=0) + data["write_bytes"].isel(level=0)
    by_site = moved.mean("trial").values
    total = float(by_site.sum()) or 1.0
    cost: dict[str, float] = {}
    for name, value in zip(data["array"].values.astype(str), by_site, strict=True):
        cost[str(name)] = cost.get(str(name), 0.0) + float(value) / total
    return cost


def reason_of(error: Exception) -> str:
    """Why something could not be tried, in one line."""
    text = one_line(error)
    if not isinstance(error, MemsimError):
        text = f"Loopy refuses it: {text}" if "oopy" in type(error).__name__ else text
    return text if len(text) <= LONGEST_REASON else f"{text[: LONGEST_REASON - 3]}..."
