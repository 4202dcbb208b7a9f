"""The steps of matrix products, by FMA and on tensor cores: what they compute, and that the tables are of the kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from experiments.data_files import rows
from experiments.hardware.matmul_steps import TABLES
from experiments.hardware.tensor_steps import TABLE
from experiments.kernels import matmul_steps, tensor_steps
from memsim.errors import KernelError
from memsim.machine import load_machine
from tests.support.cuda_kernels import is_right_and_a_wrong_one_is_seen, needs_clang
from tests.tracegen.compiled.test_nvrtc import needs_nvrtc
from tracegen.executed.launches import checked
from tracegen.options import TraceOptions


@needs_clang
@pytest.mark.parametrize("step", matmul_steps.STEPS)
@pytest.mark.parametrize(("n", "depth"), [(128, None), (256, 128)])
def test_each_step_computes_the_product(step: str, n: int, depth: int | None) -> None:
    is_right_and_a_wrong_one_is_seen(matmul_steps.product(step, n, depth))


@pytest.mark.weekly(4)
@pytest.mark.parametrize("step", [pytest.param(s, marks=needs_nvrtc) for s in tensor_steps.STEPS])
def test_each_step_on_tensor_cores_computes_the_product(step: str) -> None:
    """All numbers are small integers, so sums are exact in any order."""
    workload = tensor_steps.product(step, 256, 128)
    assert checked(workload, load_machine("h100"), TraceOptions()) == "the workload's own check"
    assert workload.check is not None
    with pytest.raises(AssertionError):
        workload.check({"c": np.zeros((256, 256), np.float32)})


def test_the_tables_have_kernels_that_are_there() -> None:
    """All of them but for the RX 7900 XTX, of whose ladder two kernels have such tiles."""
    steps = {name: [row["step"] for row in rows(table)] for name, table in TABLES.items()}
    assert steps.pop("rx7900xtx") == ["tiled", "blocks"]
    assert list(steps.values()) == [list(matmul_steps.STEPS)] * 2
    listed = rows(TABLE)
    assert {row["step"] for row in listed} <= set(tensor_steps.STEPS)
    assert {row["machine"] for row in listed} == {"rtxpro6000", "h100"}


@pytest.mark.parametrize("module", [matmul_steps, tensor_steps])
@pytest.mark.parametrize("settings", [{"step": "x"}, {"n": 100}, {"n": 256, "depth": 512}])
def test_other_settings_are_refused(settings: dict[str, Any], module: Any) -> None:
    with pytest.raises(KernelError):
        module.product(**settings)
