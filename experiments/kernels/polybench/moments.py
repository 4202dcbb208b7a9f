"""Covariance and correlation of the columns of a table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import loopy as lp
import numpy as np

from experiments.kernels.parameters import data, real_type, require_indexable, require_positive
from experiments.kernels.polybench.building import Real, along, make, near, tiles, wide
from memsim.errors import KernelError
from tracegen.workloads import Workload

SMALLEST_DEVIATION = 0.005
"""A column with a smaller standard deviation is treated as if it were 1 (EPS of PolyBench)."""


def covariance(m: int = 512, n: int = 512, dtype: Real = "float32") -> Workload:
    """C = X' X of the centred columns, as in PolyBench; m columns, n rows.

    The launches are the means, the centring, and one with a work-item for each row of the upper
    triangle.
    """
    _require(m, n)
    real = real_type(dtype)
    kernel = make(
        "covariance",
        [
            "{[j, i]: 0 <= j < m and 0 <= i < n}",
            "{[i2, j2]: 0 <= i2 < n and 0 <= j2 < m}",
            "{[j3, j4, i3]: 0 <= j3 < m and j3 <= j4 < m and 0 <= i3 < n}",
        ],
        """
        mean[j] = sum(i, x[i, j]) / n
        ... gbarrier
        x[i2, j2] = x[i2, j2] - mean[j2]
        ... gbarrier
        for j3, j4
            <> dot = sum(i3, x[i3, j3] * x[i3, j4])
            c[j3, j4] = dot
            c[j4, j3] = dot
        end
        """,
        [
            lp.ValueArg("m, n", np.int32),
            lp.GlobalArg("x", real, shape="n, m"),
            lp.GlobalArg("mean", real, shape="m", is_input=False, is_output=True),
            lp.GlobalArg("c", real, shape="m, m", is_input=False, is_output=True),
        ],
        "m >= 1 and n >= 1",
    )
    kernel = tiles(along(kernel, "j", "j3"), ("i2", "j2"))
    x = data((n, m), real, seed=1)

    def check(outputs: Mapping[str, Any]) -> None:
        # From the centred table that the kernel computed; its error is that of the means.
        centred = wide(outputs["x"])
        column = np.abs(wide(x)).mean(axis=0)
        near("x", centred, wide(x) - wide(x).mean(axis=0), np.abs(wide(x)) + column, n, real)
        size = np.abs(centred).T @ np.abs(centred)
        near("c", outputs["c"], centred.T @ centred, size, n, real)

    return Workload(kernel, {"x": x}, check=check, source_file=__file__)


_CORRELATION = f"""
mean[j] = sum(i, x[i, j]) / n
... gbarrier
for j1
    <> square = sum(i1, (x[i1, j1] - mean[j1]) * (x[i1, j1] - mean[j1]))
    <> spread = sqrt(square / n)
    deviation[j1] = spread
    if spread <= {SMALLEST_DEVIATION}
        deviation[j1] = 1
    end
end
... gbarrier
x[i2, j2] = (x[i2, j2] - mean[j2]) / (sqrt(1.0 * n) * deviation[j2])
... gbarrier
for j3
    c[j3, j3] = 1
    for j4
        <> dot = sum(i3, x[i3, j3] * x[i3, j4])
        c[j3, j4] = dot
        c[j4, j3] = dot
    end
end
... gbarrier
c[m - 1, m - 1] = 1
"""
"""Launches: means, deviations, scaling, correlations, and the last diagonal entry."""


def correlation(m: int = 512, n: int = 512, dtype: Real = "float32") -> Workload:
    """The correlation matrix of m columns of n rows.

    The correlations have one work-item for each row of the upper triangle. The last diagonal entry
    has a launch of its own, where PolyBench's host writes it.
    """
    _require(m, n)
    real = real_type(dtype)
    kernel = make(
        "correlation",
        [
            "{[j, i]: 0 <= j < m and 0 <= i < n}",
            "{[j1, i1]: 0 <= j1 < m and 0 <= i1 < n}",
            "{[i2, j2]: 0 <= i2 < n and 0 <= j2 < m}",
            "{[j3]: 0 <= j3 < m - 1}",
            "{[j4, i3]: j3 < j4 < m and 0 <= i3 < n}",
        ],
        _CORRELATION,
        [
            lp.ValueArg("m, n", np.int32),
            lp.GlobalArg("x", real, shape="n, m"),
            lp.GlobalArg("mean, deviation", real, shape="m", is_input=False, is_output=True),
            lp.GlobalArg("c", real, shape="m, m", is_input=False, is_output=True),
        ],
        "m >= 2 and n >= 1",
    )
    kernel = tiles(along(kernel, "j", "j1", "j3"), ("i2", "j2"))
    x = data((n, m), real, seed=1)

    def check(outputs: Mapping[str, Any]) -> None:
        scaled = wide(outputs["x"])
        exact = wide(x) - wide(x).mean(axis=0)
        deviation = exact.std(axis=0)
        deviation[deviation <= SMALLEST_DEVIATION] = 1
        column = np.abs(wide(x)).mean(axis=0)
        size = 3 * (np.abs(wide(x)) + column + np.abs(exact)) / (np.sqrt(n) * deviation)
        near("x", scaled, exact / (np.sqrt(n) * deviation), size, n, real)
        dots = scaled.T @ scaled
        np.fill_diagonal(dots, 1)
        near("c", outputs["c"], dots, np.abs(scaled).T @ np.abs(scaled) + np.eye(m), n, real)

    return Workload(kernel, {"x": x}, check=check, source_file=__file__)


def _require(m: int, n: int) -> None:
    require_positive(m=m, n=n)
    require_indexable(x=m * n, c=m * m)
    if m < 2:
        raise KernelError(f"m must be at least 2, got {m}")
