"""200 configurations of a convolution, tuned on two processes, with empty caches of compiled kernels."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from calib import tuning
from experiments.kernels import convolution
from tests.support.cuda_kernels import needs_clang
from tracegen.commands import KernelSpec
from tracegen.own_process import Limits

MOST_S = 300.0
OVER = ("block_size_x=32:256:32", "block_size_y=1,2,4,8", "tile_size_x=1,2", "tile_size_y=1:4")


@pytest.mark.bench
@needs_clang
@pytest.mark.timeout(1800)
def test_a_convolution_is_tuned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEMSIM_CACHE_DIR", str(tmp_path))
    kernel = KernelSpec(
        f"{convolution.SOURCE}:convolution",
        {"image_size": "4096"},
        f"{Path(convolution.__file__)}:convolution",
    )
    subject = tuning.Subject(kernel=kernel, limits=Limits())
    space = tuning.parse_space(OVER, ["block_size_x * block_size_y <= 1024"])
    began = time.perf_counter()
    with tuning.OutcomeStore(None, subject) as store:
        options = tuning.TuneOptions(jobs=2)
        result = tuning.tune(subject, space, ["a100"], store, options)
    took = time.perf_counter() - began
    n = result.n_configurations
    print(f"\n{n} configurations in {took:.0f} s, {200 / n * took:.0f} s for 200")
    assert 200 / n * took <= MOST_S
