"""Kernels and arguments that cannot be traced: one line that names culprit and rule."""

from __future__ import annotations

from typing import Any

import loopy as lp
import numpy as np
import pytest

import tracegen
from memsim.errors import KernelError
from tests.support import loopy_kernels as kernels
from tracegen.workloads.workload import Workload


def refuse(workload: Workload, context: Any, match: str, **options: Any) -> None:
    with pytest.raises(KernelError, match=match) as caught:
        tracegen.trace(workload, context=context, **options)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("index", [40, -1, -(1 << 31)])
def test_index_out_of_bounds(context: Any, index: int) -> None:
    indices = np.zeros(40, np.int32)
    indices[[7, 33]] = [39, index]
    refuse(
        kernels.gather(40, indices),
        context,
        rf"x\[ind\[i\]\] is out of bounds: index {index} in array x of shape \(40,\) .*;"
        r" work-item 1 of group 1$",
    )
    indices[33] = 39
    tracegen.trace(kernels.gather(40, indices), context=context)


@pytest.mark.parametrize("index", [3, -1])
def test_index_into_the_next_row(context: Any, index: int) -> None:
    indices = np.zeros(40, np.int32)
    indices[5] = index
    match = rf"x\[i, ind\[i\]\] is out of bounds: index {index} of axis 1 in array x"
    refuse(kernels.gather(40, indices, columns=3), context, match)
    indices[5] = 2
    tracegen.trace(kernels.gather(40, indices, columns=3), context=context)


def test_statically_out_of_bounds(context: Any, capsys: pytest.CaptureFixture[str]) -> None:
    kernel = kernels.make("{[i]: 0 <= i < n}", "y[i] = x[i + 1]", "x, y: f4[n]; n: i4")
    workload = Workload(kernel, {"x": np.zeros(4, np.float32)})
    refuse(workload, context, "accesses out-of-bounds array element")
    assert capsys.readouterr().out == ""


def test_kernel_that_does_not_build(context: Any) -> None:
    kernel = kernels.copy(32).kernel
    kernel = lp.register_preamble_generators(kernel, [broken_preamble])
    refuse(Workload(kernel, kernels.copy(32).arguments), context, "does not build: .*nonsense")


def broken_preamble(_: Any) -> Any:
    yield ("10_broken", "static nonsense broken(void);")


def test_wrong_arguments(context: Any) -> None:
    good = kernels.gather(40, np.zeros(40))
    refuse(
        Workload(good.kernel, {**good.arguments, "z": 1}), context, "has no argument z; it has ind"
    )
    refuse(Workload(good.kernel, {"ind": good.arguments["ind"]}), context, "missing .*: x")
    short = {**good.arguments, "x": np.zeros(39, np.float32)}
    refuse(Workload(good.kernel, short), context, "shape mismatch on argument 'x'")
    refuse(Workload("text", {}), context, r"must be a loopy\.TranslationUnit, got str")


def test_no_groups(context: Any) -> None:
    refuse(kernels.gather(0, np.zeros(0)), context, "has no groups")
    refuse(kernels.copy(64), context, "groups must be at least 1, got 0", groups=0)
    refuse(kernels.copy(64), context, "groups must be ids below 2, got 2", groups=[0, 2])
    refuse(kernels.copy(64), context, "groups must name at least one group", groups=[])


def test_subgroup_size(context: Any) -> None:
    refuse(kernels.copy(64), context, "subgroup_size must be 8, 16, 32 or 64", subgroup_size=24)


def test_c_text_cannot_be_seen(context: Any) -> None:
    text = lp.CInstruction("i", "y[i] = 1;", within_inames=frozenset("i"), assignees=("y[i]",))
    kernel = kernels.make("{[i]: 0 <= i < n}", [text], "y: f4[n]; n: i4")
    refuse(Workload(kernel, {"n": 4}), context, "is C text")
