"""Sums of rows of an embedding table, as in recommender systems."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import loopy as lp
import numpy as np
import numpy.typing as npt

from experiments.kernels.parameters import (
    data,
    real_type,
    require_choice,
    require_group,
    require_indexable,
    require_positive,
)
from memsim.errors import KernelError
from tracegen.workloads import Workload


def embedding_bag(
    rows: int = 1_000_000,
    width: int = 64,
    bags: int = 32_768,
    per_bag: int = 16,
    distribution: Literal["zipf", "uniform"] = "zipf",
    exponent: float = 1.05,
    bags_per_group: int = 4,
    dtype: Literal["float32", "float64"] = "float32",
) -> Workload:
    """out[bag] = sum over its entries of table[index[bag, entry]]: one work-item for each bag and
    column.

    distribution : distribution of the rows. With `zipf` the frequency of the k-th most frequent row
        is proportional to k^-exponent; frequent rows are at random places of the table
    """
    require_positive(rows=rows, width=width, bags=bags, per_bag=per_bag)
    require_group(width, bags_per_group)
    require_choice("distribution", distribution, ("zipf", "uniform"))
    require_indexable(table=rows * width, index=bags * per_bag, out=bags * width)
    if not 0 < exponent < 10:
        raise KernelError(f"exponent must be between 0 and 10, got {exponent}")
    real = real_type(dtype)
    kernel = lp.make_kernel(
        f"{{[bag, column, entry]: 0 <= bag < bags and 0 <= column < {width}"
        f" and 0 <= entry < {per_bag}}}",
        "out[bag, column] = sum(entry, table[index[bag, entry], column])",
        [
            lp.ValueArg("rows, bags", np.int32),
            lp.GlobalArg("table", real, shape=("rows", width)),
            lp.GlobalArg("index", np.int32, shape=("bags", per_bag)),
            lp.GlobalArg("out", real, shape=("bags", width), is_input=False, is_output=True),
        ],
        assumptions="bags >= 1",
        name="embedding_bag",
        lang_version=(2018, 2),
    )
    kernel = lp.split_iname(kernel, "bag", bags_per_group, inner_tag="l.1", outer_tag="g.0")
    kernel = lp.tag_inames(kernel, {"column": "l.0"})
    table = data((rows, width), real)
    rng = np.random.default_rng(1)
    if distribution == "zipf":
        index = zipf_indices(rng, rows, (bags, per_bag), exponent)
    else:
        index = rng.integers(0, rows, (bags, per_bag), dtype=np.int32)

    def check(outputs: Mapping[str, Any]) -> None:
        """Entries are at most 1, so the error of a sum of m of them is at most m eps m, in any
        order."""
        expected = np.zeros((bags, width))
        for entry in range(per_bag):
            expected += table[index[:, entry]]
        bound = per_bag**2 * np.finfo(real).eps
        np.testing.assert_allclose(outputs["out"], expected, rtol=0, atol=bound)

    return Workload(kernel, {"table": table, "index": index}, check=check, source_file=__file__)


def zipf_indices(
    rng: np.random.Generator, n: int, shape: tuple[int, ...], exponent: float
) -> npt.NDArray[np.int32]:
    """Random int32 numbers below n; the k-th most frequent one has a frequency proportional to
    k^-exponent."""
    weight = np.arange(1, n + 1, dtype=np.float64) ** -exponent
    cumulative = np.cumsum(weight)
    rank = np.searchsorted(cumulative, rng.random(shape) * cumulative[-1], side="right")
    number: npt.NDArray[np.int32] = rng.permutation(n).astype(np.int32)
    return np.asarray(number[np.minimum(rank, n - 1)], np.int32)
