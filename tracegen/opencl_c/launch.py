"""One launch of a probed OpenCL C kernel: its buffers, and how to run some of its groups."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyopencl as cl

from memsim.errors import KernelError
from memsim.trace import ArrayExtent
from tracegen.instrumented.launch import BoundLaunch, TokenEncoding
from tracegen.opencl_c.arguments import Argument
from tracegen.opencl_c.builds import Builds
from tracegen.opencl_c.instrument import Probed

SCRATCH_BYTES = 4096
LARGEST_ACCESS_BYTES = SCRATCH_BYTES


class SourceLaunch(BoundLaunch):
    """The launch of a workload, with its arguments in buffers of its own."""

    def __init__(
        self,
        probed: Probed,
        arguments: Sequence[Argument],
        builds: Builds,
        queue: Any,
        grid: tuple[int, ...],
        group_shape: tuple[int, ...],
    ) -> None:
        self.probed, self.arguments, self.builds = probed, arguments, builds
        self.queue, self.context = queue, queue.context
        self.grid, self.group_shape, self.index = grid, group_shape, 0
        self.name, self.program = probed.program.name, probed.program
        self.n_groups = int(np.prod(grid, dtype=np.int64))
        self.group_items = int(np.prod(group_shape, dtype=np.int64))
        self.by_name = {argument.name: argument.value for argument in arguments}
        self.array_names = tuple(array.name for array in probed.arrays)
        self.buffers = {
            name: _buffer(self.context, self.by_name[name])
            for name in dict.fromkeys(
                [*self.array_names, *(a.name for a in arguments if a.kind == "constant")]
            )
        }
        self.scratch = cl.Buffer(self.context, cl.mem_flags.READ_WRITE, SCRATCH_BYTES)
        given = sum(a.value for a in arguments if a.kind == "local")
        self.local_memory_bytes = probed.local_bytes + given

    def array_shape(self, name: str) -> tuple[int, ...]:
        value = self.by_name[name]
        return (0,) if value is None else tuple(value.shape)

    def array_bytes(self, name: str) -> int:
        value = self.by_name[name]
        return 0 if value is None else int(value.nbytes)

    @property
    def regions(self) -> dict[str, frozenset[str]]:
        """What probes call an array -> the arrays that it stands for."""
        accesses = self.probed.accesses
        named = {array.name: frozenset([array.name]) for array in self.probed.arrays}
        probes = self.program.probes
        return named | {p.array: accesses[p.mark].arrays for p in probes if p.mark >= 0}

    @property
    def elements(self) -> dict[str, int]:
        """Bytes of what an index of each region counts; several arrays are counted in bytes."""
        units = {array.name: array.unit_bytes for array in self.probed.arrays}
        return {
            region: units[region] if len(arrays) == 1 else 1
            for region, arrays in self.regions.items()
        }

    def bases(self, extents: Sequence[ArrayExtent]) -> dict[str, int]:
        """The address of index 0 of each region."""
        base = {extent.name: extent.base_bytes for extent in extents}
        first = min(base.values(), default=0)
        return {
            region: base[region] if len(arrays) == 1 else first
            for region, arrays in self.regions.items()
        }

    def sizes(self, extents: Sequence[ArrayExtent]) -> list[int]:
        """Bytes of each array, then where each begins in the address map."""
        first = min((extent.base_bytes for extent in extents), default=0)
        return [
            *(extent.size_bytes for extent in extents),
            *(extent.base_bytes - first for extent in extents),
        ]

    def most_indices(self, extents: Sequence[ArrayExtent]) -> int:
        """What every index that a probe writes is below."""
        units = self.elements
        most = max((extent.size_bytes // units[extent.name] for extent in extents), default=0)
        if any(len(arrays) > 1 for arrays in self.regions.values()):
            ends = [extent.base_bytes + extent.size_bytes for extent in extents]
            most = max(most, max(ends) - extents[0].base_bytes)
        return most

    def place(self, extents: Sequence[ArrayExtent], position: int, index: int) -> tuple[str, int]:
        """The array and the byte in it that an index written at a position means."""
        region = self.program.probes[position].array
        at = self.bases(extents)[region] + index * self.elements[region]
        for extent in extents:
            if extent.base_bytes <= at < extent.base_bytes + extent.size_bytes:
                return extent.name, at - extent.base_bytes
        raise AssertionError("a probe's index lies in no array")

    def _arrays_with(self, kinds: tuple[str, ...]) -> set[str]:
        found: set[str] = set()
        for access in self.probed.accesses:
            if access.kind in kinds:
                found |= access.arrays
        return found

    @property
    def repeatable(self) -> bool:
        """Whether two runs take the same paths, whatever the order of work-items."""
        read, written = self._arrays_with(("load",)), self._arrays_with(("store",))
        atomics = self._arrays_with(("atomic",))
        return not (read & written) and not atomics and self.local_memory_bytes == 0

    def written_and_read(self) -> list[Any]:
        """Buffers whose old content matters to a second run."""
        read = self._arrays_with(("load", "atomic"))
        written = self._arrays_with(("store", "atomic"))
        found = [self.buffers[name] for name in sorted(read & written)]
        return [buffer for buffer in found if buffer is not None]

    def enqueue(
        self,
        *,
        recording: TokenEncoding | None,
        n_groups: int,
        buffers: Sequence[Any],
        sizes: Sequence[int],
    ) -> None:
        """Runs the groups that the buffer of group ids lists."""
        kernel = self.builds.kernel(recording)
        grid = (*self.grid, 1, 1)[:3]
        arguments = [*self._own(), *buffers, self.scratch]
        arguments += [np.uint32(extent) for extent in grid]
        arguments += [np.int64(size) for size in sizes]
        shape = self.group_shape
        try:
            for position, value in enumerate(arguments):
                kernel.set_arg(position, value)
            cl.enqueue_nd_range_kernel(self.queue, kernel, (n_groups * shape[0], *shape[1:]), shape)
        except cl.Error as error:
            raise KernelError(
                f"kernel {self.name} cannot be run: {' '.join(str(error).split())}"
            ) from error

    def outputs(self) -> dict[str, Any]:
        """The arrays that the kernel may write, as it left them."""
        found = {}
        for argument in self.arguments:
            if argument.kind != "global" or argument.value is None:
                continue
            name = next(a.name for a in self.probed.arrays if argument.name in a.names)
            if argument.writable:
                copy = argument.value.copy(order="K")
                if copy.nbytes:
                    cl.enqueue_copy(self.queue, copy, self.buffers[name])
                found[argument.name] = copy
        return found

    def _own(self) -> list[Any]:
        """The kernel's own arguments."""
        owner = {name: array.name for array in self.probed.arrays for name in array.names}
        values: list[Any] = []
        for argument in self.arguments:
            if argument.kind == "local":
                values.append(cl.LocalMemory(argument.value))
            elif argument.kind == "global":
                values.append(self.buffers[owner[argument.name]])
            elif argument.kind:
                values.append(self.buffers[argument.name])
            else:
                values.append(argument.value)
        return values


def _buffer(context: Any, value: Any) -> Any:
    """A buffer with an array's content; None for a null pointer."""
    if value is None:
        return None
    flags = cl.mem_flags.READ_WRITE
    if value.nbytes == 0:
        return cl.Buffer(context, flags, 64)
    return cl.Buffer(context, flags | cl.mem_flags.COPY_HOST_PTR, hostbuf=value)
