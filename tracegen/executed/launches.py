"""Traces of workloads whose machine code is run."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from memsim.errors import KernelError
from memsim.machine import Machine
from tracegen.executed.faults import not_known
from tracegen.executed.run import ExecutedRun
from tracegen.executed.targets import lowered, target_of
from tracegen.execution.code import Code
from tracegen.machine_code.binding import bind
from tracegen.machine_code.bound import BoundKernel
from tracegen.options import TraceOptions
from tracegen.record import Launches
from tracegen.workloads.load import AnyWorkload
from tracegen.workloads.workload import OpenCLWorkload, Workload


def executed(workload: AnyWorkload, machine: Machine | None, options: TraceOptions) -> Launches:
    """The launches of a workload, whose machine code is run."""

    def each(seen: Callable[[ExecutedRun], bool]) -> None:
        for bound in bound_launches(workload, machine, options):
            if seen(_run(bound, workload, machine, options)):
                return

    return each


RELATIVE_ERRORS = {4: 1e-4, 8: 1e-10, 2: 1e-2}
"""By bytes of a floating-point number: what sums in another order and approximate functions may differ by, of the largest
number of an array."""


def checked(workload: AnyWorkload, machine: Machine | None, options: TraceOptions) -> str:
    """Runs all launches of a workload with all their values; says what the results were held against.

    This is the workload's `check`, and where there is none, a run of the kernel through OpenCL. Raises KernelError
    where results differ from it, and for CUDA C++ and HIP where there is none.
    """
    outputs: dict[str, Any] = {}
    for bound in bound_launches(workload, machine, options):
        _run(bound, workload, machine, options).whole()
        outputs |= bound.outputs()
    if workload.check is not None:
        try:
            workload.check(outputs)
        except AssertionError as error:
            reason = " ".join(str(error).split()) or "its assertion has no text"
            raise KernelError(
                f"the results are not what the workload's check expects: {reason}"
            ) from None
        return "the workload's own check"
    if not isinstance(workload, Workload | OpenCLWorkload):
        what = type(workload).__name__
        raise KernelError(f"this {what} has no check=, so nothing is known of its results")
    if isinstance(workload, Workload):  # Loopy would leave what no work-item stores as it finds it
        zeros = {name: np.zeros_like(array) for name, array in outputs.items()}
        workload = dataclasses.replace(workload, arguments={**zeros, **workload.arguments})
    _compare(outputs, _from_device(workload, options))
    return "a run through OpenCL"


def _from_device(workload: Workload | OpenCLWorkload, options: TraceOptions) -> dict[str, Any]:
    from tracegen.devices.choice import choose

    context = choose()
    if isinstance(workload, OpenCLWorkload):
        from tracegen.executed.on_device import device_outputs

        return device_outputs(workload, context)
    from tracegen.instrumented.host import prepare
    from tracegen.instrumented.run import DeviceRun

    prepared = prepare(workload, context)
    return prepared.run(lambda launch: DeviceRun(prepared, launch, options).whole())


def _compare(outputs: Mapping[str, Any], expected: Mapping[str, Any]) -> None:
    """Raises KernelError for the first element that differs."""
    for name in sorted(set(outputs) & set(expected)):
        ours, theirs = np.asarray(outputs[name]), np.asarray(expected[name])
        wrong = ours != theirs
        if theirs.dtype.kind in "fc":
            part = RELATIVE_ERRORS[theirs.real.dtype.itemsize]
            largest = np.abs(theirs[np.isfinite(theirs)]).max(initial=0.0)
            wrong = ~np.isclose(ours, theirs, rtol=part, atol=part * largest, equal_nan=True)
        if wrong.any():
            at = tuple(int(k) for k in np.argwhere(wrong)[0])
            raise KernelError(
                f"the results differ from a run through OpenCL in {int(wrong.sum())} of {wrong.size} elements of {name}:"
                f" first at {at}, {ours[at]} instead of {theirs[at]}"
            )


def bound_launches(
    workload: AnyWorkload, machine: Machine | None, options: TraceOptions
) -> Iterator[BoundKernel]:
    """The launches one after another; each must have been run with all its values before the next one is asked for."""
    target = target_of(machine, options)
    for bound in bind(workload, target.name, options.compiler):
        if target.note:
            stand_ins = (target.note, *bound.code.stand_ins)
            code = dataclasses.replace(bound.code, stand_ins=stand_ins)
            bound = dataclasses.replace(bound, code=code)
        yield bound


def _run(
    bound: BoundKernel, workload: AnyWorkload, machine: Machine | None, options: TraceOptions
) -> ExecutedRun:
    code = known(bound, options.lanes(machine))
    return ExecutedRun(bound, code, options, machine, workload.registers_per_item)


def known(bound: BoundKernel, lanes: int) -> Code:
    """The micro-operations of a kernel. Raises KernelError for an instruction that is not known."""
    code = lowered(bound.code, lanes)
    if code.unknown:
        raise not_known(bound, code, min(code.unknown))
    return code
