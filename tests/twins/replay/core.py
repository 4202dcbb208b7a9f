"""The readable twin of memsim/hierarchy/core_stage.py: the sub-groups of one core take turns."""

from __future__ import annotations

import dataclasses
import itertools
from dataclasses import dataclass, field
from typing import Literal

from memsim.hierarchy.rng import Stream
from memsim.machine.model import Machine
from memsim.trace.model import Direction
from tests.twins.replay.cache import PassingBy, ReferenceCache, Request


@dataclass(frozen=True)
class Access:
    """One dynamic access of a sub-group: its requests are issued together."""

    site: int
    kind: Direction
    is_barrier: bool
    starts_sequence: bool
    requests: tuple[Request, ...]


State = Literal["ready", "at_barrier", "parked", "retired"]


@dataclass(eq=False)
class SubGroup:
    """The state of a sub-group.

    position : the next access;  start : the access at which counting starts
    data_at : the turn at which the data of its last requests arrive;  ready_at : when it can issue next
        (tests.twins.replay.sub_cores)
    scheduler : the one that serves it
    state : `at_barrier` waits at a barrier; `parked` has reached its start while the warm-up
        continues elsewhere
    """

    number: int
    accesses: list[Access]
    weight: int
    position: int = 0
    start: int = 0
    data_at: int = 0
    ready_at: int = 0
    scheduler: int = 0
    state: State = "ready"


@dataclass(eq=False)
class Group:
    """A group on a core.

    counted : False in the waves that only warm the caches
    counted_from_start : what it does before its start is counted too
    first_record : the requests in its core's queue when it begins
    """

    number: int
    subgroups: list[SubGroup] = field(default_factory=list)
    counted: bool = True
    counted_from_start: bool = False
    first_record: int = 0

    @property
    def alive(self) -> list[SubGroup]:
        return [s for s in self.subgroups if s.state != "retired"]


class Core:
    """Step 3: the sub-groups of one core take turns, and issue requests to its first cache.

    n_schedulers : that sub-groups are dealt to, 1 where the order is not `wrr`
    takes_turns : whether they serve one after another, not at random
    queue : the requests to the next level, in order; the first n_warm from before counting began
    """

    def __init__(
        self,
        groups: list[Group],
        resident: int,
        cache: ReferenceCache | PassingBy,
        sampler: str,
        stream: Stream,
        latency_turns: int,
        machine: Machine,
    ) -> None:
        self.groups, self.waiting = groups[:resident], groups[resident:]
        self.cache, self.sampler, self.stream = cache, sampler, stream
        # No sub-group issues again before its data arrive, so a round of all of them takes at least
        # as long as a miss, even if it has fewer turns.
        n_resident = sum(len(group.subgroups) for group in self.groups)
        self.window = max(1, min(latency_turns, n_resident))
        self.queue: list[Request] = []
        self.n_warm = 0
        self.turn = 0
        self.n_schedulers = machine.n_schedulers if sampler == "wrr" else 1
        self.takes_turns = machine.scheduler_turns == "fixed" or self.n_schedulers == 1
        self.dealt = self.next_scheduler = 0
        self.ready: list[tuple[SubGroup, Group]] = []

    def run(self) -> None:
        """The initial groups first run up to their starts, uncounted; then all groups run."""
        for group in self.groups:
            self.enter(group, warming=True)
        self.take_turns(warming=True)
        self.n_warm = len(self.queue)
        for group in self.groups:
            for subgroup in group.subgroups:
                if subgroup.state == "parked":
                    self.place(subgroup, group, warming=False)
            self.settle(group, warming=False)
        self.take_turns(warming=False)

    def take_turns(self, *, warming: bool) -> None:
        self.shuffle()
        if not warming:
            for group in self.groups:
                if not group.alive:
                    self.replace(group)
        while (chosen := self.choose()) is not None:
            subgroup, group = chosen
            counted = group.counted and (not warming or group.counted_from_start)
            self.issue(subgroup, counted=counted)
            self.place(subgroup, group, warming=warming)
            self.settle(group, warming=warming)
            if not warming and not group.alive:
                self.replace(group)

    def shuffle(self) -> None:
        """A random scheduler is first, where they take turns, and a random sub-group of each."""
        if self.takes_turns and self.n_schedulers > 1:
            self.next_scheduler = self.stream.below(self.n_schedulers)
        rings: list[list[tuple[SubGroup, Group]]] = [[] for _ in range(self.n_schedulers)]
        for subgroup, group in self.ready:
            rings[subgroup.scheduler].append((subgroup, group))
        self.ready = []
        for ring in rings:
            first = self.stream.below(len(ring)) if len(ring) > 1 else 0
            self.ready += ring[first:] + ring[:first]

    def replace(self, group: Group) -> None:
        """Back-to-back scheduling: in place of one that ended, start the next group that has any access."""
        while self.waiting:
            group = self.waiting.pop(0)
            group.first_record = len(self.queue)
            self.enter(group, warming=False)
            if group.alive:
                return

    def enter(self, group: Group, *, warming: bool) -> None:
        for subgroup in group.subgroups:
            subgroup.scheduler = self.dealt % self.n_schedulers
            self.dealt += 1
            self.place(subgroup, group, warming=warming)
        self.settle(group, warming=warming)

    def place(self, subgroup: SubGroup, group: Group, *, warming: bool) -> None:
        """Set the state of a sub-group by its next access."""
        if subgroup.position == len(subgroup.accesses):
            subgroup.state = "retired"
        elif warming and subgroup.position >= subgroup.start:
            subgroup.state = "parked"
        elif subgroup.accesses[subgroup.position].is_barrier:
            subgroup.position += 1
            subgroup.state = "at_barrier"
        else:
            subgroup.state = "ready"
            self.ready.append((subgroup, group))

    def settle(self, group: Group, *, warming: bool) -> None:
        """A barrier opens when every live sub-group of the group waits at it."""
        while group.alive and all(s.state == "at_barrier" for s in group.alive):
            for subgroup in group.alive:
                self.place(subgroup, group, warming=warming)

    def choose(self) -> tuple[SubGroup, Group] | None:
        """Take the sub-group that has the turn; None if all wait for each other or have ended."""
        first = self.next_scheduler
        if self.sampler == "wrr" and not self.takes_turns:
            first = self.stream.below(self.n_schedulers)
        if not self.ready:
            return None
        k = self.of_scheduler(first) if self.sampler == "wrr" else self.pick()
        chosen, group = self.ready.pop(k)
        self.next_scheduler = (chosen.scheduler + 1) % self.n_schedulers
        return chosen, group

    def pick(self) -> int:
        """Select the ready sub-group that has the turn, of those of all schedulers."""
        if self.sampler == "uniform":
            return self.stream.below(len(self.ready))
        wait = [max(0, subgroup.data_at - self.turn) for subgroup, _ in self.ready]
        return wait.index(
            min(wait)
        )  # lrr: the first that need not wait, or the one that waits least

    def of_scheduler(self, chosen: int) -> int:
        """Select the first ready sub-group of a scheduler, or of the next one that has any."""
        after = [(subgroup.scheduler - chosen) % self.n_schedulers for subgroup, _ in self.ready]
        return after.index(min(after))

    def issue(self, subgroup: SubGroup, *, counted: bool) -> None:
        """A turn issues `weight` bulk sequences; a barrier, or the start, ends it."""
        self.cache.complete_fills(self.turn)
        before = len(self.queue)
        end = len(subgroup.accesses)
        if subgroup.position < subgroup.start:
            end = subgroup.start
        for _ in range(subgroup.weight):
            for k in itertools.count():
                if subgroup.position == end:
                    break
                access = subgroup.accesses[subgroup.position]
                if access.is_barrier or (k > 0 and access.starts_sequence):
                    break
                for r in access.requests:
                    request = dataclasses.replace(r, counted=counted)
                    self.queue += self.cache.serve(request, 0, self.turn, self.window)
                subgroup.position += 1
        sent = len(self.queue) > before
        subgroup.data_at = self.turn + self.window if sent else self.turn
        self.turn += 1
