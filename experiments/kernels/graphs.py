"""Kernels whose amount of work depends on the data: SpMV and BFS on random graphs, a merge sort
pass."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import loopy as lp
import numpy as np
import scipy.sparse

from experiments.kernels.merge_sort import global_pass
from experiments.kernels.parameters import require_choice, require_indexable, require_positive
from experiments.kernels.polybench.building import along, make
from experiments.kernels.spmv import spmv_of
from memsim.errors import KernelError
from tracegen import OpenCLWorkload
from tracegen.workloads import Workload

Degrees = Literal["poisson", "geometric", "power"]


def spmv(
    n: int = 4096,
    degree: int = 8,
    degrees: Degrees = "poisson",
    block_size: int = 128,
    seed: int = 0,
) -> Workload:
    """SpMV with the matrix of a random graph, one work-item for each row; see `random_graph`."""
    return spmv_of(random_graph(n, degree, degrees, seed), block_size)


def bfs_level(
    n: int = 4096,
    degree: int = 8,
    level: int = 2,
    degrees: Degrees = "poisson",
    block_size: int = 256,
    seed: int = 0,
) -> Workload:
    """One level of a breadth-first search from vertex 0: vertices at distance `level` mark new
    neighbours.

    The marks have an array of their own, so that the work does not depend on the order of the
    work-items.

    level : distance of the frontier; distances up to it are known before the launch
    """
    require_positive(n=n, degree=degree, block_size=block_size)
    if level < 0:
        raise KernelError(f"level must not be negative, got {level}")
    graph = random_graph(n, degree, degrees, seed)
    distance = _levels(graph, level)
    kernel = make(
        "bfs_level",
        ["{[i]: 0 <= i < n}", "{[j]: row_begin <= j < row_end}"],
        """
        for i
            <> own = distance[i]
            if own == level
                <> row_begin = row_start[i]
                <> row_end = row_start[i + 1]
                for j
                    <> neighbour = indices[j]
                    <> known = distance[neighbour]
                    if known < 0
                        reached[neighbour] = 1
                    end
                end
            end
        end
        """,
        [
            lp.ValueArg("n, n_edges, level", np.int32),
            lp.GlobalArg("row_start", np.int32, shape="n + 1"),
            lp.GlobalArg("indices", np.int32, shape="n_edges"),
            lp.GlobalArg("distance, reached", np.int32, shape="n"),
        ],
        "n >= 1",
    )
    kernel = along(kernel, "i", items=block_size)
    next_ones = _levels(graph, level + 1) == level + 1

    def check(outputs: Mapping[str, Any]) -> None:
        np.testing.assert_array_equal(outputs["reached"], next_ones)

    return Workload(
        kernel,
        {
            "row_start": graph.indptr,
            "indices": graph.indices,
            "distance": distance,
            "reached": np.zeros(n, np.int32),
            "level": np.int32(level),
        },
        check=check,
        source_file=__file__,
    )


def merge_pass(n: int = 1 << 14, width: int = 64, per_item: int = 8) -> OpenCLWorkload:
    """A pass of a merge sort straight from global memory; see `merge_sort.global_pass`."""
    return global_pass(n, width, per_item)


def random_graph(n: int, degree: int, degrees: Degrees = "poisson", seed: int = 0) -> Any:
    """A directed graph of n vertices whose out-degrees are drawn with mean `degree`.

    degrees : distribution of the degrees: poisson; geometric, at least 1; power, with exponent 2.5
        and at most n

    Neighbours are uniform, and an edge may occur twice. Returns a scipy.sparse.csr_array of ones
    with 32-bit indices.
    """
    require_positive(n=n, degree=degree)
    require_choice("degrees", degrees, ("poisson", "geometric", "power"))
    rng = np.random.default_rng([seed, n, degree])
    if degrees == "poisson":
        drawn = rng.poisson(degree, n)
    elif degrees == "geometric":
        drawn = rng.geometric(1 / degree, n)
    else:
        # A Lomax variable of shape 1.5 has mean 2.
        drawn = np.floor(rng.pareto(1.5, n) * degree / 2 + 0.5).astype(np.int64)
        drawn = np.minimum(drawn, n)
    start = np.zeros(n + 1, np.int64)
    np.cumsum(drawn, out=start[1:])
    require_indexable(edges=int(start[-1]))
    indices = rng.integers(0, n, int(start[-1]), dtype=np.int32)
    values = np.ones(len(indices))
    return scipy.sparse.csr_array((values, indices, start.astype(np.int32)), shape=(n, n))


def _levels(graph: Any, last: int) -> Any:
    """Distances from vertex 0 up to `last`; -1 for all other vertices."""
    distance = np.full(graph.shape[0], -1, np.int32)
    distance[0] = 0
    for level in range(last):
        edges = graph[distance == level].indices
        distance[edges[distance[edges] < 0]] = level + 1
    return distance
