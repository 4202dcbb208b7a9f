"""A Loopy workload's time from a history: a prediction, or the value of `f_cl_wall_time_...`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from calib.history.answers import Answer, answer, fresh_time
from calib.history.dry_run import launch_of
from calib.history.errors import HistoryError
from calib.history.priors import calibrated, uncalibrated
from calib.history.store import Store
from calib.timing.defaults import TRIALS

if TYPE_CHECKING:
    from calib.fitting.saved_model import SavedModel
    from memsim.machine import Machine

FRESH_S = 30 * 86_400.0
"""Greatest age, 30 days, of a key's last sample for its mean to serve as a measurement."""


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
