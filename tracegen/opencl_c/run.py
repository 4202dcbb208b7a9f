"""A workload in OpenCL C, ready to be traced, and the passes over its launch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyopencl as cl

from memsim.errors import KernelError
from tracegen.devices.buffers import buffers
from tracegen.instrumented.host import Prepared
from tracegen.instrumented.instrument import Instrumented
from tracegen.instrumented.launch import BoundLaunch, TokenEncoding
from tracegen.instrumented.mark_table import MarkTable
from tracegen.opencl_c.arguments import bound
from tracegen.opencl_c.builds import Builds
from tracegen.opencl_c.instrument import instrument
from tracegen.opencl_c.launch import LARGEST_ACCESS_BYTES, SourceLaunch
from tracegen.opencl_c.parse import parse
from tracegen.opencl_c.preprocess import Text, preprocess
from tracegen.opencl_c.sites import site_map
from tracegen.recording.passes import LaneAccess, LaunchRun, Options
from tracegen.recording.sites import SiteMap, allocate, tables
from tracegen.workloads.opencl import OpenCLWorkload
from tracegen.workloads.workload import Workload

MOST_ARRAYS = 60


@dataclass(frozen=True)
class PreparedSource(Prepared):
    """An instrumented OpenCL C kernel with its launch.

    text : the preprocessed program, which sites' generated lines count
    """

    text: Text
    source: str
    launch: SourceLaunch

    def source_with(self, sites: SiteMap) -> str:
        """The text of the file with the most sites: the program's own, or one that it includes."""
        files = Counter(site.source.user_file for site in sites.sites)
        name = files.most_common(1)[0][0] if files else self.text.file
        return self.source if name in (None, self.text.file) else _read(name)

    def run(self, observer: Callable[[BoundLaunch], None]) -> dict[str, Any]:
        """Calls observer with the launch; returns the arrays that the kernel may write."""
        launch = self.launch
        observer(launch)
        launch.queue.finish()
        return launch.outputs()


class SourceRun(LaunchRun):
    """One launch of an OpenCL C kernel: which groups, both passes, and their traces."""

    libraries = ("libclang", "pyopencl", "numba", "numpy")
    prepared: PreparedSource
    launch: SourceLaunch

    def __init__(self, prepared: PreparedSource, launch: SourceLaunch, options: Options) -> None:
        self.prepared, self.launch, self.options = prepared, launch, options
        self.held = buffers(prepared.context)
        self.queue = launch.queue
        self.elements = launch.elements
        self.extents = allocate({name: launch.array_bytes(name) for name in launch.array_names})
        self.sites: SiteMap = site_map(launch.probed, prepared.text)
        self.user_source = prepared.source_with(self.sites)
        self.tables = tables(
            launch.program.probes, self.sites, launch.bases(self.extents), self.elements
        )
        self.sizes = launch.sizes(self.extents)
        self.encoding = TokenEncoding.smallest(
            len(launch.program.probes), launch.most_indices(self.extents), launch.repeatable
        )
        self.saved = []
        self.ran_all = False

    def out_of_bounds(self, position: int, index: int, axis: int, at: int) -> KernelError:
        """index : the byte from the array's first one on; axis : the array; at : misaligned"""
        site = self.sites.sites[self.sites.site_of[position]]
        array = self.launch.probed.arrays[axis]
        name, shape = array.name, self.launch.array_shape(array.name)
        where = f"{site.source.user_file}:{site.source.user_line}"
        if at:
            return KernelError(
                f"{where}: access {site.name} is misaligned: byte {index} of array {name} is no"
                f" multiple of {array.unit_bytes}"
            )
        element = array.element_bytes
        place = f"index {index // element}" if index % element == 0 else f"byte {index}"
        return KernelError(
            f"{where}: access {site.name} is out of bounds: {place} in array {name} of shape"
            f" {shape} ({site.itemsize_bytes} bytes, {site.direction})"
        )

    def lane_access(self, position: int, index: int) -> LaneAccess:
        array, offset = self.launch.place(self.extents, position, index)
        kind = self.launch.program.probes[position].kind
        offset += self.sites.offset_bytes[position]
        return kind, array, offset, self.sites.size_bytes[position]


def prepare(workload: OpenCLWorkload, context: Any) -> PreparedSource:
    """Instruments a workload's kernel and binds its arguments.

    Raises KernelError for a program that does not compile, with the user's lines; an unknown
    kernel; arguments that do not fit; what cannot be traced.
    """
    source, name = source_of(workload)
    device = context.devices[0]
    text = preprocess(source, name, workload.build_options, device.extensions.split())
    parsed = parse(text)
    kernel = parsed.named(workload.kernel)
    arguments, owners = bound(kernel, workload.arguments)
    if len(set(owners.values())) > MOST_ARRAYS:
        raise KernelError(f"kernel {kernel.spelling} has more than {MOST_ARRAYS} global arrays")
    probed = instrument(parsed, kernel, owners)
    largest = max((access.size_bytes for access in probed.accesses), default=0)
    if largest > LARGEST_ACCESS_BYTES:
        raise KernelError(
            f"kernel {kernel.spelling} accesses {largest} bytes at once; at most"
            f" {LARGEST_ACCESS_BYTES} can be traced"
        )
    grid, shape = _shape(workload, kernel.spelling)
    builds = Builds(context, probed.source, kernel.spelling, text.options)
    queue = cl.CommandQueue(context)
    return PreparedSource(
        workload=Workload(
            kernel,
            check=workload.check,
            source_file=None if workload.path is None else name,
            registers_per_item=workload.registers_per_item,
        ),
        kernel=_Named(kernel.spelling),
        instrumented=Instrumented(text.text, probed.source, (probed.program,), MarkTable()),
        executor=None,
        context=context,
        text=text,
        source=source,
        launch=SourceLaunch(probed, arguments, builds, queue, grid, shape),
    )


@dataclass(frozen=True)
class _Named:
    name: str


def source_of(workload: OpenCLWorkload) -> tuple[str, str]:
    """The program's text, and the name of its file."""
    if workload.source is not None:
        return workload.source, str(workload.path or "kernel.cl")
    if workload.path is None:
        raise KernelError("an OpenCLWorkload needs a path or a source")
    return _text(Path(workload.path)), str(workload.path)


def _text(path: Path) -> str:
    if not path.is_file():
        raise KernelError(f"no such kernel file: {path}")
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise KernelError(f"cannot read {path}: {error}") from error


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return ""


def _shape(workload: OpenCLWorkload, name: str) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Groups along each axis, and work-items along each axis of a group."""
    items, group = axes(workload.global_size), axes(workload.local_size)
    if len(items) != len(group) or not 1 <= len(items) <= 3:
        raise KernelError(
            f"global_size and local_size of kernel {name} must have the same one to three axes,"
            f" got {items} and {group}"
        )
    for axis, (all_of, one) in enumerate(zip(items, group, strict=True)):
        if one < 1 or all_of < 1 or all_of % one:
            raise KernelError(
                f"local_size of kernel {name} must divide global_size along each axis, got"
                f" {one} and {all_of} along axis {axis}"
            )
    return tuple(a // b for a, b in zip(items, group, strict=True)), group


def axes(size: Any) -> tuple[int, ...]:
    listed = (size,) if isinstance(size, (int, np.integer)) else tuple(size)
    return tuple(int(extent) for extent in listed)
