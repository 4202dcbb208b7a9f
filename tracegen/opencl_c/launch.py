"""The launch of a probed OpenCL C kernel: its buffers, its address map, and its error messages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyopencl as cl

from memsim.errors import KernelError
from memsim.trace import ArrayExtent
from tracegen.devices.builds import Builds
from tracegen.opencl_c.arguments import Argument
from tracegen.opencl_c.instrument import Probed
from tracegen.opencl_c.preprocess import Text
from tracegen.opencl_c.probe_source import ASTRAY, BEYOND, ENDLESS, MOST_TURNS
from tracegen.opencl_c.sites import static_accesses
from tracegen.probes.tokens import TokenEncoding
from tracegen.recording.launch import DeviceLaunch, Layout
from tracegen.recording.sites import SiteMap, allocate, site_map, tables

SCRATCH_BYTES = 4096
LARGEST_ACCESS_BYTES = SCRATCH_BYTES


@dataclass(frozen=True)
class ProbedSource:
    """An OpenCL C program with probes.

    text : the preprocessed program, whose lines are the sites' generated lines
    file_text : the text of the workload's own file
    """

    text: Text
    file_text: str
    probed: Probed
    builds: Builds

    def user_source(self, sites: SiteMap) -> str:
        """The text of the file with the most sites: the program's own, or one that it includes."""
        files = Counter(site.source.user_file for site in sites.sites)
        name = files.most_common(1)[0][0] if files else self.text.file
        if name in (None, self.text.file):
            return self.file_text
        try:
            return Path(name).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            return ""


class SourceLaunch(DeviceLaunch):
    """The launch of an OpenCLWorkload, with its arguments in buffers of its own.

    An index that a probe writes counts elements of its array; where an access may reach several
    arrays, it counts bytes from the first array on. `region` names either case.
    """

    front_end = "libclang"

    def __init__(
        self,
        source: ProbedSource,
        arguments: Sequence[Argument],
        context: Any,
        grid: tuple[int, ...],
        group_shape: tuple[int, ...],
    ) -> None:
        self.source, self.probed, self.arguments = source, source.probed, arguments
        self.queue = cl.CommandQueue(context)
        self.grid, self.group_shape, self.index = grid, group_shape, 0
        self.name, self.program = self.probed.program.name, self.probed.program
        self.by_name = {argument.name: argument.value for argument in arguments}
        arrays = [array.name for array in self.probed.arrays]
        constants = [argument.name for argument in arguments if argument.kind == "constant"]
        self.buffers = {
            name: _buffer(context, name, self.by_name[name])
            for name in dict.fromkeys([*arrays, *constants])
        }
        self.scratch = cl.Buffer(context, cl.mem_flags.READ_WRITE, SCRATCH_BYTES)

    @property
    def settings(self) -> dict[str, int]:
        return {
            name: int(value)
            for name, value in self.by_name.items()
            if isinstance(value, np.integer)
        }

    @property
    def local_memory_bytes(self) -> int:
        return self.probed.local_bytes

    @cached_property
    def layout(self) -> Layout:
        names = [array.name for array in self.probed.arrays]
        extents = allocate({name: self.array_bytes(name) for name in names})
        probes = self.program.probes
        sites = site_map(probes, static_accesses(self.probed, self.source.text))
        first = min((extent.base_bytes for extent in extents), default=0)
        most = self._index_limit(extents)
        return Layout(
            extents=extents,
            elements=self.elements,
            sites=sites,
            tables=tables(probes, sites, self._bases(extents), self.elements),
            # The size of each array, then where each begins in the address map.
            sizes=[
                *(extent.size_bytes for extent in extents),
                *(extent.base_bytes - first for extent in extents),
            ],
            encoding=TokenEncoding.smallest(len(probes), most, self.repeatable),
            user_source=self.source.user_source(sites),
        )

    def array_shape(self, name: str) -> tuple[int, ...]:
        value = self.by_name[name]
        return (0,) if value is None else tuple(value.shape)

    def array_bytes(self, name: str) -> int:
        value = self.by_name[name]
        return 0 if value is None else int(value.nbytes)

    @cached_property
    def regions(self) -> dict[str, frozenset[str]]:
        """What probes name -> the arrays that it stands for."""
        accesses = self.probed.accesses
        named = {array.name: frozenset([array.name]) for array in self.probed.arrays}
        probes = self.program.probes
        return named | {p.array: accesses[p.mark].arrays for p in probes if p.mark >= 0}

    @cached_property
    def elements(self) -> dict[str, int]:
        """Bytes that an index of each region counts: 1 where it stands for several arrays."""
        units = {array.name: array.unit_bytes for array in self.probed.arrays}
        return {
            region: units[region] if len(arrays) == 1 else 1
            for region, arrays in self.regions.items()
        }

    def _bases(self, extents: Sequence[ArrayExtent]) -> dict[str, int]:
        """The address of index 0 of each region."""
        base = {extent.name: extent.base_bytes for extent in extents}
        first = min(base.values(), default=0)
        return {
            region: base[region] if len(arrays) == 1 else first
            for region, arrays in self.regions.items()
        }

    def _index_limit(self, extents: Sequence[ArrayExtent]) -> int:
        """A number above every index that a probe writes."""
        units = self.elements
        most = max((extent.size_bytes // units[extent.name] for extent in extents), default=0)
        if any(len(arrays) > 1 for arrays in self.regions.values()):
            ends = [extent.base_bytes + extent.size_bytes for extent in extents]
            most = max(most, max(ends) - extents[0].base_bytes)
        return most

    def out_of_bounds(self, position: int, index: int, axis: int, at: int) -> KernelError:
        """index : byte from the start of the array; axis : number of the array; at : misalignment

        Where position is BEYOND, index is that of the subscript with number axis, and where it is
        ASTRAY, the byte of the guard with number axis.
        """
        if position == ENDLESS:
            return KernelError(
                f"kernel {self.name}: its loops took more than {MOST_TURNS} turns: they may not end"
            )
        if position == BEYOND:
            subscripted, line, extent = self.probed.subscripts[axis]
            return KernelError(
                f"{self.source.text.place(line)}: index {index} is out of bounds: array {subscripted} has"
                f" {extent} elements"
            )
        if position == ASTRAY:
            guard = self.probed.guards[axis]
            at_line = self.source.text.place(guard.line)
            return KernelError(f"{at_line}: {guard.beyond(index)}")
        sites = self.layout.sites
        site = sites.sites[sites.site_of[position]]
        array = self.probed.arrays[axis]
        where = f"{site.source.user_file}:{site.source.user_line}"
        if at:
            return KernelError(
                f"{where}: access {site.name} is misaligned: byte {index} of array {array.name} is"
                f" not a multiple of {array.unit_bytes}"
            )
        element = array.element_bytes
        place = f"index {index // element}" if index % element == 0 else f"byte {index}"
        return KernelError(
            f"{where}: access {site.name} is out of bounds: {place} in array {array.name} of shape"
            f" {self.array_shape(array.name)} ({site.itemsize_bytes} bytes, {site.direction})"
        )

    def _arrays_with(self, kinds: tuple[str, ...]) -> set[str]:
        arrays: set[str] = set()
        for access in self.probed.accesses:
            if access.kind in kinds:
                arrays |= access.arrays
        return arrays

    @property
    def repeatable(self) -> bool:
        """Whether two runs take the same paths, whatever the order of work-items."""
        read, written = self._arrays_with(("load",)), self._arrays_with(("store",))
        atomics = self._arrays_with(("atomic",))
        return not (read & written) and not atomics and self.local_memory_bytes == 0

    def written_and_read(self) -> list[Any]:
        """Buffers whose content before the launch matters to a second run."""
        read = self._arrays_with(("load", "atomic"))
        written = self._arrays_with(("store", "atomic"))
        buffers = [self.buffers[name] for name in sorted(read & written)]
        return [buffer for buffer in buffers if buffer is not None]

    def kernel_for(self, recording: TokenEncoding | None) -> Any:
        return self.source.builds.kernel(self.name, recording)

    def probe_arguments(self, buffers: Sequence[Any]) -> list[Any]:
        grid = [np.uint32(extent) for extent in (*self.grid, 1, 1)[:3]]
        return [*buffers, self.scratch, *grid, *(np.int64(size) for size in self.layout.sizes)]

    def outputs(self) -> dict[str, Any]:
        """The arrays that the kernel may write, as it left them."""
        copies = {}
        for argument in self.arguments:
            if argument.kind != "global" or argument.value is None:
                continue
            name = next(a.name for a in self.probed.arrays if argument.name in a.names)
            if argument.writable:
                copy = argument.value.copy(order="K")
                if copy.nbytes:
                    cl.enqueue_copy(self.queue, copy, self.buffers[name])
                copies[argument.name] = copy
        return copies

    def set_arguments(self, kernel: Any) -> int:
        """Sets the kernel's original arguments; returns their number."""
        owner = {name: array.name for array in self.probed.arrays for name in array.names}
        for position, argument in enumerate(self.arguments):
            value = argument.value
            if argument.kind == "local":
                value = cl.LocalMemory(argument.value)
            elif argument.kind == "global":
                value = self.buffers[owner[argument.name]]
            elif argument.kind:
                value = self.buffers[argument.name]
            kernel.set_arg(position, value)
        return len(self.arguments)


def _buffer(context: Any, name: str, value: Any) -> Any:
    """A buffer with an array's content; None for a null pointer."""
    if value is None:
        return None
    flags = cl.mem_flags.READ_WRITE
    if value.nbytes == 0:
        return cl.Buffer(context, flags, 64)
    try:
        return cl.Buffer(context, flags | cl.mem_flags.COPY_HOST_PTR, hostbuf=value)
    except cl.Error as error:
        why = " ".join(str(error).split())
        raise KernelError(
            f"the OpenCL device has no memory for the {value.nbytes} bytes of {name}: {why}"
        ) from error
