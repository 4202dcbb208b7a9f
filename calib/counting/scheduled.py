"""A kernel as it will run: inlined, typed and ordered, with its launches and loops."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import loopy as lp
import numpy as np
from loopy.kernel.data import ValueArg
from loopy.kernel.instruction import BarrierInstruction, NoOpInstruction
from loopy.schedule import (
    Barrier,
    CallKernel,
    EnterLoop,
    LeaveLoop,
    ReturnFromKernel,
    RunInstruction,
)

from memsim.errors import KernelError
from tracegen.workloads import Workload, as_kernel_error, inlined


@dataclass(frozen=True)
class LoopNest:
    """The launch in which something runs, and the loops of the host and of the device around it."""

    launch: int
    host_loops: tuple[str, ...]
    loops: tuple[str, ...]


@dataclass(frozen=True)
class Scheduled:
    """A kernel in its final order.

    t_unit : the kernel's translation unit, not yet linearized
    names : names of the kernel functions, by launch
    places : instruction -> its place, in execution order
    barriers : place and kind (local or global) of each barrier
    parameters : the integer scalar arguments
    """

    t_unit: Any
    kernel: Any
    callables: Any
    names: tuple[str, ...]
    launch_loops: tuple[tuple[str, ...], ...]
    places: Mapping[str, LoopNest]
    barriers: tuple[tuple[LoopNest, str], ...]
    parameters: tuple[str, ...]


def translation_unit(kernel: Any) -> Any:
    """The loopy.TranslationUnit of a kernel, of a Workload, or of an object with one as `.kernel`.

    A workload's arguments determine the types that the kernel leaves open.
    """
    if isinstance(kernel, lp.TranslationUnit):
        return kernel
    if isinstance(kernel, Workload):
        return _typed(kernel)
    inner = getattr(kernel, "kernel", None)
    if isinstance(inner, lp.TranslationUnit):
        return inner
    raise KernelError(
        f"a kernel is a loopy.TranslationUnit or a tracegen.Workload, got {type(kernel).__name__}"
    )


def schedule(t_unit: Any) -> Scheduled:
    """Orders a kernel; raises KernelError if Loopy refuses it or types are missing."""
    names = sorted(t_unit.entrypoints)
    if len(names) != 1:
        raise KernelError(
            f"a kernel to count must have one entrypoint, got {len(names)}:"
            f" {', '.join(names) or 'none'}; select one with TranslationUnit.with_entrypoints"
        )
    (name,) = names
    with as_kernel_error(name):
        t_unit = lp.infer_unknown_types(t_unit, expect_completion=False)
        t_unit = lp.preprocess_program(inlined(t_unit))
        untyped = [arg.name for arg in t_unit[name].args if arg.dtype in (None, lp.auto)]
        if untyped:
            raise KernelError(
                f"kernel {name} has arguments without a type: {', '.join(untyped)};"
                " give them with lp.add_dtypes"
            )
        kernel = t_unit[name]
        if kernel.linearization is None:
            kernel = lp.get_one_linearized_kernel(kernel, t_unit.callables_table)
    return _read(t_unit, kernel)


def _read(t_unit: Any, kernel: Any) -> Scheduled:
    names: list[str] = []
    launch_loops: list[tuple[str, ...]] = []
    host: list[str] = []
    device: list[str] = []
    inside = False
    places: dict[str, LoopNest] = {}
    barriers: list[tuple[LoopNest, str]] = []
    for item in kernel.linearization:
        place = LoopNest(len(names) - 1, tuple(host), tuple(device))
        if isinstance(item, CallKernel):
            names.append(item.kernel_name)
            launch_loops.append(tuple(host))
            inside = True
        elif isinstance(item, ReturnFromKernel):
            inside = False
        elif isinstance(item, EnterLoop):
            (device if inside else host).append(item.iname)
        elif isinstance(item, LeaveLoop):
            (device if inside else host).pop()
        elif isinstance(item, Barrier):
            if inside:
                barriers.append((place, item.synchronization_kind))
        elif isinstance(item, RunInstruction):
            instruction = kernel.id_to_insn[item.insn_id]
            if not isinstance(instruction, (NoOpInstruction, BarrierInstruction)):
                places[item.insn_id] = place
    parameters = tuple(
        arg.name
        for arg in kernel.args
        if isinstance(arg, ValueArg) and np.dtype(arg.dtype.numpy_dtype).kind in "iu"
    )
    return Scheduled(
        t_unit,
        kernel,
        t_unit.callables_table,
        tuple(names),
        tuple(launch_loops),
        places,
        tuple(barriers),
        parameters,
    )


def _typed(workload: Workload) -> Any:
    t_unit = workload.kernel
    names = sorted(t_unit.entrypoints)
    if len(names) != 1:
        return t_unit
    arguments = t_unit[names[0]].arg_dict
    dtypes = {
        key: np.asarray(value).dtype
        for key, value in workload.arguments.items()
        if key in arguments and arguments[key].dtype in (None, lp.auto) and value is not None
    }
    return lp.add_dtypes(t_unit, dtypes) if dtypes else t_unit
