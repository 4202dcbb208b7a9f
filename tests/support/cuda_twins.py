"""Kernels of experiments.kernels in CUDA C++ (`cuda_twins.cu`), with the arguments of the originals."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import tracegen
from experiments.kernels import (
    black_scholes,
    graphs,
    histogram,
    laplacian,
    matmul,
    merge_sort,
    spmv_vectorised,
    stream,
    transpose,
)
from experiments.kernels.polybench import vectors
from memsim.trace import Launch
from tracegen import CudaWorkload, OpenCLWorkload
from tracegen.workloads import Workload

SOURCE = Path(__file__).with_suffix(".cu")


@dataclass(frozen=True)
class Twin:
    """A kernel in two languages.

    original : in Loopy or OpenCL C;  kernel : in CUDA C++
    further : arguments that Loopy derives or allocates itself
    """

    original: Callable[[], Workload | OpenCLWorkload]
    kernel: str
    further: Callable[[Mapping[str, Any]], Mapping[str, Any]] = field(default=lambda _: {})

    def in_cuda(self, original: Workload | OpenCLWorkload, launch: Launch) -> CudaWorkload:
        """The CUDA C++ kernel, with the original's arguments and in its launch."""
        given = dict(original.arguments)
        return CudaWorkload(
            path=SOURCE,
            kernel=self.kernel,
            arguments={**given, **self.further(given)},
            grid=launch.grid,
            block=launch.group_shape,
            check=original.check,
        )


def _square(a: str, out: str) -> Callable[[Mapping[str, Any]], Mapping[str, Any]]:
    return lambda given: {"n": len(given[a]), out: np.zeros_like(given[a])}


def _rows(given: Mapping[str, Any]) -> Mapping[str, Any]:
    n_rows = len(given["row_start"]) - 1
    return {"n_rows": n_rows, "y": np.zeros(n_rows, np.float32)}


def _options(given: Mapping[str, Any]) -> Mapping[str, Any]:
    n = len(given["price"])
    return {"n": n, "call": np.zeros(n, np.float32), "put": np.zeros(n, np.float32)}


def _graph(given: Mapping[str, Any]) -> Mapping[str, Any]:
    return {"n": len(given["distance"])}


def _vectors(given: Mapping[str, Any]) -> Mapping[str, Any]:
    n = len(given["x"])
    return {"n": n, "y": np.zeros(n, np.float32)}


TWINS = {
    "stream_triad": Twin(lambda: stream.triad(n=1 << 14), "stream_triad"),
    "transpose_naive": Twin(lambda: transpose.naive(n=128), "transpose_naive", _square("a", "b")),
    "transpose_tiled": Twin(
        lambda: transpose.tiled(n=128), "transpose_tiled<float, 16>", _square("a", "b")
    ),
    "matmul_tiled": Twin(lambda: matmul.tiled(n=64), "matmul_tiled", _square("a", "c")),
    "histogram": Twin(
        lambda: histogram.histogram(n=5000, distribution="zipf"),
        "histogram",
        lambda given: {"n": len(given["samples"])},
    ),
    "bfs_level": Twin(lambda: graphs.bfs_level(n=2000), "bfs_level", _graph),
    "spmv": Twin(lambda: graphs.spmv(n=2000, degrees="power"), "csr::spmv", _rows),
    "spmv_vectorised": Twin(
        lambda: spmv_vectorised.spmv_vectorised("fem", n=2000), "csr::spmv_vectorised"
    ),
    "gesummv": Twin(lambda: vectors.gesummv(n=300), "gesummv", _vectors),
    "black_scholes": Twin(lambda: black_scholes.black_scholes(n=70_000), "black_scholes", _options),
    "merge_global": Twin(lambda: merge_sort.global_pass(n=5000, width=64), "merge_global"),
    "laplacian": Twin(lambda: laplacian.laplacian(1, n=32), "laplacian"),
}


def twin(name: str) -> CudaWorkload:
    """The kernel `name` of TWINS, launched as its original is."""
    original = TWINS[name].original()
    return TWINS[name].in_cuda(original, tracegen.trace(original, groups=1).launch)
