"""Figure 7: convergence of sigma, and coverage of the 95 % intervals (Baghsorkhi et al. 2012,
section 5.3)."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from matplotlib.figure import Figure as Picture
from scipy import stats

import tracegen
from experiments.kernels import matrices
from experiments.kernels.spmv import spmv_of
from experiments.reproduction import Case, Figure
from experiments.stochastic.applications import spmv_rows
from experiments.stochastic.replays import QUANTITIES, SEED, ratios, replays_of, traces_of
from memsim.files import write_picture
from memsim.machine import Machine, load_machine
from memsim.montecarlo import (
    Plan,
    Stopping,
    Workers,
    Workspace,
    hit_ratio,
    make_plan,
    run_trial,
    usable_cores,
)
from memsim.report import LINE_COLOUR
from memsim.statistics import MIN_TRIALS_TO_STOP, describe, student_t

PAPER_SIGMA = 0.02
"""Sigma of the L2 load hit ratio of SpMV, the largest one in section 5.3 of the paper."""
SETTLED, BARELY = 20, 60
"""According to the paper, sigma converges from 20 trials on, and changes are `barely noticeable`
from 60."""

REPETITIONS, REPETITIONS_QUICK = 2000, 200
LEAST_COVERAGE, MOST_COVERAGE = 93, 97
"""Coverage in percent. Over 2000 repetitions, exact 95 % intervals are within these bounds in 99.99
% of the cases."""
TRUTH_TRIALS = 1024
TRUTHS, TRUTHS_QUICK = 16, 2
"""Number of means of TRUTH_TRIALS trials with which every repetition is compared. A single one
would be off by a quarter of the standard error of 64 trials, in the same direction for every
repetition."""
FIXED = (16, 32, 64)
MOST, MOST_QUICK = 64, 48
HALF_WIDTH = 0.02
"""Half-width at which a repetition stops: after 32 to 64 trials of the small replay."""

Floats = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int64]


def figure_7(out: Path, quick: bool) -> Figure:
    """Running sigma of SpMV's L2 load hit ratio, and the coverage of the intervals of a small
    replay."""
    running, settling = _settling(quick)
    covered = coverage(
        *small_replay(),
        most=MOST_QUICK if quick else MOST,
        repetitions=REPETITIONS_QUICK if quick else REPETITIONS,
        truths=TRUTHS_QUICK if quick else TRUTHS,
    )
    cases = [*settling, *_coverage_cases(covered)]
    return Figure(
        title="Figure 7: sigma against the number of trials; coverage of the 95 % intervals",
        source="Baghsorkhi et al., PPoPP 2012, section 5.3. Nominal coverage is 95 %.",
        cases=cases,
        findings=_findings(covered),
        pictures=[
            draw_convergence(out / "figure-7.png", running),
            draw_coverage(out / "figure-7-coverage.png", covered.shares),
        ],
    )


def _settling(quick: bool) -> tuple[Floats, list[Case]]:
    """(n_trial,) sigma of the first 1, 2, ... trials, in points, and its cases."""
    machine = load_machine("c2050")
    rows, trials = (50_000, 32) if quick else (200_000, 64)
    replays = replays_of(traces_of([spmv_rows(rows)], machine), machine, trials)
    values = 100 * ratios(replays, *QUANTITIES["L2 load"])
    running = running_sigma(values)
    last = float(running[-1])
    after = {
        n: float(np.abs(running[n - 1 :] / last - 1).max()) for n in (SETTLED, BARELY) if n < trials
    }
    name = f"SpMV, c2050, {rows:,} rows of 51"
    cases = [
        Case(
            name,
            f"sigma, L2 load, {n} trials",
            "points",
            reference=100 * PAPER_SIGMA if n == trials else None,
            ours=float(running[n - 1]),
            note=(
                f"from here on within {100 * after[n]:.0f} % of the last value"
                if n in after
                else ""
            ),
        )
        for n in (*after, trials)
    ]
    return running, cases


def _findings(covered: Coverage) -> list[str]:
    every = [
        (100 * share, ratio, ended)
        for ended, shares in covered.shares.items()
        for ratio, share in shares.items()
    ]
    outside = [
        f"{ratio}, {ended}: {share:.1f} % (skewness {covered.skewness[ratio]:.1f})"
        for share, ratio, ended in sorted(every)
        if not LEAST_COVERAGE <= share <= MOST_COVERAGE
    ]
    return [
        f"{covered.repetitions} repetitions, each compared with {covered.truths} means of {TRUTH_TRIALS} trials:"
        f" {len(every) - len(outside)} of {len(every)} coverages are between {LEAST_COVERAGE} and"
        f" {MOST_COVERAGE} %, and none is below {min(every)[0]:.1f} or above {max(every)[0]:.1f} %.",
        f"The mean of {TRUTH_TRIALS} trials has an error of its own: an exact interval contains it with"
        f" probability {100 * exact_coverage(FIXED[0]):.1f} % for {FIXED[0]} trials and"
        f" {100 * exact_coverage(FIXED[-1]):.1f} % for {FIXED[-1]}. A replay stops at"
        f" {MIN_TRIALS_TO_STOP} trials at the earliest.",
        "Outside: " + ("; ".join(outside) if outside else "none") + ".",
        f"Stopping at a half-width of {100 * HALF_WIDTH:.0f} points took"
        f" {covered.stopped_at.min()} to {covered.stopped_at.max()} trials,"
        f" {np.median(covered.stopped_at):.0f} in the median.",
    ]


def exact_coverage(n: int, truth_trials: int = TRUTH_TRIALS) -> float:
    """Probability that the 95 % interval of n normal values holds the mean of `truth_trials`
    others."""
    reach = student_t(n) / math.sqrt(1 + n / truth_trials)
    return float(2 * stats.t.cdf(reach, n - 1) - 1)


def running_sigma(values: Floats) -> Floats:
    """(n,) the standard deviation of the first 1, 2, ... values; NaN for the first."""
    n = np.arange(1, len(values) + 1)
    centred = values - values[0]
    square = np.cumsum(centred**2) - np.cumsum(centred) ** 2 / n
    return np.sqrt(np.maximum(square, 0) / np.where(n > 1, n - 1, np.nan))


@dataclass(frozen=True, kw_only=True)
class Coverage:
    """Coverage of the 95 % intervals.

    shares : number of trials (`32 trials`, or `stopped`) -> hit ratio -> share of repetitions whose
        interval contains the true mean
    skewness : hit ratio -> skewness of its distribution over orderings
    stopped_at : (n_repetition,) trials after which each repetition stopped
    truths : number of means with which each repetition was compared; shares are averages over them
    """

    shares: Mapping[str, Mapping[str, float]]
    skewness: Mapping[str, float]
    stopped_at: npt.NDArray[np.int64]
    repetitions: int
    truths: int


def small_replay() -> tuple[Plan, tuple[str, ...]]:
    """A replay that takes milliseconds: four waves of SpMV from inside a launch, on a reduced
    C2050."""
    machine = _scaled(load_machine("c2050"))
    workload = spmv_of(matrices.uniform_random(4096, 16), 32)
    waves, resident = 4, 4
    groups = waves * resident * machine.n_cores
    trace = tracegen.trace(workload, subgroup_size=32, groups=groups)
    plan, _ = make_plan(trace, machine, groups_per_core=resident)
    return plan, tuple(site.name for site in trace.sites)


def _scaled(machine: Machine) -> Machine:
    """The machine with two cores, a quarter of the L1 and a 32nd of the L2, so that a small matrix
    does not fit."""
    l1, l2 = machine.levels
    small = (
        dataclasses.replace(
            l1, size_bytes=4096, ways=16, storage_bytes=0, local_carveouts_bytes=()
        ),
        dataclasses.replace(l2, size_bytes=24_576, ways=16, cores_per_instance=2),
    )
    return machine.replace(n_cores=2, levels=small)


def coverage(
    plan: Plan,
    sites: tuple[str, ...],
    *,
    most: int,
    repetitions: int,
    truths: int = 1,
    truth_trials: int = TRUTH_TRIALS,
    half_width: float = HALF_WIDTH,
) -> Coverage:
    """Repeat a replay with different seeds and count how often its intervals contain the true mean.

    Hit ratios that do not vary are left out.

    most : trials of a repetition, and the largest number after which it may stop
    truths, truth_trials : number of means that are taken as the true one, and the trials of each
    """
    levels = [level.name for level in plan.machine.levels]
    seed_and_trials = [
        *((SEED + k, truth_trials) for k in range(truths)),
        *((SEED + truths + k, most) for k in range(repetitions)),
    ]
    fixed = {f"{n} trials": n for n in FIXED if n <= most}
    stopped_at = np.empty(repetitions, np.int64)
    with (
        Workers([plan], jobs=usable_cores() if repetitions > 50 else 1) as workers,
        workers.run(repetition, [(0, given) for given in seed_and_trials]) as repeated,
    ):
        true = np.stack([_ratios(next(repeated)) for _ in range(truths)])
        varies = np.nanstd(true, axis=(0, 1)) > 0
        true = true[:, :, varies]
        truth = np.nanmean(true, axis=1)
        inside = {name: np.zeros(truth.shape[1]) for name in (*fixed, "stopped")}
        for k, counts in enumerate(repeated):
            values = _ratios(counts)[:, varies]
            stopped_at[k] = _stop(counts, half_width)
            for name, n in (fixed | {"stopped": int(stopped_at[k])}).items():
                # Trials are independent: 64 of them are also four times 16.
                starts = range(0, len(values) - n + 1, n) if name in fixed else (0,)
                for begin in starts:
                    estimates = [describe(column[begin : begin + n]) for column in values.T]
                    low, high = np.array([e.ci95 for e in estimates]).T
                    contains = ((low <= truth) & (truth <= high)).mean(axis=0)
                    inside[name] += contains / len(starts)
    names = [f"{level} {site}" for level in levels for site in sites]
    kept = [name for name, does_vary in zip(names, varies, strict=True) if does_vary]
    return Coverage(
        shares={
            name: dict(zip(kept, (counts / repetitions).tolist(), strict=True))
            for name, counts in inside.items()
        },
        skewness=dict(
            zip(
                kept,
                stats.skew(np.concatenate(true), axis=0, nan_policy="omit").tolist(),
                strict=True,
            )
        ),
        stopped_at=stopped_at,
        repetitions=repetitions,
        truths=truths,
    )


def repetition(plan: Plan, workspace: Workspace, seed: int, trials: int) -> Counts:
    """(n_trial, n_level, n_site, n_count) counts of one repetition; the task of a worker."""
    return np.stack([run_trial(plan, seed, k, workspace=workspace).counts for k in range(trials)])


def _ratios(counts: Counts) -> Floats:
    """(n_trial, n_level * n_site) hit ratios."""
    return hit_ratio(counts).reshape(len(counts), -1)


def _stop(counts: Counts, half_width: float) -> int:
    """Number of trials after which a replay with this half-width stops, at most all of them.

    A trial does not depend on the number of trials, so a stopped replay is a beginning of the
    longer one.
    """
    stopping = Stopping(half_width)
    for n, one in enumerate(counts, start=1):
        if stopping.enough(_Counted(one)):
            return n
    return len(counts)


@dataclass(frozen=True)
class _Counted:
    counts: Counts


def _coverage_cases(covered: Coverage) -> list[Case]:
    error = 1.96 * math.sqrt(0.95 * 0.05 / covered.repetitions)
    return [
        Case(
            ratio,
            f"coverage, {ended}",
            "%",
            reference=95.0,
            ours=100 * share,
            ci95=100 * error,
            note=f"skewness {covered.skewness[ratio]:.1f}",
        )
        for ended, shares in covered.shares.items()
        for ratio, share in shares.items()
    ]


def draw_convergence(path: Path, sigma: Floats) -> str:
    """Running sigma, and the band that holds 95 % of its values if the last one is the true
    sigma."""
    trials = np.arange(1, len(sigma) + 1)
    freedom = np.maximum(trials - 1, 1)
    low, high = (np.sqrt(stats.chi2.ppf(p, freedom) / freedom) * sigma[-1] for p in (0.025, 0.975))
    picture = Picture(figsize=(6, 3.6), layout="constrained")
    axes = picture.subplots()
    axes.fill_between(
        trials[1:], low[1:], high[1:], color="lightgray", lw=0, label="chance alone (95 %)"
    )
    axes.plot(trials, sigma, color=LINE_COLOUR, label="sigma of the trials so far")
    axes.axhline(sigma[-1], color="black", lw=0.8, label=f"all: {sigma[-1]:.2f} points")
    for n, text in ((SETTLED, "paper: converging"), (BARELY, "paper: barely better")):
        if n < len(sigma):
            axes.axvline(n, color="gray", lw=0.8, ls="--")
            axes.annotate(
                text, (n, 0.02), xycoords=("data", "axes fraction"), fontsize=7, rotation=90
            )
    axes.set(xlabel="trials", ylabel="sigma of the L2 load hit ratio, points", ylim=(0, None))
    picture.legend(frameon=False, fontsize=8, loc="outside upper center", ncols=3)
    return write_picture(path, picture, 150).name


def draw_coverage(path: Path, shares: Mapping[str, Mapping[str, float]]) -> str:
    """Coverage of the 95 % intervals of each hit ratio, with the band from 93 to 97 %."""
    names = list(next(iter(shares.values())))
    picture = Picture(figsize=(7, 1.2 + 0.35 * len(names)), layout="constrained")
    axes = picture.subplots()
    axes.axvspan(LEAST_COVERAGE, MOST_COVERAGE, color="lightgray", lw=0)
    axes.axvline(95, color="black", lw=0.8)
    for k, (stopping, covered) in enumerate(shares.items()):
        at = np.arange(len(names)) + 0.2 * (k - (len(shares) - 1) / 2)
        axes.plot([100 * covered[name] for name in names], at, "os^D"[k], ms=5, label=stopping)
    axes.set_yticks(range(len(names)), names, fontsize=7)
    axes.invert_yaxis()
    axes.set(xlabel="intervals that contain the mean of 1024 trials, %", xlim=(85, 100))
    axes.legend(frameon=False, fontsize=8, loc="lower left")
    return write_picture(path, picture, 150).name
