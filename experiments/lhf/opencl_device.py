"""Matrix products on the OpenCL device at hand: comparison of the predicted with the measured
order."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from scipy.stats import spearmanr

import tracegen
from calib.prediction import PredictOptions, predict
from calib.timing import device_title, find_context, is_gpu, time_kernel
from experiments.kernels import matmul
from experiments.kernels.matmul_volkov import volkov
from experiments.reproduction import Case, Figure
from memsim.machine import load_machine
from tracegen.workloads import Workload

HOST = "cpu-pocl"
"""The machine for which times are predicted: the shipped generic CPU."""
TIE = 0.1
"""Measured times that differ by less than this have no order."""
VARIANTS: dict[str, Callable[[int], Workload]] = {
    "naive 8x8": lambda n: matmul.naive(n=n, tile=8),
    "naive 16x16": lambda n: matmul.naive(n=n, tile=16),
    "tiled 8x8": lambda n: matmul.tiled(n=n, tile=8),
    "tiled 16x16": lambda n: matmul.tiled(n=n, tile=16),
    "Volkov 16x4": lambda n: volkov(n=n),
}


def measured_s(workload: Workload) -> float:
    """The fastest of the trials, because other programs only lengthen a run."""
    timing = time_kernel(workload.kernel, workload.arguments, trials=9)
    return float(timing.seconds.min())


def order(out: Path, quick: bool) -> Figure:
    """Measured and predicted time of each product, and the pairs in the correct order."""
    n = 128 if quick else 256
    context = find_context()
    machine = load_machine(HOST)
    cases = []
    for name, make in VARIANTS.items():
        workload = make(n)
        traces = tracegen.trace_snapshots(workload, machine, snapshots=1)
        prediction = predict(traces, machine, PredictOptions(trials=4, jobs=1))
        cases.append(
            Case(
                name,
                "time",
                "ms",
                reference=1e3 * measured_s(workload),
                ours=1e3 * prediction.timing.estimate.mean,
                note=f"limited by {prediction.timing.binds}",
            )
        )
    correct, pairs = ordered_pairs(cases)
    rank = float(spearmanr([c.reference for c in cases], [c.ours for c in cases]).statistic)
    return Figure(
        reference_name="measured",
        title=f"Matrix products of {n} x {n} on {device_title(context)}",
        source=f"measured on this device, the fastest of 9 runs; predicted for the machine {HOST}"
        + (", which is not a GPU" if is_gpu(context) else ""),
        cases=cases,
        findings=[
            f"{correct} of {pairs} pairs that differ by more than"
            f" {100 * TIE:.0f} % are in the correct order;"
            f" Spearman {rank:.2f}",
        ],
    )


def ordered_pairs(cases: list[Case]) -> tuple[int, int]:
    """Number of pairs in the correct order, and of all pairs that differ by more than TIE."""
    correct = pairs = 0
    times = [(float(case.reference or 0), float(case.ours or 0)) for case in cases]
    for k, (measured, ours) in enumerate(times):
        for other, predicted in times[:k]:
            if abs(measured - other) <= TIE * min(measured, other):
                continue
            pairs += 1
            correct += (measured < other) == (ours < predicted)
    return correct, pairs
