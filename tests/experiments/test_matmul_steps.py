"""The steps of a matrix product: what they compute, and that a shortened loop stands for the whole one."""

from __future__ import annotations

import pytest

from experiments.data_files import rows
from experiments.hardware.matmul_steps import TABLES
from experiments.kernels.matmul_steps import STEPS, product
from memsim.errors import KernelError
from tests.support.cuda_kernels import is_right_and_a_wrong_one_is_seen, needs_clang


@needs_clang
@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize(("n", "depth"), [(128, None), (256, 128)])
def test_each_step_computes_the_product(step: str, n: int, depth: int | None) -> None:
    is_right_and_a_wrong_one_is_seen(product(step, n, depth))


def test_the_tables_have_all_steps_in_order() -> None:
    """But for the RX 7900 XTX, of whose ladder two kernels have such tiles."""
    steps = {name: [row["step"] for row in rows(table)] for name, table in TABLES.items()}
    assert steps.pop("rx7900xtx") == ["tiled", "blocks"]
    assert list(steps.values()) == [list(STEPS)] * 2


@pytest.mark.parametrize("settings", [{"step": "x"}, {"n": 100}, {"n": 256, "depth": 512}])
def test_other_settings_are_refused(settings: dict[str, object]) -> None:
    with pytest.raises(KernelError):
        product(**settings)  # type: ignore[arg-type]
