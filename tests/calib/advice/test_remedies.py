"""Every remedy: a kernel for which it proposes something, and one for which it must not."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import Any

import loopy as lp
import numpy as np
import pytest

from calib.advice.facts import Facts
from calib.advice.search import REMEDIES
from calib.advice.trial import difference, outputs_of
from calib.advice.variants import Variant
from experiments.kernels import matmul, spmv, stencil, stream
from memsim.machine import load_machine
from tests.calib.advice import textbook
from tracegen import Workload

V100 = load_machine("v100")


def cube(n: int = 128) -> Workload:
    """Two nested loops in a work-item."""
    unit = textbook.kernel(
        "{[i, j, k]: 0 <= i < n and 0 <= j < 8 and 0 <= k < 4}",
        "y[k, j, i] = 2 * x[k, j, i]",
        "cube",
        x="in 4, 8, n",
        y="out 4, 8, n",
    )
    return Workload(textbook.split(unit, i=(64, "g.0", "l.0")), {"x": textbook.values(4, 8, n)})


def line(text: str, n: int, x: str = "n", dtype: Any = np.float32) -> Workload:
    """Work-items for n elements, where n need not be a multiple of a group. x : the extent of x"""
    unit = lp.make_kernel(
        "{[i, c]: 0 <= i < n and 0 <= c < 4}" if "(c," in text else "{[i]: 0 <= i < n}",
        text,
        [
            lp.ValueArg("n", np.int32),
            lp.GlobalArg("x", dtype, shape=x),
            lp.GlobalArg("y", dtype, shape="n", is_output=True, is_input=False),
        ],
        name="line",
        assumptions="n >= 1",
        lang_version=(2018, 2),
    )
    data = {"x": np.arange(eval(x, {"n": n})).astype(dtype), "n": np.int32(n)}
    return Workload(textbook.split(unit, i=(128, "g.0", "l.0")), data)


def product_of_rows(n: int = 128) -> Workload:
    """C = A B^T: work-items that are neighbours read different rows of B."""
    unit = textbook.kernel(
        "{[i, j, k]: 0 <= i, j, k < n}",
        "c[i, j] = sum(k, a[i, k] * b[j, k])",
        "product_of_rows",
        a="in n, n",
        b="in n, n",
        c="out n, n",
    )
    unit = textbook.split(unit, i=(16, "g.1", "l.1"), j=(16, "g.0", "l.0"))
    return Workload(unit, {"a": textbook.values(n, n), "b": textbook.values(n, n)})


SMALL = {
    name: functools.cache(make)
    for name, make in {
        "matmul": lambda: matmul.naive(64),
        "triad": lambda: stream.triad(1 << 12),
        "transpose": lambda: textbook.transpose(128),
        "particles": lambda: textbook.particles(512),
        "sweep": lambda: textbook.sweep(128),
        "csr": lambda: textbook.csr(256),
        "cube": cube,
        "flat": lambda: textbook.flat_particles(512),
    }.items()
}
SPEAKS = {
    "swap lanes": ("matmul", "triad"),
    "other lanes": ("sweep", "triad"),
    "stage": ("transpose", "triad"),
    "tile": ("matmul", "transpose"),
    "axis order": ("particles", "triad"),
    "share a sum": ("csr", "triad"),
    "interchange": ("cube", "matmul"),
    "unroll": ("matmul", "triad"),
    "vectorise": ("triad", "csr"),
    "group shape": ("triad", "none"),
    "group order": ("matmul", "triad"),
    "pad": ("sweep", "triad"),
}
"""Remedy -> a kernel that it has proposals for, and one that it has none for."""


@pytest.mark.weekly(2)
@pytest.mark.parametrize("name", list(REMEDIES))
def test_what_a_remedy_proposes_is_legal(name: str) -> None:
    """All that it proposes for a kernel that it is made for is accepted, and computes the same."""
    workload = SMALL[SPEAKS[name][0]]()
    user = Variant(workload=workload)
    reference = outputs_of(user)
    proposals = list(REMEDIES[name](Facts(workload, {})))
    assert proposals
    for proposal in proposals:
        variant = user.then(proposal.steps, proposal.layouts)
        assert len(variant.code) == len(proposal.steps) + len(proposal.layouts)
        assert difference(outputs_of(variant), reference) < 100, proposal.what


def test_a_remedy_says_nothing_where_it_cannot_help() -> None:
    assert SPEAKS.keys() == REMEDIES.keys()
    for name, (_, other) in SPEAKS.items():
        assert other == "none" or not list(REMEDIES[name](Facts(SMALL[other](), {}))), name


def test_rows_of_a_tile_are_longer_where_lanes_read_its_columns() -> None:
    """Lanes read a column of b's tile, but one element of a's. 16 lanes in a column of rows of 16 words use
    two banks of 32, and so does the second half of a sub-group; rows of 17 words spread them over 16."""
    workload = product_of_rows()
    user = Variant(workload=workload)
    (tile,) = (
        one
        for one in REMEDIES["tile"](Facts(workload, {}))
        if one.what.startswith("tile k by 16 and stage a and b")
    )
    code = user.then(tile.steps).code
    assert [line for line in code if "advice.pad" in line] == ['knl = advice.pad(knl, "b_tile", 1)']
    assert difference(outputs_of(user.then(tile.steps)), outputs_of(user)) < 100


def test_groups_with_three_axes_grow() -> None:
    """A grid with three axes has none left for the rest of a group that is divided."""
    workload = stencil.stencil7(64, 16, 8)
    user = Variant(workload=workload)
    proposals = list(REMEDIES["group shape"](Facts(workload, {})))
    assert [one.what for one in proposals] == ["groups of 64 x 4 x 1", "groups of 32 x 8 x 1"]
    for one in proposals:
        assert difference(outputs_of(user.then(one.steps)), outputs_of(user)) == 0

    unit = lp.make_kernel("{[i]: 0 <= i < 64}", "y[i] = i", lang_version=(2018, 2))
    of_one_item = Workload(lp.tag_inames(unit, {"i": "g.0"}))
    assert not list(REMEDIES["group shape"](Facts(of_one_item, {})))


@pytest.mark.filterwarnings("ignore")  # of islpy, and of a race that is none: one lane stores a sum
def test_a_line_of_code_is_what_is_executed() -> None:
    """The lines, pasted behind the user's kernel, give the same text of OpenCL C."""
    workload = spmv.spmv("fem", 200)
    proposal = next(iter(REMEDIES["share a sum"](Facts(workload, {}))))
    variant = Variant(workload=workload).then(proposal.steps)
    from calib import advice

    names: dict[str, Any] = {"lp": lp, "advice": advice, "knl": workload.kernel}
    exec("\n".join(variant.code), names)
    texts = [
        lp.generate_code_v2(unit).device_code() for unit in (names["knl"], variant.workload.kernel)
    ]
    assert texts[0] == texts[1]
    assert "barrier" in texts[0]


@pytest.mark.parametrize(
    ("workload", "widths"),
    [
        (lambda: line("y[i] = 2 * x[i]", 1000), {2, 4}),
        (lambda: line("y[i] = 2 * x[i]", 1002), {2}),
        (lambda: line("y[i] = 2 * x[i]", 1001), set()),
        (lambda: line("y[i] = 2 * x[i]", 1024, dtype=np.float64), {2}),
        (lambda: line("y[i] = x[0] + x[n - 1]", 1024), {2, 4}),
        (lambda: line("y[i] = x[i] + x[i + 1]", 1024, "n + 1"), set()),
        (lambda: line("y[i] = x[n - 1 - i]", 1024), set()),
        (lambda: line("y[i] = x[2 * i]", 1024, "2 * n"), set()),
        (lambda: textbook.sweep(128), set()),
    ],
)
def test_vectors_are_whole_or_not_proposed(
    workload: Callable[[], Workload], widths: set[int]
) -> None:
    """A size that no width divides, vectors of more than 16 bytes, and neighbours at other places."""
    user = Variant(workload=workload())
    reference = outputs_of(user)
    proposed = list(REMEDIES["vectorise"](Facts(user.workload, {})))
    assert {one.layouts[0].parts for one in proposed} == widths
    for one in proposed:
        variant = user.then(one.steps, one.layouts)
        assert difference(outputs_of(variant), reference) == 0
        code = lp.generate_code_v2(variant.workload.kernel).device_code()
        assert re.search(r"__global (float|double)[24] ", code)
        assert not re.search(r"\.s\d", code)


@pytest.mark.parametrize(
    ("text", "extent", "fields"),
    [
        ("y[i] = x[3 * i] + x[3 * i + 2]", "3 * n", 3),
        ("y[i] = sum(c, x[4 * i + c])", "4 * n", 4),
        ("y[i] = x[3 * i] + x[3 * i + 5]", "3 * n + 3", 3),
        ("y[i] = x[3 * i] + x[3 * i + 2]", "3 * n + 1", 0),
        ("y[i] = x[3 * i] + x[i]", "3 * n", 0),
        ("y[i] = x[i] + x[i + 1]", "n + 1", 0),
        ("y[i] = x[20 * i]", "20 * n", 0),
    ],
)
def test_structures_in_an_array_with_one_axis(text: str, extent: str, fields: int) -> None:
    """Every index is a multiple of the length of a structure, plus a field; longer ones are rows."""
    workload = line(text, 256, extent)
    user = Variant(workload=workload)
    proposed = list(REMEDIES["axis order"](Facts(workload, {})))
    assert [one.layouts[0].parts for one in proposed] == [fields] * (fields > 0)
    for one in proposed:
        variant = user.then(one.steps, one.layouts)
        assert difference(outputs_of(variant), outputs_of(user)) == 0
        assert variant.workload.arguments["x"].strides[0] == 4


def test_what_is_said_of_an_array_is_what_is_done_to_it() -> None:
    for remedy, workload in (("vectorise", textbook.product(64)), ("axis order", SMALL["flat"]())):
        proposal = next(iter(REMEDIES[remedy](Facts(workload, {}))))
        changed = Variant(workload=workload).then(proposal.steps, proposal.layouts).workload
        for layout in proposal.layouts:
            if layout.array not in workload.arguments:
                continue
            _, _, said = layout.text.partition(" is ")
            value = eval(said.partition(": ")[0], {"np": np, **workload.arguments})
            np.testing.assert_array_equal(value, changed.arguments[layout.array])
            assert value.strides == changed.arguments[layout.array].strides


def test_a_tile_that_is_read_by_columns_has_rows_of_one_more_element() -> None:
    """Rows of 32 floats would put a column of the tile into one bank of 32. What bounds a loop is not staged: Loopy 2025.2 would
    start the loop before its bounds are fetched."""
    assert not list(REMEDIES["stage"](Facts(SMALL["csr"](), {})))
    workload = textbook.transpose(128)
    last = list(REMEDIES["stage"](Facts(workload, {})))[-1]
    variant = Variant(workload=workload).then(last.steps, last.layouts)
    assert last.steps[-1].function == "advice.pad"
    tile = variant.workload.kernel.default_entrypoint.temporary_variables["a_tile"]
    assert tile.shape == (32, 33)
    assert [axis.stride for axis in tile.dim_tags] == [33, 1]


def test_arrays_change_with_their_layout() -> None:
    workload = textbook.particles(256)
    (proposal,) = REMEDIES["axis order"](Facts(workload, {}))
    variant = Variant(workload=workload).then(proposal.steps, proposal.layouts)
    before, after = (one.arguments["p"] for one in (workload, variant.workload))
    np.testing.assert_array_equal(before, after)
    assert before.flags.c_contiguous
    assert after.flags.f_contiguous
    padded = list(REMEDIES["pad"](Facts(workload, {})))
    assert [one.layouts[0].padding for one in padded] == [1, 32]
    longer = Variant(workload=workload).then(padded[0].steps, padded[0].layouts)
    assert longer.workload.arguments["p"].shape == (256, 9)
    assert longer.restored({"p": longer.workload.arguments["p"]})["p"].shape == (256, 8)
