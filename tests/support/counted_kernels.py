"""Kernels whose counts can be derived by hand, and kernels that are hard to count."""

from __future__ import annotations

from typing import Any

import loopy as lp

from tests.support.loopy_kernels import groups_of, make


def triangle(tags: bool = False) -> Any:
    """y[i] = sum of the first i + 1 of x: n (n + 1) / 2 additions."""
    kernel = make(
        "{[i, j]: 0 <= i < n and 0 <= j <= i}",
        "y[i] = sum(j, x[j])",
        "x: f4[n]; y: f4[n] out; n: i4",
        name="triangle",
    )
    return groups_of(kernel, 32) if tags else kernel


def rising(group: int = 32) -> Any:
    """As `triangle` with j starting at i: neighbours start at different trips and continue
    together."""
    kernel = make(
        "{[i, j]: 0 <= i < n and i <= j < n}",
        "y[i] = sum(j, x[j])",
        "x: f4[n]; y: f4[n] out; n: i4",
        name="rising",
    )
    return groups_of(kernel, group)


def paper_matmul() -> Any:
    """The tiled product of Stevens and Klöckner 2020, section 2.1, with its tags."""
    kernel = make(
        "{[i, j, k]: 0 <= i, j, k < n}",
        "c[i, j] = sum(k, a$aLD[i, k] * b$bLD[k, j])",
        "a, b: f4[n, n]; c: f4[n, n] out; n: i4",
        name="paper_matmul",
        assumptions="n >= 1 and n mod 16 = 0",
    )
    kernel = lp.split_iname(kernel, "i", 16, inner_tag="l.1", outer_tag="g.1")
    kernel = groups_of(kernel, 16, "j")
    kernel = lp.split_iname(kernel, "k", 16)
    outer = frozenset({"i_outer", "j_outer", "k_outer"})
    for array, inames in (("a", ["i_inner", "k_inner"]), ("b", ["k_inner", "j_inner"])):
        kernel = lp.add_prefetch(
            kernel, array, inames, fetch_outer_inames=outer, default_tag="l.auto"
        )
    from calib.kernels.building import tag_loads

    return tag_loads(kernel, {"a": "aLD", "b": "bLD"})


def branches(tile: int = 32) -> Any:
    """One of two loads, by position: below m the element, above it the mean of two."""
    kernel = make(
        "{[i]: 0 <= i < n}",
        "y[i] = x[i] if i < m else 0.5 * (x[i] + z[i])",
        "x, z: f4[n]; y: f4[n] out; n: i4; m: i4",
        name="branches",
    )
    return groups_of(kernel, tile)


def guarded() -> Any:
    """An instruction under a predicate on the position."""
    kernel = make(
        "{[i]: 0 <= i < n}",
        """
        y[i] = 2 * x[i] {id=all}
        y[i] = y[i] + z[i] {id=some, dep=all, if=i >= m}
        """,
        "x, z: f4[n]; y: f4[n] out; n: i4; m: i4",
        name="guarded",
    )
    return groups_of(kernel, 32)


def called(n: int) -> Any:
    """A call: the caller has the grid, the callee the operations."""
    function = lp.make_function(
        "{[k]: 0 <= k < 4}", "o[k] = 2*u[k] + 1", name="twice", lang_version=(2018, 2)
    )
    kernel = make(
        f"{{[i, k]: 0 <= i < {n} and 0 <= k < 4}}",
        "[k]: b[i, k] = twice([k]: a[i, k])",
        f"a, b: f4[{n}, 4]",
        name="called",
    )
    kernel = groups_of(kernel, 64)
    return lp.merge([kernel, function])


def ops() -> Any:
    """All combinations of products and sums."""
    kernel = make(
        "{[i]: 0 <= i < n}",
        """
        p[i] = a[i]*b[i] + c[i]*d[i]
        q[i] = a[i] - b[i]*c[i]*d[i]
        r[i] = -a[i] / b[i] + exp(c[i]) * 2
        s[i] = (a[i] + b[i]) * (c[i] + d[i])
        """,
        "a, b, c, d: f4[n]; p, q, r, s: f4[n] out; n: i4",
        name="ops",
    )
    return groups_of(kernel, 32)


def flat() -> Any:
    """A two-dimensional array indexed by hand: the index is a product of sizes and loops."""
    kernel = make(
        "{[i, j]: 0 <= i, j < n}",
        "y[n*i + j] = x[n*j + i]",
        "x: f4[n*n]; y: f4[n*n] out; n: i4",
        name="flat",
    )
    kernel = lp.split_iname(kernel, "i", 4, inner_tag="l.1", outer_tag="g.1")
    return groups_of(kernel, 8, "j")


def halved() -> Any:
    """Neighbouring work-items share elements: the index is not affine in the work-item."""
    kernel = make(
        "{[i]: 0 <= i < n}",
        "y[i] = x[i // 2] * x[i % 4]",
        "x: f4[n + 4]; y: f4[n] out; n: i4",
        name="halved",
    )
    return groups_of(kernel, 32)
