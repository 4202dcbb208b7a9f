"""Cycles of L1 against those measured on five GPUs, and against models without one mechanism each."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pytest

from calib.prediction import Touched
from experiments.data_files import rows
from experiments.hardware.l1_strides import MACHINES, TABLE, predicted_cycles, touched_by
from memsim.machine import Machine, load_machine

MEASURED = rows(TABLE)


@pytest.fixture(scope="module", autouse=True)
def _touched_once() -> Iterator[None]:
    """GPUs with sub-groups of one width touch the same bytes."""
    kept: dict[tuple[bytes, int], Touched] = {}

    def once(addresses: npt.NDArray[np.int64], itemsize_bytes: int) -> Touched:
        key = addresses.tobytes(), itemsize_bytes
        if key not in kept:
            kept[key] = touched_by(addresses, itemsize_bytes)
        return kept[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys.modules[touched_by.__module__], "touched_by", once)
        yield


def error(gpu: str, machine: Machine) -> float:
    """The geometric mean, as a factor."""
    ratios = [
        predicted_cycles(machine, row["pattern"], row["type"], int(row["argument"]))
        / float(row["cycles"])
        for row in MEASURED
        if row["gpu"] == gpu
    ]
    return float(np.exp(np.abs(np.log(ratios)).mean()))


@pytest.mark.parametrize(
    ("gpu", "at_most"),
    [("A100", 1.05), ("H200", 1.05), ("A40", 1.05), ("MI210", 1.12), ("RX 6900 XT", 1.1)],
)
def test_strides_and_blocks_take_the_measured_cycles(gpu: str, at_most: float) -> None:
    assert error(gpu, load_machine(MACHINES[gpu])) < at_most


@pytest.mark.parametrize(
    ("gpu", "change"), [("A100", {"tags_per_cycle": 32.0}), ("MI210", {"bank_bytes": 0})]
)
def test_without_look_ups_or_banks_they_do_not(gpu: str, change: dict[str, float]) -> None:
    machine = load_machine(MACHINES[gpu])
    l1 = dataclasses.replace(machine.levels[0], **change)  # type: ignore[arg-type]
    assert error(gpu, machine.replace(levels=(l1, *machine.levels[1:]))) > 1.15
