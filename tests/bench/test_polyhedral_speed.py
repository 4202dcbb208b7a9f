"""The speed of tracing static kernels without running them, from launch to a finished Trace, warm.

Times are CPU time of the process' single thread, so that other programs matter less.
Run it as `pytest -m bench tests/bench/test_polyhedral_speed.py`.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import pytest

from experiments.kernels import matmul, stencil, transpose
from tracegen.instrumented.host import prepare
from tracegen.options import TraceOptions
from tracegen.polyhedral.host import static
from tracegen.polyhedral.run import PolyhedralRun
from tracegen.workloads.workload import Workload

pytestmark = pytest.mark.bench

LANE_ACCESSES_PER_SECOND = 20e6
REPEATS = 7

KERNELS: dict[str, Callable[[], Workload]] = {
    "matmul naive": lambda: matmul.naive(256),
    "matmul tiled": lambda: matmul.tiled(512),
    "matmul tiled, ragged": lambda: matmul.tiled(500),
    "stencil7": lambda: stencil.stencil7(128, 128, 64),
    "star25": lambda: stencil.star25(),
    "transpose naive": lambda: transpose.naive(2048),
    "transpose tiled": lambda: transpose.tiled(2048),
}


@pytest.mark.parametrize("name", KERNELS)
def test_polyhedral_speed(name: str) -> None:
    prepared = static(prepare(KERNELS[name](), None))
    (launch,) = prepared.launches
    seconds: list[float] = []
    lanes = 0
    for _ in range(1 + REPEATS):
        begin = time.process_time()
        (traced,) = PolyhedralRun(prepared, launch, TraceOptions()).traces()
        seconds.append(time.process_time() - begin)
        lanes = int(traced.lanes.sum(dtype=np.int64))
    rate, typical = lanes / min(seconds[1:]), lanes / float(np.median(seconds[1:]))
    print(
        f"\n{name}: {lanes / 1e6:.1f} M lane-accesses traced at {rate / 1e6:.0f} M/s"
        f" (median {typical / 1e6:.0f} M/s), {traced.n_granule / traced.n_access:.1f} granules"
        " an access"
    )
    assert rate >= LANE_ACCESSES_PER_SECOND
