"""The launches of a kernel without OpenCL, from Loopy's own host code.

Loopy's invoker derives sizes, checks arguments, shapes the outputs and enqueues each launch. Here an
array has only shape, strides and type, and the content that the user gave: nothing is allocated, and nothing runs.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from types import SimpleNamespace
from typing import Any

import numpy as np

from tracegen.instrumented.host import PreparedLoopy, WrapperGenerator
from tracegen.instrumented.launch import LoopyLaunch, Observer
from tracegen.workloads.loopy_unit import as_kernel_error


@dataclass(frozen=True)
class StaticPrepared(PreparedLoopy):
    """A workload whose launches are known without running them."""

    @cached_property
    def launches(self) -> tuple[LoopyLaunch, ...]:
        """Every launch in order, arguments bound.

        Raises KernelError where Loopy's host code refuses the arguments.
        """
        launches: list[LoopyLaunch] = []
        self.executor.observer = launches.append
        arguments = dict(self.workload.arguments)
        with as_kernel_error(self.kernel.name):
            self.executor.check_for_required_array_arguments(arguments.keys())
            if self.executor.packing_controller is not None:
                arguments = self.executor.packing_controller(arguments)
            invoker = _Generator()(
                self.executor.scheduled, self.executor.entrypoint, self.executor.result
            )
            invoker(
                self.executor.kernels, SimpleNamespace(context=None), None, None, None, **arguments
            )
        return tuple(launches)

    def run(self, observer: Observer) -> dict[str, Any]:
        """Calls observer with every launch in order; there are no outputs."""
        for launch in self.launches:
            observer(launch)
        return {}


class Array:
    """An array argument. content : the user's array, None where Loopy allocates it"""

    def __init__(
        self,
        _: Any,
        shape: Any,
        dtype: Any,
        *,
        strides: Any,
        offset: int = 0,
        content: Any = None,
        **__: Any,
    ) -> None:
        self.shape, self.dtype, self.strides = tuple(shape), np.dtype(dtype), tuple(strides)
        self.offset, self.content = offset, content
        self.base_data = None
        self.events = ()

    def add_event(self, _: Any) -> None:
        """Events are of no use without content."""

    def get(self, **_: Any) -> None:
        """Returns None: there is no content."""


def to_device(_: Any, array: Any, **__: Any) -> Array:
    if not array.flags.forc:
        raise RuntimeError("cannot set from non-contiguous array")
    return Array(None, array.shape, array.dtype, strides=array.strides, content=array)


def allocator(_: int) -> None:
    return None


class _Generator(WrapperGenerator):
    def target_specific_preamble(self, gen: Any) -> None:
        super().target_specific_preamble(gen)
        gen.add_to_preamble("import tracegen.polyhedral.host as _lpy_cl_array")

    def initialize_system_args(self, gen: Any) -> None:
        gen("allocator = _lpy_cl_array.allocator")


def static(prepared: PreparedLoopy) -> StaticPrepared:
    """The same workload, to be traced without a run."""
    return StaticPrepared(
        prepared.workload, prepared.kernel, prepared.instrumented, prepared.executor, None
    )
