"""Factorisations with several launches for each step: lu, gramschmidt."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import loopy as lp
import numpy as np

from experiments.kernels.parameters import data, real_type, require_indexable, require_positive
from experiments.kernels.polybench.building import Real, along, make, near, tiles, wide
from memsim.errors import KernelError
from tracegen.workloads import Workload


def lu(n: int = 256, dtype: Real = "float32") -> Workload:
    """A = L U in place without pivoting, L with ones on its diagonal.

    Each of the n - 1 steps scales a column and then updates the part of A below and to the right.
    The grids cover all of A at every step.
    """
    _require(n)
    real = real_type(dtype)
    kernel = make(
        "lu",
        ["{[k]: 0 <= k < n - 1}", "{[i]: 0 <= i < n}", "{[i2, j]: 0 <= i2, j < n}"],
        """
        for k
            for i
                if i > k
                    a[i, k] = a[i, k] / a[k, k]
                end
            end
            ... gbarrier
            for i2, j
                if i2 > k and j > k
                    a[i2, j] = a[i2, j] - a[i2, k] * a[k, j]
                end
            end
            ... gbarrier
        end
        """,
        [lp.ValueArg("n", np.int32), lp.GlobalArg("a", real, shape="n, n")],
        "n >= 2",
    )
    kernel = tiles(along(kernel, "i"), ("i2", "j"))
    a = dominant(n, real)
    return Workload(kernel, {"a": a}, check=factors_of(a, n, real), source_file=__file__)


_GRAMSCHMIDT = """
for k
    for w
        if w == 0
            norm = 0
            for i0
                norm = norm + a[i0, k] * a[i0, k]
            end
            r[k, k] = sqrt(norm)
        end
    end
    ... gbarrier
    for i1
        q[i1, k] = a[i1, k] / r[k, k]
    end
    ... gbarrier
    for j
        if j > k
            dot = 0
            for i2
                dot = dot + q[i2, k] * a[i2, j]
            end
            r[k, j] = dot
            for i3
                a[i3, j] = a[i3, j] - q[i3, k] * dot
            end
        end
    end
    ... gbarrier
end
"""
"""Launches of column k: the norm of the column, the division by it, the update of the later
columns."""


def gramschmidt(n: int = 256, dtype: Real = "float32") -> Workload:
    """A = Q R for a square A by modified Gram-Schmidt, with three launches for each column.

    One work-item computes the norm of a column, as in PolyBench. A is overwritten.
    """
    _require(n)
    real = real_type(dtype)
    kernel = make(
        "gramschmidt",
        [
            "{[k]: 0 <= k < n}",
            "{[w]: 0 <= w < n}",
            "{[i0]: 0 <= i0 < n}",
            "{[i1]: 0 <= i1 < n}",
            "{[j, i2, i3]: 0 <= j, i2, i3 < n}",
        ],
        _GRAMSCHMIDT,
        [
            lp.ValueArg("n", np.int32),
            lp.GlobalArg("a", real, shape="n, n"),
            lp.GlobalArg("q, r", real, shape="n, n", is_input=True, is_output=True),
            lp.TemporaryVariable("norm", real, shape=()),
            lp.TemporaryVariable("dot", real, shape=()),
        ],
        "n >= 2",
    )
    kernel = along(kernel, "w", "i1", "j")
    a = dominant(n, real)
    zeros = np.zeros_like(a)

    def check(outputs: Mapping[str, Any]) -> None:
        """Every entry of A - Q R is small, and Q is orthonormal within the bound by the condition
        of A."""
        q, r = wide(outputs["q"]), wide(outputs["r"])
        near("q r", q @ r, wide(a), np.abs(q) @ np.abs(r) + np.abs(wide(a)), 2 * n, real)
        assert not np.tril(r, -1).any()
        condition = np.linalg.cond(wide(a))
        error = np.abs(q.T @ q - np.eye(n)).max()
        assert error <= 4 * n * condition * np.finfo(real).eps, f"Q is {error} from orthonormal"

    arguments = {"a": a, "q": zeros, "r": zeros.copy()}
    return Workload(kernel, arguments, check=check, source_file=__file__)


def dominant(n: int, real: Any) -> Any:
    """A diagonally dominant matrix, whose elimination needs no pivoting."""
    a = data((n, n), real, seed=1)
    a[np.arange(n), np.arange(n)] += n
    return a


def factors_of(a: Any, terms: int, real: Any) -> Any:
    """A check that the product of L (below the diagonal) and U (on and above it) is A.

    |A - L U| <= gamma_n |L| |U| (Higham, theorem 9.3).
    """

    def check(outputs: Mapping[str, Any]) -> None:
        both = wide(outputs["a"])
        lower, upper = np.tril(both, -1) + np.eye(len(both)), np.triu(both)
        size = np.abs(lower) @ np.abs(upper)
        near("l u", lower @ upper, wide(a), size, terms, real)
        assert not np.array_equal(both, wide(a)), "nothing was eliminated"

    return check


def _require(n: int) -> None:
    require_positive(n=n)
    require_indexable(a=n * n)
    if n < 2:
        raise KernelError(f"n must be at least 2, got {n}")
