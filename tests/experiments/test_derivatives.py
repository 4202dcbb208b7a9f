"""The derivatives along one axis: what they compute, and that the table has launches that there are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from experiments.data_files import rows
from experiments.hardware.derivatives import TABLE, measured_ms, name_of
from experiments.kernels.derivatives import derivatives
from memsim.errors import KernelError
from memsim.machine import load_machine
from tests.support.compilers import needs_amd
from tracegen.executed.launches import checked
from tracegen.options import TraceOptions


@needs_amd
@pytest.mark.parametrize(
    "settings",
    [
        {"axis": "x", "radius": 3},
        {"axis": "y", "radius": 1},
        {"axis": "z", "aligned": True, "wide_groups": True},
        {"axis": "x", "lanes": 2, "aligned": True},
        {"axis": "x", "lanes": 4, "aligned": True},
        {"axis": "y", "lanes": 4, "aligned": True},
        {"axis": "z", "depth": 5, "aligned": True},
    ],
)
def test_it_computes_the_derivative(settings: dict[str, Any]) -> None:
    workload = derivatives(n=16, nz=9, **settings)
    assert checked(workload, load_machine("mi250x"), TraceOptions()) == "the workload's own check"
    assert workload.check is not None
    with pytest.raises(AssertionError):
        workload.check({"result": np.zeros_like(workload.arguments["result"])})  # type: ignore[call-overload]


def test_the_table_has_launches_that_there_are() -> None:
    """At 980 GB/s, 2 x 512^3 values and a halo of 8 planes take 1.104 ms."""
    listed = rows(TABLE)
    assert len({name_of(row) for row in listed}) == len(listed)
    by_name = {name_of(row): measured_ms(row) for row in listed}
    expected = (2 * 512**3 + 8 * 512**2) * 4 / 980e6
    assert by_name["x radius 4 lanes 1 aligned wide groups"] == pytest.approx(expected)


@pytest.mark.parametrize(
    "settings",
    [{"axis": "t"}, {"radius": 5}, {"lanes": 3}, {"n": 30, "lanes": 4}, {"depth": 4}, {"n": 0}],
)
def test_other_settings_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(KernelError):
        derivatives(**settings)
