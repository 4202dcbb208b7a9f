"""Matrix-vector products with one work-item for each row or column: atax, bicg, gesummv, mvt."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import loopy as lp
import numpy as np

from experiments.kernels.parameters import data, real_type, require_indexable, require_positive
from experiments.kernels.polybench.building import ALPHA, BETA, Real, along, make, near, wide
from tracegen.workloads import Workload


def atax(nx: int = 2048, ny: int = 2048, dtype: Real = "float32") -> Workload:
    """y = A' (A x), with a launch over rows and one over columns."""
    require_positive(nx=nx, ny=ny)
    require_indexable(a=nx * ny)
    real = real_type(dtype)
    kernel = make(
        "atax",
        [
            "{[i, j]: 0 <= i < nx and 0 <= j < ny}",
            "{[i2, j2]: 0 <= i2 < nx and 0 <= j2 < ny}",
        ],
        """
        tmp[i] = sum(j, a[i, j] * x[j])
        ... gbarrier
        y[j2] = sum(i2, a[i2, j2] * tmp[i2])
        """,
        [
            lp.ValueArg("nx, ny", np.int32),
            lp.GlobalArg("a", real, shape="nx, ny"),
            lp.GlobalArg("x", real, shape="ny"),
            lp.GlobalArg("tmp", real, shape="nx", is_input=False, is_output=True),
            lp.GlobalArg("y", real, shape="ny", is_input=False, is_output=True),
        ],
        "nx >= 1 and ny >= 1",
    )
    kernel = along(kernel, "i", "j2")
    a, x = data((nx, ny), real, seed=1), data(ny, real, seed=2)

    def check(outputs: Mapping[str, Any]) -> None:
        size = np.abs(wide(a)).T @ (np.abs(wide(a)) @ np.abs(wide(x)))
        near("y", outputs["y"], wide(a).T @ (wide(a) @ wide(x)), size, nx + ny, real)

    return Workload(kernel, {"a": a, "x": x}, check=check, source_file=__file__)


def bicg(nx: int = 2048, ny: int = 2048, dtype: Real = "float32") -> Workload:
    """The two products of a BiCG step: s = A' r, then q = A p."""
    require_positive(nx=nx, ny=ny)
    require_indexable(a=nx * ny)
    real = real_type(dtype)
    kernel = make(
        "bicg",
        [
            "{[i, j]: 0 <= i < nx and 0 <= j < ny}",
            "{[i2, j2]: 0 <= i2 < nx and 0 <= j2 < ny}",
        ],
        """
        s[j] = sum(i, r[i] * a[i, j])
        ... gbarrier
        q[i2] = sum(j2, a[i2, j2] * p[j2])
        """,
        [
            lp.ValueArg("nx, ny", np.int32),
            lp.GlobalArg("a", real, shape="nx, ny"),
            lp.GlobalArg("r", real, shape="nx"),
            lp.GlobalArg("p", real, shape="ny"),
            lp.GlobalArg("s", real, shape="ny", is_input=False, is_output=True),
            lp.GlobalArg("q", real, shape="nx", is_input=False, is_output=True),
        ],
        "nx >= 1 and ny >= 1",
    )
    kernel = along(kernel, "j", "i2")
    a, r, p = data((nx, ny), real, seed=1), data(nx, real, seed=2), data(ny, real, seed=3)

    def check(outputs: Mapping[str, Any]) -> None:
        magnitude = np.abs(wide(a))
        near("s", outputs["s"], wide(a).T @ wide(r), magnitude.T @ np.abs(wide(r)), nx, real)
        near("q", outputs["q"], wide(a) @ wide(p), magnitude @ np.abs(wide(p)), ny, real)

    return Workload(kernel, {"a": a, "r": r, "p": p}, check=check, source_file=__file__)


def gesummv(n: int = 2048, dtype: Real = "float32") -> Workload:
    """y = alpha A x + beta B x."""
    require_positive(n=n)
    require_indexable(a=n * n)
    real = real_type(dtype)
    kernel = make(
        "gesummv",
        ["{[i, j]: 0 <= i, j < n}"],
        f"""
        for i
            tmp = 0
            other = 0
            for j
                tmp = tmp + a[i, j] * x[j]
                other = other + b[i, j] * x[j]
            end
            y[i] = {ALPHA} * tmp + {BETA} * other
        end
        """,
        [
            lp.ValueArg("n", np.int32),
            lp.GlobalArg("a, b", real, shape="n, n"),
            lp.GlobalArg("x", real, shape="n"),
            lp.GlobalArg("y", real, shape="n", is_input=False, is_output=True),
            lp.TemporaryVariable("tmp", real, shape=()),
            lp.TemporaryVariable("other", real, shape=()),
        ],
        "n >= 1",
    )
    kernel = along(kernel, "i")
    a, b, x = data((n, n), real, seed=1), data((n, n), real, seed=2), data(n, real, seed=3)

    def check(outputs: Mapping[str, Any]) -> None:
        exact = ALPHA * wide(a) @ wide(x) + BETA * wide(b) @ wide(x)
        size = (ALPHA * np.abs(wide(a)) + BETA * np.abs(wide(b))) @ np.abs(wide(x))
        near("y", outputs["y"], exact, size, n, real)

    return Workload(kernel, {"a": a, "b": b, "x": x}, check=check, source_file=__file__)


def mvt(n: int = 2048, dtype: Real = "float32") -> Workload:
    """x1 = x1 + A y1, then x2 = x2 + A' y2."""
    require_positive(n=n)
    require_indexable(a=n * n)
    real = real_type(dtype)
    kernel = make(
        "mvt",
        ["{[i, j]: 0 <= i, j < n}", "{[i2, j2]: 0 <= i2, j2 < n}"],
        """
        x1[i] = x1[i] + sum(j, a[i, j] * y1[j])
        ... gbarrier
        x2[i2] = x2[i2] + sum(j2, a[j2, i2] * y2[j2])
        """,
        [
            lp.ValueArg("n", np.int32),
            lp.GlobalArg("a", real, shape="n, n"),
            lp.GlobalArg("x1, x2, y1, y2", real, shape="n"),
        ],
        "n >= 1",
    )
    kernel = along(kernel, "i", "i2")
    a = data((n, n), real, seed=1)
    x1, x2, y1, y2 = (data(n, real, seed=k) for k in (2, 3, 4, 5))

    def check(outputs: Mapping[str, Any]) -> None:
        for name, start, matrix, y in (("x1", x1, wide(a), y1), ("x2", x2, wide(a).T, y2)):
            size = np.abs(wide(start)) + np.abs(matrix) @ np.abs(wide(y))
            near(name, outputs[name], wide(start) + matrix @ wide(y), size, n, real)

    arguments = {"a": a, "x1": x1, "x2": x2, "y1": y1, "y2": y2}
    return Workload(kernel, arguments, check=check, source_file=__file__)
