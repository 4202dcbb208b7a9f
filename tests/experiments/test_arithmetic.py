"""Kernels that mostly compute: the time of the n-body step, by what its instructions take."""

from __future__ import annotations

import dataclasses
import importlib

import pytest

from calib.prediction import PredictOptions, predict
from experiments.data_files import rows
from experiments.kernels.n_body import n_body
from experiments.lhf.arithmetic import TABLE, predicted_step_s, rate_of
from memsim.machine import Machine, load_machine
from tests.support.cuda_kernels import needs_clang
from tracegen import CudaWorkload, trace_snapshots

ARITHMETIC = importlib.import_module("experiments.lhf.arithmetic")


def of_8_cores(name: str) -> Machine:
    """The machine with fewer cores, each as fast; what they compute for each other takes less time to trace."""
    machine = load_machine(name)
    levels = (
        dataclasses.replace(one, cores_per_instance=min(one.cores_per_instance, 8))
        for one in machine.levels
    )
    return machine.replace(n_cores=8, levels=tuple(levels))


@needs_clang
def test_time_is_that_of_the_instructions_counted_by_hand() -> None:
    """An interaction is 3 subtractions, 3 FMA for the distance, 3 products, 3 FMA for the sums, and an inverse root, on
    another unit. All units are full, so a V100 does 64 of these operations a cycle and core; what else there is in the
    loop (a broadcast load each, a few jumps) is below a tenth."""
    machine = of_8_cores("v100")
    bodies = 8 * 8 * 256

    def seconds(workload: CudaWorkload) -> float:
        traces = trace_snapshots(workload, machine, snapshots=1)
        timing = predict(traces, machine, PredictOptions(trials=1)).timing
        return float(timing.estimate.mean)

    half, whole = (seconds(n_body(bodies, sources)) for sources in (256, 512))
    least = 12 * bodies * 256 / (64 * 8 * machine.clock_hz)
    assert least <= whole - half <= 1.1 * least
    # What is not flushed to zero is scaled before the root and after it: more products.
    assert seconds(dataclasses.replace(n_body(bodies, 512), build_options="")) > 1.1 * whole


@needs_clang
def test_double_precision_takes_the_units_of_double_precision(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An interaction has 12 operations as in single precision, and an inverse root of a seed and a few operations
    more, at half the rate: 16 to 24 operations."""
    monkeypatch.setattr(ARITHMETIC, "load_machine", of_8_cores)
    monkeypatch.setattr(ARITHMETIC, "SOURCES", (256, 512))
    machine = of_8_cores("a100")
    bodies = machine.n_cores * 4 * 256
    seconds = predicted_step_s("a100", bodies, "float64")
    operations = seconds * machine.clock_hz * machine.n_cores * 32 / bodies**2
    assert 16 < operations < 24


@needs_clang
def test_a_rate_as_the_program_printed_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ARITHMETIC, "SOURCES", (256, 512))
    (case,) = rate_of(rows(TABLE)[1]).cases
    assert case.reference is not None
    assert case.ours is not None
    assert case.reference == pytest.approx(696.8, abs=0.05)
    assert 0.8 < case.ours / case.reference < 1.2
