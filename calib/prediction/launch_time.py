"""The predicted time of a launch as plain data, for the reports of memsim.

The form is that of memsim.report.launch_time. `time_of_replay` is the entry point by which `memsim profile`
finds this model.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from calib.prediction.inputs import Inputs, occurrences
from calib.prediction.machine_pipes import PREFIX, load_store_cycles
from calib.prediction.prediction import Prediction, as_json, predict_replayed
from calib.prediction.throughputs import MATRIX_RATES, cycles_of
from calib.prediction.timeline import timeline_data
from memsim.bounds import places_of
from memsim.machine import Machine
from memsim.montecarlo import Replay
from memsim.report import TENSOR, TWICE_AS_FAST
from memsim.trace import Trace

MOST_TRIALS = 8
"""Trials of a replay whose time is simulated, but two of each place at least; each takes some tenths of a
second."""
NOTABLE = 0.1
"""A resource is made faster in a what-if where its lower bound is this part of the time."""
_ISSUED = {"issued_fma": "fp32", "issued_fp64": "fp64"}


def time_of_replay(traces: Sequence[Trace], replay: Replay, machine: Machine) -> dict[str, Any]:
    """The time of a replayed launch. Raises MemsimError where the machine or the program does not allow it."""
    n_trials = max(MOST_TRIALS, 2 * places_of(replay.dataset).n)
    dataset = replay.dataset.isel(trial=slice(n_trials))
    return time_data(predict_replayed(traces, Replay(dataset), machine))


def time_data(
    prediction: Prediction, changed: Sequence[tuple[str, Prediction]] = ()
) -> dict[str, Any]:
    """A prediction and those with what-if changes."""
    named = [
        {"changes": text, "time_s": other.timing.estimate.mean, "binds": other.timing.binds}
        for text, other in changed
    ]
    return {
        **as_json(prediction),
        "local_share": local_share(prediction),
        "busiest_unit": busiest_unit(prediction.timing.inputs),
        "what_if": [*named, *twice_as_fast(prediction)],
        "rates": list(operation_rates(prediction)),
        "timeline": timeline_data(prediction),
    }


def local_share(prediction: Prediction) -> float:
    """Part of the cycles of the load/store unit and L1 that local memory takes."""
    inputs = prediction.timing.inputs
    local = [
        load_store_cycles(prediction.machine, block.operations) for block in inputs.program.blocks
    ]
    times = occurrences(inputs)
    whole = float(times @ inputs.pipe_cycles)
    return float(times @ np.array(local)) / whole if whole else 0.0


def busiest_unit(inputs: Inputs) -> str:
    """The unit that arithmetic occupies longest; empty where nothing is known of it."""
    cycles = occurrences(inputs) @ inputs.unit_cycles
    cycles *= np.array(inputs.units) != TENSOR  # which have a lower bound of their own
    return inputs.units[int(cycles.argmax())] if cycles.any() else ""


def twice_as_fast(prediction: Prediction) -> list[dict[str, Any]]:
    """The time if one resource were twice as fast, for each whose lower bound is notable; with means over trials.

    No time is longer than the predicted one: what is faster can do as before. In the event simulation sub-groups may go on in
    an order by which they hide less of each other's waits.
    """
    timing = prediction.timing
    total, before = timing.estimate.mean, timing.typical_s
    if not before:
        return []  # nothing that the model counts takes time
    found = []
    for name, floor in timing.floor_means_s.items():
        if floor >= NOTABLE * total:
            part = timing.seconds_with(_faster(timing.typical, name)) / before
            after = total * min(part, 1.0)
            found.append({"changes": f"{name}{TWICE_AS_FAST}", "time_s": after, "binds": ""})
    return found


def _faster(inputs: Inputs, name: str) -> Inputs:
    if name == "arithmetic":
        halves = np.where(np.array(inputs.units) == TENSOR, 1.0, 0.5)
        return dataclasses.replace(
            inputs,
            unit_cycles=inputs.unit_cycles * halves,
            stalled_cycles=tuple(cycles / 2 for cycles in inputs.stalled_cycles),
        )
    if name == "L1":
        return inputs.with_l1_times(0.5)
    if name == TENSOR:
        halves = np.where(np.array(inputs.units) == TENSOR, 0.5, 1.0)
        return dataclasses.replace(inputs, unit_cycles=inputs.unit_cycles * halves)
    divisor = np.where(np.array(inputs.channels) == name, 2.0, 1.0)
    once_s = {channel: s / (1 + (channel == name)) for channel, s in inputs.once_s.items()}
    return dataclasses.replace(
        inputs, channel_cycles=inputs.channel_cycles / divisor, once_s=once_s
    )


def operation_rates(prediction: Prediction) -> Iterator[dict[str, Any]]:
    """Operations per second, by their type: of floating-point units at most these, for each of their instructions counts as
    a multiply-add; of tensor cores exactly these."""
    timing, machine = prediction.timing, prediction.machine
    times = occurrences(timing.inputs)
    resident = timing.residents
    lanes = resident.n_groups * resident.subgroups_per_group * machine.subgroup_size
    flops: dict[str, float] = {}
    matrices: dict[str, float] = {}
    for block, runs in zip(timing.inputs.program.blocks, times, strict=True):
        for name, real_type in _ISSUED.items():
            count = block.operations.get(name, 0.0)
            flops[real_type] = flops.get(real_type, 0.0) + 2 * count * runs
        for name, count in block.operations.items():
            if (kind := name.removeprefix(PREFIX)) in MATRIX_RATES:
                matrices[kind] = matrices.get(kind, 0.0) + 2 * count * runs

    def rate(name: str, each: float, peak: float, unit: str, at_most: bool) -> dict[str, Any]:
        return {
            "name": name,
            "per_s": float(each * lanes / timing.estimate.mean),
            "peak_per_s": float(peak * machine.n_cores * machine.clock_hz),
            "unit": unit,
            "at_most": at_most,
        }

    for real_type, each in sorted(flops.items()):
        peak = 2 * machine.throughputs.get(f"{real_type}_fma", 0.0)
        if peak and each:
            yield rate(real_type.upper(), each, peak, "FLOP", True)
    for kind, each in sorted(matrices.items()):
        unit, factor, _ = kind.split("_")
        name = f"{TENSOR}, {factor}" + ("" if unit == "tensor" else f" ({unit})")
        peak = 2 * machine.subgroup_size / cycles_of(machine, kind)
        yield rate(name, each, peak, "FLOP" if "f" in factor else "OP", False)
