"""The prediction of one configuration: the kernel is made with its values, traced and replayed.

A configuration that cannot be predicted has an outcome with the reason; only an interrupt ends the others.
"""

from __future__ import annotations

import contextlib
import os
import warnings
from dataclasses import dataclass, field

from calib.prediction import PredictOptions, predict, run_replay
from calib.tuning.outcome import EFFORTS, Outcome, outcome_of
from calib.tuning.space import Configuration
from memsim.errors import MemsimError, PathsWarning, SnapshotWarning, one_line
from memsim.machine import load_machine
from tracegen.commands import KernelSpec, trace_sized
from tracegen.options import TraceOptions
from tracegen.own_process import Limits
from tracegen.workloads import WrongSetting


@dataclass(frozen=True, kw_only=True)
class Subject:
    """What is tuned: a kernel with the settings that stay, and how it is looked at.

    tracing : by which tracer and compiler
    folder : where the names of its files are valid
    """

    kernel: KernelSpec
    limits: Limits
    tracing: TraceOptions = field(default_factory=TraceOptions)
    seed: int = 0
    folder: str = field(default_factory=os.getcwd)


@dataclass(frozen=True, kw_only=True)
class Task:
    """One configuration on one machine, to be looked at with some effort."""

    subject: Subject
    configuration: Configuration
    machine: str
    effort: int


def evaluate(task: Task) -> Outcome:
    """The outcome of a task; equal tasks have equal outcomes.

    Raises WrongSetting where the kernel has no such parameter, or it takes no such value.
    """
    try:
        with contextlib.chdir(task.subject.folder), warnings.catch_warnings():
            warnings.simplefilter("ignore", SnapshotWarning)  # short on purpose
            warnings.simplefilter("ignore", PathsWarning)
            return _predicted(task)
    except WrongSetting:
        raise
    except MemsimError as error:
        reason = one_line(error)
    except OSError as error:
        reason = f"{task.subject.folder}: {error.strerror or error}"
    except MemoryError:
        reason = "it does not fit into memory"
    return Outcome(
        configuration=dict(task.configuration),
        machine=task.machine,
        effort=task.effort,
        failure=reason,
    )


def _predicted(task: Task) -> Outcome:
    subject, effort = task.subject, EFFORTS[task.effort]
    machine = load_machine(task.machine)
    base = subject.kernel
    kernel = KernelSpec(base.spec, {**base.settings, **task.configuration}, base.arguments)
    tracing = subject.tracing.replace(earlier=False)
    trace = trace_sized(
        kernel, machine, tracing, subject.limits, lambda one: effort.groups(one, machine)
    )
    options = PredictOptions(trials=effort.trials, seed=subject.seed, jobs=1)
    replay = run_replay([trace], machine, options, miss_kinds=False)
    prediction = predict([trace], machine, options, replay=replay)
    return outcome_of(prediction, trace, task.configuration, task.machine, task.effort)
