"""One launch of a probed Loopy kernel: its arguments, its arrays and its address map."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyopencl as cl
from loopy.kernel.data import AddressSpace, ArrayArg
from loopy.schedule.tools import (
    get_subkernel_arg_info,
    temporaries_read_in_subkernel,
    temporaries_written_in_subkernel,
)
from pymbolic import evaluate

from memsim.errors import KernelError
from memsim.trace import AccessSite, ArrayExtent
from tracegen.instrumented.instrument import Instrumented
from tracegen.instrumented.sites import readable, site_map, static_accesses
from tracegen.instrumented.tables import ProbeTables, tables
from tracegen.instrumented.tokens import TokenEncoding
from tracegen.recording.sites import allocate


@dataclass(frozen=True)
class Layout:
    """The address map of a launch, and how its tokens become accesses.

    site_of : the site of each position
    sizes : the numbers that a probed kernel takes after the extents of its grid
    """

    extents: tuple[ArrayExtent, ...]
    sites: tuple[AccessSite, ...]
    site_of: tuple[int, ...]
    tables: ProbeTables
    sizes: Sequence[int]
    encoding: TokenEncoding


class Proxy:
    """One kernel function with the arguments that host code sets."""

    def __init__(self, kernels: Any, name: str) -> None:
        self.kernels, self.name = kernels, name
        self.info = get_subkernel_arg_info(kernels.executor.kernel, name)
        self.num_args = len(self.info.passed_names)
        self.arguments: dict[int, tuple[str, Any]] = {}

    def _set_arg_multi(self, pairs: Sequence[Any]) -> None:
        for index, value in zip(pairs[::2], pairs[1::2], strict=True):
            self.arguments[index] = ("object", value)

    def _set_arg_buf_multi(self, pairs: Sequence[Any]) -> None:
        for index, value in zip(pairs[::2], pairs[1::2], strict=True):
            self.arguments[index] = ("bytes", value)

    def _set_arg_buf_pack_multi(self, triples: Sequence[Any]) -> None:
        for index, code, value in zip(triples[::3], triples[1::3], triples[2::3], strict=True):
            self.arguments[index] = ("pack", (code, value))

    def argument(self, name: str) -> Any:
        return self.arguments[self.info.passed_names.index(name)][1]


class LoopyLaunch:
    """A launch that Loopy's host code made, with its arguments bound, not yet run.

    index : number of the launch in its workload; name : the kernel function
    grid : groups along each axis; group_shape : work-items along each axis of a group
    """

    def __init__(
        self,
        proxy: Proxy,
        queue: Any,
        index: int,
        grid: tuple[int, ...],
        group_shape: tuple[int, ...],
    ) -> None:
        executor = proxy.kernels.executor
        self.proxy, self.queue, self.index = proxy, queue, index
        self.grid, self.group_shape = grid, group_shape
        self.name = proxy.name
        self.instrumented: Instrumented = executor.instrumented
        self.program = self.instrumented.program(proxy.name)
        self.kernel, self.user = executor.kernel, executor.user
        # Arguments are bound again for the next launch.
        self.bound: Mapping[str, Any] = proxy.kernels.values

    @property
    def n_groups(self) -> int:
        return math.prod(self.grid)

    @property
    def group_items(self) -> int:
        """Work-items of a group."""
        return math.prod(self.group_shape)

    @cached_property
    def layout(self) -> Layout:
        elements = {name: element_bytes(self.kernel, name) for name in self.array_names}
        extents = allocate({name: self.array_bytes(name) for name in self.array_names})
        probes = self.program.probes
        table = self.instrumented.table
        accesses = static_accesses(self.program, table, self.kernel, elements, self.user)
        sites, site_of = site_map(probes, accesses)
        sizes = [
            self.array_bytes(name) // elements[name]
            if axis is None
            else self.array_shape(name)[axis]
            for name, axis in self.program.sizes
        ]
        parts = [(one.offset_bytes, one.size_bytes) if one else (0, 0) for one in accesses]
        bases = {extent.name: extent.base_bytes for extent in extents}
        return Layout(
            extents=extents,
            sites=sites,
            site_of=site_of,
            tables=tables(probes, site_of, parts, bases, elements),
            sizes=sizes,
            encoding=TokenEncoding.smallest(len(probes), max(sizes, default=0)),
        )

    @cached_property
    def integers(self) -> dict[str, int]:
        """Integer arguments by name."""
        return {
            name: int(value)
            for name, value in self.bound.items()
            if isinstance(value, (int, np.integer))
        }

    @cached_property
    def settings(self) -> dict[str, int]:
        """Integer arguments and counters of the host's loops, by name."""
        loops = set(self.proxy.info.passed_inames)
        counters = {}
        for index, name in enumerate(self.proxy.info.passed_names):
            if name in loops:
                kind, value = self.proxy.arguments[index]
                number = value[1] if kind == "pack" else value
                if isinstance(number, (bytes, bytearray, memoryview, np.ndarray)):
                    number = np.frombuffer(number, np.int32)[0]
                counters[name] = int(number)
        return self.integers | counters

    def array_shape(self, name: str) -> tuple[int, ...]:
        bound = self.bound.get(name)
        if bound is not None:
            return tuple(int(extent) for extent in bound.shape)
        array = self.kernel.get_var_descriptor(name)
        return tuple(int(evaluate(extent, self.integers)) for extent in array.shape)

    def array_bytes(self, name: str) -> int:
        """Bytes from the start of an array's buffer to the end of its last element."""
        bound = self.bound.get(name)
        if bound is not None:
            if 0 in bound.shape:
                return 0
            spans = zip(bound.shape, bound.strides, strict=True)
            extent = sum((n - 1) * stride for n, stride in spans)
            return int(bound.offset + extent + bound.dtype.itemsize)
        array = self.kernel.get_var_descriptor(name)
        return 0 if 0 in self.array_shape(name) else int(evaluate(array.nbytes, self.integers))

    @cached_property
    def array_names(self) -> tuple[str, ...]:
        """Every global array of the kernel: arguments in order, then temporaries by name."""
        arguments = [
            argument.name
            for argument in self.kernel.args
            if isinstance(argument, ArrayArg)
            and argument.address_space == AddressSpace.GLOBAL
            and self.bound.get(argument.name) is not None
        ]
        temporaries = sorted(
            variable.name
            for variable in self.kernel.temporary_variables.values()
            if variable.address_space == AddressSpace.GLOBAL
            and variable.initializer is None
            and not variable.base_storage
        )
        return (*arguments, *temporaries)

    @cached_property
    def local_memory_bytes(self) -> int:
        names = temporaries_read_in_subkernel(self.kernel, self.name)
        names |= temporaries_written_in_subkernel(self.kernel, self.name)
        variables = [self.kernel.temporary_variables[name] for name in names]
        return sum(
            int(evaluate(variable.nbytes, self.integers))
            for variable in variables
            if variable.address_space == AddressSpace.LOCAL
        )

    def written_and_read(self) -> list[Any]:
        """Buffers whose content before the launch matters to a second run."""
        read = {probe.array for probe in self.program.probes if probe.kind in ("load", "atomic")}
        names = sorted(read & set(self.proxy.info.written_names))
        buffers = [self.proxy.argument(name) for name in names]
        return [buffer for buffer in buffers if buffer is not None]

    def kernel_for(self, recording: TokenEncoding | None) -> Any:
        """The probed kernel that records tokens; for None, the one that counts them."""
        options = () if recording is None else recording.build_options
        return self.proxy.kernels.builds.kernel(self.name, options)

    @cached_property
    def _no_elements(self) -> Any:
        """The buffer that stands for arrays without elements."""
        return cl.Buffer(self.queue.context, cl.mem_flags.READ_WRITE, 64)

    def set_arguments(self, kernel: Any) -> int:
        """Sets the kernel's original arguments; returns their number."""
        for index, (kind, value) in self.proxy.arguments.items():
            if kind == "object":
                kernel._set_arg_multi((index, self._no_elements if value is None else value))
            elif kind == "bytes":
                kernel._set_arg_buf_multi((index, value))
            else:
                kernel._set_arg_buf_pack_multi((index, *value))
        return self.proxy.num_args

    def probe_arguments(self, buffers: Sequence[Any]) -> list[Any]:
        """What a probed kernel takes behind its original arguments.

        buffers : tokens, offsets, counts, group ids, fault
        """
        grid = (*self.grid, 1, 1)
        extents = [np.uint32(grid[0]), np.uint32(grid[1])]
        return [*buffers, *extents, *(np.int64(size) for size in self.layout.sizes)]

    def fault_of(self, fault: Any, group: int) -> KernelError:
        """The error of a fault, with the work-item that reported it.

        fault : see tracegen.instrumented.tokens.FAULT_WORDS;  group : its number in the launch
        """
        error = self._out_of_bounds(*(int(number) for number in fault[1:5]))
        group_id, local = _axes(group, self.grid), _axes(int(fault[6]), self.group_shape)
        extents = zip([*self.grid, 1, 1], [*self.group_shape, 1, 1], strict=False)
        n_axes = max([k + 1 for k, one in enumerate(extents) if max(one) > 1], default=1)
        return KernelError(
            f"{error}; work-item {_shown(local, n_axes)} of group {_shown(group_id, n_axes)}"
        )

    def _out_of_bounds(self, position: int, index: int, axis: int, at: int) -> str:
        """axis : -1 where the index of the whole array is out of its range"""
        probe = self.program.probes[position]
        mark = self.instrumented.table.marks[probe.mark]
        site = self.layout.sites[self.layout.site_of[position]]
        where = f"index {index}" if axis < 0 else f"index {at} of axis {axis}"
        return (
            f"access {site.name} is out of bounds:"
            f" {where} in array {probe.array} of shape {self.array_shape(probe.array)}"
            f" ({mark.kind} {readable(mark.expression)} in instruction {probe.instruction}{_place(site)})"
        )


Observer = Callable[[LoopyLaunch], object]
"""Called with every launch of a workload in order; the observer runs it, or leaves it out."""


def _axes(number: int, shape: Sequence[int]) -> list[int]:
    """The coordinates of a number, the first axis varying fastest; three axes."""
    found = []
    for extent in [*shape, 1, 1, 1][:3]:
        number, at = divmod(number, max(extent, 1))
        found.append(at)
    return found


def _shown(numbers: Sequence[int], n_axes: int) -> str:
    used = [str(number) for number in numbers[:n_axes]]
    return used[0] if n_axes == 1 else f"({', '.join(used)})"


def _place(site: AccessSite) -> str:
    """`, kernels.py:12`; empty where the user's line is not known."""
    source = site.source
    if source is None or source.user_file is None or source.user_line is None:
        return ""
    return f", {Path(source.user_file).name}:{source.user_line}"


def element_bytes(kernel: Any, name: str) -> int:
    """Size of the C element that a subscript of a global array addresses."""
    array = kernel.get_var_descriptor(name)
    length = array.vector_length()
    dtype = kernel.target.vector_dtype(array.dtype, length) if length > 1 else array.dtype
    return int(dtype.numpy_dtype.itemsize)
