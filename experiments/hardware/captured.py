"""Ours beside what captures measured: counters as Nsight Compute counts, and times.

Each capture's kernels are traced and replayed on the machine that it names. Nsight Compute counts a
whole launch from empty caches; ours are those of a snapshot from its middle, scaled to the launch.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np

import tracegen
from calib.prediction import Prediction, Settings, predict
from experiments.hardware import drawing
from experiments.hardware.capture import FOLDER, machine_of
from experiments.hardware.capture_file import Capture, CapturedKernel, read_capture
from experiments.hardware.capture_kernels import workload
from experiments.hardware.comparison import errors
from experiments.reproduction import Case, Figure
from memsim.errors import MemsimError
from memsim.formats import CounterFile, Launch
from memsim.machine import Machine, load_machine
from memsim.report import against

NAME = "captured"
TIME = "time"
COMMAND = "python -m experiments.hardware_validation --capture"


def captured(out: Path, quick: bool, folder: Path = FOLDER) -> Figure:
    """Every capture of a folder against predictions; one that cannot be read is a finding."""
    cases: list[Case] = []
    findings: list[str] = []
    paths = sorted(path for path in folder.glob("*.json") if path.is_file())
    if not paths:
        findings.append(f"no captures in {folder}: {COMMAND} makes one on a machine with a GPU")
    for path in paths:
        try:
            capture = read_capture(path)
        except MemsimError as error:
            findings.append(f"left out: {error}")
            continue
        findings.append(_provenance(capture))
        findings += [f"{path.name}: not collected: {why}" for why in capture.not_collected]
        if capture.machine is None:
            why = machine_of(capture.device, capture.n_cores)[1]
            findings.append(f"{path.name}: not compared: {why or 'it names no machine'}")
            continue
        machine = load_machine(capture.machine)
        for kernel in capture.kernels:
            cases += kernel_cases(capture, kernel, machine, 4 if quick else 16)
    findings += summaries(cases)
    return Figure(
        reference_name="measured",
        name=NAME,
        title="Captures on hardware against replays",
        source=f"{len(paths)} files of {COMMAND}: times are medians of events, counters those of"
        " Nsight Compute, which empties the caches first.",
        cases=cases,
        findings=findings,
        pictures=_pictures(out, cases),
    )


def kernel_cases(
    capture: Capture, kernel: CapturedKernel, machine: Machine, trials: int
) -> list[Case]:
    """Counters and the time of one kernel; a case without ours where it cannot be predicted."""
    case = f"{machine.name} {kernel.name}"
    measured_s = float(np.median(kernel.times_s)) if kernel.times_s else None
    time = Case(
        figure=NAME, case=case, quantity=TIME, unit="s", reference=measured_s, ours=None
    )  # fmt: skip
    try:
        found = _prediction(kernel, machine, trials)
        cases = _counter_cases(case, capture.path, kernel, found)
    except MemsimError as error:
        return [dataclasses.replace(time, note=f"not predicted: {error}")]
    if measured_s is None:
        return cases
    ours = found.timing.estimate
    note = f"{len(kernel.times_s)} trials, {kernel.clock} clock"
    predicted = dataclasses.replace(time, ours=ours.mean, ci95=_finite(ours.half_width), note=note)
    return [*cases, predicted]


def _prediction(kernel: CapturedKernel, machine: Machine, trials: int) -> Prediction:
    work = workload(kernel.name, kernel.sizes)
    traces = [tracegen.trace(work, machine)]
    return predict(work, traces, machine, Settings(trials=trials))


def _counter_cases(case: str, path: Path, kernel: CapturedKernel, found: Prediction) -> list[Case]:
    if not kernel.launches or found.replay is None:
        return []
    launches = tuple(
        Launch(id=str(i), kernel=found.kernel, n_groups=one.n_groups, counters=one.counters)
        for i, one in enumerate(kernel.launches)
    )
    rows = against(found.replay, [CounterFile(path=path, tool="nsight", launches=launches)]).rows
    return [
        Case(
            figure=NAME,
            case=case,
            quantity=f"{row.level} {row.what}",
            unit=row.unit,
            reference=row.measured,
            ours=_finite(row.counted.mean),
            ci95=_finite(row.counted.half_width),
            note=row.note,
        )
        for row in rows
    ]


def summaries(cases: Sequence[Case]) -> list[str]:
    """The errors of every quantity, a line each: points where it is a percentage."""
    found = []
    for quantity in dict.fromkeys(case.quantity for case in cases):
        there = [case for case in cases if case.quantity == quantity and case.ours is not None]
        if there and there[0].unit == "%":
            off = [abs((c.ours or 0.0) - (c.reference or 0.0)) for c in there]
            found.append(
                f"{quantity}: {np.mean(off):.1f} points off in the mean, at most {max(off):.1f},"
                f" {len(off)} cases"
            )
        elif positive := [c for c in there if c.reference and c.ours]:
            found.append(f"{quantity}: {errors(positive, quantity)}")
    return found


def _provenance(capture: Capture) -> str:
    kinds = " and ".join(
        kind
        for kind, there in (
            ("times", any(kernel.times_s for kernel in capture.kernels)),
            ("counters", any(kernel.launches for kernel in capture.kernels)),
        )
        if there
    )
    state = "" if capture.finished else ", not finished"
    return (
        f"{capture.path.name}: {capture.device} ({capture.driver}), {capture.date},"
        f" {len(capture.kernels)} kernels through {capture.way}, {kinds or 'nothing measured'}{state}"
    )


def _pictures(out: Path, cases: Sequence[Case]) -> list[str]:
    """Times, and counts of all kinds; labelled by the kernel alone where there is one machine."""
    made = []
    there = [case for case in cases if case.reference and case.ours]
    if len({case.case.split()[0] for case in there}) == 1:
        there = [dataclasses.replace(case, case=case.case.split(" ", 1)[1]) for case in there]
    for name, title, of_time in (("time", "times, s", True), ("counts", "counts", False)):
        chosen = [c for c in there if (c.quantity == TIME) == of_time and c.unit != "%"]
        if chosen:
            made.append(drawing.scatter(out / f"{NAME}-{name}.png", chosen, f"Captured: {title}"))
    return made


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
