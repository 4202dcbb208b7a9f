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
from memsim.trace.model import BARRIER_SITE, Trace
from tests.support.random_cases import SITES, cases
from tests.support.small_machines import few_cores
from tests.support.traces import make_trace
from tests.twins.replay.cache import Request
from tests.twins.replay.trial import reference_trial

KINDS = ("load", "store", "atomic")


def fast_memory(work: Workspace) -> list[Request]:
    """The requests that the fast trial sent to memory, decoded."""
    queue, plan = work.queues[-1], work.plan
    granules_per_line = work.levels[-1].geometry.granules_per_line
    line, mask, full, site, kind, counted = unpack_many(queue.record[: queue.used[0]])
    out, at = [], 0
    for i in range(len(line)):
        granules = [
            int(plan.space.true_granule(line[i] * granules_per_line + g))
            for g in range(granules_per_line)
            if mask[i] >> g & 1
        ]
        written = {}
        if kind[i] == KINDS.index("store"):
            for g in range(granules_per_line):
                if mask[i] >> g & 1:
                    true = int(plan.space.true_granule(line[i] * granules_per_line + g))
                    written[true] = 0xFFFFFFFF
                    if not full[i] >> g & 1:
                        written[true] = int(queue.partial[at])
                        at += 1
        asked = KINDS[kind[i]]
        unsure = frozenset(
            int(plan.space.true_granule(line[i] * granules_per_line + g))
            for g in range(granules_per_line)
            if asked == "load" and full[i] >> g & 1
        )
        goes_first = asked == "store" and plan.nontemporal[site[i] :][:1].any()
        out.append(
            Request(
                tuple(granules),
                asked,
                int(site[i]),
                bool(counted[i]),
                written,
                goes_first=bool(goes_first),
                unsure=unsure,
            )
        )
    assert at == queue.used[1]
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


@settings(REPEATABLE, max_examples=100)
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
    for g in range(24):
        subgroups = []
        for s in range(2):
            accesses: list[tuple[Any, ...]] = []
            for i in range(12):
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
@pytest.mark.parametrize("name", ["c1060", "c2050", "titan_x", "v100", "v100-accelsim"])
@pytest.mark.parametrize("sampler", ["wrr", "gto", "gty"])
def test_shipped_machines(name: str, sampler: str) -> None:
    on = few_cores(name)
    greedy = sampler != "wrr"
    options = {
        "groups_per_core": 3,
        "warm": greedy,
        "dispatch": "round_robin" if greedy else "first_free",
    }
    compare(many_groups(32, 1), on, 2, 3, {"sampler": sampler, **options})


@pytest.mark.weekly(2)
@pytest.mark.parametrize("name", ["mi210", "mi300x"])
@pytest.mark.parametrize("sampler", ["wrr", "gty"])
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
    files = [Path(__file__), hierarchy / "test_closed_forms.py", hierarchy / "test_sub_cores.py"]
    ended = subprocess.run(
        [*command, *map(str, files)],
        cwd=Path(__file__).parents[3],
        env=checked,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout[-3000:]
