"""Latency of a random cyclic pointer chase against the size of its buffer, simulated."""

from __future__ import annotations

import itertools

import numpy as np
import numpy.typing as npt

from memsim.hierarchy import ACCESSES, FAR, HITS, PENDING, sample_latencies
from memsim.machine import Level, Machine
from memsim.montecarlo import Workspace, make_plan, run_trial, unpack_many
from memsim.trace import AccessSite, ArrayExtent, Launch, Trace

ROUNDS = 2
BASE_BYTES = 1 << 20


def chase_lines(machine: Machine, buffer_kb: float, seed: int) -> npt.NDArray[np.int64]:
    """A random order of the buffer's lines, as byte offsets of their first items."""
    line_bytes = max(level.line_bytes for level in machine.levels)
    n_lines = int(buffer_kb * 1024) // line_bytes
    return np.random.default_rng(seed).permutation(n_lines).astype(np.int64) * line_bytes


def chase_latency(machine: Machine, buffer_kb: float, seed: int = 0) -> float:
    """Mean cycles of a step once the buffer has been walked round: hits at their level's latency,
    what reaches memory alone at that of an idle memory (each address by itself in flight).

    Where the last cache has partitions, memory behind the near one takes half of what a far hit takes
    longer less than in the mean, and behind the far one as much more.
    """
    order = chase_lines(machine, buffer_kb, seed)
    n = len(order) * ROUNDS
    address = np.tile(order, ROUNDS) + BASE_BYTES
    trace = Trace(
        sites=(AccessSite(name="next", array="buffer", direction="load", itemsize_bytes=8),),
        arrays=(
            ArrayExtent(
                name="buffer", base_bytes=BASE_BYTES, size_bytes=int(order.max()) + 8 + 256
            ),
        ),
        launch=Launch(
            kernel="chase", n_groups=1, group_items=machine.subgroup_size, registers_per_item=32
        ),
        subgroup_size=machine.subgroup_size,
        workgroup=np.zeros(1, np.int32),
        subgroup_offset=np.array([0, n]),
        site=np.zeros(n, np.int32),
        starts_sequence=np.ones(n, np.bool_),
        waits=np.arange(n, dtype=np.int32) - 1,
        lanes=np.ones(n, np.uint8),
        granule_offset=np.arange(n + 1),
        granule=address // 32,
        byte_mask=np.full(n, 0xFF, np.uint32),
        lane_groups=np.ones(n, np.uint8),
        whole=True,
    )
    plan, _ = make_plan(trace, machine, groups_per_core=1)
    work = Workspace(plan)
    counts = run_trial(plan, seed, 0, workspace=work).counts[:, 0].astype(np.float64)
    hits = counts[:, HITS] + counts[:, PENDING]
    # The first round misses everywhere, but where a line holds several items. What a level brings in may be
    # several lines of the next one, which is asked for each of them.
    lines_asked = [
        max(upper.fill_bytes // level.line_bytes, 1)
        for upper, level in itertools.pairwise(machine.levels)
    ]
    cold = len(order) * np.cumprod([1, *lines_asked])
    asked = counts[:, ACCESSES] - cold
    hit = np.divide(hits, asked, out=np.zeros_like(hits), where=asked > 0)
    idle = sample_latencies(
        machine.dram,
        address_bytes=address[: len(order)],
        size_bytes=np.full(len(order), machine.dram.burst_bytes),
        is_read=np.ones(len(order), np.bool_),
        batch_offset=np.arange(len(order) + 1),
    ).mean_cycles
    latency = idle
    if machine.levels[-1].n_partitions > 1:
        # Lines that memory was read for in the second round, and where they belong; core 0 is near 0.
        lines = unpack_many(work.queues[-1].record[len(order) : int(work.queues[-1].used[0])])[0]
        far = work.caches[-1].home[lines].mean() if len(lines) else 0.5
        latency += (far - 0.5) * _crossing(machine.levels[-1])
    for level, ratio, far_hits, served in zip(
        reversed(machine.levels),
        reversed(hit),
        reversed(counts[:, FAR]),
        reversed(hits),
        strict=True,
    ):
        share = far_hits / served if served else 0.0
        latency = ratio * (level.latency_cycles + share * _crossing(level)) + (1 - ratio) * latency
    return float(latency)


def _crossing(level: Level) -> float:
    """Cycles that a hit in another partition takes longer."""
    return max(0.0, level.far_latency_cycles - level.latency_cycles)
