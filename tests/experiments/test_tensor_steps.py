"""The steps of a product on tensor cores: what they compute, and that the table has what the kernels are."""

from __future__ import annotations

import numpy as np
import pytest

from experiments.data_files import rows
from experiments.hardware.tensor_steps import TABLE
from experiments.kernels.tensor_steps import STEPS, product
from memsim.errors import KernelError
from memsim.machine import load_machine
from tests.tracegen.compiled.test_nvrtc import needs_nvrtc
from tracegen.executed.launches import checked
from tracegen.options import TraceOptions

pytestmark = needs_nvrtc


@pytest.mark.weekly(4)
@pytest.mark.parametrize("step", STEPS)
def test_each_step_computes_the_product(step: str) -> None:
    """All numbers are small integers, so sums are exact in any order."""
    workload = product(step, 256, 128)
    assert checked(workload, load_machine("h100"), TraceOptions()) == "the workload's own check"
    assert workload.check is not None
    with pytest.raises(AssertionError):
        workload.check({"c": np.zeros((256, 256), np.float32)})


def test_the_table_has_kernels_that_are_there() -> None:
    listed = rows(TABLE)
    assert {row["step"] for row in listed} <= set(STEPS)
    assert {row["machine"] for row in listed} == {"rtxpro6000", "h100"}


@pytest.mark.parametrize("settings", [{"step": "x"}, {"n": 100}, {"n": 256, "depth": 512}])
def test_other_settings_are_refused(settings: dict[str, object]) -> None:
    with pytest.raises(KernelError):
        product(**settings)  # type: ignore[arg-type]
