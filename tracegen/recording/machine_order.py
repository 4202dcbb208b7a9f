"""What recording knows of compiled code: registers, and accesses in another order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from memsim.trace import BARRIER_SITE, AccessSite, ArrayExtent
from tracegen.probes.program import Probe
from tracegen.recording.launch import Layout
from tracegen.recording.sequences import ragged


@dataclass(frozen=True)
class Rearranged:
    """The parts of a trace that machine code changes.

    columns : the columns of a Trace but `workgroup`
    unmatched : share of the accesses that kept their place in the source's order, for no
        instruction was found for them
    code : the instructions with their sites, as provenance records them
    """

    sites: tuple[AccessSite, ...]
    arrays: tuple[ArrayExtent, ...]
    columns: dict[str, Any]
    unmatched: float
    code: dict[str, Any]


class MachineOrder(Protocol):
    """The machine code of a launch."""

    @property
    def registers_per_item(self) -> int: ...

    @property
    def unknown_loops(self) -> frozenset[tuple[int, int]]:
        """Line and column of the loops whose turns the text does not determine."""

    def rearranged(
        self,
        columns: dict[str, Any],
        arrays: tuple[ArrayExtent, ...],
        subgroup_size: int,
        slots: npt.NDArray[np.int64],
    ) -> Rearranged:
        """The accesses of the machine code.

        columns : of a trace whose `site` is the position of each access, without `workgroup`; of a barrier it is
            -2 - position, or BARRIER_SITE where that is not known
        slots : (n_subgroup,) the number of the place on the machine where each sub-group is resident
        """

    def provenance(self, made: Rearranged) -> dict[str, Any]:
        """What made the machine code, and its instructions."""


def by_position(layout: Layout, probes: Sequence[Probe]) -> Layout:
    """A layout whose tables take every position for a site of its own; that of a barrier is -2 - position."""
    offset, feed = ragged([sorted(probe.feeds) for probe in probes])
    site = np.arange(len(probes), dtype=np.int32)
    is_access = np.array([number >= 0 for number in layout.sites.site_of], np.bool_)
    is_barrier = np.array([probe.kind == "barrier" for probe in probes], np.bool_)
    others = np.where(is_barrier, BARRIER_SITE - 1 - site, BARRIER_SITE)
    tables = layout.tables._replace(
        site=np.where(is_access, site, others).astype(np.int32),
        feed_offset=offset,
        feed=feed,
        n_site=len(probes),
    )
    return replace(layout, tables=tables)
