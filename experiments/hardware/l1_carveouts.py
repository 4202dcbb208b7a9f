"""H200: lines that L1 misses in rounds through neighbouring lines, with nine sizes of the local memory beside it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt

from experiments import drawing
from experiments.cases import Done, cases_of, run
from experiments.data_files import rows, source
from experiments.hardware.pointer_chase import BASE_BYTES, chase_trace
from experiments.reproduction import Case, Figure
from memsim.hierarchy import ACCESSES, HITS, PENDING
from memsim.machine import Machine, load_machine
from memsim.montecarlo import make_plan, run_trial

TABLE = "h200_l1_rounds.csv"
LINE_BYTES = 128
ROUNDS = 5
FIRST_COUNTED = 2
"""The rounds before it fill the cache."""
PAGE_BYTES = 2 << 20
N_ADDRESSES = 6
"""Where the measured buffer began is not known, and how much of what exceeds the cache is missed depends on it."""


def l1_carveouts(out: Path, quick: bool) -> Figure:
    """Missed lines in percent of the lines, by their number and the size of local memory."""
    table = {f"{row['lines']} beside {row['shared_kb']} KB": row for row in rows(TABLE)}
    done = run("l1-carveouts", table, misses_of, out, quick=quick)
    cases = cases_of(done)
    sizes = list(dict.fromkeys(case.quantity for case in cases))
    return Figure(
        reference_name="measured",
        title="H200: lines that L1 misses in rounds through neighbouring lines",
        source=source(TABLE),
        cases=cases,
        findings=[f"{size}: mean error {points_off(cases, size):.1f} points" for size in sizes],
        pictures=[
            drawing.curve(
                out / f"l1-carveouts-{size.split()[1]}.png",
                [case for case in cases if case.quantity == size],
                f"H200, L1 {size} of local memory: missed lines",
                "%",
            )
            for size in sizes
        ],
    )


def misses_of(row: Mapping[str, str]) -> Done:
    """The missed lines of one number of lines beside one size of local memory, a row of the table."""
    shared_kb, n_lines = int(row["shared_kb"]), int(row["lines"])
    shares = 100 * missed_shares(beside(load_machine("h200"), shared_kb), n_lines)
    case = Case(
        f"{n_lines * LINE_BYTES / 1024:g} kB",
        f"beside {shared_kb} KB",
        "%",
        reference=100 * float(row["missed_lines"]) / n_lines,
        ours=float(shares.mean()),
        ci95=float(1.96 * shares.std(ddof=1)),
    )
    return Done([case])


def points_off(cases: list[Case], size: str) -> float:
    """Mean of the absolute errors beside local memory of this size, in points."""
    return float(
        np.mean(
            [
                abs(case.ours - case.reference)
                for case in cases
                if case.quantity == size and case.ours is not None and case.reference is not None
            ]
        )
    )


def beside(machine: Machine, local_memory_kb: int) -> Machine:
    """The machine where local memory of this size has been taken from its first level."""
    first, *others = machine.levels
    left = first.resized(first.size_beside(1024 * local_memory_kb))
    return dataclasses.replace(machine, levels=(left, *others))


def missed_shares(machine: Machine, n_lines: int) -> npt.NDArray[np.float64]:
    """(N_ADDRESSES,) the share of the lines that one round misses in the first level, once the cache is filled, for
    buffers that begin at as many random pages."""
    pages = np.random.default_rng(0).integers(1, 1 << 14, N_ADDRESSES)
    return np.array([missed_share(machine, n_lines, int(page) * PAGE_BYTES) for page in pages])


def missed_share(machine: Machine, n_lines: int, base_bytes: int = BASE_BYTES) -> float:
    """The share of the lines of a buffer that one round misses in the first level, once the cache is filled."""
    every = _misses(machine, n_lines, ROUNDS, base_bytes)
    counted = every - _misses(machine, n_lines, FIRST_COUNTED, base_bytes)
    return counted / (n_lines * (ROUNDS - FIRST_COUNTED))


def _misses(machine: Machine, n_lines: int, rounds: int, base_bytes: int) -> int:
    address = np.tile(np.arange(n_lines, dtype=np.int64), rounds) * machine.levels[0].line_bytes
    plan, _ = make_plan(chase_trace(machine, address + base_bytes), machine)
    counts = run_trial(plan, 0, 0, depth=1).counts[0, 0]
    return int(counts[ACCESSES] - counts[HITS] - counts[PENDING])
