"""Kernels that mostly compute: the time of the n-body step, by what its instructions take."""

from __future__ import annotations

import dataclasses

import pytest

from calib.prediction import PredictOptions, predict
from experiments.data_files import rows
from experiments.kernels.n_body import n_body
from experiments.lhf.arithmetic import TABLE, predicted_step_s, rate_of
from memsim.machine import load_machine
from tests.support.cuda_kernels import needs_clang
from tracegen import trace_snapshots


@needs_clang
def test_time_is_that_of_the_instructions_counted_by_hand() -> None:
    """An interaction is 3 subtractions, 3 FMA for the distance, 3 products, 3 FMA for the sums, and an inverse root, on
    another unit. All units are full, so a V100 does 64 of these operations a cycle and core; what else there is in the
    loop (a broadcast load each, a few jumps) is below a tenth."""
    machine = load_machine("v100")
    seconds = []
    for sources in (256, 512):
        workload = n_body(80 * 8 * 256, sources)
        traces = trace_snapshots(workload, machine, snapshots=1)
        timing = predict(traces, machine, PredictOptions(trials=1)).timing
        seconds.append(timing.estimate.mean)
    interactions = 80 * 8 * 256 * 256
    least = 12 * interactions / (64 * 80 * machine.clock_hz)
    assert least <= seconds[1] - seconds[0] <= 1.1 * least
    # What is not flushed to zero is scaled before the root and after it: more products.
    scaled = dataclasses.replace(n_body(80 * 8 * 256, 512), build_options="")
    traces = trace_snapshots(scaled, machine, snapshots=1)
    longer = predict(traces, machine, PredictOptions(trials=1)).timing
    assert longer.estimate.mean > 1.1 * seconds[1]


@needs_clang
def test_double_precision_takes_the_units_of_double_precision() -> None:
    """An interaction has 12 operations as in single precision, and an inverse root of a seed and a few operations
    more, at half the rate: 16 to 24 operations."""
    machine = load_machine("a100")
    bodies = machine.n_cores * 4 * 256
    seconds = predicted_step_s("a100", bodies, "float64")
    operations = seconds * machine.clock_hz * machine.n_cores * 32 / bodies**2
    assert 16 < operations < 24


@needs_clang
def test_a_rate_as_the_program_printed_it() -> None:
    (case,) = rate_of(rows(TABLE)[1]).cases
    assert case.reference is not None
    assert case.ours is not None
    assert case.reference == pytest.approx(696.8, abs=0.05)
    assert 0.8 < case.ours / case.reference < 1.2


def test_the_table_names_machines_and_whole_tiles() -> None:
    for row in rows(TABLE):
        load_machine(row["machine"])
        assert int(row["bodies"]) % 256 == 0
