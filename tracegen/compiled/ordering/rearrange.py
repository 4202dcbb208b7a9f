"""A trace in the order of the source becomes a trace of what the machine code accesses."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from memsim.trace import BARRIER_SITE, AccessSite, ArrayExtent
from tracegen.compiled.counting.conflicts import conflict_notes, with_conflicts
from tracegen.compiled.counting.idle import IdleSubgroups
from tracegen.compiled.counting.quiet_code import Executions, executions
from tracegen.compiled.counting.source_loops import Counted, Position, SourceLoop, with_counted
from tracegen.compiled.counting.work import KINDS
from tracegen.compiled.loops import depths
from tracegen.compiled.model import Location, MachineCode
from tracegen.compiled.ordering.gather import (
    WORD_BYTES,
    Private,
    Source,
    first_bytes,
    gathered,
    occurrences,
    repeated,
)
from tracegen.compiled.ordering.listed import code_table
from tracegen.compiled.ordering.matching import (
    Match,
    Sample,
    match,
    traced_instructions,
    without,
)
from tracegen.compiled.ordering.missing import missing
from tracegen.compiled.ordering.order import Stream, in_machine_order
from tracegen.compiled.ordering.stations import (
    PrivateAccess,
    barrier_lines,
    private_accesses,
    stations,
)
from tracegen.execution.banks import Conflicts
from tracegen.probes.program import Probe
from tracegen.recording.machine_order import Rearranged
from tracegen.recording.sites import BASE_ALIGNMENT_BYTES, SiteMap

PRIVATE_MEMORY = "private memory"
_FLOATING = re.compile(r"[._]B?F(16|32|64)", re.IGNORECASE)
MOST_UNROLLED = 4096
"""Further positions that code without loops may need."""
MOST_NAMED = 4
"""Sites that a note names."""
MOST_SAMPLED = 4096
"""Accesses of one sub-group that show which ones are neighbours in memory."""


@dataclass(frozen=True)
class CompiledLaunch:
    """The machine code of a launch, matched to its probes.

    sites : the sites of the source
    loops : those of the text
    conflicts : as of `with_conflicts`, where they are known only when the launch has run
    user_place : as of Prepared
    group_items : work-items of a group
    turns : iterations of loops by where they begin, which are known only when the launch has run
    """

    code: MachineCode
    text: str
    probes: Sequence[Probe]
    sites: SiteMap
    loops: Sequence[SourceLoop] = ()
    conflicts: Callable[[int], Mapping[Location, Conflicts]] | None = None
    user_place: Callable[[int], str] | None = None
    group_items: int = 1
    turns: Callable[[], Mapping[Position, Counted]] | None = None

    @cached_property
    def executions(self) -> Executions:
        return executions(self.code, self.loops, self.user_place)

    @property
    def registers_per_item(self) -> int:
        return self.code.registers_per_item

    @cached_property
    def unknown_loops(self) -> frozenset[Position]:
        return self.executions.unknown

    @property
    def _known(self) -> CompiledLaunch:
        """The launch with what was learnt when it ran."""
        code, loops = self.code, self.loops
        if self.conflicts is not None:
            code = with_conflicts(code, self.conflicts)
        if self.turns is not None:
            loops = with_counted(loops, self.turns())
        return replace(self, code=code, loops=loops, conflicts=None, turns=None)

    def matched(self, sample: Sample, missed: frozenset[int] = frozenset()) -> Match:
        """The match of the code, where a sub-group's accesses are known; missed : see `match`."""
        return match(self.code, self.text, self.probes, self.sites.size_bytes, sample, missed)

    def _explained(
        self,
        position: npt.NDArray[np.int32],
        offset: npt.NDArray[np.int64],
        source: Source,
        first_byte: npt.NDArray[np.int64],
    ) -> Match:
        """The match, in which only those accesses are dropped that a compiler may drop.

        Other loads without an instruction are performed by those of their copies in the text. Where there
        are none, they keep their place in the order of the source.
        """
        sample = _sample(position, offset, first_byte, len(self.probes))
        stores = frozenset(at for at, probe in enumerate(self.probes) if probe.kind == "store")
        matching = self.matched(sample)
        missed = missing(position, offset, source, matching.dropped & self._used)
        if missed:
            matching = self.matched(sample, missed)
            missed = missing(position, offset, source, matching.dropped & self._used)
        overwritten = matching.kept & stores
        overwritten -= missing(position, offset, source, overwritten, among=stores)
        return replace(
            matching,
            dropped=matching.dropped - missed | overwritten,
            kept=matching.kept - overwritten | missed,
        )

    @cached_property
    def _used(self) -> frozenset[int]:
        """The loads whose values something depends on."""
        used = {self.probes[at] for probe in self.probes for at in probe.feeds | probe.index_feeds}
        return frozenset(at for at, probe in enumerate(self.probes) if probe in used)

    @cached_property
    def private(self) -> list[PrivateAccess]:
        return private_accesses(self.code)

    def _moved(self, matching: Match) -> npt.NDArray[np.bool_]:
        """(n_position,) accesses whose only instruction lies in fewer loops than they do."""
        depth = depths(self.code)
        depths_of: dict[int, list[int]] = {}
        number = 0
        for block, block_depth in zip(self.code.blocks, depth, strict=True):
            for instruction in block.instructions:
                if instruction.is_traced:
                    for position in matching.covers[number]:
                        depths_of.setdefault(position, []).append(block_depth)
                    number += 1
        moved = np.zeros(len(self.probes), np.bool_)
        for position, machine_depths in depths_of.items():
            moved[position] = len(machine_depths) == 1 and machine_depths[0] < self._depth(position)
        return moved

    def _depth(self, position: int) -> int:
        """The loops of the source around a position."""
        return sum(
            probe.kind == "edge" and probe.first <= position <= probe.last for probe in self.probes
        )

    def provenance(self, made: Rearranged) -> dict[str, Any]:
        known = self._known
        conflicts = conflict_notes(known.code) if self.conflicts is not None else []
        return {
            "target": self.code.target,
            **self.code.tools,
            "registers_per_item": self.code.registers_per_item,
            "unmatched_percent": round(100 * made.unmatched, 2),
            "notes": [
                *self.code.notes,
                *known.executions.notes,
                *conflicts,
                *_unmatched_note(made),
            ],
            "code": made.code,
        }

    def rearranged(
        self,
        columns: dict[str, Any],
        arrays: tuple[ArrayExtent, ...],
        subgroup_size: int,
        slots: npt.NDArray[np.int64],
    ) -> Rearranged:
        if self.conflicts is not None or self.turns is not None:
            return self._known.rearranged(columns, arrays, subgroup_size, slots)
        if not any(depths(self.code)):
            unrolled, site = self._unrolled(columns["site"], columns["subgroup_offset"])
            return unrolled._rearranged(columns | {"site": site}, arrays, subgroup_size, slots)
        return self._rearranged(columns, arrays, subgroup_size, slots)

    def _unrolled(
        self, site: npt.NDArray[np.int32], offset: npt.NDArray[np.int64]
    ) -> tuple[CompiledLaunch, npt.NDArray[np.int32]]:
        """The launch with a position for each time that a sub-group performs an access.

        Code without loops has an instruction of its own for each; a compiler that has unrolled the
        source's loops may have ordered these as it likes.
        """
        n_position = len(self.probes)
        position = np.where(site < 0, n_position, site).astype(np.int32)
        times = occurrences(position, offset, n_position)
        most = np.zeros(n_position + 1, np.int64)
        np.maximum.at(most, position, times)
        most[n_position] = 0
        if not 0 < most.sum() <= MOST_UNROLLED:
            return self, site
        # The first time keeps its position; the others follow behind all positions.
        further = n_position + np.cumsum(most) - most
        copy = np.where(times > 0, further[position] + times - 1, position)
        source = [at for at in range(n_position) for _ in range(most[at])]
        sites = self.sites
        extended = SiteMap(
            sites.sites,
            *(
                (*values, *(values[at] for at in source))
                for values in (sites.site_of, sites.offset_bytes, sites.size_bytes)
            ),
        )
        probes = [*self.probes, *(self.probes[at] for at in source)]
        unrolled = replace(self, probes=probes, sites=extended)
        return unrolled, np.where(site < 0, site, copy).astype(np.int32)

    def _rearranged(
        self,
        columns: dict[str, Any],
        arrays: tuple[ArrayExtent, ...],
        subgroup_size: int,
        slots: npt.NDArray[np.int64],
    ) -> Rearranged:
        n_position = len(self.probes)
        source = Source(
            **{name: columns.get(name, np.empty(0, np.uint8)) for name in Source._fields}
        )
        site = columns["site"]
        position = np.where(site < 0, n_position, site).astype(np.int32)
        offset = columns["subgroup_offset"]
        is_store = np.array([probe.kind == "store" for probe in self.probes], np.bool_)
        first_byte = first_bytes(source)
        matching = self._explained(position, offset, source, first_byte)
        own_position = position
        joined = np.arange(n_position + 1, dtype=np.int32)
        joined[list(matching.joined)] = list(matching.joined.values())
        position = joined[position]
        idle = IdleSubgroups(self.code)
        barrier_line = self._barrier_lines(site)
        left_out = np.zeros(len(site), np.bool_)
        moved = self._moved(matching)
        if moved.any():
            left_out = repeated(position, offset, source, moved, is_store)

        def walked(matching: Match) -> tuple[dict[str, npt.NDArray[Any]], npt.NDArray[Any], int]:
            dropped = np.zeros(n_position + 1, np.bool_)
            dropped[sorted(matching.dropped)] = True
            kept = np.zeros(n_position + 1, np.bool_)
            kept[sorted(matching.kept)] = True
            stream = Stream(
                offset=offset,
                position=position,
                starts=columns["starts_sequence"],
                first_byte=first_byte,
                lanes=columns["lanes"],
                left_out=left_out | dropped[position],
                kept=kept,
                barrier_line=barrier_line,
            )
            made = stations(self.code, matching, self.executions, idle)
            return in_machine_order(stream, made, n_position)

        ordered, work_table, unmatched = walked(matching)
        if repeats := self._too_often(matching, position, ordered["part"]):
            matching = without(matching, repeats)
            ordered, work_table, unmatched = walked(matching)
        n_subgroup = -(-self.group_items // subgroup_size)
        arrays, private = self._private(arrays, subgroup_size, slots)
        made: dict[str, Any] = gathered(
            source, ordered["end"], ordered["part_end"], ordered["part"], private, subgroup_size
        )
        sites, number, scalar_site_of = self._numbered(
            *(matching, np.maximum(site, BARRIER_SITE)),
            *(ordered["part_end"], ordered["part"], ordered["scalar"]),
        )
        made |= {
            "site": number,
            "starts_sequence": ordered["starts"],
            "waits": ordered["waits"],
            "work": ordered["work"],
            "work_table": idle.settled(work_table, ordered["work"], ordered["end"], n_subgroup),
            "work_kinds": KINDS,
            "subgroup_offset": np.concatenate([[0], ordered["end"]]).astype(np.int64),
        }
        code = code_table(
            self.code, matching, self.sites.site_of, scalar_site_of, self._private_sites
        )
        alone = {self.sites.site_of[at] for at in np.unique(own_position) if at in matching.kept}
        code["unmatched"] = [self.sites.sites[k].name for k in sorted(alone)]
        return Rearranged(sites, arrays, made, unmatched / max(len(site), 1), code)

    def _barrier_lines(self, site: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
        """(n_access,) the lines of barriers; 0 of accesses, and where code and text know barriers by different lines."""
        line = np.array([probe.line for probe in self.probes] + [0], np.int32)
        in_text = {probe.line for probe in self.probes if probe.kind == "barrier"}
        if in_text != set(barrier_lines(self.code)) or 0 in in_text:
            return np.zeros(len(site), np.int32)
        return np.where(site < BARRIER_SITE, line[BARRIER_SITE - 1 - np.minimum(site, -1)], 0)

    def _too_often(
        self, matching: Match, position: npt.NDArray[np.int32], part: npt.NDArray[np.int64]
    ) -> frozenset[int]:
        """The positions that more instructions perform than their accesses have parts."""
        performed = np.bincount(position[part[part >= 0]], minlength=len(self.probes) + 1)
        traced = np.bincount(position, minlength=len(self.probes) + 1)
        widths: dict[int, int] = {}
        for cover, instruction in zip(matching.covers, traced_instructions(self.code), strict=True):
            if instruction.memory is not None:
                for at in cover:
                    width = max(instruction.memory.bytes_per_item, 1)
                    widths[at] = min(widths.get(at, width), width)
        return frozenset(
            at
            for at, width in widths.items()
            if performed[at] > traced[at] * max(-(-self.sites.size_bytes[at] // width), 1)
        )

    def _private(
        self, arrays: tuple[ArrayExtent, ...], subgroup_size: int, slots: npt.NDArray[np.int64]
    ) -> tuple[tuple[ArrayExtent, ...], Private]:
        ends = [access.offset_bytes + access.size_bytes for access in self.private]
        row = -(-max([self.code.private_bytes, *ends]) // WORD_BYTES) * WORD_BYTES * subgroup_size
        end = max((extent.base_bytes + extent.size_bytes for extent in arrays), default=0)
        base = -(-end // BASE_ALIGNMENT_BYTES) * BASE_ALIGNMENT_BYTES
        private = Private(
            base + slots * row,
            np.array([access.offset_bytes for access in self.private], np.int64),
            np.array([access.size_bytes for access in self.private], np.int64),
        )
        if self.private:
            size = row * (int(slots.max(initial=0)) + 1)
            memory = ArrayExtent(name=PRIVATE_MEMORY, base_bytes=base, size_bytes=size)
            arrays = (*arrays, memory)
        return arrays, private

    @property
    def _private_kinds(self) -> list[tuple[str, bool]]:
        """Direction, and whether registers are spilled: a site for each that the code has."""
        return sorted({(access.direction, access.spill) for access in self.private})

    @property
    def _private_sites(self) -> list[int]:
        """The site of each access to private memory."""
        first, kinds = len(self.sites.sites), self._private_kinds
        return [first + kinds.index((access.direction, access.spill)) for access in self.private]

    def _numbered(
        self,
        matching: Match,
        position: npt.NDArray[np.int32],
        part_end: npt.NDArray[np.int64],
        part: npt.NDArray[np.int64],
        scalar: npt.NDArray[np.bool_],
    ) -> tuple[tuple[AccessSite, ...], npt.NDArray[np.int32], dict[int, int]]:
        """The sites of the machine code, the site of each access, and the sites of scalar loads.

        Accesses that are performed together have the name of the first. Scalar loads of a site that
        lanes load too have a site of their own.
        """
        begin = np.concatenate([[0], part_end[:-1]]).astype(np.int64)
        first = part[begin] if len(part_end) else np.empty(0, np.int64)
        sites = [*self.sites.sites, *(_private_site(*kind) for kind in self._private_kinds)]
        table = np.array([*self.sites.site_of, BARRIER_SITE], np.int32)
        private_table = np.array(self._private_sites, np.int32)
        number = np.empty(len(first), np.int32)
        own = first >= 0
        number[own] = table[position[first[own]]]
        number[~own] = private_table[-1 - first[~own]]
        widths = self._widths(matching)
        for cover, instruction in zip(matching.covers, traced_instructions(self.code), strict=True):
            if cover and _FLOATING.search(instruction.opcode):
                k = self.sites.site_of[cover[0]]
                sites[k] = replace(sites[k], floating=sites[k].direction == "atomic")
        scalar_site_of = {}
        for k in range(len(self.sites.sites)):
            by_lanes, by_scalar_unit = widths[k, False], widths[k, True]
            if by_scalar_unit:
                loaded = replace(sites[k], scalar=True, itemsize_bytes=by_scalar_unit)
                if by_lanes:
                    number[scalar & (number == k)] = scalar_site_of[k] = len(sites)
                    sites.append(replace(loaded, name=f"{loaded.name}, scalar"))
                else:
                    sites[k] = loaded
            if by_lanes:
                sites[k] = replace(sites[k], itemsize_bytes=by_lanes)
        return tuple(sites), number, scalar_site_of

    def _widths(self, matching: Match) -> Counter[tuple[int, bool]]:
        """Bytes that the widest instruction of a site reads or writes for a lane.

        The key is the site and whether the scalar unit performs it. An instruction that performs one
        access, or a part of it, has the access's size.
        """
        widest: Counter[tuple[int, bool]] = Counter()
        for cover, instruction in zip(matching.covers, traced_instructions(self.code), strict=True):
            if cover and instruction.memory is not None:
                site = self.sites.site_of[cover[0]]
                size = instruction.memory.bytes_per_item if len(cover) > 1 else 0
                size = max(size, self.sites.sites[site].itemsize_bytes)
                key = site, instruction.pipe == "scalar"
                widest[key] = max(widest[key], size)
        return widest


def _unmatched_note(made: Rearranged) -> list[str]:
    names = made.code["unmatched"]
    if not names:
        return []
    more = f" and {len(names) - MOST_NAMED} others" if len(names) > MOST_NAMED else ""
    return [
        f"The machine code has no instruction for {', '.join(names[:MOST_NAMED])}{more}: performed as often"
        " as in the source, in its order."
    ]


def _private_site(direction: str, spill: bool) -> AccessSite:
    what = "spilled registers" if spill else PRIVATE_MEMORY
    return AccessSite(
        name=f"{'store ' if direction == 'store' else ''}{what}",
        array=PRIVATE_MEMORY,
        direction=direction,  # type: ignore[arg-type]
        itemsize_bytes=WORD_BYTES,
    )


def _sample(
    position: npt.NDArray[np.int32],
    offset: npt.NDArray[np.int64],
    first_byte: npt.NDArray[np.int64],
    n_position: int,
) -> Sample:
    """The accesses of the sub-group that has most."""
    if len(offset) < 2:
        return ()
    longest = int(np.argmax(np.diff(offset)))
    end = min(int(offset[longest + 1]), int(offset[longest]) + MOST_SAMPLED)
    return [
        (int(position[access]), int(first_byte[access]))
        for access in range(int(offset[longest]), end)
        if position[access] < n_position and first_byte[access] >= 0
    ]
