"""The kernels that a capture runs: a name, how it is built, and how large."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from experiments.kernels import histogram, matmul, spmv, stencil, stream, transpose
from memsim.errors import MemsimError
from tracegen.workloads import Workload


@dataclass(frozen=True, kw_only=True)
class Benchmark:
    """One kernel. full, quick : its sizes; given : what else its builder takes"""

    build: Callable[..., Workload]
    full: Mapping[str, int]
    quick: Mapping[str, int]
    given: Mapping[str, Any] = field(default_factory=dict)


def gather(n: int, n_table: int) -> Workload:
    """out[i] = table[index[i]], random indices: that of `memsim calibrate`'s collection."""
    from calib.kernels import gather as build

    built = build(n=n, n_table=n_table, dtype="float32", lsize_0=256)
    return Workload(built.kernel, {**built.arguments(), **built.env}, check=built.check)


def _star(x: int, y: int, z: int) -> Benchmark:
    return Benchmark(
        build=stencil.star25,
        full={"nx": 632, "ny": 504, "nz": 64},
        quick={"nx": 96, "ny": 32, "nz": 16},
        given={"block_x": x, "block_y": y, "block_z": z},
    )


BENCHMARKS: Mapping[str, Benchmark] = {
    "stream triad": Benchmark(build=stream.triad, full={"n": 1 << 25}, quick={"n": 1 << 16}),
    "transpose naive": Benchmark(build=transpose.naive, full={"n": 4096}, quick={"n": 256}),
    "transpose tiled": Benchmark(build=transpose.tiled, full={"n": 4096}, quick={"n": 256}),
    "matmul naive": Benchmark(build=matmul.naive, full={"n": 1024}, quick={"n": 96}),
    "matmul tiled": Benchmark(build=matmul.tiled, full={"n": 1024}, quick={"n": 96}),
    "stencil7": Benchmark(
        build=stencil.stencil7,
        full={"nx": 512, "ny": 512, "nz": 128},
        quick={"nx": 64, "ny": 32, "nz": 16},
    ),
    "star25 32x4x4": _star(32, 4, 4),
    "star25 16x2x16": _star(16, 2, 16),
    "star25 128x1x4": _star(128, 1, 4),
    "spmv fem": Benchmark(
        build=spmv.spmv, full={"n": 170_000}, quick={"n": 900}, given={"matrix": "fem"}
    ),
    "gather": Benchmark(
        build=gather,
        full={"n": 1 << 24, "n_table": 1 << 24},
        quick={"n": 1 << 14, "n_table": 1 << 14},
    ),
    "histogram": Benchmark(build=histogram.histogram, full={"n": 1 << 24}, quick={"n": 1 << 14}),
}
"""Full sizes exceed every shipped machine's L2, matmul's and spmv's excepted."""


def sizes(name: str, quick: bool) -> dict[str, int]:
    """A benchmark's sizes."""
    return dict(BENCHMARKS[name].quick if quick else BENCHMARKS[name].full)


def check_sizes(name: str, given: Mapping[str, Any]) -> dict[str, int]:
    """Sizes from outside; raises MemsimError but where each is an integer from 1 to the full one."""
    full = BENCHMARKS[name].full
    if set(given) != set(full):
        raise MemsimError(f"{name} must have the sizes {', '.join(full)}, got {', '.join(given)}")
    for key, value in given.items():
        if type(value) is not int or not 1 <= value <= full[key]:
            raise MemsimError(f"{name}: {key} must be 1 to {full[key]}, got {value!r:.40}")
    return dict(given)


def workload(name: str, given: Mapping[str, int]) -> Workload:
    """The benchmark of these sizes, with its arguments."""
    benchmark = BENCHMARKS[name]
    return benchmark.build(**given, **benchmark.given)


def checked_names(names: list[str]) -> list[str]:
    """The benchmarks asked for, all where none is; raises MemsimError naming one that is not there."""
    for name in names:
        if name not in BENCHMARKS:
            raise MemsimError(f"no kernel {name!r}: choose from {', '.join(BENCHMARKS)}")
    return names or list(BENCHMARKS)
