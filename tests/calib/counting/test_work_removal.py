"""Work removal: kept accesses use the same addresses in the same order, and nothing else is
left."""

from __future__ import annotations

from typing import Any

import loopy as lp
import numpy as np
import pytest

import calib
import tracegen
from calib.counting.kernel_arguments import sizes_of
from calib.kernels import ALL_GENERATORS, KernelCollection
from experiments.kernels import matmul, spmv, stencil, transpose
from memsim.errors import KernelError
from memsim.trace.model import BARRIER_SITE, Trace
from tests.support import counted_kernels
from tests.support import loopy_kernels as kernels
from tracegen.workloads.workload import Workload

pytestmark = pytest.mark.filterwarnings("ignore::loopy.diagnostic.LoopyWarning")


def stream(trace: Trace, array: str) -> list[list[tuple[Any, ...]]]:
    """The granules, bytes and lanes of each access to an array, in order, per sub-group."""
    sites = {k for k, site in enumerate(trace.sites) if site.array == array}
    base = next(each.base_bytes for each in trace.arrays if each.name == array) // 32
    result = []
    for subgroup in range(trace.n_subgroup):
        own_accesses = []
        for access in range(*trace.subgroup_offset[subgroup : subgroup + 2]):
            if int(trace.site[access]) in sites:
                rows = slice(*trace.granule_offset[access : access + 2])
                own_accesses.append(
                    (
                        (trace.granule[rows] - base).tolist(),
                        trace.byte_mask[rows].tolist(),
                        int(trace.lanes[access]),
                    )
                )
        result.append(own_accesses)
    return result


def traced(workload: Workload, context: Any) -> Trace:
    return tracegen.trace(workload, reduced=False, context=context)


def removed(workload: Workload, **choice: Any) -> Workload:
    """The kernel without its work, and the arguments that it still takes."""
    kernel = calib.remove_work(workload, **choice)
    names = {argument.name for argument in kernel.default_entrypoint.args}
    arguments = {**sizes_of(workload), **workload.arguments}
    return Workload(kernel, {k: v for k, v in arguments.items() if k in names})


def code(kernel: Any) -> str:
    text = str(lp.generate_code_v2(kernel).device_code())
    return text[text.index("{") :]


def dg(variant: str) -> Workload:
    (kernel,) = KernelCollection(ALL_GENERATORS).generate_kernels(
        ["dg_diff", f"variant:{variant}", "dtype:float32", "nelements:32", "nunit_nodes:64"]
    )
    return Workload(kernel.kernel, {**kernel.arguments(), **kernel.env})


CASES: dict[str, tuple[Any, dict[str, Any], tuple[str, ...]]] = {
    "tiled, b": (lambda: matmul.tiled(64), {"remove_vars": ["a", "c"]}, ("b",)),
    # Partial tiles of both arrays bound one loop: see work_removal.py.
    "tiled, tails": (lambda: matmul.tiled(50, 8), {"remove_vars": ["c"]}, ("a", "b")),
    "naive, all": (lambda: matmul.naive(48, 8), {}, ("a", "b", "c")),
    "stencil": (lambda: stencil.stencil7(33, 7, 5, block_z=2), {"remove_vars": ["laplacian"]}, ("u",)),
    "transpose": (lambda: transpose.tiled(50, 8), {"remove_vars": ["b"]}, ("a",)),
    "spmv": (lambda: spmv.spmv(matrix="fem", n=300), {"remove_vars": ["y", "values"]}, ("x", "indices", "row_start")),
    "branch": (lambda: kernels.either(70), {"remove_vars": ["y"]}, ("x", "z")),
    "nested": (lambda: kernels.nested(70), {"remove_vars": ["out"]}, ("w", "bonus")),
    "unrolled": (lambda: kernels.unrolled(40), {"remove_vars": ["y", "w"]}, ("a",)),
    "no grid": (lambda: kernels.total(40), {"remove_vars": ["s"]}, ("x",)),
    "dg, u": (lambda: dg("uPF"), {"keep_tags": ["dguPFu"]}, ("u",)),
    "dg, d": (lambda: dg("dPF"), {"remove_vars": ["res"]}, ("diff_mat", "u")),
    "dg, turned": (lambda: dg("dPFT"), {"remove_tags": ["dgdPFTd"]}, ("u", "res")),
}  # fmt: skip


@pytest.mark.weekly(3)
@pytest.mark.parametrize("name", CASES)
def test_kept_accesses_use_the_same_addresses(name: str, context: Any) -> None:
    """And their counts are those of the trace."""
    make, choice, arrays = CASES[name]
    workload = make()
    rest = removed(workload, **choice)
    before, after = traced(workload, context), traced(rest, context)
    for array in arrays:
        wanted = stream(before, array)
        assert sum(map(len, wanted)) > 0
        assert stream(after, array) == wanted, array
    kept = {site.array for site in after.sites}
    assert kept & set(choice.get("remove_vars", ())) == set()
    # No arithmetic but one addition per load, and no local memory.
    counts = calib.count(rest, "f_mem_access_local")
    assert counts.value({**sizes_of(rest)}) == 0
    assert not np.any(after.site == BARRIER_SITE)
    if name in ("tiled, tails", "spmv", "branch"):
        calib.counting_check(rest, context=context)


def test_a_changed_address_would_be_seen(context: Any) -> None:
    """The streams of a and b differ, and so do those of two sizes."""
    trace = traced(matmul.tiled(64), context)
    assert stream(trace, "a") != stream(trace, "b")
    assert stream(trace, "a") != stream(traced(matmul.tiled(80), context), "a")


def test_the_result_is_the_papers_listing_by_names_and_by_tags() -> None:
    kernel = counted_kernels.paper_matmul()
    by_name = code(calib.remove_work(kernel, remove_vars=["a", "c"]))
    by_tag = code(calib.remove_work(kernel, keep_tags=["bLD"]))
    without = code(calib.remove_work(kernel, remove_vars=["c"], remove_tags=["aLD"]))
    assert by_name == by_tag == without
    lines = [line.strip() for line in by_name.splitlines()]
    assert lines[1:8] == [
        "float read_tgt;",
        "",
        "read_tgt = 0.0f;",
        "for (int k_outer = 0; k_outer <= (-16 + n) / 16; ++k_outer)",
        "read_tgt = read_tgt + b[n * (16 * k_outer + lid(1)) + 16 * gid(0) + lid(0)];",
        "read_tgt_dest[16 * (n / 16) * (16 * gid(1) + lid(1)) + 16 * gid(0) + lid(0)] = read_tgt;",
        "}",
    ]


def test_the_result_is_the_sum_of_what_was_loaded(context: Any) -> None:
    """Nothing is optimised away: the store contains the sum of the loads."""
    import pyopencl as cl

    workload = removed(matmul.tiled(32), remove_vars=["a", "c"])
    kernel = lp.set_options(workload.kernel, return_dict=True)
    _, outputs = kernel.executor(context)(cl.CommandQueue(context), **workload.arguments)
    b = workload.arguments["b"]
    # work-item (lid1, lid0) of group (g1, g0) adds up rows lid1, lid1 + 16 of its column
    expected = np.tile(b[:16] + b[16:], (2, 1))
    np.testing.assert_allclose(outputs["read_tgt_dest"], expected, rtol=1e-6)


@pytest.mark.parametrize(
    ("make", "choice", "message"),
    [
        (lambda: matmul.tiled(64), {"remove_vars": ["d"]}, "has no global array d"),
        (lambda: matmul.tiled(64), {"keep_tags": ["x"]}, "has no access tagged x; it has no tags"),
        (counted_kernels.paper_matmul, {"remove_tags": ["aLd"]}, r"tagged aLd; did you mean aLD\?"),
        (lambda: matmul.tiled(64), {"remove_vars": ["a", "b", "c"]}, "no global access of"),
        (lambda: spmv.spmv(matrix="fem", n=300), {"remove_vars": ["indices"]}, "indices cannot be removed from spmv"),
        (lambda: spmv.spmv(matrix="fem", n=300), {"remove_vars": ["row_start", "y"]}, "row_start cannot be removed from spmv"),
        (lambda: kernels.histogram(40), {}, "updates bins atomically"),
        (lambda: kernels.vectors(40), {}, "operates on vectors"),
        (lambda: kernels.two_launches(64), {}, "has 2 launches"),
    ],
)  # fmt: skip
def test_impossible_removals_are_refused(make: Any, choice: dict[str, Any], message: str) -> None:
    with pytest.raises(KernelError, match=message):
        calib.remove_work(make(), **choice)
