"""Copies, transposes and sums: what each computes, and that the table's rows are kernels."""

from __future__ import annotations

import numpy as np
import pytest

from experiments.data_files import rows
from experiments.hardware.textbook import TABLE, workload
from experiments.kernels.textbook import moved, summed
from memsim.errors import KernelError
from memsim.machine import load_machine
from tests.tracegen.compiled.test_nvrtc import needs_nvrtc
from tracegen.executed.launches import checked
from tracegen.options import TraceOptions

pytestmark = needs_nvrtc
LISTED = rows(TABLE)


@pytest.mark.weekly(4)
@pytest.mark.parametrize("row", LISTED, ids=lambda row: f"{row['machine']} {row['step']}")
def test_each_row_computes_what_it_is_called(row: dict[str, str]) -> None:
    made = workload(row, n=128 if row["kernel"] == "moved" else 4096)
    machine = load_machine(row["machine"])
    assert checked(made, machine, TraceOptions()) == "the workload's own check"
    assert made.check is not None
    (name,) = {"out", "sums"} & set(made.arguments)
    with pytest.raises(AssertionError):
        made.check({name: np.zeros_like(made.arguments[name])})


@pytest.mark.parametrize(
    ("make", "settings"),
    [
        (moved, {"step": "x"}),
        (moved, {"n": 100}),
        (summed, {"step": "x"}),
        (summed, {"n": 100}),
    ],
)
def test_other_settings_are_refused(make, settings) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(KernelError):
        make(**settings)
