"""How long a kernel's machine code takes: compiled, read and kept, and then from the cache.

The goals are 1 s a kernel cold and 10 ms from the cache; the largest kernel has 2,000 instructions, whose compilation
alone takes NVRTC and ptxas a second. nvdisasm takes 0.5 to 0.6 s to begin.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from experiments.kernels.matmul_steps import product
from experiments.kernels.n_body import n_body
from experiments.kernels.star import star25_points
from tests.support.compilers import needs_nvidia
from tracegen import CudaWorkload
from tracegen.machine_code.binding import bind

pytestmark = [pytest.mark.bench, needs_nvidia]

TARGET = "sm_90"
REPEATS = 11
KERNELS: dict[str, tuple[Callable[[], CudaWorkload], float, float]] = {
    "stencil": (star25_points, 1.0, 0.010),
    "matrix product": (lambda: product("vectors", 128), 1.5, 0.010),
    "bodies": (lambda: n_body(512), 3.0, 0.010),
}


@pytest.mark.parametrize("name", KERNELS)
def test_machine_code_cold_and_from_the_cache(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make, most_cold_s, most_kept_s = KERNELS[name]
    monkeypatch.setenv("MEMSIM_CACHE_DIR", str(tmp_path))
    _seconds(product("tiled", 128))  # headers are compiled once for all kernels
    workload = make()
    cold_s, n_instructions = _seconds(workload)
    kept_s = statistics.median(_seconds(workload)[0] for _ in range(REPEATS))
    kept = f"from the cache {1e3 * kept_s:.1f} ms"
    print(f"\n{name}, {n_instructions} instructions: {cold_s:.2f} s, {kept}")
    assert cold_s < most_cold_s
    assert kept_s < most_kept_s


def _seconds(workload: CudaWorkload) -> tuple[float, int]:
    """Until the machine code is there, and how many instructions it has."""
    begin = time.perf_counter()
    code = next(bind(workload, TARGET)).code
    seconds = time.perf_counter() - begin
    return seconds, sum(len(block.instructions) for block in code.blocks)
