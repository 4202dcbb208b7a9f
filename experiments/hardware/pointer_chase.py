"""Latency of a random cyclic pointer chase against the size of its buffer, simulated and
measured."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt

from experiments import drawing
from experiments.cases import Done, cases_of, run
from experiments.data_files import rows, source
from experiments.hardware.comparison import errors
from experiments.reproduction import Case, Figure
from memsim.hierarchy import ACCESSES, FAR, HITS, PENDING, sample_latencies
from memsim.machine import Level, Machine, load_machine
from memsim.montecarlo import Workspace, make_plan, run_trial, unpack_many
from memsim.trace import AccessSite, ArrayExtent, Launch, Trace

ROUNDS = 2
BASE_BYTES = 1 << 20
PLATEAU_MACHINES = ("v100", "a100", "h100", "mi210", "mi300x")
CHASES = (("v100", "v100"), ("a100_80", "a100"), ("gh200", "h200"), ("mi210", "mi210"))
"""Measured GPU and our machine; the GH200's L2 is as large as the H200's."""


def latency(out: Path, quick: bool) -> Figure:
    """Plateaus compared with the machine files; whole curves compared with measured ones."""
    steps = {
        f"{gpu} {row['buffer_kb']}": (gpu, name, row)
        for gpu, name in CHASES
        for row in rows("v100_pointer_chase.csv" if gpu == "v100" else "pointer_chases.csv")
        if row.get("gpu", gpu) == gpu
    }
    machines = {name: name for name in PLATEAU_MACHINES}
    plateaus = cases_of(run("latency", machines, plateaus_of, out, quick=quick))
    curve = cases_of(run("latency", steps, step_of, out, quick=quick))
    pictures = []
    findings = [f"plateaus compared with the machine files: {errors(plateaus, 'plateau')}"]
    for gpu, name in CHASES:
        cases = [case for case in curve if case.quantity == f"{gpu}_chase"]
        title = f"{gpu} and machine {name}: pointer chase"
        pictures.append(drawing.curve(out / f"{name}-chase.png", cases, title, "cycles"))
        findings.append(f"{gpu} and machine {name}: {errors(cases, f'{gpu}_chase')}")
    return Figure(
        reference_name="measured",
        title="Pointer chase: plateaus compared with machine files, curves with measured ones",
        source=source("v100_pointer_chase.csv") + " " + source("pointer_chases.csv"),
        cases=[*plateaus, *curve],
        findings=findings,
        pictures=pictures,
    )


def step_of(step: tuple[str, str, Mapping[str, str]]) -> Done:
    """The latency in one buffer.  step : measured GPU, our machine, row of the table"""
    gpu, name, row = step
    case = Case(
        f"{float(row['buffer_kb']):g} kB",
        f"{gpu}_chase",
        "cycles",
        reference=float(row["cycles"]),
        ours=chase_latency(load_machine(name), float(row["buffer_kb"])),
    )
    return Done([case])


def plateaus_of(name: str) -> Done:
    """Chases in buffers that fit into one level of a machine but not into those above it."""
    machine, cases = load_machine(name), []
    above_kb = 0.0
    for level in machine.levels:
        size_kb = max(level.size_bytes / level.n_partitions / 1024 * 0.4, above_kb * 1.4)
        cases.append(_plateau(machine, level.name, size_kb, level.latency_cycles))
        above_kb = level.size_bytes / 1024
    idle = machine.dram.latency_cycles + machine.dram.row_conflict_cycles
    return Done([*cases, _plateau(machine, "DRAM", above_kb * 2, idle)])


def _plateau(machine: Machine, level: str, buffer_kb: float, latency: float) -> Case:
    return Case(
        f"{machine.name} {level}",
        "plateau",
        "cycles",
        reference=latency,
        ours=chase_latency(machine, buffer_kb),
        note=f"{buffer_kb:.0f} kB; the reference is the machine file",
    )


def chase_latency(machine: Machine, buffer_kb: float, seed: int = 0) -> float:
    """Mean cycles of a step after the first round through the buffer.

    Local memory keeps the carve-out for as many groups as would fit on a core: on an A100 and a GH200 (32
    groups), and on an A40 and an L40 (16 and 24), the L1 of the chase is smaller by as much.

    A hit costs its level's latency. A step that reaches memory costs the latency of an idle memory,
    with one request in flight. Where the last cache has partitions, a hit in the far one costs
    more, and a miss costs more or less by half of that difference, as its line belongs to the far
    or the near partition.
    """
    order = chase_lines(machine, buffer_kb, seed)
    address = np.tile(order, ROUNDS) + BASE_BYTES
    plan, _ = make_plan(chase_trace(machine, address), machine)
    work = Workspace(plan)
    counts = run_trial(plan, seed, 0, workspace=work).counts[:, 0].astype(np.float64)
    hits = counts[:, HITS] + counts[:, PENDING]
    accesses = counts[:, ACCESSES] - _first_round(machine, len(order))
    hit_ratio = np.divide(hits, accesses, out=np.zeros_like(hits), where=accesses > 0)
    latency = _idle_memory_cycles(machine, address[: len(order)])
    last = machine.levels[-1]
    if last.n_partitions > 1:
        # Lines read from memory in the second round, and their partitions; core 0 is near partition 0.
        lines = unpack_many(work.queues[-1].record[len(order) : int(work.queues[-1].used[0])])[0]
        far = work.caches[-1].home[lines].mean() if len(lines) else 0.5
        latency += (far - 0.5) * _crossing_cycles(last)
    for k in reversed(range(len(machine.levels))):
        level = machine.levels[k]
        far = counts[k, FAR] / hits[k] if hits[k] else 0.0
        hit_cycles = level.latency_cycles + far * _crossing_cycles(level)
        latency = hit_ratio[k] * hit_cycles + (1 - hit_ratio[k]) * latency
    return float(latency)


def chase_lines(machine: Machine, buffer_kb: float, seed: int) -> npt.NDArray[np.int64]:
    """Byte offsets of the buffer's lines in random order."""
    line_bytes = max(level.line_bytes for level in machine.levels)
    n_lines = int(buffer_kb * 1024) // line_bytes
    return np.random.default_rng(seed).permutation(n_lines).astype(np.int64) * line_bytes


def chase_trace(machine: Machine, address: npt.NDArray[np.int64]) -> Trace:
    """One work-item loads 8 bytes at one address (n,) after another; all are from BASE_BYTES on."""
    n = len(address)
    return Trace(
        sites=(AccessSite(name="next", array="buffer", direction="load", itemsize_bytes=8),),
        arrays=(
            ArrayExtent(
                name="buffer",
                base_bytes=BASE_BYTES,
                size_bytes=int(address.max()) - BASE_BYTES + 8 + 256,
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


def _first_round(machine: Machine, n_lines: int) -> npt.NDArray[np.int64]:
    """(n_level,) accesses of the first round.

    A fill may be several lines of the level below, which is accessed once for each of them.
    """
    lines_per_fill = [
        max(upper.fill_bytes // level.line_bytes, 1)
        for upper, level in itertools.pairwise(machine.levels)
    ]
    return n_lines * np.cumprod([1, *lines_per_fill])


def _idle_memory_cycles(machine: Machine, address: npt.NDArray[np.int64]) -> float:
    """Mean latency of requests to memory with one in flight at a time."""
    n = len(address)
    return float(
        sample_latencies(
            machine.dram,
            address_bytes=address,
            size_bytes=np.full(n, machine.dram.burst_bytes),
            is_read=np.ones(n, np.bool_),
            batch_offset=np.arange(n + 1),
        ).mean_cycles
    )


def _crossing_cycles(level: Level) -> float:
    """Additional cycles of a hit in the other partition."""
    return max(0.0, level.far_latency_cycles - level.latency_cycles)
