"""Traces of kernels small enough to count by hand."""

from __future__ import annotations

from typing import Any

import numpy as np

import tracegen
from memsim.trace.model import BARRIER_SITE, Trace
from tests.support import loopy_kernels as kernels
from tracegen.workloads.workload import Workload


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


def test_idle_items_at_the_edge(context: Any) -> None:
    trace = tracegen.trace(kernels.copy(37, group=96), context=context)
    assert np.diff(trace.subgroup_offset).tolist() == [2, 2, 0]
    assert trace.lanes.tolist() == [32, 32, 5, 5]
    number, mask, _ = granules(trace, 2)
    assert len(number) == 1
    assert mask.tolist() == [(1 << 20) - 1]


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
    assert [(one.name, one.size_bytes) for one in trace.arrays] == [
        (name, 128) for name in ("ind", "x", "y")
    ]
    assert [one.base_bytes for one in trace.arrays] == [1 << 20, (1 << 20) + 256, (1 << 20) + 512]


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


def test_redundant_loads_are_left_out(context: Any) -> None:
    def names(trace: Trace) -> list[str]:
        return [trace.sites[site].name.split(" #")[0] for site in trace.site]

    reduced = tracegen.trace(kernels.read_twice(32), context=context)
    full = tracegen.trace(kernels.read_twice(32), reduced=False, context=context)
    assert names(full) == [
        *("a[i]", "b[i]", "store p[i]", "a[i]", "b[i]", "store q[i]"),
        *("store a[i]", "a[i]", "b[i]", "store r[i]"),
    ]
    assert names(reduced) == ["a[i]", "b[i]", *(f"store {name}[i]" for name in "pqar")]
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


def test_what_is_done_under_a_condition_waits_for_it(context: Any) -> None:
    kernel = kernels.make(
        "{[i]: 0 <= i < 32}", "y[i] = 1 {if=x[i] > 0}", "x: f4[32]; y: f4[32] inout"
    )
    given = {"x": np.ones(32, np.float32), "y": np.zeros(32, np.float32)}
    trace = tracegen.trace(Workload(kernels.groups_of(kernel, 32), given), context=context)
    assert [site.name for site in trace.sites] == ["x[i]", "store y[i]"]
    assert trace.waits.tolist() == [-1, 0]
