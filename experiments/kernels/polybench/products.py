"""Products of matrices: 2mm, gemm, syrk, doitgen."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import loopy as lp
import numpy as np

from experiments.kernels.parameters import data, real_type, require_indexable, require_positive
from experiments.kernels.polybench.building import ALPHA, BETA, Real, make, near, tiles, wide
from tracegen.workloads import Workload


def two_mm(
    ni: int = 512, nj: int = 512, nk: int = 512, nl: int = 512, dtype: Real = "float32"
) -> Workload:
    """PolyBench's 2mm: D = alpha A B C + beta D, as two launches."""
    require_positive(ni=ni, nj=nj, nk=nk, nl=nl)
    require_indexable(a=ni * nk, b=nk * nj, c=nj * nl, d=ni * nl, tmp=ni * nj)
    real = real_type(dtype)
    kernel = make(
        "two_mm",
        [
            "{[i, j, k]: 0 <= i < ni and 0 <= j < nj and 0 <= k < nk}",
            "{[i2, l, j2]: 0 <= i2 < ni and 0 <= l < nl and 0 <= j2 < nj}",
        ],
        f"""
        tmp[i, j] = {ALPHA} * sum(k, a[i, k] * b[k, j])
        ... gbarrier
        d[i2, l] = {BETA} * d[i2, l] + sum(j2, tmp[i2, j2] * c[j2, l])
        """,
        [
            lp.ValueArg("ni, nj, nk, nl", np.int32),
            lp.GlobalArg("a", real, shape="ni, nk"),
            lp.GlobalArg("b", real, shape="nk, nj"),
            lp.GlobalArg("c", real, shape="nj, nl"),
            lp.GlobalArg("d", real, shape="ni, nl"),
            lp.GlobalArg("tmp", real, shape="ni, nj", is_input=False, is_output=True),
        ],
        "ni >= 1 and nj >= 1 and nk >= 1 and nl >= 1",
    )
    kernel = tiles(kernel, ("i", "j"), ("i2", "l"))
    a, b = data((ni, nk), real, seed=1), data((nk, nj), real, seed=2)
    c, d = data((nj, nl), real, seed=3), data((ni, nl), real, seed=4)

    def check(outputs: Mapping[str, Any]) -> None:
        product = wide(a) @ wide(b) @ wide(c)
        size = ALPHA * (np.abs(wide(a)) @ np.abs(wide(b)) @ np.abs(wide(c)))
        size += BETA * np.abs(wide(d))
        near("d", outputs["d"], ALPHA * product + BETA * wide(d), size, nj + nk, real)

    return Workload(kernel, {"a": a, "b": b, "c": c, "d": d}, check=check, source_file=__file__)


def gemm(ni: int = 512, nj: int = 512, nk: int = 512, dtype: Real = "float32") -> Workload:
    """C = alpha A B + beta C."""
    require_positive(ni=ni, nj=nj, nk=nk)
    require_indexable(a=ni * nk, b=nk * nj, c=ni * nj)
    real = real_type(dtype)
    kernel = make(
        "gemm",
        ["{[i, j, k]: 0 <= i < ni and 0 <= j < nj and 0 <= k < nk}"],
        f"c[i, j] = {BETA} * c[i, j] + {ALPHA} * sum(k, a[i, k] * b[k, j])",
        [
            lp.ValueArg("ni, nj, nk", np.int32),
            lp.GlobalArg("a", real, shape="ni, nk"),
            lp.GlobalArg("b", real, shape="nk, nj"),
            lp.GlobalArg("c", real, shape="ni, nj"),
        ],
        "ni >= 1 and nj >= 1 and nk >= 1",
    )
    kernel = tiles(kernel, ("i", "j"))
    a, b, c = (
        data(shape, real, seed=k) for k, shape in enumerate(((ni, nk), (nk, nj), (ni, nj)), 1)
    )

    def check(outputs: Mapping[str, Any]) -> None:
        exact = ALPHA * (wide(a) @ wide(b)) + BETA * wide(c)
        size = ALPHA * (np.abs(wide(a)) @ np.abs(wide(b))) + BETA * np.abs(wide(c))
        near("c", outputs["c"], exact, size, nk, real)

    return Workload(kernel, {"a": a, "b": b, "c": c}, check=check, source_file=__file__)


def syrk(n: int = 512, m: int = 512, dtype: Real = "float32") -> Workload:
    """C = alpha A A' + beta C, all of C as the GPU port computes it."""
    require_positive(n=n, m=m)
    require_indexable(a=n * m, c=n * n)
    real = real_type(dtype)
    kernel = make(
        "syrk",
        ["{[i, j, k]: 0 <= i < n and 0 <= j < n and 0 <= k < m}"],
        f"""
        c[i, j] = {BETA} * c[i, j]
        c[i, j] = c[i, j] + {ALPHA} * sum(k, a[i, k] * a[j, k])
        """,
        [
            lp.ValueArg("n, m", np.int32),
            lp.GlobalArg("a", real, shape="n, m"),
            lp.GlobalArg("c", real, shape="n, n"),
        ],
        "n >= 1 and m >= 1",
    )
    kernel = tiles(kernel, ("i", "j"))
    a, c = data((n, m), real, seed=1), data((n, n), real, seed=2)

    def check(outputs: Mapping[str, Any]) -> None:
        exact = ALPHA * (wide(a) @ wide(a).T) + BETA * wide(c)
        size = ALPHA * (np.abs(wide(a)) @ np.abs(wide(a)).T) + BETA * np.abs(wide(c))
        near("c", outputs["c"], exact, size, m, real)

    return Workload(kernel, {"a": a, "c": c}, check=check, source_file=__file__)


def doitgen(nr: int = 32, nq: int = 128, np_: int = 128, dtype: Real = "float32") -> Workload:
    """A[r, q, :] = A[r, q, :] C4, two launches for each r."""
    require_positive(nr=nr, nq=nq, np_=np_)
    require_indexable(a=nr * nq * np_, c4=np_ * np_)
    real = real_type(dtype)
    kernel = make(
        "doitgen",
        [
            "{[r]: 0 <= r < nr}",
            "{[q, p, s]: 0 <= q < nq and 0 <= p, s < np_}",
            "{[q2, p2]: 0 <= q2 < nq and 0 <= p2 < np_}",
        ],
        """
        for r
            total[r, q, p] = sum(s, a[r, q, s] * c4[s, p])
            ... gbarrier
            a[r, q2, p2] = total[r, q2, p2]
            ... gbarrier
        end
        """,
        [
            lp.ValueArg("nr, nq, np_", np.int32),
            lp.GlobalArg("a", real, shape="nr, nq, np_"),
            lp.GlobalArg("c4", real, shape="np_, np_"),
            lp.GlobalArg("total", real, shape="nr, nq, np_", is_input=False, is_output=True),
        ],
        "nr >= 1 and nq >= 1 and np_ >= 1",
    )
    kernel = tiles(kernel, ("q", "p"), ("q2", "p2"))
    a, c4 = data((nr, nq, np_), real, seed=1), data((np_, np_), real, seed=2)

    def check(outputs: Mapping[str, Any]) -> None:
        near("a", outputs["a"], wide(a) @ wide(c4), np.abs(wide(a)) @ np.abs(wide(c4)), np_, real)

    return Workload(kernel, {"a": a, "c4": c4}, check=check, source_file=__file__)
