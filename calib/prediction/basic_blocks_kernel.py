"""Cuts the linearised schedule of a Loopy kernel into basic blocks; loops stay folded.

A sub-group waits where it first uses a loaded value, and at barriers. Code between loops and barriers is
straight-line code. In it, loads are issued as soon as their addresses are known and no earlier
instruction stores to their array, as compilers schedule them. Instructions that need no loaded value
follow. The first instruction that needs one ends the block. Nothing moves across a loop's back-edge
or a barrier; the bulk sequences of a trace follow the same rules.

A block may begin in one iteration of a loop and end in the next. Iterations therefore differ until
the state of the open block at the loop's head repeats; from then on all are equal.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import islpy as isl
from loopy.kernel.data import IlpBaseTag, UnrollTag, VectorizeTag
from loopy.schedule import (
    Barrier,
    CallKernel,
    EnterLoop,
    LeaveLoop,
    ReturnFromKernel,
    RunInstruction,
)

from calib.prediction.basic_blocks import Block, BlockError, Count, Program, Repeat, make_program
from calib.prediction.instruction_operations import Touch, Work, work_of
from calib.prediction.trip_counts import trip_count
from memsim.machine import Machine

SETTLES_WITHIN = 8
"""The open block at a loop's head must repeat within this many iterations."""
NameOf = Callable[[str, Touch], str]
"""(instruction, access) -> the name of the access's site."""


@dataclass(frozen=True)
class Loop:
    """A loop of the schedule.

    reads : private variables that its bounds read
    """

    iname: str
    count: Count
    items: tuple[Item, ...]
    reads: frozenset[str] = frozenset()


Item = Work | Loop | None
"""An instruction's work, a loop, or None for a work-group barrier."""


@dataclass
class Open:
    """The block under construction.

    outstanding : private variables whose loads have been issued but not waited for
    """

    operations: Counter[str]
    accesses: list[str]
    waits_for: list[str]
    bytes_per_item: float
    outstanding: frozenset[str]

    @classmethod
    def empty(cls) -> Open:
        return cls(Counter(), [], [], 0.0, frozenset())

    @property
    def key(self) -> Any:
        return (
            tuple(sorted(self.operations.items())),
            *(tuple(self.accesses), tuple(self.waits_for), self.bytes_per_item, self.outstanding),
        )

    def copy(self) -> Open:
        return Open(
            Counter(self.operations),
            *(list(self.accesses), list(self.waits_for), self.bytes_per_item, self.outstanding),
        )


class Cutter:
    """Walks the items of a schedule and collects basic blocks."""

    def __init__(self, name_of: NameOf) -> None:
        self.name_of = name_of
        self.blocks: list[Block] = []

    def program(self, items: Sequence[Item], *, ends_with_barrier: bool) -> Program:
        open_ = Open.empty()
        steps = self.walk(items, open_)
        if open_.operations or open_.accesses or ends_with_barrier or not steps:
            steps.append(self.close(open_, barrier=ends_with_barrier, end=True))
        return make_program(self.blocks, steps)

    def walk(self, items: Sequence[Item], open_: Open) -> list[Any]:
        """The blocks that end within the items, as steps; `open_` keeps the block that does not end."""
        steps: list[Any] = []
        run: list[Work] = []
        for item in items:
            if isinstance(item, Work):
                run.append(item)
                continue
            steps += self.straight(run, open_)
            run = []
            if item is None:
                steps.append(self.close(open_, barrier=True))
            else:
                steps += self.loop(item, open_)
        return steps + self.straight(run, open_)

    def loop(self, loop: Loop, open_: Open) -> list[Any]:
        steps: list[Any] = []
        if loop.reads & open_.outstanding:
            steps.append(self.close(open_))
        if isinstance(loop.count, float) and loop.count == 0:
            return steps
        for turn in range(1, SETTLES_WITHIN + 1):
            before = open_.copy()
            made = self.walk(loop.items, open_)
            if not made:  # the loop never waits: every iteration adds the same to the open block
                self._add_iterations(before, open_, loop.count)
                return steps
            if isinstance(loop.count, float) and turn >= loop.count:
                return steps + made
            if before.key == open_.key:
                return [*steps, Repeat(tuple(made), loop.count + -(turn - 1))]
            steps += made
        raise BlockError(
            f"the basic blocks of loop {loop.iname} still differ between iterations after"
            f" {SETTLES_WITHIN} iterations"
        )

    @staticmethod
    def _add_iterations(before: Open, open_: Open, count: Count) -> None:
        for name, total in open_.operations.items():
            step = total - before.operations[name]
            if step:
                open_.operations[name] = before.operations[name] + count * step
        more = len(open_.accesses) - len(before.accesses)
        if more:
            if not isinstance(count, float):
                raise BlockError(
                    "a loop stores and never waits for a load: give the kernel's sizes, so that its"
                    " iterations can be counted"
                )
            turn = open_.accesses[len(before.accesses) :]
            open_.accesses += turn * (round(count) - 1)
            moved = open_.bytes_per_item - before.bytes_per_item
            open_.bytes_per_item = before.bytes_per_item + count * moved

    def straight(self, run: list[Work], open_: Open) -> list[int]:
        """The blocks that end within code without loops and barriers, as steps."""
        steps: list[int] = []
        parts = [part for work in run for part in self._parts(work)]
        issued: set[int] = set()  # parts whose loads have been issued
        in_flight: set[int] = set()  # issued parts that nothing has waited for yet
        done: set[int] = set()
        while len(done) < len(parts):
            before = len(issued) + len(done)
            self._issue(parts, done, issued, in_flight, open_)
            self._run(parts, done, issued, in_flight, open_)
            if len(issued) + len(done) == before:  # no progress is possible without waiting
                steps.append(self.close(open_))
                in_flight.clear()
        return steps

    def _run(
        self, parts: list[Work], done: set[int], issued: set[int], in_flight: set[int], open_: Open
    ) -> None:
        """Executes parts in order, up to the first that needs a value that has not arrived."""
        for k, work in enumerate(parts):
            if k in done:
                continue
            if work.only_loads and k in issued:
                open_.outstanding |= work.writes
            elif (
                k in in_flight or (work.loads and k not in issued) or work.reads & open_.outstanding
            ):
                return
            else:
                self._execute(work, open_)
            done.add(k)

    def _issue(
        self, parts: list[Work], done: set[int], issued: set[int], in_flight: set[int], open_: Open
    ) -> None:
        """Issues every load of the straight-line code whose address is known."""
        stored: set[str] = set()
        assigned: set[str] = set()
        pending: set[Any] = set()  # loaded values that have not arrived
        for k, work in enumerate(parts):
            if k in done:
                continue
            if k not in issued and work.loads:
                names = frozenset().union(*(load.index_names for load in work.loads))
                blocked = names & (open_.outstanding | assigned) or any(
                    load.array in stored or load.index_loads & pending for load in work.loads
                )
                if not blocked:
                    self._access(work, work.loads, open_)
                    issued.add(k)
                    in_flight.add(k)
            stored |= {store.array for store in work.stores}
            assigned |= work.writes
            pending |= {load.subscript for load in work.loads}

    def _parts(self, work: Work) -> list[Work]:
        """An instruction as parts whose loads can be outstanding together, its operations shared out.

        A load that an index needs comes before the load that it indexes.
        """
        first = [load for load in work.loads if not load.index_loads]
        later = [load for load in work.loads if load.index_loads]
        if not later or not first:
            return [work]
        groups = [first, later]
        counts = _spread(work.operations, [0, *(len(group) for group in groups)])
        parts = []
        for k, group in enumerate(groups):
            parts.append(
                dataclasses.replace(
                    work,
                    # Set below, in proportion to the loads of each part.
                    operations=Counter(),
                    loads=tuple(group),
                    stores=(),
                    reads=frozenset() if k == 0 else work.reads,
                    writes=frozenset(),
                )
            )
        result: list[Work] = []
        for k, part in enumerate(parts):
            result.append(part)
            last = k == len(parts) - 1
            if not last:
                result[-1] = dataclasses.replace(part, operations=counts[k + 1])
            else:
                result[-1] = dataclasses.replace(
                    part, operations=counts[k + 1], stores=work.stores, writes=work.writes
                )
        return result

    def _execute(self, work: Work, open_: Open) -> None:
        open_.operations.update(work.operations)
        open_.outstanding -= work.writes
        self._access(work, work.stores, open_)

    def _access(self, work: Work, touches: Sequence[Touch], open_: Open) -> None:
        for touch in touches:
            name = self.name_of(work.instruction, touch)
            open_.accesses.append(name)
            open_.bytes_per_item += touch.itemsize_bytes
            if touch.direction == "load":
                open_.waits_for.append(name)

    def close(self, open_: Open, *, barrier: bool = False, end: bool = False) -> int:
        """Ends the open block, empties `open_` and returns the number of the new block.

        end : whether the group ends with it, where its sub-groups wait for each other without an instruction
        """
        operations = Counter(open_.operations)
        if barrier and not end:
            operations["barrier"] += 1
        self.blocks.append(
            Block(
                operations=dict(operations),
                accesses=tuple(open_.accesses),
                waits_for=() if barrier else tuple(open_.waits_for),
                bytes_per_item=open_.bytes_per_item,
                barrier=barrier,
            )
        )
        kept = open_.waits_for if barrier and open_.outstanding else []
        open_.operations, open_.accesses, open_.waits_for = Counter(), [], list(kept)
        open_.bytes_per_item = 0.0
        if not barrier:
            open_.outstanding = frozenset()
        return len(self.blocks) - 1


def schedule_items(
    kernel: Any, callables: Any, machine: Machine | None, sizes: Mapping[str, int], launch: int
) -> tuple[Item, ...]:
    """The work, loops and barriers of one launch of a scheduled and typed kernel, in order."""
    from calib.prediction.throughputs import takes_local_operand

    local = machine is not None and takes_local_operand(machine, "fp32_fma")
    work = {i.id: work_of(kernel, callables, i, local) for i in kernel.instructions}
    stack: list[tuple[str, list[Any]]] = [("", [])]
    launches: list[list[Any]] = []
    on_device = False
    for item in kernel.linearization:
        if isinstance(item, CallKernel):
            on_device = True
        elif isinstance(item, EnterLoop) and on_device:
            stack.append((item.iname, []))
        elif isinstance(item, LeaveLoop) and on_device:
            iname, items = stack.pop()
            outer = frozenset(name for name, _ in stack if name)
            count = trip_count(kernel, iname, outer, sizes)
            if kernel.iname_tags_of_type(iname, UnrollTag) and isinstance(count, float):
                stack[-1][1].extend(items * round(count))
            else:
                bounds = kernel.get_inames_domain(frozenset({iname})).get_var_names_not_none(
                    isl.dim_type.param
                )
                reads = frozenset(bounds) & frozenset(kernel.temporary_variables)
                stack[-1][1].append(Loop(iname, count, tuple(items), reads))
        elif isinstance(item, RunInstruction):
            times = _copies(kernel, item.insn_id, sizes)
            stack[-1][1].extend([work[item.insn_id]] * times)
        elif isinstance(item, Barrier):
            if item.synchronization_kind == "local":
                stack[-1][1].append(None)
        elif isinstance(item, ReturnFromKernel):
            on_device = False
            launches.append(stack[0][1])
            stack = [("", [])]
    if not 0 <= launch < len(launches):
        raise BlockError(f"launch must be below {len(launches)}, got {launch}")
    return tuple(launches[launch])


def blocks_from_kernel(
    kernel: Any,
    callables: Any = None,
    *,
    machine: Machine | None = None,
    sizes: Mapping[str, int] | None = None,
    name_of: NameOf | None = None,
    ends_with_barrier: bool = True,
    launch: int = 0,
) -> Program:
    """The program of a sub-group of a scheduled and typed Loopy kernel (`tracegen.instrumented.prepare`).

    machine : decides whether arithmetic instructions can read local memory directly
    sizes : values of size arguments; loop counts are formulas in the sizes that are missing
    name_of : names the accesses; by default by their text in the kernel
    ends_with_barrier : whether a group's resources are freed only when all its sub-groups have ended
    launch : index of the kernel's launch

    Raises BlockError where the schedule cannot be cut into blocks.
    """
    items = schedule_items(kernel, callables or {}, machine, sizes or {}, launch)
    cutter = Cutter(name_of or site_name)
    return cutter.program(items, ends_with_barrier=ends_with_barrier)


def site_name(instruction: str, touch: Touch) -> str:
    """The name that tracegen gives to an access that occurs once in the kernel."""
    from tracegen.instrumented import readable

    prefix = {"load": "", "store": "store ", "atomic": "atomic "}[touch.direction]
    tags = getattr(getattr(touch.subscript, "aggregate", touch.subscript), "tags", ())
    names = sorted(str(getattr(tag, "value", tag)) for tag in tags)
    return names[0] if names else prefix + readable(touch.subscript)


def _copies(kernel: Any, instruction: str, sizes: Mapping[str, int]) -> int:
    """How many copies of an instruction its vectorised and interleaved loops generate."""
    total = 1
    for iname in kernel.id_to_insn[instruction].within_inames:
        if kernel.iname_tags_of_type(iname, (IlpBaseTag, VectorizeTag)):
            count = trip_count(kernel, iname, frozenset(), sizes)
            total *= round(count) if isinstance(count, float) else 1
    return total


def _spread(operations: Counter[str], weights: Sequence[int]) -> list[Counter[str]]:
    """Whole operations shared out in proportion to the weights, earlier parts first."""
    total = sum(weights)
    shares = [Counter[str]() for _ in weights]
    for name, count in operations.items():
        given, seen = 0, 0
        for k, weight in enumerate(weights):
            seen += weight
            upto = count if k == len(weights) - 1 else count * seen // max(total, 1)
            if upto > given:
                shares[k][name] = upto - given
            given = upto
    return shares
