"""The steps of matrix products, by FMA and on tensor cores: the tables are of the kernels."""

from __future__ import annotations

import pytest

import memsim
from experiments.data_files import rows
from experiments.hardware.matmul_steps import TABLES
from experiments.hardware.tensor_steps import TABLES as ON_TENSOR_CORES
from experiments.kernels import matmul_steps, tensor_memory_steps, tensor_steps, warp_group_steps
from tests.support.compilers import needs_nvidia
from tracegen.executed.launches import checked
from tracegen.options import TraceOptions


def test_the_tables_have_kernels_that_are_there() -> None:
    """All of them but for the RX 7900 XTX, of whose ladder two kernels have such tiles."""
    steps = {name: [row["step"] for row in rows(table)] for name, table in TABLES.items()}
    assert steps.pop("rx7900xtx") == ["tiled", "blocks"]
    assert list(steps.values()) == [list(matmul_steps.STEPS)] * 2
    listed, in_tensor_memory, by_warp_groups = (rows(table) for table in ON_TENSOR_CORES)
    assert {row["step"] for row in listed} <= set(tensor_steps.STEPS)
    assert {row["machine"] for row in listed} == {"rtxpro6000", "h100"}
    assert [row["step"] for row in in_tensor_memory] == list(tensor_memory_steps.STEPS)
    assert {row["step"] for row in by_warp_groups} == set(warp_group_steps.STEPS)


@needs_nvidia
@pytest.mark.parametrize(
    ("step", "n"),
    [
        pytest.param(*case, marks=pytest.mark.weekly(2))
        for case in [("stages", 512), ("goes on", 1024), ("two groups", 512), ("one arrives", 2048)]
    ],
)
def test_products_of_warp_groups_are_right(step: str, n: int) -> None:
    launch = warp_group_steps.product(step, n, depth=256)
    assert checked(launch, memsim.load_machine("h100"), TraceOptions())
