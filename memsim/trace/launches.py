"""Launches: several traces in one address map, and the host's writes to its arrays between them."""

from __future__ import annotations

from dataclasses import dataclass

from memsim.errors import TraceError
from memsim.trace.model import ArrayExtent, Trace


@dataclass(frozen=True, kw_only=True)
class Copy:
    """The first size_bytes of an array are copied from another array, or from the host's memory if
    source is None."""

    array: str
    size_bytes: int
    source: str | None = None


@dataclass(frozen=True, kw_only=True)
class Fill:
    """The first size_bytes of an array are filled with a constant."""

    array: str
    size_bytes: int


Event = Copy | Fill


@dataclass(frozen=True, kw_only=True)
class Launches:
    """Launches in order; the contents of the shared caches carry over from each to the next.

    launches : traces with the same sub-group size; arrays with the same name have the same extent
    between : (n_launches - 1,) the copies and fills between each launch and the next, in order
    """

    launches: tuple[Trace, ...]
    between: tuple[tuple[Event, ...], ...] = ()

    def __post_init__(self) -> None:
        if not self.launches:
            raise TraceError("launches must not be empty")
        if not self.between:
            object.__setattr__(self, "between", ((),) * (len(self.launches) - 1))
        if len(self.between) != len(self.launches) - 1:
            raise TraceError(
                f"between must have one entry fewer than there are launches"
                f" ({len(self.launches)}), got {len(self.between)}"
            )
        if len({trace.subgroup_size for trace in self.launches}) > 1:
            raise TraceError("subgroup_size must be the same in all launches")
        arrays = self.arrays
        for event in (event for events in self.between for event in events):
            for name in (event.array, event.source if isinstance(event, Copy) else None):
                if name is not None and name not in arrays:
                    raise TraceError(
                        f"a copy or fill must name an array of the launches, got {name}"
                    )
                if name is not None and not 0 <= event.size_bytes <= arrays[name].size_bytes:
                    raise TraceError(
                        f"size_bytes of a copy or fill must be between 0 and the"
                        f" {arrays[name].size_bytes} of array {name}, got {event.size_bytes}"
                    )

    @property
    def arrays(self) -> dict[str, ArrayExtent]:
        """Name -> extent, over all launches; raises TraceError if two launches disagree."""
        extents: dict[str, ArrayExtent] = {}
        for trace in self.launches:
            for extent in trace.arrays:
                known = extents.setdefault(extent.name, extent)
                if known != extent:
                    raise TraceError(
                        f"array {extent.name} must lie in one place in all launches,"
                        f" got {known.base_bytes} and {extent.base_bytes}"
                        f" ({known.size_bytes} and {extent.size_bytes} bytes)"
                    )
        return extents
