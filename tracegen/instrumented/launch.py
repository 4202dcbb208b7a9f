"""One launch of a probed kernel: its arguments, its arrays, and how to run some of its groups."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
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

from tracegen.probes.program import Program


@dataclass(frozen=True)
class TokenEncoding:
    """How a token holds a position and an index: `position << position_shift | index`.

    trusted : the recording run cannot differ from the counting run, which checked every index
    """

    bytes: int
    position_shift: int
    trusted: bool = False

    @classmethod
    def smallest(cls, n_positions: int, largest_array: int, trusted: bool) -> TokenEncoding:
        """Four bytes where every position and index fits, else eight."""
        shift = 32 - max(n_positions - 1, 1).bit_length()
        fits = largest_array <= 1 << shift
        return cls(4, shift, trusted) if fits else cls(8, 48, trusted)

    def split(self, token: int) -> tuple[int, int]:
        """The position and the index of a token."""
        return token >> self.position_shift, token & ((1 << self.position_shift) - 1)

    @property
    def dtype(self) -> Any:
        return np.uint32 if self.bytes == 4 else np.uint64


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


class BoundLaunch:
    """One launch with its arguments, not yet run.

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
        self.proxy, self.queue, self.index = proxy, queue, index
        self.grid, self.group_shape = grid, group_shape
        self.name = proxy.name
        self.program: Program = proxy.kernels.executor.instrumented.program(proxy.name)
        self.kernel = proxy.kernels.executor.kernel
        self.n_groups = int(np.prod(grid, dtype=np.int64))
        self.group_items = int(np.prod(group_shape, dtype=np.int64))
        self.context = proxy.kernels.executor.context

    @cached_property
    def values(self) -> dict[str, int]:
        """Integer arguments by name."""
        return {
            name: int(value)
            for name, value in self.proxy.kernels.values.items()
            if isinstance(value, (int, np.integer))
        }

    def array_shape(self, name: str) -> tuple[int, ...]:
        bound = self.proxy.kernels.values.get(name)
        if bound is not None:
            return tuple(int(extent) for extent in bound.shape)
        array = self.kernel.get_var_descriptor(name)
        return tuple(int(evaluate(extent, self.values)) for extent in array.shape)

    def array_bytes(self, name: str) -> int:
        """Bytes from an array's first byte to behind its last one."""
        bound = self.proxy.kernels.values.get(name)
        if bound is not None:
            if 0 in bound.shape:
                return 0
            spans = zip(bound.shape, bound.strides, strict=True)
            extent = sum((n - 1) * stride for n, stride in spans)
            return int(bound.offset + extent + bound.dtype.itemsize)
        array = self.kernel.get_var_descriptor(name)
        return 0 if 0 in self.array_shape(name) else int(evaluate(array.nbytes, self.values))

    @cached_property
    def array_names(self) -> tuple[str, ...]:
        """Every global array of the kernel: arguments in order, then temporaries by name."""
        arguments = [
            argument.name
            for argument in self.kernel.args
            if isinstance(argument, ArrayArg)
            and argument.address_space == AddressSpace.GLOBAL
            and self.proxy.kernels.values.get(argument.name) is not None
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
            int(evaluate(variable.nbytes, self.values))
            for variable in variables
            if variable.address_space == AddressSpace.LOCAL
        )

    @cached_property
    def repeatable(self) -> bool:
        """Whether two runs take the same paths, whatever the order of work-items."""
        read = {probe.array for probe in self.program.probes if probe.kind == "load"}
        written = {probe.array for probe in self.program.probes if probe.kind == "store"}
        atomics = any(probe.kind == "atomic" for probe in self.program.probes)
        return not (read & written) and not atomics and self.local_memory_bytes == 0

    def written_and_read(self) -> list[Any]:
        """Buffers whose old content matters to a second run."""
        read = {probe.array for probe in self.program.probes if probe.kind in ("load", "atomic")}
        names = sorted(read & set(self.proxy.info.written_names))
        buffers = [self.proxy.argument(name) for name in names]
        return [buffer for buffer in buffers if buffer is not None]

    def enqueue(
        self,
        *,
        recording: TokenEncoding | None,
        n_groups: int,
        buffers: Sequence[Any],
        sizes: Sequence[int],
    ) -> None:
        """Runs the groups that the buffer of group ids lists.

        buffers : tokens, offsets, counts, group ids, fault; sizes : the values of program.sizes
        """
        builds = self.proxy.kernels.builds
        build = builds.counting if recording is None else builds.recording(recording)
        kernel = getattr(build, self.name)
        dummy = buffers[-1]
        for index, (kind, value) in self.proxy.arguments.items():
            if kind == "object":
                kernel._set_arg_multi((index, dummy if value is None else value))
            elif kind == "bytes":
                kernel._set_arg_buf_multi((index, value))
            else:
                kernel._set_arg_buf_pack_multi((index, *value))
        grid = (*self.grid, 1, 1)
        extra: list[Any] = [*buffers, np.uint32(grid[0]), np.uint32(grid[1])]
        extra += [np.int64(size) for size in sizes]
        for offset, value in enumerate(extra):
            kernel.set_arg(self.proxy.num_args + offset, value)
        shape = (*self.group_shape, 1, 1)[: max(len(self.group_shape), 1)]
        cl.enqueue_nd_range_kernel(self.queue, kernel, (n_groups * shape[0], *shape[1:]), shape)


def element_bytes(kernel: Any, name: str) -> int:
    """Size of the C element that a subscript of a global array addresses."""
    array = kernel.get_var_descriptor(name)
    length = array.vector_length()
    dtype = kernel.target.vector_dtype(array.dtype, length) if length > 1 else array.dtype
    return int(dtype.numpy_dtype.itemsize)
