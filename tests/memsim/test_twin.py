"""The fast trial against its readable twin, over random small traces on random small machines."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import HealthCheck, given, settings
from random_cases import cases

from memsim.cache import READ_GRANULES, WRITE_GRANULES
from memsim.machine import Machine
from memsim.plan import make_plan
from memsim.reference import reference_trial
from memsim.reference_cache import Request
from memsim.trace import Trace
from memsim.trial import Workspace, run_trial, unpack_many

KINDS = ("load", "store", "atomic")


def fast_memory(work: Workspace) -> list[Request]:
    """What the fast trial just sent to memory, decoded."""
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
        out.append(
            Request(tuple(granules), KINDS[kind[i]], int(site[i]), bool(counted[i]), written)
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


@settings(
    max_examples=400,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(cases())
def test_fast_trial_equals_its_twin(case: tuple[Trace, Machine, dict[str, Any], int]) -> None:
    trace, on, options, seed = case
    compare(trace, on, seed, seed % 3, options)
