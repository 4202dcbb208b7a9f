"""Section 5.3 of Baghsorkhi et al. 2012: the time of tracing one snapshot of SpMV and of replaying
one ordering."""

from __future__ import annotations

import platform
import statistics
import time
from pathlib import Path

import tracegen
from experiments.reproduction import Case, Figure
from experiments.stochastic.applications import PAPER_ENTRIES_PER_ROW, spmv_rows
from memsim.machine import load_machine
from memsim.montecarlo import Workers, Workspace, make_plan, run_trial, trials_on, usable_cores

PAPER_TRACE_S = 17.7
PAPER_TRIAL_S = 3.16 * 60
PAPER_SNAPSHOT = 4
"""Threads of the snapshot, as a multiple of the threads that are resident on all cores."""
ITEMS_PER_GROUP = 256
WANTED_SPEEDUP = 300
"""Design goal for one core."""
SEED = 1


def costs(out: Path, quick: bool) -> Figure:
    """The paper's configuration: 51 entries a row, four times the resident threads of a C2050."""
    machine = load_machine("c2050")
    items = machine.n_cores * machine.residency.max_items * PAPER_SNAPSHOT
    workload = spmv_rows(2 * items)
    seconds = []
    for _ in range(2 if quick else 4):
        begin = time.perf_counter()
        trace = tracegen.trace(workload, machine, groups=items // ITEMS_PER_GROUP)
        seconds.append(time.perf_counter() - begin)
    first, *later = seconds
    plan, _ = make_plan(trace, machine)
    workspace = Workspace(plan)
    run_trial(plan, SEED, 0, workspace=workspace)  # compiles, and touches the memory
    trials = [_timed(workspace, k) for k in range(1, 4 if quick else 8)]
    wall, trial = (statistics.median(seconds) for seconds in zip(*trials, strict=True))
    jobs = usable_cores()
    n_parallel = (2 if quick else 4) * jobs
    with Workers([plan], jobs=jobs) as workers:
        trials_on(
            workers, seed=SEED, trials=2 * jobs
        )  # so that the workers have started, compiled, and touched their memory
        begin = time.perf_counter()
        trials_on(workers, seed=SEED, trials=n_parallel)
        each = (time.perf_counter() - begin) / n_parallel
    where = f"{platform.machine()}, {jobs} usable cores"
    cases = [
        _case("tracing, first time", PAPER_TRACE_S, first, "including instrumentation and build"),
        _case("tracing, again", PAPER_TRACE_S, statistics.median(later), f"median of {len(later)}"),
        _case(
            "one trial, processor time", PAPER_TRIAL_S, trial, f"one core, median of {len(trials)}"
        ),
        _case("one trial, wall time", PAPER_TRIAL_S, wall, "the same trials"),
        _case(
            "one of many trials, wall time",
            PAPER_TRIAL_S,
            each,
            f"{n_parallel} trials on {jobs} workers",
        ),
    ]
    ratio = PAPER_TRIAL_S / trial
    return Figure(
        name="cost",
        title="The cost of a trace and of a trial",
        source=(
            "Baghsorkhi et al., PPoPP 2012, section 5.3: SpMV with 51 random entries a row, a snapshot"
            " of four times the resident threads; a Core i7 at 2.8 GHz replayed, a Tesla C2050 traced."
        ),
        cases=cases,
        findings=[
            f"{trace.n_groups * ITEMS_PER_GROUP:,} rows, {trace.n_granule:,} requests of 32 bytes,"
            f" on {where}.",
            f"A trial on one core is {ratio:.0f} times as fast as the paper's in processor time (goal:"
            f" {WANTED_SPEEDUP} times, {'reached' if ratio >= WANTED_SPEEDUP else 'not reached'}), and"
            f" {PAPER_TRIAL_S / each:.0f} times in wall time with {jobs} workers. Meanwhile other programs"
            f" used {100 * (1 - trial / wall):.0f} % of this core; their use of the caches also lengthens the"
            " processor time.",
            f"{trace.n_granule / trial / 1e6:.1f} million requests per second and core. Almost all of them"
            " miss in L1, and each miss is four requests to L2.",
        ],
    )


def _timed(workspace: Workspace, trial: int) -> tuple[float, float]:
    """Wall time and processor time of a trial, in seconds."""
    begin, begin_busy = time.perf_counter(), time.thread_time()
    run_trial(workspace.plan, SEED, trial, workspace=workspace)
    return time.perf_counter() - begin, time.thread_time() - begin_busy


def _case(quantity: str, paper: float, ours: float, note: str) -> Case:
    return Case(
        figure="cost",
        case=f"SpMV, {PAPER_ENTRIES_PER_ROW} entries a row, c2050",
        quantity=quantity,
        unit="s",
        reference=paper,
        ours=ours,
        note=note,
    )
