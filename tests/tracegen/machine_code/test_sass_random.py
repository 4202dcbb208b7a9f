"""Random CUDA kernels: their machine code against the same text compiled for this computer."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.compilers import needs_nvidia
from tests.support.cuda_kernels import needs_clang
from tests.support.random_cuda import N_INPUTS, WORDS, device_text, host_results, kernel
from tests.support.sass_runs import TARGETS, compiled, executed, ptx_of

OPTIONS = ("-fmad=false", "-w")
"""Without them NVRTC fuses products and sums, which this computer's compiler is told not to do."""


def check(seeds: range, targets: tuple[str, ...], by_twin: bool) -> None:
    """Compares all variables of all threads, bit by bit."""
    kernels = [kernel(f"k{seed}", seed) for seed in seeds]
    rng = np.random.default_rng(seeds.start)
    given = rng.integers(0, 1 << 32, (32, N_INPUTS), dtype=np.uint32)
    given[:8] &= 255
    given[8], given[9] = 0, 0xFFFFFFFF
    wanted = host_results(kernels, given)
    ptx = ptx_of(device_text(kernels), OPTIONS)
    for target in targets:
        for name, code in compiled(ptx, target, [one.name for one in kernels]).items():
            arrays = {"in": given.ravel(), "out": np.zeros(32 * WORDS, np.uint32)}
            out = executed(code, arrays, ["in", "out"], by_twin=by_twin)["out"]
            assert np.array_equal(out.reshape(32, WORDS), wanted[name]), (name, target)


@needs_nvidia
@needs_clang
def test_random_kernels() -> None:
    check(range(2), ("sm_80", "sm_120"), by_twin=True)


@needs_nvidia
@needs_clang
@pytest.mark.slow
@pytest.mark.parametrize("first", range(100, 500, 40))
def test_many_random_kernels(first: int) -> None:
    check(range(first, first + 40), TARGETS, by_twin=False)
