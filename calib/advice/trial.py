"""Tries a change: its results compared with the user's kernel's, its trace, and its predicted time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from calib.advice.variants import Variant
from calib.prediction import Prediction, PredictOptions, predict
from calib.prediction.prediction import resident_share
from memsim.errors import KernelError
from memsim.machine import Machine
from memsim.montecarlo import Replay
from memsim.trace import Trace
from tracegen import trace_snapshots
from tracegen.options import TraceOptions

Kind = Literal["kernel", "layout", "launch", "upper bound"]
ROUNDINGS = 1000
"""Results may differ by this many roundings of the largest value of an array: sums in another order do."""


@dataclass(frozen=True, kw_only=True)
class Measured:
    """What was predicted of a change.

    seconds : (n_trial,) predicted times;  difference : largest difference of a result, in roundings of the
        largest value of its array; None where nothing was compared
    occupancy : of a core, less where the launch has too few groups to fill it
    registers, local_bytes : of a work-item and of a group; None where they are unknown
    """

    seconds: npt.NDArray[np.float64]
    binds: str
    groups_per_core: int
    occupancy: float
    registers: int | None
    local_bytes: int
    difference: float | None = None


def measured(prediction: Prediction, trace: Trace, difference: float | None = None) -> Measured:
    """The numbers of a prediction."""
    return Measured(
        seconds=prediction.timing.seconds,
        binds=prediction.timing.binds,
        groups_per_core=prediction.timing.residents.groups_per_core,
        occupancy=resident_share(prediction),
        registers=trace.launch.registers_per_item,
        local_bytes=trace.launch.local_memory_bytes,
        difference=difference,
    )


def predicted(
    workload: Any, machine: Machine, options: PredictOptions, tracing: TraceOptions | None = None
) -> tuple[Prediction, list[Trace]]:
    """As `memsim predict` predicts, with the snapshot that it replays."""
    traces = trace_snapshots(workload, machine, snapshots=1, options=tracing)
    return predict(traces, machine, options), traces


def try_workload(
    workload: Any, machine: Machine, options: PredictOptions, tracing: TraceOptions
) -> Measured:
    """Another workload, predicted."""
    prediction, traces = predicted(workload, machine, options, tracing)
    return measured(prediction, traces[0])


def outputs_of(variant: Variant) -> dict[str, Any]:
    """What a Loopy kernel computes on an OpenCL device. Raises KernelError where it cannot be run."""
    import loopy as lp
    import pyopencl as cl

    from tracegen.devices import choose
    from tracegen.workloads import as_kernel_error

    workload = variant.workload
    name = workload.kernel.default_entrypoint.name
    # A driver's cache has files that are named after the kernel, whose own name may be too long for one.
    kernel = lp.rename_callable(workload.kernel, name, "advised")
    kernel = lp.set_options(kernel, return_dict=True)
    arguments = {
        name: value.copy(order="K") if isinstance(value, np.ndarray) else value
        for name, value in workload.arguments.items()
    }
    with as_kernel_error(name):
        queue = cl.CommandQueue(choose())
        _, outputs = kernel(queue, out_host=True, **arguments)
    return variant.restored(outputs)


def difference(outputs: Mapping[str, Any], reference: Mapping[str, Any]) -> float:
    """The largest difference, in roundings of the largest value of its array.

    Raises KernelError, which names an array, where it exceeds ROUNDINGS, or an integer differs.
    """
    worst = 0.0
    for name, right in reference.items():
        got = np.asarray(outputs[name])
        if got.shape != right.shape:
            raise KernelError(f"{name} has the shape {got.shape} instead of {right.shape}")
        if not np.issubdtype(right.dtype, np.inexact):
            if not np.array_equal(got, right):
                raise KernelError(f"{name} differs from the original's")
            continue
        finite = np.isfinite(right)
        if not np.array_equal(np.isfinite(got), finite):
            raise KernelError(f"{name} is not finite where the original's is, or the reverse")
        largest = float(np.abs(right[finite]).max(initial=0.0))
        rounding = float(np.finfo(right.dtype).eps) * largest
        off = float(np.abs(got[finite] - right[finite]).max(initial=0.0))
        roundings = off / rounding if rounding else (np.inf if off else 0.0)
        if roundings > ROUNDINGS:
            raise KernelError(
                f"{name} differs from the original's by {off:.3g}, more than {ROUNDINGS} roundings of"
                f" its largest value {largest:.3g}"
            )
        worst = max(worst, roundings)
    return worst


def try_variant(
    variant: Variant,
    reference: Mapping[str, Any],
    machine: Machine,
    options: PredictOptions,
    tracing: TraceOptions,
) -> Measured:
    """A transformed kernel: run, compared and predicted. Raises KernelError or what Loopy raises."""
    off = difference(outputs_of(variant), reference)
    prediction, traces = predicted(variant.workload, machine, options, tracing)
    return measured(prediction, traces[0], off)


@dataclass(frozen=True, kw_only=True)
class Changed:
    """What a prediction starts from, after a change to the launch, the machine or the trace.

    what_if : a change of the machine, as `memsim predict --what-if` takes it; "" for none
    replay : in place of one of the traces; None to replay them
    """

    traces: Sequence[Trace]
    options: PredictOptions
    what_if: str = ""
    replay: Replay | None = None


def try_change(base: Prediction, alter: Callable[[Changed], Changed], start: Changed) -> Measured:
    """A change of the launch, the machine or the trace, predicted. Raises MemsimError where it is impossible.

    base : of the kernel as it is
    """
    from calib.prediction.prediction import predict_changed
    from calib.prediction.what_if import Changes, parse

    changed = alter(start)
    if changed.replay is not None:
        same = Changes(text="", machine=base.machine)
        replayed = replace(base, replay=changed.replay)
        prediction = predict_changed(replayed, changed.traces, changed.options, same)
    elif changed.what_if:
        changes = parse(changed.what_if, base.machine)
        prediction = predict_changed(base, changed.traces, changed.options, changes)
    else:
        prediction = predict(changed.traces, base.machine, changed.options)
    return measured(prediction, changed.traces[0])
