"""Random kernels: their machine code against the same text compiled for this computer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from tests.support import gcn_runs, sass_runs
from tests.support.compilers import needs_amd, needs_nvidia
from tests.support.random_cuda import (
    N_INPUTS,
    N_THREADS,
    WORDS,
    Kernel,
    device_text,
    host_results,
    kernel,
)
from tests.support.sass_runs import ptx_of
from tracegen.compiled.model import MachineCode
from tracegen.execution.code import Code
from tracegen.execution.operations import OPERATIONS
from tracegen.execution.slicing import sliced
from tracegen.machine_code.gcn_lowering import lower

NVIDIA = ("-fmad=false", "-w")
"""Without them NVRTC fuses products and sums, which this computer's compiler is told not to do."""
AMD = ("-ffp-contract=off", "-munsafe-fp-atomics")
TARGETS = ("sm_75", "sm_80", "sm_90", "sm_120", "gfx90a", "gfx1100", "gfx1201")
AT_ONCE = 20
"""Kernels that are compiled at once."""


def inputs(seed: int) -> Any:
    """(N_THREADS, N_INPUTS) uint32"""
    given = np.random.default_rng(seed).integers(0, 1 << 32, (N_THREADS, N_INPUTS), dtype=np.uint32)
    given[:16] &= 255
    given[16], given[17] = 0, 0xFFFFFFFF
    given[18:24] |= 0x80000000
    return given


def differing(kernels: list[Kernel], given: Any, targets: Sequence[str]) -> list[str]:
    """The kernels that leave other variables than on this computer, in any bit of any thread."""
    names, wrong = [one.name for one in kernels], []
    arrays = {"in": given.ravel(), "out": np.zeros(N_THREADS * WORDS, np.uint32)}
    wanted = host_results(kernels, given, 64 if "gfx90a" in targets else 32)
    for target in targets:
        if target.startswith("gfx"):
            codes = gcn_runs.compiled(device_text(kernels, amd=True), target, names, AMD)
        else:
            codes = sass_runs.compiled(ptx_of(device_text(kernels), NVIDIA), target, names)
        for name in names:
            left = executed(codes[name], arrays)["out"].reshape(N_THREADS, WORDS)
            wrong += [f"{target}: {name}"] * (not np.array_equal(left, wanted[name]))
    return wrong


def executed(code: MachineCode, arrays: dict[str, Any]) -> dict[str, Any]:
    if code.target.startswith("gfx"):
        return gcn_runs.executed(code, arrays, ["in", "out"], block=N_THREADS)
    return sass_runs.executed(
        code, arrays, ["in", "out"], block=N_THREADS, by_twin=False, limit=1 << 20
    )


@needs_nvidia
def test_random_kernels_on_nvidia() -> None:
    kernels = [kernel(f"k{seed}", seed) for seed in range(2)]
    assert not differing(kernels, inputs(0), ("sm_80", "sm_120"))


@needs_amd
@pytest.mark.parametrize("target", ["gfx90a", "gfx1201"])
def test_random_kernels_on_amd(target: str) -> None:
    kernels = [kernel(f"k{seed}", seed, amd=True) for seed in range(2)]
    assert not differing(kernels, inputs(0), (target,))


@needs_nvidia
@needs_amd
@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("first", range(1000, 1600, AT_ONCE))
def test_many_random_kernels(first: int, target: str) -> None:
    """Together 4,200."""
    seeds = range(first, first + AT_ONCE)
    amd = target.startswith("gfx")
    kernels = [kernel(f"k{seed}", seed + 10_000 * TARGETS.index(target), amd) for seed in seeds]
    assert not differing(kernels, inputs(first), (target,))


@needs_amd
@pytest.mark.parametrize("target", ["gfx90a", "gfx1100"])
def test_what_one_store_needs_of_random_kernels(target: str) -> None:
    """What is left of the code where the values of a single store are wanted stores what all of it does."""
    kernels = [kernel(f"k{seed}", seed, amd=True) for seed in (0, 11)]
    _stores_hold(kernels, target)


@needs_amd
@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("target", ["gfx90a", "gfx942", "gfx1100", "gfx1201"])
@pytest.mark.parametrize("first", range(2000, 2100, AT_ONCE))
def test_what_one_store_needs_of_many_random_kernels(first: int, target: str) -> None:
    _stores_hold(
        [kernel(f"k{seed}", seed, amd=True) for seed in range(first, first + AT_ONCE)], target
    )


def _stores_hold(kernels: list[Kernel], target: str) -> None:
    text, untouched = device_text(kernels, amd=True), 0xA5A5A5A5
    codes = gcn_runs.compiled(text, target, [one.name for one in kernels], AMD)
    for name, code in codes.items():
        whole = lower(code)
        stores = {
            k for k, op in enumerate(whole.columns("op")[0]) if op == OPERATIONS["STORE"].number
        }

        def left(without: set[int], code: MachineCode = code, whole: Code = whole) -> Any:
            part = sliced(whole, global_values=True, products=True, left_out=frozenset(without))
            arrays = {"in": inputs(0).ravel(), "out": np.full(N_THREADS * WORDS, untouched)}
            given = {name: array.astype(np.uint32) for name, array in arrays.items()}
            return gcn_runs.executed(code, given, ["in", "out"], block=N_THREADS, lowered=part)[
                "out"
            ]

        wanted = left(set())
        assert not (wanted == untouched).any()
        results = {k for k in stores if (left({k}) == untouched).any()}
        assert results
        for k in results:
            found = left(results - {k})
            stored = found != untouched
            assert stored.any()
            assert np.array_equal(found[stored], wanted[stored]), f"{target}: {name}, store {k}"
