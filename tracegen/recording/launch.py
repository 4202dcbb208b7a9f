"""The contract between a front end, which binds launches, and recording, which runs them.

A front end (Loopy, OpenCL C, CUDA C++) prepares a workload and hands each of its launches, with the arguments
bound, to an observer. Recording and block counting know launches by this contract alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from memsim.errors import KernelError
from memsim.trace import ArrayExtent
from tracegen.probes.program import Program
from tracegen.probes.tokens import TokenEncoding
from tracegen.recording.sites import SiteMap
from tracegen.recording.subgroup import ProbeTables


@dataclass(frozen=True)
class Layout:
    """The address map of a launch, and how its tokens become accesses.

    elements : array -> bytes that its index counts
    sizes : the numbers that a probed kernel takes after the extents of its grid
    user_source : text of the file that contains most sites, "" if there is none
    """

    extents: tuple[ArrayExtent, ...]
    elements: Mapping[str, int]
    sites: SiteMap
    tables: ProbeTables
    sizes: Sequence[int]
    encoding: TokenEncoding
    user_source: str


class BoundLaunch(Protocol):
    """One launch with its arguments bound, not yet run.

    index : number of the launch in its workload; name : the kernel function
    grid : groups along each axis; group_shape : work-items along each axis of a group
    front_end : the package that read the kernel, for the provenance
    """

    index: int
    name: str
    program: Program
    grid: tuple[int, ...]
    group_shape: tuple[int, ...]
    front_end: str

    @property
    def n_groups(self) -> int:
        return math.prod(self.grid)

    @property
    def group_items(self) -> int:
        """Work-items of a group."""
        return math.prod(self.group_shape)

    @property
    def layout(self) -> Layout: ...

    @property
    def local_memory_bytes(self) -> int: ...

    @property
    def repeatable(self) -> bool:
        """Whether two runs take the same paths, whatever the order of work-items."""

    @property
    def settings(self) -> Mapping[str, int]:
        """Integer arguments and counters of the host's loops, by name, as far as they are known."""

    def written_and_read(self) -> list[Any]:
        """Buffers whose content before the launch matters to a second run."""

    def out_of_bounds(self, position: int, index: int, axis: int, at: int) -> KernelError:
        """The error for the access that a probe reported."""


class DeviceLaunch(BoundLaunch, Protocol):
    """A launch that runs on an OpenCL device."""

    queue: Any

    def kernel_for(self, recording: TokenEncoding | None) -> Any:
        """The probed kernel that records tokens; for None, the one that counts them."""

    def set_arguments(self, kernel: Any) -> int:
        """Sets the kernel's original arguments; returns their number."""

    def probe_arguments(self, buffers: Sequence[Any]) -> list[Any]:
        """What a probed kernel takes behind its original arguments.

        buffers : tokens, offsets, counts, group ids, fault
        """


Observer = Callable[[Any], None]
"""Called with every launch of a workload in order; the observer runs it, or leaves it out."""


class Prepared(Protocol):
    """A workload whose kernel has probes.

    name : of the kernel; source : its text without probes; launch_names : kernel functions
    """

    @property
    def name(self) -> str: ...

    @property
    def source(self) -> str: ...

    @property
    def context(self) -> Any: ...

    @property
    def build_options(self) -> list[str]: ...

    @property
    def registers_per_item(self) -> int | None: ...

    @property
    def launch_names(self) -> tuple[str, ...]: ...

    def user_place(self, line: int) -> str:
        """`file:line` where the user wrote a 1-based line of `source`; "" where it is generated."""

    def run(self, observer: Observer) -> dict[str, Any]:
        """Calls observer with every launch in order; returns the outputs, name -> array."""


MOST_GROUPS = 2**31 - 1
"""Group ids of a trace have 32 bits."""


def check_size(launch: BoundLaunch) -> None:
    """Raises KernelError for a launch with more groups than a trace can number."""
    if launch.n_groups > MOST_GROUPS:
        raise KernelError(
            f"launch {launch.index} ({launch.name}) has {launch.n_groups} work-groups; at most"
            f" {MOST_GROUPS} can be traced"
        )


def fault_of(
    launch: BoundLaunch,
    fault: Any,
    group: int,
    words: tuple[str, str] = ("work-item", "group"),
) -> KernelError:
    """The error of a fault, with the work-item that reported it.

    fault : see tracegen.probes.tokens.FAULT_WORDS;  group : its number in the launch
    words : what OpenCL or CUDA calls a work-item and a group; a work-item is numbered within its group
    """
    error = launch.out_of_bounds(*(int(number) for number in fault[1:5]))
    if any(
        f"{words[0]} {digit}" in str(error) for digit in range(10)
    ):  # it names the work-item already
        return error
    group_id, local = _axes(group, launch.grid), _axes(int(fault[6]), launch.group_shape)
    extents = zip([*launch.grid, 1, 1], [*launch.group_shape, 1, 1], strict=False)
    n_axes = max([k + 1 for k, one in enumerate(extents) if max(one) > 1], default=1)
    return KernelError(
        f"{error}; {words[0]} {_shown(local, n_axes)} of {words[1]} {_shown(group_id, n_axes)}"
    )


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
