"""V100: L1 miss ratio while one group of 256 work-items reads a buffer again and again.

On the GPU nothing keeps the eight sub-groups in step: the kernel has no barrier, and no two sub-groups
share a line. In the replay the two of each scheduler stay together, and the schedulers drift apart.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from experiments import drawing
from experiments.cases import Done, cases_of, run
from experiments.data_files import rows, source
from experiments.hardware.comparison import half_width
from experiments.reproduction import Case, Figure
from memsim.hierarchy import ACCESSES, HITS, PENDING
from memsim.machine import Machine, load_machine
from memsim.montecarlo import make_plan, run_trial
from memsim.trace import AccessSite, ArrayExtent, Launch, Trace

GROUP_ITEMS = 256
ITEM_BYTES = 8
ROW_BYTES = GROUP_ITEMS * ITEM_BYTES
SWEEPS = 12
PLACEMENTS = 32
GRANULES = 8
"""Granules of 32 bytes that the 32 lanes of a sub-group load together."""
UNCERTAIN_KB = (128.0, 236.0)
"""Buffer sizes between which the miss ratio depends on how far the sub-groups drift apart."""


def v100_l1(out: Path, quick: bool) -> Figure:
    """Miss ratio against buffer size."""
    table = {f"{float(row['buffer_kb']):g} kB": row for row in rows("v100_l1_miss_ratio.csv")}
    done = run("v100-l1", table, misses_of, out, quick=quick)
    cases = cases_of(done)
    worst = max(l1_curve_errors(cases), default=0.0)
    return Figure(
        reference_name="measured",
        title="V100: L1 miss ratio of a cyclic sweep",
        source=source("v100_l1_miss_ratio.csv"),
        cases=cases,
        findings=[
            f"up to {UNCERTAIN_KB[0]:g} kB and from {UNCERTAIN_KB[1]:g} kB on: largest error"
            f" {worst:.1f} points"
        ],
        pictures=[
            drawing.curve(out / "v100-l1.png", cases, "V100: L1 misses of a cyclic sweep", "%")
        ],
    )


def misses_of(row: Mapping[str, str]) -> Done:
    """The miss ratio of one buffer size, a row of the table."""
    buffer_kb = float(row["buffer_kb"])
    ratios = miss_ratios(load_machine("v100"), buffer_kb, PLACEMENTS)
    case = Case(
        f"{buffer_kb:g} kB",
        "miss_ratio",
        "%",
        reference=100 * float(row["miss_ratio"]),
        ours=100 * float(np.mean(ratios)),
        ci95=100 * (half_width(ratios) or 0.0),
    )
    return Done([case])


def l1_curve_errors(cases: Sequence[Case]) -> list[float]:
    """Errors in points at the buffer sizes outside UNCERTAIN_KB."""
    low, high = UNCERTAIN_KB
    sizes = [float(case.case.split()[0]) for case in cases]
    return [
        abs(case.ours - case.reference)
        for case, size in zip(cases, sizes, strict=True)
        if case.ours is not None and case.reference is not None and not low < size < high
    ]


def sweep_trace(buffer_kb: float, sweeps: int = SWEEPS) -> Trace:
    """The trace of one group; the buffer is cut to whole rows of 256 items."""
    n_rows = int(buffer_kb * 1024) // ROW_BYTES
    n_subgroup, n_access = GROUP_ITEMS // 32, n_rows * sweeps
    row = np.tile(np.arange(n_rows, dtype=np.int64), sweeps)
    total = n_subgroup * n_access
    first = (
        row[None, :] * (ROW_BYTES // 32) + np.arange(n_subgroup, dtype=np.int64)[:, None] * GRANULES
    )
    base = 1 << 20
    granule = (first.reshape(-1, 1) + np.arange(GRANULES) + base // 32).reshape(-1)
    return Trace(
        sites=(AccessSite(name="B", array="B", direction="load", itemsize_bytes=ITEM_BYTES),),
        arrays=(ArrayExtent(name="B", base_bytes=base, size_bytes=n_rows * ROW_BYTES),),
        launch=Launch(kernel="sweep", n_groups=1, group_items=GROUP_ITEMS, registers_per_item=64),
        subgroup_size=32,
        workgroup=np.zeros(n_subgroup, np.int32),
        subgroup_offset=np.arange(n_subgroup + 1, dtype=np.int64) * n_access,
        site=np.zeros(total, np.int32),
        starts_sequence=np.tile(row % 32 == 0, n_subgroup),
        waits=np.full(total, -1, np.int32),
        lanes=np.full(total, 32, np.uint8),
        granule_offset=np.arange(total + 1, dtype=np.int64) * GRANULES,
        granule=granule,
        byte_mask=np.full(total * GRANULES, 0xFFFFFFFF, np.uint32),
        lane_groups=np.full(total * GRANULES, 15, np.uint8),
        whole=True,
    )


def miss_ratios(machine: Machine, buffer_kb: float, placements: int) -> list[float]:
    """L1 miss ratio after the first sweep, with the buffer at random addresses (multiples of 256
    bytes)."""
    trace = sweep_trace(buffer_kb)
    plan, _ = make_plan(trace, machine, random_bases=True, groups_per_core=1)
    ratios = []
    for trial in range(placements):
        counts = run_trial(plan, 0, trial, depth=1).counts[0, 0]
        cold = int(counts[ACCESSES]) // SWEEPS
        misses = int(counts[ACCESSES] - counts[HITS] - counts[PENDING])
        ratios.append((misses - cold) / (int(counts[ACCESSES]) - cold))
    return ratios
