"""Traces of kernels small enough to count by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tracegen
from memsim.trace.model import BARRIER_SITE, Trace
from tests.support import loopy_kernels as kernels


def granules(trace: Trace, access: int) -> Any:
    rows = slice(*trace.granule_offset[access : access + 2])
    return trace.granule[rows], trace.byte_mask[rows], trace.lane_groups[rows]


def base(trace: Trace, name: str) -> int:
    return next(extent.base_bytes for extent in trace.arrays if extent.name == name)


def test_copy_of_floats(context: Any) -> None:
    trace = tracegen.trace(kernels.copy(64), context=context)
    assert [site.name for site in trace.sites] == ["x[i]", "store y[i]"]
    assert [site.direction for site in trace.sites] == ["load", "store"]
    assert trace.workgroup.tolist() == [0, 1]
    assert trace.site.tolist() == [0, 1, 0, 1]
    assert trace.lanes.tolist() == [32] * 4
    assert trace.starts_sequence.tolist() == [True, False] * 2
    assert trace.waits.tolist() == [-1, 0, -1, 0]
    for access, (name, group) in enumerate([("x", 0), ("y", 0), ("x", 1), ("y", 1)]):
        number, mask, lanes = granules(trace, access)
        first = (base(trace, name) + 128 * group) // 32
        assert number.tolist() == list(range(first, first + 4))
        assert mask.tolist() == [0xFFFFFFFF] * 4
        assert lanes.tolist() == [1, 2, 4, 8]
    assert trace.whole
    assert trace.lane_hits is None
    assert (trace.launch.n_groups, trace.launch.group_items) == (2, 32)


def test_strided_load_leaves_gaps(context: Any) -> None:
    trace = tracegen.trace(kernels.copy(32, stride=4), context=context)
    number, mask, lanes = granules(trace, 0)
    first = base(trace, "x") // 32
    assert number.tolist() == list(range(first, first + 16))
    assert mask.tolist() == [0x000F000F] * 16
    assert lanes.tolist() == [1] * 4 + [2] * 4 + [4] * 4 + [8] * 4


@pytest.mark.parametrize("size", [8, 16, 32, 64])
def test_subgroups_of_any_size(context: Any, size: int) -> None:
    trace = tracegen.trace(kernels.copy(96, group=96), subgroup_size=size, context=context)
    assert trace.n_subgroup == -(-96 // size)
    expected = [min(size, 96 - first) for first in range(0, 96, size)]
    assert trace.lanes[::2].tolist() == expected
    assert trace.subgroup_offset.tolist() == list(range(0, 2 * trace.n_subgroup + 1, 2))


def test_idle_items_at_the_edge(context: Any) -> None:
    trace = tracegen.trace(kernels.copy(37, group=64), context=context)
    assert trace.n_subgroup == 2
    assert trace.lanes.tolist() == [32, 32, 5, 5]
    number, mask, _ = granules(trace, 2)
    assert len(number) == 1
    assert mask.tolist() == [(1 << 20) - 1]


def test_subgroup_without_accesses(context: Any) -> None:
    trace = tracegen.trace(kernels.copy(20, group=64), context=context)
    assert np.diff(trace.subgroup_offset).tolist() == [2, 0]


@pytest.mark.parametrize(("dtype", "size"), [(np.int8, 1), (np.int16, 2), (np.float64, 8)])
def test_element_sizes(context: Any, dtype: Any, size: int) -> None:
    trace = tracegen.trace(kernels.copy(32, dtype=dtype), context=context)
    assert trace.sites[0].itemsize_bytes == size
    number, mask, _ = granules(trace, 0)
    assert len(number) == size
    assert mask.tolist() == [0xFFFFFFFF] * size


def test_vector_elements(context: Any) -> None:
    trace = tracegen.trace(kernels.vectors(32), context=context)
    assert trace.site.tolist() == [0, 1]
    assert trace.sites[0].itemsize_bytes == 16
    number, mask, lanes = granules(trace, 0)
    assert len(number) == 16
    assert mask.tolist() == [0xFFFFFFFF] * 16
    assert lanes.tolist() == [1] * 4 + [2] * 4 + [4] * 4 + [8] * 4


def test_gather(context: Any) -> None:
    indices = np.full(32, 8)
    indices[:3] = [31, 0, 30]
    trace = tracegen.trace(kernels.gather(32, indices), context=context)
    assert [site.name for site in trace.sites] == ["ind[i]", "x[ind[i]]", "store y[i]"]
    assert trace.sites[1].depends_on == ("ind[i]",)
    number, mask, lanes = granules(trace, 1)
    first = base(trace, "x") // 32
    assert number.tolist() == [first, first + 1, first + 3]
    assert mask.tolist() == [0xF, 0xF, 0xFF << 24]
    assert lanes.tolist() == [0b0001, 0b1111, 0b0001]
    assert trace.starts_sequence.tolist() == [True, True, False]
    assert trace.waits.tolist() == [-1, 0, 1]


def test_atomics_keep_hits(context: Any) -> None:
    trace = tracegen.trace(kernels.histogram(32, 16), context=context)
    assert [site.direction for site in trace.sites] == ["load", "atomic"]
    assert trace.site.tolist() == [0, 1]
    number, mask, _ = granules(trace, 1)
    assert len(number) == 2
    assert mask.tolist() == [0xFFFFFFFF] * 2
    assert trace.lane_hits[-2:].tolist() == [16, 16]


def test_barriers_and_local_memory(context: Any) -> None:
    trace = tracegen.trace(kernels.tiled_matmul(16, tile=8), context=context)
    assert {site.array for site in trace.sites} == {"a", "b", "c"}
    names = ["barrier" if site == BARRIER_SITE else trace.sites[site].array for site in trace.site]
    turn = ["barrier", "a", "b", "barrier"]
    assert names == (turn * 2 + ["c"]) * (4 * 2)
    assert trace.launch.local_memory_bytes == 2 * 8 * 8 * 4
    assert trace.launch.grid == (2, 2)
    assert trace.launch.group_shape == (8, 8)
    own = slice(*trace.subgroup_offset[:2])
    assert trace.lanes[own].tolist() == [0, 32, 32, 0] * 2 + [32]
    assert trace.starts_sequence[own].tolist() == [True, True, False, True] * 2 + [True]
    assert trace.waits[own].tolist() == [-1] * 8 + [6]
    assert np.diff(trace.granule_offset)[own].tolist() == [0, 4, 4, 0] * 2 + [4]


def test_one_address_map_in_argument_order(context: Any) -> None:
    trace = tracegen.trace(kernels.gather(100, np.zeros(100)), context=context)
    assert [extent.name for extent in trace.arrays] == ["ind", "x", "y"]
    assert [extent.size_bytes for extent in trace.arrays] == [400] * 3
    bases = [extent.base_bytes for extent in trace.arrays]
    assert bases == [1 << 20, (1 << 20) + 512, (1 << 20) + 1024]


def test_redundant_loads_are_left_out(context: Any) -> None:
    def names(trace: Trace) -> list[str]:
        return [trace.sites[site].name.split(" #")[0] for site in trace.site]

    reduced = tracegen.trace(kernels.read_twice(32), context=context)
    full = tracegen.trace(kernels.read_twice(32), reduced=False, context=context)
    assert names(full) == [
        *("a[i]", "b[i]", "store p[i]", "a[i]", "b[i]", "store q[i]"),
        *("store a[i]", "a[i]", "b[i]", "store r[i]"),
    ]
    assert names(reduced) == [
        "a[i]",
        "b[i]",
        "store p[i]",
        "store q[i]",
        "store a[i]",
        "store r[i]",
    ]
    assert len({site.name for site in full.sites}) == len(full.sites)


def test_lines_of_the_generated_code(context: Any) -> None:
    for workload in (kernels.ragged([3, 0, 2]), kernels.histogram(32), kernels.tiled_matmul(16)):
        trace = tracegen.trace(workload, context=context)
        lines = trace.generated_source.splitlines()
        assert "_tg_" not in trace.generated_source
        for site in trace.sites:
            assert site.source.generated_line is not None
            assert f"{site.array}[" in lines[site.source.generated_line - 1]


def test_unrolled_copies_share_a_site(context: Any) -> None:
    trace = tracegen.trace(kernels.unrolled(32), context=context)
    assert [site.name for site in trace.sites] == ["a[4*i + j]", "w[j]", "store y[i]"]
    assert trace.site.tolist() == [0, 1] * 4 + [2]


def test_only_the_chosen_load_happens(context: Any) -> None:
    workload = kernels.either(32)
    chosen = workload.arguments["x"] > 0.5
    trace = tracegen.trace(workload, context=context)
    assert [trace.sites[site].name for site in trace.site] == ["x[i]", "z[i]", "store y[i]"]
    assert trace.lanes.tolist() == [32, np.count_nonzero(chosen), 32]


def test_array_without_axes(context: Any) -> None:
    trace = tracegen.trace(kernels.total(9), context=context)
    assert [site.name for site in trace.sites] == ["x[i]", "store s"]
    assert trace.site.tolist() == [0] * 9 + [1]
    assert trace.lanes.tolist() == [1] * 10
    assert trace.starts_sequence.all()
    assert trace.waits.tolist() == [-1] * 9 + [8]


def test_fields_of_a_struct(context: Any) -> None:
    trace = tracegen.trace(kernels.structs(32, context), context=context)
    assert [(site.name, site.itemsize_bytes) for site in trace.sites] == [
        ("x[i].r", 8),
        ("x[i].p", 4),
        ("store y[i]", 8),
    ]
    number, mask, _ = granules(trace, 1)
    assert len(number) == 16
    assert mask.tolist() == [0x000F000F] * 16
