"""The readable twin of memsim/hierarchy/sub_cores.py: schedulers that are greedy share a memory pipe."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass, field

from memsim.hierarchy.rng import Stream
from memsim.machine.model import Machine
from tests.twins.replay.cache import PassingBy, ReferenceCache
from tests.twins.replay.core import Core, Group, SubGroup


@dataclass(eq=False)
class Scheduler:
    """A sub-core.

    subgroups : those dealt to it whose groups are resident, in the order in which they began
    last : the one that issued last;  free : the cycle from which it can issue again
    """

    subgroups: list[SubGroup] = field(default_factory=list)
    last: SubGroup | None = None
    free: int = 0


class SubCores(Core):
    """Step 3 with greedy schedulers; `turn` counts cycles, and `window` is the latency of a miss.

    An access keeps the memory pipe for a cycle or more, and its requests are served when it leaves it.
    """

    def __init__(
        self,
        groups: list[Group],
        resident: int,
        cache: ReferenceCache | PassingBy,
        sampler: str,
        stream: Stream,
        machine: Machine,
        miss_cycles: float,
    ) -> None:
        super().__init__(groups, resident, cache, sampler, stream, 1, machine)
        self.machine, self.window = machine, math.ceil(miss_cycles)
        self.hit_cycles = math.ceil(machine.levels[0].latency_cycles) if machine.levels else 0
        self.lines_per_cycle = (
            machine.levels[0].first_tags_per_cycle if machine.levels else math.inf
        )
        self.schedulers = [Scheduler() for _ in range(machine.n_schedulers)]
        self.begins = 0
        for group in self.groups:
            self.deal(group)

    def deal(self, group: Group) -> None:
        """Each sub-group goes to the scheduler that has the fewest."""
        for subgroup in group.subgroups:
            min(self.schedulers, key=lambda one: len(one.subgroups)).subgroups.append(subgroup)
            subgroup.ready_at = subgroup.data_at = self.begins

    def shuffle(self) -> None:
        """The scheduler that has the pipe first is random."""
        self.next = self.stream.below(len(self.schedulers)) if len(self.schedulers) > 1 else 0

    def replace(self, group: Group) -> None:
        """A group has ended when its data have arrived; the next one starts some cycles later."""
        ended = max([self.turn, *(subgroup.data_at for subgroup in group.subgroups)])
        self.begins = ended + math.ceil(self.machine.group_start_cycles)
        for one in self.schedulers:
            one.subgroups = [s for s in one.subgroups if s not in group.subgroups]
            if one.last in group.subgroups:
                one.last = None
        super().replace(group)

    def enter(self, group: Group, *, warming: bool) -> None:
        if group not in self.groups:
            self.deal(group)
        super().enter(group, warming=warming)
        if group not in self.groups and not group.alive:  # it had no access
            for one in self.schedulers:
                one.subgroups = [s for s in one.subgroups if s not in group.subgroups]

    def choose(self) -> tuple[SubGroup, Group] | None:
        """The earliest access that any scheduler can issue; among equals, they take turns."""
        if not self.ready:
            return None
        n = len(self.schedulers)
        ready = dict(self.ready)
        times = {}
        for i in ((self.next + j) % n for j in range(n)):
            own = [s.ready_at for s in self.schedulers[i].subgroups if s in ready]
            if own:
                times[i] = max(min(own), self.schedulers[i].free, self.turn)
        chosen = min(times, key=lambda i: times[i])
        self.turn, self.next = times[chosen], (chosen + 1) % n
        scheduler = self.schedulers[chosen]
        can = [s for s in scheduler.subgroups if s in ready and s.ready_at <= self.turn]
        if scheduler.last in can:
            subgroup = scheduler.last
        else:
            subgroup = can[-1] if self.sampler == "gty" else can[0]
        scheduler.last = subgroup
        scheduler.free = self.turn + math.ceil(self.machine.cycles_per_turn)
        self.ready.remove((subgroup, ready[subgroup]))
        return subgroup, ready[subgroup]

    def issue(self, subgroup: SubGroup, *, counted: bool) -> None:
        """One access; the sub-group waits for data before a bulk sequence and before a store."""
        access = subgroup.accesses[subgroup.position]
        lines = len(access.requests) / self.lines_per_cycle
        self.turn += math.ceil(max(self.machine.access_cycles, lines, 1.0))
        self.cache.complete_fills(self.turn)
        for request in access.requests:
            counted_request = dataclasses.replace(request, counted=counted)
            self.queue += self.cache.serve(counted_request, 0, self.turn, self.window)
        if access.kind != "store":
            for request in access.requests:
                at = self.cache.data_at(request, self.turn, self.hit_cycles, self.window)
                subgroup.data_at = max(subgroup.data_at, at)
        subgroup.position += 1
        subgroup.ready_at = self.turn
        if subgroup.position < len(subgroup.accesses):
            following = subgroup.accesses[subgroup.position]
            waits = following.starts_sequence or following.kind == "store"
            if waits or following.is_barrier:
                subgroup.ready_at = max(self.turn, subgroup.data_at)
