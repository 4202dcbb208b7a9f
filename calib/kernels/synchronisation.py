"""Costs of a launch, a work-group and a barrier alone."""

from __future__ import annotations

import functools
from typing import Any

import loopy as lp
import numpy as np

from calib.kernels.building import (
    GROUP,
    assume_multiples,
    computing,
    loopy_kernel,
    require_group,
    size,
    written,
)
from calib.kernels.collection import Built, Number, generator


@generator(
    "barrier_pattern",
    "sync_pattern",
    n_groups=Number((256, 1024)),
    m=Number((16, 64, 256), low=0),
    **GROUP,
)
def barriers(*, n_groups: int, m: int, lsize_0: int, lsize_1: int) -> Built:
    """A loop of m local barriers, followed by one store per work-item."""
    require_group(lsize_0, lsize_1)
    env = {"n_groups": n_groups, "m": m}
    kernel = _barriers(lsize_0, lsize_1)
    return computing(lambda **_: np.arange(lsize_0), kernel, env, lambda: dict(env), terms=0)


@generator("empty_kernel", "sync_pattern", n_groups=Number((16, 256, 4096)), **GROUP)
def empty(*, n_groups: int, lsize_0: int, lsize_1: int) -> Built:
    """A launch of n_groups work-groups that do nothing."""
    require_group(lsize_0, lsize_1)
    env = {"n_groups": n_groups}
    return Built(kernel=_empty(lsize_0, lsize_1), env=env, arguments=lambda: dict(env))


@functools.cache
def _barriers(lsize_0: int, lsize_1: int) -> Any:
    kernel = loopy_kernel(
        [
            f"{{[g, l0, l1]: 0 <= g < n_groups and 0 <= l0 < {lsize_0} and 0 <= l1 < {lsize_1}}}",
            # A separate domain: otherwise an empty loop would make the whole domain empty.
            "{[k]: 0 <= k < m}",
        ],
        """
        for g, l0, l1
            for k
                ... lbarrier {id=wait}
            end
            out[g, l1, l0] = l0 {dep=wait}
        end
        """,
        [
            size("n_groups"),
            size("m"),
            written("out", np.float32, f"n_groups, {lsize_1}, {lsize_0}"),
        ],
        name="barriers",
        assumptions="m >= 0",
    )
    kernel = assume_multiples(kernel, n_groups=1)
    return lp.tag_inames(kernel, {"g": "g.0", "l0": "l.0", "l1": "l.1"})


@functools.cache
def _empty(lsize_0: int, lsize_1: int) -> Any:
    kernel = loopy_kernel(
        f"{{[g, l0, l1]: 0 <= g < n_groups and 0 <= l0 < {lsize_0} and 0 <= l1 < {lsize_1}}}",
        """
        for g, l0, l1
            nothing = 0
        end
        """,
        # A private variable that is never read, which every compiler removes.
        [size("n_groups"), lp.TemporaryVariable("nothing", np.int32, shape=())],
        name="empty",
    )
    kernel = assume_multiples(kernel, n_groups=1)
    return lp.tag_inames(kernel, {"g": "g.0", "l0": "l.0", "l1": "l.1"})
