"""Replay speed in granules a second and core beside a minimal two-level loop; scaling; workers; memory.

Run with `pytest -m bench`.
"""

from __future__ import annotations

import dataclasses
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numba as nb
import numpy as np
import pytest

import memsim
import tracegen
from experiments.kernels import matmul, spmv, stencil
from memsim.hierarchy.cache import N_COUNTS
from memsim.machine.model import Machine
from memsim.montecarlo.besides import OTHER_SAMPLERS, TRIALS_PER_ORDER
from memsim.montecarlo.options import Sampler
from memsim.montecarlo.plan import Plan, make_plan
from memsim.montecarlo.schedule import schedule
from memsim.montecarlo.trial import Workspace, core_stage, run_trial, unpack_many
from memsim.montecarlo.workers import Workers
from memsim.trace.model import Trace
from tests.support.trials import run_trials, trials_on

pytestmark = pytest.mark.bench

KERNELS: dict[str, Callable[[], Any]] = {
    "spmv": spmv.spmv,
    "matmul": matmul.naive,
    "stencil": lambda: stencil.stencil7(nx=512, ny=512, nz=32),
}


@pytest.fixture(scope="module")
def traces() -> dict[str, Trace]:
    machine = memsim.load_machine("v100")
    return {name: tracegen.trace(make(), machine) for name, make in KERNELS.items()}


def looked_up(line, set_of, ways, tag, use, now):  # type: ignore[no-untyped-def]
    """Whether a lookup hits in an LRU level that is searched linearly."""
    base = set_of[line] * ways
    oldest = base
    for way in range(base, base + ways):
        if tag[way] == line:
            use[way] = now
            return True
        if use[way] < use[oldest]:
            oldest = way
    tag[oldest] = line
    use[oldest] = now
    return False


looked_up = nb.njit(boundscheck=False, error_model="numpy", forceinline=True)(looked_up)


@nb.njit(boundscheck=False, error_model="numpy")
def bare_loop(line, core_offset, set_of, ways, tag, use, pieces):  # type: ignore[no-untyped-def]
    """Two LRU levels, scanned, unsectored: no scheduling, no sites, no stores.

    set_of : per level, the set of each line;  tag, use : of both levels
    pieces : second-level lines that a miss of a 128-byte line in the first requests
    """
    now = 0
    hits = 0
    for core in range(len(core_offset) - 1):
        tag[0][:] = -1
        for i in range(core_offset[core], core_offset[core + 1]):
            now += 1
            if looked_up(line[i], set_of[0], ways, tag[0], use[0], now):
                hits += 1
                continue
            for k in range(pieces):
                hits += looked_up(line[i] * pieces + k, set_of[1], ways, tag[1], use[1], now)
    return hits


def issued_granules(trace: Trace, machine: Machine) -> tuple[Any, Any]:
    """The granules in the order in which a trial's cores issue them, and where each core's begin.

    An L1 that passes loads by queues everything in that order, so both loops see one stream.
    """
    passing = machine.replace(
        levels=(
            dataclasses.replace(machine.levels[0], caches_loads=False, sector_bytes=32),
            dataclasses.replace(machine.levels[1], line_bytes=128, ways=4),
        )
    )
    plan, _ = make_plan(trace, passing)
    work = Workspace(plan)
    levels = plan.level_plans()
    counts = np.zeros((2 * plan.n_sites + 2, N_COUNTS), np.int64)
    streams = np.arange(machine.n_cores, dtype=np.uint64)
    stage = levels[0].stage(levels[0].empty_cache(), counts, work.queues[0], streams)
    drawn = schedule(plan.work, machine.n_cores, plan.resident, np.random.default_rng(0))
    queued, _, _ = core_stage(plan, stage, streams, drawn)
    last = queued.last
    line, mask, *_ = unpack_many(work.queues[0].record[: int(last[-1])])
    bits = (mask[:, None] >> np.arange(4)) & 1
    granules = (line[:, None] * 4 + np.arange(4))[bits.astype(bool)]
    ends = np.concatenate([[0], np.cumsum(bits.sum(axis=1))])
    return granules, np.concatenate([[0], ends[last]])


def bare_seconds(
    stream: tuple[Any, Any], trace: Trace, machine: Machine, ways: int, pieces: int
) -> float:
    """CPU seconds of the bare loop over the same stream, with the same sets.

    pieces : 4 looks a C2050's four L2 blocks up for each L1 miss, as it does; with 1 one of them
        stands for all four
    """
    plan, _ = make_plan(trace, machine)
    levels = plan.level_plans()
    n_slots = [level.geometry.n_sets * ways for level in levels]
    step = 4 // levels[1].geometry.granules_per_line // pieces
    set_of = (np.array(levels[0].set_of), np.array(levels[1].set_of[::step]))
    tag = tuple(np.full(n, -1, np.int32) for n in n_slots)
    use = tuple(np.zeros(n, np.int32) for n in n_slots)
    granules, offset = stream
    line = (granules >> 2).astype(np.int32)
    begin = time.process_time()
    bare_loop(line, offset, set_of, ways, tag, use, pieces)
    return time.process_time() - begin


def with_ways(machine: Machine, ways: int) -> Machine:
    """The machine with a different associativity and everything else unchanged."""
    return machine.replace(
        levels=tuple(
            dataclasses.replace(
                level,
                ways=ways,
                n_slices=1,
                replacement="lru",
                storage_bytes=0,
                local_carveouts_bytes=(),
            )
            for level in machine.levels
        )
    )


def trial_seconds(
    trace: Trace, machine: Machine, repeats: int = 5, sampler: Sampler = "wrr"
) -> float:
    plan, _ = make_plan(trace, machine, sampler=sampler)
    work = Workspace(plan)
    run_trial(plan, 0, 0, workspace=work)
    seconds = []
    for i in range(repeats):
        begin = time.process_time()
        run_trial(plan, 0, i, workspace=work)
        seconds.append(time.process_time() - begin)
    return statistics.median(seconds)


@pytest.mark.parametrize("machine_name", ["v100", "c2050"])
@pytest.mark.parametrize("kernel", sorted(KERNELS))
def test_granules_a_second(traces: dict[str, Trace], kernel: str, machine_name: str) -> None:
    """The machine's own geometry, and 4 and 16 ways compared with the bare loop in the same run."""
    trace, machine = traces[kernel], memsim.load_machine(machine_name)
    seconds = trial_seconds(trace, machine)
    print(
        f"\n{kernel} on {machine_name}: {trace.n_granule / seconds / 1e6:.1f} M granules/s and core"
    )
    stream = issued_granules(trace, machine)
    of_a_miss = machine.levels[0].line_bytes // machine.levels[1].line_bytes
    for ways in (4, 16):
        narrow = with_ways(machine, ways)
        ours = trial_seconds(trace, narrow)
        for pieces in sorted({1, of_a_miss}):
            bare_seconds(stream, trace, narrow, ways, pieces)
            seconds = [bare_seconds(stream, trace, narrow, ways, pieces) for _ in range(5)]
            bare = statistics.median(seconds)
            print(
                f"  {ways:2d} ways: {trace.n_granule / ours / 1e6:.1f} M/s, bare loop with"
                f" {pieces} L2 lookup(s) a miss {trace.n_granule / bare / 1e6:.1f} M/s,"
                f" ratio {bare / ours:.2f}"
            )
        assert ours > 0


@pytest.mark.parametrize("kernel", sorted(KERNELS))
def test_other_orders_cost_little(traces: dict[str, Trace], kernel: str) -> None:
    """One trial of each other order, in per cent of the fewest trials with the default one that allow it."""
    machine = memsim.load_machine("v100")
    own = trial_seconds(traces[kernel], machine)
    others = {s: trial_seconds(traces[kernel], machine, sampler=s) for s in OTHER_SAMPLERS}
    allowed = own * TRIALS_PER_ORDER * np.arange(1, len(others) + 1)
    percent = max(100 * np.cumsum(list(others.values())) / allowed)
    times = ", ".join(f"{sampler} {seconds / own:.2f}" for sampler, seconds in others.items())
    print(f"\n{kernel}: {times} times a trial, {percent:.0f} % of a replay at most")
    assert percent < 15


def test_cost_is_linear(traces: dict[str, Trace]) -> None:
    machine = memsim.load_machine("v100")
    for n in (128, 256, 512):
        workload = stencil.stencil7(nx=512, ny=512, nz=n // 8)
        trace = tracegen.trace(workload, machine, groups=workload_groups(n))
        seconds = trial_seconds(trace, machine)
        print(
            f"\nstencil, {trace.n_granule / 1e6:.1f} M granules:"
            f" {seconds / trace.n_granule * 1e9:.1f} ns a granule"
        )
        assert trace.n_granule > 0


def workload_groups(n: int) -> int:
    return n * 16


def private_megabytes(plan: Plan, workspace: Workspace, seed: int, trial: int) -> float:
    """Private memory of a worker after a trial, the interpreter included."""
    run_trial(plan, seed, trial, workspace=workspace)
    with open("/proc/self/smaps_rollup") as file:
        kilobytes = [int(line.split()[1]) for line in file if line.startswith("Private_")]
    return sum(kilobytes) / 1024


@pytest.mark.parametrize("kernel", ["spmv", "matmul"])
def test_workers(traces: dict[str, Trace], kernel: str) -> None:
    """Wall time of 64 trials on two workers over one, and the private memory of a worker."""
    trace = traces[kernel]
    plan, _ = make_plan(trace, memsim.load_machine("v100"))
    with Workers([plan], jobs=2) as workers:
        with workers.run(private_megabytes, [(0, (0, i)) for i in range(6)]) as megabytes:
            most = max(megabytes)
        print(f"\n{kernel}: a worker takes {most:.0f} MB of its own, the interpreter included")
        ratios = []
        for _ in range(3):
            begin = time.perf_counter()
            trials_on(workers, seed=0, trials=64)
            two = time.perf_counter() - begin
            begin = time.perf_counter()
            run_trials([plan], seed=0, trials=64)
            one = time.perf_counter() - begin
            ratios.append(one / two)
            print(f"  64 trials: one worker {one:.1f} s, two {two:.1f} s, ratio {one / two:.2f}")
    print(f"  median ratio {statistics.median(ratios):.2f}")
    assert most > 0


def test_help_is_quick() -> None:
    seconds = []
    for _ in range(7):
        begin = time.perf_counter()
        subprocess.run(
            [os.path.join(os.path.dirname(sys.executable), "memsim"), "--help"],
            check=True,
            capture_output=True,
        )
        seconds.append(time.perf_counter() - begin)
    print(f"\nmemsim --help: median {statistics.median(seconds):.2f} s")
    assert seconds
