"""Elimination: gaussian, row by row, and lud, by tiles in local memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import loopy as lp
import numpy as np

from experiments.kernels.parameters import data, real_type, require_indexable, require_positive
from experiments.kernels.polybench.building import Real, along, make, near, tiles, wide
from experiments.kernels.polybench.factorisations import dominant, factors_of
from memsim.errors import KernelError
from tracegen.workloads import Workload

TILE = 16
"""Rows and columns of lud's tiles."""


def gaussian(n: int = 256, dtype: Real = "float32") -> Workload:
    """Forward elimination of A x = b, with two launches for each row: the multipliers, then the
    update.

    n : at least 2
    """
    require_positive(n=n)
    require_indexable(a=n * n)
    if n < 2:
        raise KernelError(f"n must be at least 2, got {n}")
    real = real_type(dtype)
    kernel = make(
        "gaussian",
        ["{[t]: 0 <= t < n - 1}", "{[i]: 0 <= i < n}", "{[x, y]: 0 <= x, y < n}"],
        """
        for t
            for i
                if i < n - 1 - t
                    m[i + t + 1, t] = a[i + t + 1, t] / a[t, t]
                end
            end
            ... gbarrier
            for x, y
                if x < n - 1 - t and y < n - t
                    a[x + t + 1, y + t] = a[x + t + 1, y + t] - m[x + t + 1, t] * a[t, y + t]
                    if y == 0
                        b[x + t + 1] = b[x + t + 1] - m[x + t + 1, t] * b[t]
                    end
                end
            end
            ... gbarrier
        end
        """,
        [
            lp.ValueArg("n", np.int32),
            lp.GlobalArg("a, m", real, shape="n, n"),
            lp.GlobalArg("b", real, shape="n"),
        ],
        "n >= 2",
    )
    kernel = tiles(along(kernel, "i"), ("x", "y"), rows=16, columns=16)
    a, b = dominant(n, real), data(n, real, seed=2)

    def check(outputs: Mapping[str, Any]) -> None:
        upper, lower = np.triu(wide(outputs["a"])), wide(outputs["m"]) + np.eye(n)
        near("l u", lower @ upper, wide(a), np.abs(lower) @ np.abs(upper), n, real)
        forward = wide(outputs["b"])
        near("l b", lower @ forward, wide(b), np.abs(lower) @ np.abs(forward), n, real)

    return Workload(
        kernel, {"a": a, "m": np.zeros_like(a), "b": b}, check=check, source_file=__file__
    )


_DOMAINS = [
    f"{{[s]: 0 <= s and {TILE}*s < n}}",
    f"{{[one, lane]: 0 <= one < 1 and 0 <= lane < {TILE}}}",
    f"{{[i0, i5]: 0 <= i0, i5 < {TILE}}}",
    f"{{[i]: 0 <= i < {TILE - 1}}}",
    "{[j]: 0 <= j < i}",
    "{[j1]: 0 <= j1 <= i}",
    f"{{[r, u]: 0 <= r and {TILE}*r < n and 0 <= u < {2 * TILE}}}",
    f"{{[i1, i3]: 0 <= i1, i3 < {TILE // 2}}}",
    f"{{[p, p2]: 1 <= p < {TILE} and 0 <= p2 < p}}",
    f"{{[w]: 0 <= w < {TILE}}}",
    "{[w2]: 0 <= w2 < w}",
    f"{{[i2, i4, i6, i7]: 0 <= i2, i4, i6, i7 < {TILE}}}",
    f"{{[ry, rx]: 0 <= ry, rx and {TILE}*ry < n and {TILE}*rx < n}}",
    f"{{[y, x, k]: 0 <= y, x, k < {TILE}}}",
]

_DIAGONAL_TILE = f"""
    for one, lane
        for i0
            own[i0, lane] = a[{TILE}*s + i0, {TILE}*s + lane]
        end
        ... lbarrier
        for i
            if lane > i
                for j
                    own[lane, i] = own[lane, i] - own[lane, j] * own[j, i]
                end
                own[lane, i] = own[lane, i] / own[i, i]
            end
            ... lbarrier
            if lane > i
                for j1
                    own[i + 1, lane] = own[i + 1, lane] - own[i + 1, j1] * own[j1, lane]
                end
            end
            ... lbarrier
        end
        for i5
            a[{TILE}*s + i5, {TILE}*s + lane] = own[i5, lane]
        end
    end
"""
"""First launch of step s: one group factors tile (s, s) in local memory."""

_ROW_AND_COLUMN = f"""
    for r, u
        if r > s and u < {TILE}
            for i1
                diagonal[i1, u] = a[{TILE}*s + i1, {TILE}*s + u]
            end
            for i2
                across[i2, u] = a[{TILE}*s + i2, {TILE}*r + u]
            end
        end
        if r > s and u >= {TILE}
            for i3
                diagonal[i3 + {TILE // 2}, u - {TILE}] = a[{TILE}*s + i3 + {TILE // 2}, {TILE}*s + u - {TILE}]
            end
            for i4
                down[i4, u - {TILE}] = a[{TILE}*r + i4, {TILE}*s + u - {TILE}]
            end
        end
        ... lbarrier
        if r > s and u < {TILE}
            for p, p2
                across[p, u] = across[p, u] - diagonal[p, p2] * across[p2, u]
            end
        end
        if r > s and u >= {TILE}
            for w
                for w2
                    down[u - {TILE}, w] = down[u - {TILE}, w] - down[u - {TILE}, w2] * diagonal[w2, w]
                end
                down[u - {TILE}, w] = down[u - {TILE}, w] / diagonal[w, w]
            end
        end
        ... lbarrier
        if r > s and u < {TILE}
            for i6
                a[{TILE}*s + i6, {TILE}*r + u] = across[i6, u]
            end
        end
        if r > s and u >= {TILE}
            for i7
                a[{TILE}*r + i7, {TILE}*s + u - {TILE}] = down[i7, u - {TILE}]
            end
        end
    end
"""
"""Second launch: half of the work-items of group r solve tile (s, r), the others tile (r, s)."""

_REST = f"""
    for ry, rx, y, x
        if ry > s and rx > s
            row_tile[y, x] = a[{TILE}*s + y, {TILE}*rx + x]
            column_tile[y, x] = a[{TILE}*ry + y, {TILE}*s + x]
        end
        ... lbarrier
        if ry > s and rx > s
            total = 0
            for k
                total = total + column_tile[y, k] * row_tile[k, x]
            end
            a[{TILE}*ry + y, {TILE}*rx + x] = a[{TILE}*ry + y, {TILE}*rx + x] - total
        end
    end
"""
"""Third launch: group (ry, rx) subtracts the product of the tiles (ry, s) and (s, rx)."""


def lud(n: int = 256, dtype: Real = "float32") -> Workload:
    """A = L U in place, tile by tile; each step has three launches.

    n : a multiple of 16
    """
    require_positive(n=n)
    require_indexable(a=n * n)
    if n % TILE:
        raise KernelError(f"n must be a multiple of {TILE}, got {n}")
    real = real_type(dtype)
    launches = (_DIAGONAL_TILE, _ROW_AND_COLUMN, _REST)
    kernel = make(
        "lud",
        _DOMAINS,
        "for s\n" + "".join(f"{launch}    ... gbarrier\n" for launch in launches) + "end",
        [
            lp.ValueArg("n", np.int32),
            lp.GlobalArg("a", real, shape="n, n"),
            *(
                lp.TemporaryVariable(
                    name, real, shape=(TILE, TILE), address_space=lp.AddressSpace.LOCAL
                )
                for name in ("own", "diagonal", "across", "down", "row_tile", "column_tile")
            ),
            lp.TemporaryVariable("total", real, shape=()),
        ],
        f"n >= {TILE} and n mod {TILE} = 0",
    )
    group_inames = {"one": "g.0", "r": "g.0", "ry": "g.1", "rx": "g.0"}
    item_inames = {"lane": "l.0", "u": "l.0", "y": "l.1", "x": "l.0"}
    kernel = lp.tag_inames(kernel, group_inames | item_inames)
    a = dominant(n, real)
    return Workload(kernel, {"a": a}, check=factors_of(a, n, real), source_file=__file__)
