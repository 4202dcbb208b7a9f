"""Cycles of L1 for loads with strides and in blocks, on five GPUs: banks, look-ups and coalescing.

All loads hit, so nothing but the load/store unit and L1 takes time. What was read off these measurements:
that whole multiples of four lines take one look-up more (NVIDIA), and the banks of AMD's L1.
"""

from __future__ import annotations

from itertools import groupby
from pathlib import Path

import numpy as np
import numpy.typing as npt

from calib.prediction import Touched, pipe_cycles
from experiments import drawing
from experiments.data_files import rows, source
from experiments.hardware.comparison import errors
from experiments.reproduction import Case, Figure
from memsim.machine import Machine, load_machine
from memsim.trace import GRANULE_BYTES

TABLE = "l1_strides.csv"
MACHINES = {
    "A100": "a100",
    "H200": "h200",
    "A40": "a6000",
    "MI210": "mi210",
    "RX 6900 XT": "rx7900xtx",
}
"""Measured GPU -> our machine; an A40 has the cores of an RTX A6000."""
SIZES = {"float": 4, "double": 8}
OFFSETS = np.arange(0, 32, 4)
"""First items of the eight loads of each lane, for which the measured kernel takes the mean."""
ROWS, COLUMNS, PITCH = 32, 64, 4098
LANES_COUNTED = 32


def touched_by(addresses: npt.NDArray[np.int64], itemsize_bytes: int) -> Touched:
    """The granules of accesses.  addresses : (n_access, n_lane) bytes"""
    n_access, n_lane = addresses.shape
    byte = addresses[:, :, None] + np.arange(itemsize_bytes)
    access = np.broadcast_to(np.arange(n_access)[:, None, None], byte.shape)
    group = np.broadcast_to((np.arange(n_lane) // 8)[None, :, None], byte.shape)
    keys = np.stack([access, byte // GRANULE_BYTES]).reshape(2, -1)
    unique, of = np.unique(keys, axis=1, return_inverse=True)
    mask = np.zeros(unique.shape[1], np.uint32)
    groups = np.zeros(unique.shape[1], np.uint8)
    np.bitwise_or.at(mask, of, (np.uint32(1) << (byte % GRANULE_BYTES).astype(np.uint32)).ravel())
    np.bitwise_or.at(groups, of, (1 << group).astype(np.uint8).ravel())
    offset = np.searchsorted(unique[0], np.arange(n_access + 1))
    return Touched(offset, unique[1], mask, groups)


def predicted_cycles(machine: Machine, pattern: str, kind: str, argument: int) -> float:
    """Cycles for 32 lanes, the mean over the sub-groups and loads of the measured kernel."""
    thread = np.arange(COLUMNS if pattern == "stride" else ROWS * COLUMNS)
    if pattern == "stride":
        item = thread * argument
    else:
        item = thread % argument + (thread // argument % ROWS + 1) * PITCH
    lanes = machine.subgroup_size
    addresses = (item.reshape(-1, 1, lanes) + OFFSETS[:, None]).reshape(-1, lanes) * SIZES[kind]
    touched = touched_by(addresses, SIZES[kind])
    cycles = pipe_cycles(machine, touched, np.full(len(addresses), SIZES[kind]))
    return float(cycles.mean()) * LANES_COUNTED / lanes


def l1_strides(out: Path, quick: bool) -> Figure:
    """All measured patterns."""
    cases = [
        Case(
            f"{row['type']}, {row['pattern']} {row['argument']}",
            f"{row['gpu']}: cycles",
            "cycles",
            reference=float(row["cycles"]),
            ours=predicted_cycles(
                load_machine(MACHINES[row["gpu"]]),
                row["pattern"],
                row["type"],
                int(row["argument"]),
            ),
        )
        for row in rows(TABLE)
    ]
    quantities = sorted({case.quantity for case in cases})
    return Figure(
        reference_name="measured",
        title="Cycles of L1 for loads of 32 lanes that hit, with strides and in blocks",
        source=source(TABLE),
        cases=cases,
        findings=[f"{quantity}: {errors(cases, quantity)}" for quantity in quantities],
        pictures=[_draw(out / "l1-strides.png", cases)],
    )


def _draw(path: Path, cases: list[Case]) -> str:
    """Strides of floats: measured as dots, predicted as a line."""
    chosen = [case for case in cases if case.case.startswith("float, stride")]
    drawn = []
    for name, group in groupby(chosen, lambda case: case.quantity):
        some = list(group)
        stride = [int(case.case.split()[-1]) for case in some]
        predicted = drawing.Line(stride, [case.ours for case in some], "-", "predicted")
        measured = drawing.Line(stride, [case.reference for case in some], ".", "measured", 1)
        gpu = name.split(":")[0]
        drawn.append(
            drawing.Panel(
                [predicted, measured], gpu, "stride in floats", "cycles for 32 lanes", log="y"
            )
        )
    return drawing.panels(path, *drawn, size=(3.2 * len(drawn), 3.4))
