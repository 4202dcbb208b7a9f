"""Bandwidth kernels: copy and triad, with a stride between the accessed elements."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import loopy as lp
import numpy as np

from experiments.kernels.parameters import (
    data,
    real_type,
    require_group,
    require_indexable,
    require_positive,
)
from tracegen.workloads import Workload

TRIAD_SCALAR = 0.5


def copy(
    n: int = 1_048_576,
    stride: int = 1,
    block_size: int = 256,
    dtype: Literal["float32", "float64"] = "float32",
) -> Workload:
    """a[stride i] = b[stride i] for n values of i, one work-item for each."""
    at = _at(stride)
    kernel = _stream(f"a{at} = b{at}", "b", n, stride, block_size, dtype, "stream_copy")
    b = data(n * stride, real_type(dtype), seed=1)

    def check(outputs: Mapping[str, Any]) -> None:
        np.testing.assert_array_equal(outputs["a"][::stride], b[::stride])

    return Workload(kernel, {"a": np.zeros_like(b), "b": b}, check=check, source_file=__file__)


def triad(
    n: int = 1_048_576,
    stride: int = 1,
    block_size: int = 256,
    dtype: Literal["float32", "float64"] = "float32",
) -> Workload:
    """a[stride i] = b[stride i] + 0.5 c[stride i] for n values of i, one work-item for each."""
    at = _at(stride)
    kernel = _stream(
        f"a{at} = b{at} + {TRIAD_SCALAR} * c{at}", "b, c", n, stride, block_size, dtype,
        "stream_triad",
    )  # fmt: skip
    real = real_type(dtype)
    b, c = data(n * stride, real, seed=1), data(n * stride, real, seed=2)

    def check(outputs: Mapping[str, Any]) -> None:
        expected = b[::stride] + real.type(TRIAD_SCALAR) * c[::stride]
        np.testing.assert_allclose(
            outputs["a"][::stride], expected, rtol=0, atol=2 * np.finfo(real).eps
        )

    return Workload(
        kernel, {"a": np.zeros_like(b), "b": b, "c": c}, check=check, source_file=__file__
    )


def _at(stride: int) -> str:
    require_positive(stride=stride)
    return "[i]" if stride == 1 else f"[{stride} * i]"


def _stream(
    statement: str, inputs: str, n: int, stride: int, block_size: int, dtype: str, name: str
) -> Any:
    require_positive(n=n)
    require_group(block_size)
    require_indexable(a=n * stride)
    real = real_type(dtype)
    shape = (n * stride,)
    kernel = lp.make_kernel(
        f"{{[i]: 0 <= i < {n}}}",
        statement,
        [
            lp.GlobalArg(inputs, real, shape=shape),
            lp.GlobalArg("a", real, shape=shape, is_output=True),
        ],
        name=name,
        lang_version=(2018, 2),
    )
    return lp.split_iname(kernel, "i", block_size, inner_tag="l.0", outer_tag="g.0")
