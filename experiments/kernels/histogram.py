"""A histogram with atomic additions in global memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import loopy as lp
import numpy as np

from experiments.kernels.parameters import require_choice, require_group, require_positive
from memsim.errors import KernelError
from tracegen.workloads import Workload


def histogram(
    n: int = 262_144,
    bins: int = 256,
    distribution: Literal["uniform", "zipf"] = "uniform",
    block_size: int = 256,
    dtype: Literal["int32", "float32"] = "int32",
) -> Workload:
    """One work-item and one atomic addition for each sample.

    distribution : distribution of the samples over the bins; with `zipf` (exponent 1.5) the first
        bins are the most frequent
    dtype : type of the counts; float32 is exact up to 2^24 samples
    """
    require_positive(n=n, bins=bins)
    require_group(block_size)
    require_choice("distribution", distribution, ("uniform", "zipf"))
    require_choice("dtype", dtype, ("int32", "float32"))
    if dtype == "float32" and n > 2**24:
        raise KernelError(f"n must be at most {2**24} for counts in float32, got {n}")
    kernel = lp.make_kernel(
        "{[i]: 0 <= i < n}",
        """
        for i
            <> sample = samples[i]
            counts[sample] = counts[sample] + 1 {atomic, id=count}
        end
        """,
        [
            lp.ValueArg("n, bins", np.int32),
            lp.GlobalArg("samples", np.int32, shape="n"),
            lp.GlobalArg("counts", np.dtype(dtype), shape="bins", for_atomic=True, is_output=True),
        ],
        assumptions="n >= 1",
        name="histogram",
        lang_version=(2018, 2),
        # Several items may update one bin; the update is atomic.
        silenced_warnings=["write_race(count)"],
    )
    kernel = lp.split_iname(kernel, "i", block_size, inner_tag="l.0", outer_tag="g.0")
    rng = np.random.default_rng(0)
    if distribution == "uniform":
        samples = rng.integers(0, bins, n, dtype=np.int32)
    else:
        samples = ((rng.zipf(1.5, n) - 1) % bins).astype(np.int32)

    def check(outputs: Mapping[str, Any]) -> None:
        np.testing.assert_array_equal(outputs["counts"], np.bincount(samples, minlength=bins))

    return Workload(
        kernel,
        {"samples": samples, "counts": np.zeros(bins, dtype)},
        check=check,
        source_file=__file__,
    )
