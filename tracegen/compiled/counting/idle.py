"""What sub-groups do not issue of accesses to local memory that none of their lanes makes.

The walk along the machine code (`tracegen.compiled.ordering.order`) knows of no conditions: where a sub-group passes
code without accesses to global memory, it passes all that any may. A run of one group has seen which of its
sub-groups have a lane that makes an access. Where the walk lets more of them come by, the rest are idle:

- An instruction that a predicate switches off is issued all the same, and takes its pass of the banks
  (28.1 us with no lane of a warp and 28.3 us with all, on an H200), but has no conflicts.
- NVIDIA's compiler puts other instructions behind a branch, which idle sub-groups take: nothing of their block is
  issued.
- On AMD's GPUs a mask switches lanes off, with or without a branch. As if predicated, a sub-group without lanes
  issues the instructions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from tracegen.compiled.counting.quiet_code import is_loud
from tracegen.compiled.counting.work import KINDS, Counts, counted
from tracegen.compiled.model import Instruction, Location, MachineCode

MOST_PLACES = 64
"""Places of the code whose accesses are counted one by one; those beyond count as made by all."""
_CONFLICT = KINDS.index("conflict")
_DIGITS = 9

Place = tuple[int, Location, bool]
"""The number of a block, the place in the text, and whether a predicate decides."""


class IdleSubgroups:
    """The places of a code whose accesses some sub-groups do not make.

    Each place has a column behind those of KINDS, in which the walk counts its instructions.
    """

    def __init__(self, code: MachineCode) -> None:
        self.code = code
        self.accesses: dict[Place, list[Instruction]] = {}
        for number, block in enumerate(code.blocks):
            for one in block.instructions:
                place = _place(number, one)
                if place is not None and (
                    place in self.accesses or len(self.accesses) < MOST_PLACES
                ):
                    self.accesses.setdefault(place, []).append(one)
        self.column = {place: len(KINDS) + k for k, place in enumerate(self.accesses)}

    @property
    def n_kind(self) -> int:
        """Columns of a row."""
        return len(KINDS) + len(self.column)

    def counted(self, block: int, instructions: Sequence[Instruction]) -> Counts:
        """The counts of instructions of a block."""
        counts = np.zeros(self.n_kind)
        counts[: len(KINDS)] = counted(instructions)
        if self.column:
            for place, n in Counter(_place(block, one) for one in instructions).items():
                if place is not None and place in self.column:
                    counts[self.column[place]] = n
        return counts

    def settled(
        self,
        table: Counts,
        work: npt.NDArray[np.int32],
        end: npt.NDArray[np.int64],
        subgroups: int,
    ) -> Counts:
        """The table of work with the columns of KINDS, less what idle sub-groups do not issue.

        work : (n_access,) row of each access;  end : (n_subgroup,) where each sub-group's accesses end
        subgroups : of a group
        """
        if not self.column:
            return table
        share = {
            place: self._active(place, table[work, column], end, subgroups)
            for place, column in self.column.items()
        }
        settled: Counts = table[:, : len(KINDS)].copy()
        for number, block in enumerate(self.code.blocks):
            here = {place: of for place, of in share.items() if place[0] == number}
            skipped = self._behind_a_branch(number)
            running = max((share[place] for place in skipped), default=1.0)
            if skipped:
                passed = self._times(table, max(skipped, key=share.__getitem__))
                settled -= np.outer(passed * (1 - running), counted(block.instructions))
            for place, active in here.items():
                passes = sum(_added(one) for one in self.accesses[place])
                idle = self._times(table, place) * max(running - active, 0.0)
                settled[:, _CONFLICT] -= idle * passes
        settled = np.maximum(settled, 0.0).round(_DIGITS)
        return settled

    def _active(
        self, place: Place, accesses: Counts, end: npt.NDArray[np.int64], subgroups: int
    ) -> float:
        """Of the accesses that the walk counts at a place, the share that sub-groups with active lanes make.

        accesses : (n_access,) counted with each
        """
        sums = np.concatenate([[0.0], np.cumsum(accesses)])[np.concatenate([[0], end])]
        by_group = np.diff(sums).reshape(-1, subgroups)
        would = subgroups * float(by_group.max(axis=1).sum())
        memory = self.accesses[place][0].memory
        if memory is None or not would:
            return 1.0
        return min(memory.active_share * would / float(by_group.sum()), 1.0)

    def _behind_a_branch(self, block: int) -> list[Place]:
        """The places of a block's accesses that no predicate decides, where no idle sub-group runs the block."""
        instructions = self.code.blocks[block].instructions
        if not self.code.target.startswith("sm_") or any(map(is_loud, instructions)):
            return []
        local = [one for one in instructions if _is_local(one) and not one.predicated]
        places = [_place(block, one) for one in local]
        known = [place for place in places if place is not None and place in self.column]
        return known if len(known) == len(places) else []

    def _times(self, table: Counts, place: Place) -> Counts:
        """(n_row,) how often each row of the table of work counts the accesses at a place."""
        times: Counts = table[:, self.column[place]] / len(self.accesses[place])
        return times


def _place(block: int, one: Instruction) -> Place | None:
    """The place of an access that some sub-groups do not make, None of any other instruction."""
    if one.location is None or one.memory is None or one.memory.active_share >= 1:
        return None
    return block, one.location, one.predicated


def _added(one: Instruction) -> float:
    """The passes that conflicts add; those that pairs save are no part of them."""
    return 0.0 if one.memory is None else max(one.memory.conflict_passes, 0.0)


def _is_local(one: Instruction) -> bool:
    return one.memory is not None and one.memory.space == "local"
