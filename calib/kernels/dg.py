"""Element-wise differentiation of a discontinuous Galerkin method, in four variants."""

from __future__ import annotations

import functools
from typing import Any

import loopy as lp
import numpy as np

from calib.kernels.building import (
    DTYPES,
    GROUP,
    assume_multiples,
    computing,
    in_groups,
    loopy_kernel,
    numbers,
    read,
    require_group,
    require_multiple,
    size,
    tag_loads,
    with_tile,
    without_work,
    written,
)
from calib.kernels.collection import Built, Choice, Number, TagError, generator

VARIANTS = ("noPF", "uPF", "dPF", "dPFT")
"""Variants: no prefetch; tiles of u in local memory; tiles of diff_mat; the latter with u and res
transposed, so that neighbouring elements are adjacent in memory (the paper's tags N0,N1 and
N2,N0,N1)."""


_COMMON: dict[str, Choice | Number] = {
    "nelements": Number((4096, 8192, 16384)),
    "nunit_nodes": Number((64,)),
    "nmatrices": Number((3,)),
    "variant": Choice(VARIANTS),
    "dtype": DTYPES,
    **GROUP,
}


@generator("application", **_COMMON)
def dg_diff(
    *,
    nelements: int,
    nunit_nodes: int,
    nmatrices: int,
    variant: str,
    dtype: str,
    lsize_0: int,
    lsize_1: int,
) -> Built:
    """res[m,k,i] = sum_j diff_mat[m,i,j] u[k,j] (Stevens and Klöckner 2020, section 8.4). Loads
    tagged dgVARIANTd, dgVARIANTu."""
    _check(nelements, nunit_nodes, lsize_0, lsize_1)
    kernel = differentiation(nunit_nodes, nmatrices, variant, dtype, lsize_0, lsize_1)
    shapes = _shapes(nelements, nunit_nodes, nmatrices)
    transposed = variant == "dPFT"

    def arguments() -> dict[str, Any]:
        u = numbers(shapes["u"], dtype, 2)
        return {
            "diff_mat": numbers(shapes["diff_mat"], dtype, 1),
            "u": np.ascontiguousarray(u.T) if transposed else u,
        }

    def product(diff_mat: Any, u: Any) -> Any:
        return np.einsum("mij,jk->mik" if transposed else "mij,kj->mki", diff_mat, u)

    return computing(product, kernel, {"nelements": nelements}, arguments, nunit_nodes + 1)


@generator("mem_access_pattern", "work_removed", **_COMMON, keep=Choice(("diff_mat", "u", "both")))
def dg_diff_pattern(
    *,
    nelements: int,
    nunit_nodes: int,
    nmatrices: int,
    variant: str,
    dtype: str,
    lsize_0: int,
    lsize_1: int,
    keep: str,
) -> Built:
    """dg_diff with all work removed except the loads of one array or of both."""
    _check(nelements, nunit_nodes, lsize_0, lsize_1)
    removed = {"u": ("diff_mat", "res"), "diff_mat": ("u", "res"), "both": ("res",)}[keep]
    whole = differentiation(nunit_nodes, nmatrices, variant, dtype, lsize_0, lsize_1)
    kernel = without_work(whole, *removed)
    shapes = _shapes(nelements, nunit_nodes, nmatrices)
    arrays = ("diff_mat", "u") if keep == "both" else (keep,)

    def arguments() -> dict[str, Any]:
        made: dict[str, Any] = {"nelements": nelements}
        for name in arrays:
            drawn = numbers(shapes[name], dtype, len(name))
            turned = variant == "dPFT" and name == "u"
            made[name] = np.ascontiguousarray(drawn.T) if turned else drawn
        return made

    return Built(kernel=kernel, env={"nelements": nelements}, arguments=arguments)


@functools.cache
def differentiation(
    nodes: int, matrices: int, variant: str, dtype: str, lsize_0: int, lsize_1: int
) -> Any:
    """The kernel of dg_diff; nelements is left symbolic, the small extents are fixed."""
    turned = variant == "dPFT"
    kernel = loopy_kernel(
        f"{{[m, k, i, j]: 0 <= m < {matrices} and 0 <= k < nelements and 0 <= i, j < {nodes}}}",
        f"res[m, {'i, k' if turned else 'k, i'}] = sum(j, diff_mat[m, i, j]"
        f" * u[{'j, k' if turned else 'k, j'}]) {{id=total}}",
        [
            size("nelements"),
            read("diff_mat", dtype, f"{matrices}, {nodes}, {nodes}"),
            read("u", dtype, f"{nodes}, nelements" if turned else f"nelements, {nodes}"),
            written(
                "res",
                dtype,
                f"{matrices}, {nodes}, nelements" if turned else f"{matrices}, nelements, {nodes}",
            ),
        ],
        name=f"dg_{variant}",
    )
    kernel = assume_multiples(kernel, nelements=lsize_0)
    kernel = in_groups(kernel, i=(lsize_1, 1), k=(lsize_0, 0))
    if variant == "noPF":
        kernel = lp.prioritize_loops(kernel, ["m", "j"])
    elif variant == "uPF":
        kernel = _u_prefetched(kernel, lsize_1)
    else:
        kernel = lp.split_iname(kernel, "j", lsize_0)
        outer = ("m", "k_outer", "i_outer", "j_outer")
        kernel = with_tile(kernel, "diff_mat", ["j_inner", "i_inner"], outer)
        kernel = lp.prioritize_loops(kernel, ["m", "j_outer", "j_inner"])
    return tag_loads(kernel, {"diff_mat": f"dg{variant}d", "u": f"dg{variant}u"})


def _u_prefetched(kernel: Any, lsize_1: int) -> Any:
    """Tiles of u are loaded once for all matrices, whose sums are computed together."""
    kernel = lp.split_iname(kernel, "j", lsize_1)
    kernel = with_tile(kernel, "u", ["k_inner", "j_inner"], ("k_outer", "i_outer", "j_outer"))
    kernel = lp.realize_reduction(kernel)
    (name,) = kernel.entrypoints
    instructions = kernel[name].instructions
    (init,) = (i.id for i in instructions if i.id.endswith("_init"))
    kernel = lp.privatize_temporaries_with_inames(kernel, "m")
    kernel = lp.duplicate_inames(kernel, "m", f"id:{init}")
    kernel = lp.duplicate_inames(kernel, "m", "writes:res")
    return lp.prioritize_loops(kernel, ["j_outer", "j_inner", "m"])


def _shapes(elements: int, nodes: int, matrices: int) -> dict[str, tuple[int, ...]]:
    return {"diff_mat": (matrices, nodes, nodes), "u": (elements, nodes)}


def _check(elements: int, nodes: int, lsize_0: int, lsize_1: int) -> None:
    require_group(lsize_0, lsize_1)
    if lsize_0 != lsize_1:
        raise TagError(f"dg_diff needs square groups, got {lsize_0} x {lsize_1}")
    require_multiple(nelements=(elements, lsize_0), nunit_nodes=(nodes, lsize_1))
