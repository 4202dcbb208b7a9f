"""A workload's time from a history: a prediction, or the value of `f_cl_wall_time_...`.

A Loopy kernel's launch has its key without being run. Where the history has too few samples, models predict: the
calibrated one, which `memsim calibrate` fitted on the launch's device, and the uncalibrated one, from the kernel and
a machine file. Both are evaluated only where the history needs them.
"""

from __future__ import annotations

import functools
import math
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from calib.history import hooks
from calib.history.answers import Answer, AskPrior, Prior, answer, fresh_time
from calib.history.errors import HistoryError
from calib.history.key import Key, device_title, kernel_fingerprint
from calib.history.regression import NORMAL_95, Question
from calib.history.store import Store
from calib.timing.defaults import TRIALS
from memsim.errors import KernelError, one_line

if TYPE_CHECKING:
    from calib.fitting.saved_model import SavedModel
    from memsim.machine import Machine

FRESH_S = 30 * 86_400.0
"""Greatest age, 30 days, of a key's last sample for its mean to serve as a measurement."""
UNCALIBRATED_DEVIATION = math.log(2.0)
"""Assumed error of the uncalibrated model: two of three times are within a factor of two."""


@dataclass(frozen=True, kw_only=True)
class Launch:
    """A launch's key in a history, and the bytes of its buffers."""

    key: Key
    size_bytes: int


def launch_of(workload: Any, context: Any) -> Launch:
    """The launch of a Loopy kernel with its arguments on a context's device.

    The kernel is built and passes every step but its execution, so its key is the one under which
    `record` stores it.

    workload : a tracegen.Workload;  context : a pyopencl.Context

    Raises HistoryError for a kernel with several launches, which have no common key; KernelError where
    the kernel cannot be built or arguments are missing.
    """
    import loopy as lp
    import numpy as np
    import pyopencl as cl
    import pyopencl.array as cl_array
    from loopy.diagnostic import LoopyError

    if not isinstance(workload.kernel, lp.TranslationUnit):
        raise KernelError(
            f"only a Loopy kernel's launch has a key before it runs, got a"
            f" {type(workload.kernel).__name__}"
        )
    (name,) = workload.kernel.entrypoints

    queue = cl.CommandQueue(context)
    arguments = {
        name: cl_array.to_device(queue, value) if isinstance(value, np.ndarray) else value
        for name, value in workload.arguments.items()
    }
    try:
        with hooks.dry_run() as launches, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Loopy's hints about arguments
            _executor(workload.kernel, context)(queue, **arguments)
    except (LoopyError, cl.Error) as error:
        raise KernelError(f"kernel {name}: {one_line(error)}") from error
    if len(launches) != 1:
        raise HistoryError(
            f"kernel {name} has {len(launches)} launches: a history has a key for each launch, but none"
            " for all of them together"
        )
    _, kernel, grid, group, slots = launches[0]
    key = Key(
        kernel=kernel_fingerprint(kernel),
        device=device_title(queue),
        driver=queue.device.driver_version,
        layout=hooks.layout_of(slots, tuple(grid), tuple(group) if group is not None else None),
    )
    return Launch(key=key, size_bytes=hooks.bytes_of(slots))


@functools.lru_cache(maxsize=64)
def _executor(kernel: Any, context: Any) -> Any:
    import loopy as lp

    return lp.set_options(kernel, return_dict=True, no_numpy=True).executor(context)


def calibrated(saved: SavedModel, workload: Any) -> AskPrior:
    """A prior from a fitted model; its deviation comes from the model's interval.

    It is None on devices other than the model's, and where the model's interval is unbounded.
    """

    def ask(key: Key, question: Question) -> Prior | None:
        from calib.counting.kernel_arguments import sizes_of
        from calib.features.gather import feature_arrays

        if saved.device and not key.device.startswith(saved.device):
            return None
        features = feature_arrays(saved.model.input_features, workload, sizes_of(workload))
        predicted = saved.fit.predict(features)
        time_s, high_s = float(predicted.value), float(predicted.high)
        if not (time_s > 0.0 and math.isfinite(high_s)):
            return None
        deviation = max(math.log(high_s / time_s) / NORMAL_95, 1e-6)
        name = f" {saved.name}" if saved.name else ""
        return Prior(time_s=time_s, deviation=deviation, kind=f"calibrated model{name}")

    return ask


def uncalibrated(
    workload: Any, machine: Machine, *, deviation: float = UNCALIBRATED_DEVIATION
) -> AskPrior:
    """A prior from the time model that needs no measurement.

    deviation : relative standard deviation of its error

    Raises HistoryError for a machine whose number of cores and clock are assumed, such as the shipped
    `cpu-pocl`: it describes no device, so nothing bounds its error.
    """
    if machine.is_assumed("n_cores") and machine.is_assumed("clock_hz"):
        raise HistoryError(
            f"machine {machine.name} describes no device, for its cores and clock are assumed: measure this"
            " one with 'memsim machines measure', and pass the file"
        )

    def ask(key: Key, question: Question) -> Prior | None:
        import tracegen
        from calib.prediction.prediction import predict

        traces = tracegen.trace_snapshots(workload, machine, snapshots=1)
        time_s = float(predict(traces, machine).timing.estimate.mean)
        kind = f"uncalibrated model of {machine.name}"
        return Prior(time_s=time_s, deviation=deviation, kind=kind, calibrated=False)

    return ask


def ask_workload(
    store: Store,
    workload: Any,
    *,
    context: Any = None,
    model: SavedModel | None = None,
    machine: Machine | None = None,
) -> Answer:
    """How long a workload takes on a device: from its history, from a model, or from both.

    workload : a tracegen.Workload
    context : a pyopencl.Context; by default the device that passes a test build
    model : calibrated on this device
    machine : for the uncalibrated model, which is used where nothing else is known

    Raises HistoryError where nothing is known about the workload, or where `machine` describes no device.
    """
    from calib.timing.trials import find_context

    last = None if machine is None else uncalibrated(workload, machine)
    prior = None if model is None else calibrated(model, workload)
    launch = launch_of(workload, context or find_context())
    return answer(store, launch.key, size_bytes=launch.size_bytes, prior=prior, last=last)


def wall_time(
    store: Store,
    workload: Any,
    *,
    context: Any = None,
    max_age_s: float = FRESH_S,
    trials: int = TRIALS,
) -> float:
    """Seconds of a launch: from the store where its key is calibrated, fits and is recent, else timed now.

    Launches that are timed now are added to the store. Both values are means without outliers. A kernel
    with several launches is always timed.

    max_age_s : greatest age of the key's last sample;  trials : of a timing
    """
    from calib.history.recorder import record
    from calib.timing.trials import find_context, time_kernel

    context = context or find_context()
    try:
        known = fresh_time(store, launch_of(workload, context).key, max_age_s)
    except HistoryError:
        known = None
    if known is not None:
        return known
    with record(store):
        timing = time_kernel(workload.kernel, workload.arguments, trials=trials, context=context)
    return timing.value("mean")
