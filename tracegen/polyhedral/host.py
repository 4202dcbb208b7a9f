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

from tracegen.instrumented.host import Kernels, PreparedLoopy, WrapperGenerator
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
        kernels = _Kernels(self.executor, None)
        arguments = dict(self.workload.arguments)
        with as_kernel_error(self.kernel.name):
            self.executor.check_for_required_array_arguments(arguments.keys())
            if self.executor.packing_controller is not None:
                arguments = self.executor.packing_controller(arguments)
            invoker = _Generator()(
                self.executor.scheduled, self.executor.entrypoint, self.executor.result
            )
            invoker(kernels, SimpleNamespace(context=None), None, None, None, **arguments)
        return tuple(kernels.launches)

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


class _Kernels(Kernels):
    """Collects launches."""

    def __init__(self, executor: Any, builds: Any) -> None:
        super().__init__(executor, builds)
        self.launches: list[LoopyLaunch] = []

    def enqueue_nd_range_kernel(
        self, queue: Any, proxy: Any, gsize: Any, lsize: Any, *_: Any
    ) -> None:
        grid = tuple(int(extent) for extent in gsize)
        shape = tuple(int(extent) for extent in lsize)
        self.launches.append(LoopyLaunch(proxy, queue, self.n_launched, grid, shape))
        self.n_launched += 1


def static(prepared: PreparedLoopy) -> StaticPrepared:
    """The same workload, to be traced without a run."""
    return StaticPrepared(
        prepared.workload, prepared.kernel, prepared.instrumented, prepared.executor, None
    )
