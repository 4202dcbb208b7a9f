"""softmax(Q K' / sqrt(d)) V, tile by tile with a running softmax, so that scores are never stored.

Source: Dao et al., *FlashAttention* (NeurIPS 2022), algorithm 1, with one work-item for each query.
m is the largest score so far and l the sum of exp(score - m); each tile of keys updates both.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import loopy as lp
import numpy as np

from experiments.kernels.parameters import (
    data,
    require_group,
    require_indexable,
    require_positive,
)
from memsim.errors import KernelError
from tracegen.workloads import Workload


def attention(
    heads: int = 16,
    queries: int = 1024,
    keys: int = 1024,
    width: int = 64,
    block: int = 64,
    tile: int = 32,
) -> Workload:
    """Attention with `heads` heads in float32; keys, values and queries are read through local
    memory.

    width : width d of a head
    block : queries, and work-items, of a group
    tile : keys that are processed together
    """
    require_positive(heads=heads, queries=queries, keys=keys, width=width, tile=tile)
    require_group(block)
    require_indexable(q=heads * queries * width, k=heads * keys * width)
    for name, length, part in (("queries", queries, block), ("keys", keys, tile)):
        if length % part:
            raise KernelError(f"{name} must be a multiple of {part}, got {length}")
    kernel = _grouped(_kernel(heads, queries, keys, width, tile), block)
    q = data((heads, queries, width), np.dtype(np.float32), seed=1)
    k, v = (data((heads, keys, width), np.dtype(np.float32), seed=s) for s in (2, 3))

    def check(outputs: Mapping[str, Any]) -> None:
        """Values are at most 1 and weights have a relative error of at most (d + keys + 8)
        roundings."""
        bound = (width + keys + 8) * np.finfo(np.float32).eps
        for head in range(heads):
            wide_q, wide_k, wide_v = (array[head].astype(np.float64) for array in (q, k, v))
            score = wide_q @ wide_k.T / np.sqrt(width)
            weight = np.exp(score - score.max(axis=1, keepdims=True))
            weight /= weight.sum(axis=1, keepdims=True)
            error = np.abs(outputs["out"][head] - weight @ wide_v).max()
            assert error <= bound, f"head {head} of out is off by up to {error}"

    return Workload(kernel, {"q": q, "k": k, "v": v}, check=check, source_file=__file__)


def _kernel(heads: int, queries: int, keys: int, width: int, tile: int) -> Any:
    """The sequential kernel: one loop over heads and queries, one over tiles of keys."""
    return lp.make_kernel(
        f"{{[h, i, t, c, e, j, j2, j3, j4, j5, e2, e3, e4]: 0 <= h < {heads} and 0 <= i < {queries}"
        f" and 0 <= t < {keys // tile} and 0 <= j, j2, j3, j4, j5 < {tile}"
        f" and 0 <= c, e, e2, e3, e4 < {width}}}",
        f"""
        for h, i
            own[c] = q[h, i, c]
            <> m = -1e30f
            <> l = 0.0f
            acc[e2] = 0.0f
            for t
                score[j] = {float(width) ** -0.5}f * sum(e, own[e] * k[h, {tile} * t + j, e])
                <> m_next = fmax(m, max(j2, score[j2]))
                <> shrink = exp(m - m_next)
                score[j3] = exp(score[j3] - m_next)
                l = l * shrink + sum(j4, score[j4])
                acc[e3] = acc[e3] * shrink + sum(j5, score[j5] * v[h, {tile} * t + j5, e3])
                m = m_next
            end
            out[h, i, e4] = acc[e4] / l
        end
        """,
        [
            lp.GlobalArg("q", np.float32, shape=(heads, queries, width)),
            lp.GlobalArg("k, v", np.float32, shape=(heads, keys, width)),
            lp.GlobalArg(
                "out", np.float32, shape=(heads, queries, width), is_input=False, is_output=True
            ),
            *(lp.TemporaryVariable(name, np.float32, shape=(width,)) for name in ("own", "acc")),
            lp.TemporaryVariable("score", np.float32, shape=(tile,)),
        ],
        name="attention",
        lang_version=(2018, 2),
        seq_dependencies=True,
    )


def _grouped(kernel: Any, block: int) -> Any:
    """Work-items and groups, with the tiles of q, k and v in local memory."""
    kernel = lp.split_iname(kernel, "i", block, inner_tag="l.0", outer_tag="g.0")
    kernel = lp.tag_inames(kernel, {"h": "g.1"})
    for array, inames in (("k", ["j", "e"]), ("v", ["j5", "e3"])):
        kernel = lp.add_prefetch(
            kernel,
            array,
            inames,
            temporary_name=f"{array}_tile",
            fetch_outer_inames=frozenset({"h", "i_outer", "t"}),
            default_tag="l.auto",
        )
    kernel = lp.add_prefetch(
        kernel,
        "q",
        ["i_inner", "c"],
        temporary_name="q_tile",
        fetch_outer_inames=frozenset({"h", "i_outer"}),
        default_tag="l.auto",
    )
    return kernel
