"""The fast trial against its readable twin, over random small traces on random small machines."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from memsim.hierarchy.cache import READ_GRANULES, WRITE_GRANULES
from memsim.machine.file import load_machine
from memsim.machine.model import Machine
from memsim.montecarlo.plan import make_plan
from memsim.montecarlo.trial import Workspace, run_trial, unpack_many
from memsim.trace.model import BARRIER_SITE, Direction, Trace
from tests.support.random_cases import SITES, cases
from tests.support.small_machines import few_cores
from tests.support.traces import make_trace
from tests.twins.replay.cache import ALL_BYTES, Request
from tests.twins.replay.trial import reference_trial

KINDS: tuple[Direction, ...] = ("load", "store", "atomic")


def fast_memory(work: Workspace) -> list[Request]:
    """The requests that the fast trial sent to memory, decoded."""
    queue, plan, n = work.queues[-1], work.plan, work.levels[-1].geometry.granules_per_line
    partial = iter(queue.partial[: queue.used[1]].tolist())
    records = unpack_many(queue.record[: queue.used[0]])
    out = []
    for line, mask, full, site, kind, counted in zip(*records, strict=True):
        of = {g: int(plan.space.true_granule(line * n + g)) for g in range(n) if mask >> g & 1}
        loads, stores = (KINDS[kind] == one for one in ("load", "store"))
        whole = {g for g in of if full >> g & 1}
        request = Request(
            granules=tuple(of.values()),
            kind=KINDS[kind],
            site=int(site),
            counted=bool(counted),
            written={of[g]: ALL_BYTES if g in whole else next(partial) for g in of if stores},
            goes_first=stores and bool(plan.nontemporal[site:][:1].any()),
            unsure=frozenset(of[g] for g in whole if loads),
        )
        out.append(request)
    assert next(partial, None) is None
    return out


def compare(trace: Trace, on: Machine, seed: int, trial: int, options: dict[str, Any]) -> None:
    plan, _ = make_plan(trace, on, **options)
    work = Workspace(plan)
    fast = run_trial(plan, seed, trial, workspace=work)
    slow = reference_trial(trace, on, seed, trial, **options)
    np.testing.assert_array_equal(fast.counts, slow.counts)
    assert fast_memory(work) == slow.memory
    for queue in work.queues:
        assert queue.used[0] <= len(queue.record)
        assert queue.used[1] <= len(queue.partial)
    np.testing.assert_array_equal(fast.missed_translations, slow.missed_translations)
    counted = [request for request in slow.memory if request.counted]
    reads = sum(len(r.granules) for r in counted if r.kind == "load")
    assert fast.dram_read_bytes == 32 * reads
    if on.levels:
        assert fast.dram_read_bytes == 32 * slow.counts[-1, :, READ_GRANULES].sum()
        assert fast.dram_write_bytes == 32 * slow.counts[-1, :, WRITE_GRANULES].sum()
    else:
        writes = sum(len(r.granules) for r in counted if r.kind != "load")
        assert fast.dram_write_bytes == 32 * writes
    again = run_trial(plan, seed, trial, workspace=work)
    np.testing.assert_array_equal(fast.counts, again.counts)


REPEATABLE = settings(
    derandomize=True, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)


@settings(REPEATABLE, max_examples=50)
@given(cases())
def test_fast_trial_equals_its_twin(case: tuple[Trace, Machine, dict[str, Any], int]) -> None:
    trace, on, options, seed = case
    compare(trace, on, seed, seed % 3, options)


@pytest.mark.slow
@settings(REPEATABLE, max_examples=400)
@given(cases(together=True))
def test_it_does_in_many_cases(case: tuple[Trace, Machine, dict[str, Any], int]) -> None:
    trace, on, options, seed = case
    compare(trace, on, seed, seed % 3, options)


def many_groups(subgroup_size: int, seed: int) -> Trace:
    """A few thousand requests: gathers, sweeps and stores in groups with a barrier."""
    rng = np.random.default_rng(seed)
    groups = []
    for g in range(18):
        subgroups = []
        for s in range(2):
            accesses: list[tuple[Any, ...]] = []
            for i in range(9):
                near = sorted({int(x) for x in rng.zipf(1.3, size=8).clip(max=4000)})
                swept = range(64 * g + 4 * i, 64 * g + 4 * i + 4)
                accesses.append((0, swept))
                accesses.append((3, near, False))
                if i == 6:
                    accesses.append((BARRIER_SITE, []))
                if i % 3 == s:
                    accesses.append((1 + i % 2, near, True, [0xFF] * len(near)))
            subgroups.append(accesses)
        groups.append(subgroups)
    return make_trace(groups, SITES, subgroup_size=subgroup_size, whole=False)


@pytest.mark.weekly(3)
@pytest.mark.parametrize(
    ("name", "sampler"),
    [
        *(("c1060", "wrr"), ("c2050", "wrr"), ("titan_x", "wrr"), ("v100", "wrr")),
        *(("v100-accelsim", "wrr"), ("c1060", "gty"), ("c2050", "gto"), ("titan_x", "gto")),
        *(("v100", "gty"), ("v100-accelsim", "gty")),
    ],
)
def test_shipped_machines(name: str, sampler: str) -> None:
    greedy = sampler != "wrr"
    dispatch = "round_robin" if greedy else "first_free"
    options = {"sampler": sampler, "groups_per_core": 3, "warm": greedy, "dispatch": dispatch}
    compare(many_groups(32, 1), few_cores(name), 2, 3, options)


@pytest.mark.weekly(2)
@pytest.mark.parametrize(("name", "sampler"), [("mi210", "wrr"), ("mi300x", "gty")])
def test_shipped_machines_of_64_lanes(name: str, sampler: str) -> None:
    options = {"groups_per_core": 2, "sampler": sampler}
    compare(many_groups(64, 1), load_machine(name), 2, 3, options)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_no_index_leaves_its_array(tmp_path: Path) -> None:
    """The tests above once more, with the compiled loops checking their indices."""
    checked = {**os.environ, "NUMBA_BOUNDSCHECK": "1", "NUMBA_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--timeout", "1500"]
    command += ["-m", "not bench", "-k", "not no_index"]
    hierarchy = Path(__file__).parents[1] / "hierarchy"
    files = [Path(__file__), hierarchy / "test_closed_forms.py", hierarchy / "test_schedulers.py"]
    ended = subprocess.run(
        [*command, *map(str, files)],
        cwd=Path(__file__).parents[3],
        env=checked,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout[-3000:]
