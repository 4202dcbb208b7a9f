"""How often basic blocks run that a sub-group passes between two stations.

A loop without accesses and barriers (over local memory, over the coefficients of a polynomial) lies
between two stations. Its iterations follow from the loops of the source that its instructions come
from:

    iterations of the machine loop = iterations of the source loop / copies of the body (unrolling)

Where neither a loop's header nor a run says how often it iterates, it does so once.

The copies are how often one place of the text and opcode occurs in the body. NVRTC knows a place by its line, which
may do the same several times, so they may be a divisor of that. The loop with most copies takes as many iterations
as fit; its remainder takes the rest.

Where the code branches, the shortest way is taken. Other blocks count too if they implement lines
that no block of the shortest way implements: a branch of the source, but not the slow path of a
function such as sin for large arguments.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from tracegen.compiled.counting.source_loops import Position, SourceLoop
from tracegen.compiled.loops import Loop, loops
from tracegen.compiled.model import Instruction, MachineCode


@dataclass
class Executions:
    """How often blocks run.

    times : (n_block,) each time that the outermost quiet loop around a block is reached; 1 outside
    looped : the blocks in a machine loop that implements one of the source
    unknown : where those of the source begin whose headers do not determine their iterations
    notes : what is unknown or a mean, one sentence each
    """

    times: list[float]
    looped: frozenset[int] = frozenset()
    unknown: frozenset[Position] = frozenset()
    notes: list[str] = field(default_factory=list)


def is_loud(instruction: Instruction) -> bool:
    """Whether a sub-group's walk stops at the instruction: an access or a barrier."""
    return instruction.is_traced or instruction.pipe == "barrier"


def executions(
    code: MachineCode,
    of_source: Sequence[SourceLoop],
    user_place: Callable[[int], str] | None = None,
) -> Executions:
    """How often each block runs in the loops that have neither accesses nor barriers.

    of_source : the loops of the text that the code was compiled from
    user_place : a line of this text -> `file:line` where the user wrote it, "" where it is generated
    """
    return _Executions(code, of_source, user_place).run()


def lines_of(instructions: Iterable[Instruction]) -> frozenset[int]:
    """The lines of the text that instructions implement."""
    return frozenset(i.location.line for i in instructions if i.location is not None)


class _Executions:
    def __init__(
        self,
        code: MachineCode,
        of_source: Sequence[SourceLoop],
        user_place: Callable[[int], str] | None,
    ) -> None:
        self.blocks, self.user_place = code.blocks, user_place
        self.graph = [block.successors for block in code.blocks]
        self.lines = [lines_of(block.instructions) for block in code.blocks]
        loud = {k for k, block in enumerate(code.blocks) if any(map(is_loud, block.instructions))}
        self.quiet = [loop for loop in loops(code) if not loop.blocks & loud]
        loud_lines = {
            i.location.line
            for k in loud
            for i in code.blocks[k].instructions
            if is_loud(i) and i.location is not None
        }
        self.of_source = [
            loop for loop in of_source if not any(loop.holds(line) for line in loud_lines)
        ]
        self.result = Executions([1.0] * len(code.blocks))

    def run(self) -> Executions:
        families: dict[SourceLoop | None, list[tuple[Loop, frozenset[int], Counter[int]]]]
        families = defaultdict(list)
        for loop in self.quiet:
            own = self._own(loop)
            body = self._passed(loop, own)
            source = self._innermost(own)
            families[source].append((loop, body, self._copies(own, source)))
            for block in own - body:
                self.result.times[block] = 0.0
        for source, members in families.items():
            self._iterate(source, members)
        return self.result

    def _own(self, loop: Loop) -> frozenset[int]:
        """The blocks of a loop that are in no loop inside it."""
        inner = [other for other in self.quiet if other.blocks < loop.blocks]
        return loop.blocks - frozenset().union(*(other.blocks for other in inner))

    def _passed(self, loop: Loop, own: frozenset[int]) -> frozenset[int]:
        """The own blocks that an iteration passes."""
        way = shortest(self.graph, [loop.header], loop.blocks, {loop.header})
        return with_new_lines(self.lines, way, own) & own

    def _innermost(self, own: Iterable[int]) -> SourceLoop | None:
        """The source loop that most instructions of these blocks belong to.

        Where its body is nothing but calls of functions, which have their own lines, it is the one whose
        header they implement.
        """
        votes: Counter[SourceLoop] = Counter()
        headers: Counter[SourceLoop] = Counter()
        for block in own:
            for instruction in self.blocks[block].instructions:
                inside = self._around(instruction)
                if inside:
                    votes[inside[-1]] += 1
                elif instruction.location is not None:
                    line = instruction.location.line
                    headers.update(loop for loop in self.of_source if loop.line == line)
        return next((loop for loop, _ in (votes or headers).most_common(1)), None)

    def _around(self, instruction: Instruction) -> list[SourceLoop]:
        if instruction.location is None:
            return []
        line = instruction.location.line
        return [loop for loop in self.of_source if loop.holds(line)]

    def _copies(self, own: Iterable[int], source: SourceLoop | None) -> Counter[int]:
        """Multiplicity -> places of the source loop that occur so often in these blocks."""
        places: Counter[tuple[int, int, str]] = Counter()
        for block in own:
            for instruction in self.blocks[block].instructions:
                place = instruction.location
                if source is not None and place is not None and source.holds(place.line):
                    places[place.line, place.column, instruction.opcode] += 1
        return Counter(places.values())

    def _iterate(
        self,
        source: SourceLoop | None,
        members: list[tuple[Loop, frozenset[int], Counter[int]]],
    ) -> None:
        """Divides the iterations of a source loop among the machine loops that implement it."""
        if source is None:  # the slow path of a function
            return
        self.result.looped |= frozenset().union(*(loop.blocks for loop, _, _ in members))
        outer, left = self._outside(source), self._total(source)
        self.result.unknown |= {loop.at for loop in (*outer, source) if loop.trips is None}
        if source.trips is None:
            self.result.notes.append(self._note(source))
            if source.counted is None:
                return
        repeats = _repeats(max((copies for _, _, copies in members), key=_usual))
        sized = sorted(
            ((max(1, _usual(copies) // repeats), len(body), body) for _, body, copies in members),
            key=lambda entry: entry[:2],
            reverse=True,
        )
        previous, turns = 0, 0.0
        for number, (copies, _, body) in enumerate(sized):
            # Without an unrolled loop around them, loops of equal size come from calls of one function.
            if copies != previous or outer:
                exact = left / copies
                turns = exact if number == len(sized) - 1 else float(math.floor(exact))
                left = max(left - turns * copies, 0.0)
            previous = copies
            for block in body:
                self.result.times[block] = turns

    def _note(self, source: SourceLoop) -> str:
        """Of a loop whose header does not determine how often it runs."""
        place = self.user_place(source.line) if self.user_place is not None else ""
        where = f"at {place}" if place else f"in line {source.line} of the compiled text"
        if source.counted is None:
            return (
                f"one iteration is assumed of the loop {where},"
                " whose header does not determine how often it runs"
            )
        return (
            f"{source.counted.mean:.3g} iterations are taken of the loop {where}, as counted when it ran:"
            " the mean over sub-groups, which wait for their slowest lane"
        )

    def _outside(self, source: SourceLoop) -> list[SourceLoop]:
        """The source loops around one, outer loops first."""
        before = self.of_source[: self.of_source.index(source)]
        return [loop for loop in before if loop.holds(source.line)]

    def _total(self, source: SourceLoop) -> float:
        """Iterations of a source loop each time that the outermost one around it is reached."""
        outside = self._outside(source)
        own = source.trips
        if own is None and source.counted is not None:
            own, nest = source.counted.mean, source.counted.nest
            # What is counted includes the loops of its nest; those of a caller are all of them.
            places = [*(loop.at for loop in outside), source.at]
            outside = outside[: places.index(nest)] if nest in places else []
        around = self._total(outside[-1]) if outside else 1.0
        return around if own is None else own * around


def _usual(copies: Counter[int]) -> int:
    """The multiplicity of most instructions, the larger one of two."""
    return max(copies, key=lambda n: (n * copies[n], n), default=1)


def _repeats(copies: Counter[int]) -> int:
    """How often most lines do the same in one copy of a loop's body.

    Nearly all places then occur as often as there are copies, or a multiple of it, and a good part just as often.
    Otherwise other places are shared by copies, or calculate addresses, and most lines do a thing once.
    """
    usual, total = _usual(copies), sum(n * places for n, places in copies.items())

    def is_common(size: int) -> bool:
        divided = sum(n * places for n, places in copies.items() if n % size == 0)
        return usual % size == 0 and divided >= 0.95 * total and 4 * size * copies[size] >= total

    return usual // min((size for size in copies if size > 1 and is_common(size)), default=usual)


def shortest(
    graph: Sequence[Sequence[int]],
    starts: Sequence[int],
    inside: Iterable[int],
    ends: Iterable[int],
) -> frozenset[int]:
    """The nodes of the shortest way from one of `starts` until before one of `ends`.

    inside : the nodes that it may pass. Without a way there are none.
    """
    allowed, goal = frozenset(inside), frozenset(ends)
    before: dict[int, int | None] = dict.fromkeys(starts)
    queue = list(starts)
    for node in queue:
        for after in graph[node]:
            if after in goal:
                way = set()
                at: int | None = node
                while at is not None:
                    way.add(at)
                    at = before[at]
                return frozenset(way)
            if after in allowed and after not in before:
                before[after] = node
                queue.append(after)
    return frozenset()


def with_new_lines(
    lines: Sequence[frozenset[int]],
    way: frozenset[int],
    others: Iterable[int],
    seen: frozenset[int] = frozenset(),
) -> frozenset[int]:
    """The nodes of a way, and those others that implement lines which none before them implements.

    lines : of each node;  seen : lines that are implemented elsewhere
    """
    implemented = seen.union(*(lines[node] for node in way))
    taken = set(way)
    for node in sorted(others):
        if node not in taken and lines[node] - implemented:
            implemented |= lines[node]
            taken.add(node)
    return frozenset(taken)


def between(
    graph: Sequence[Sequence[int]],
    starts: Iterable[int],
    inside: frozenset[int],
    ends: frozenset[int],
) -> frozenset[int]:
    """The nodes inside that can be reached from `starts`, and from which an end can be reached."""
    forward = _reached(graph, [node for node in starts if node in inside], inside)
    backward: dict[int, list[int]] = {node: [] for node in forward}
    last = []
    for node in forward:
        for after in graph[node]:
            if after in forward:
                backward[after].append(node)
        if node in ends or any(after in ends for after in graph[node]):
            last.append(node)
    reached, waiting = set(last), last
    while waiting:
        new = [node for node in backward[waiting.pop()] if node not in reached]
        reached.update(new)
        waiting.extend(new)
    return frozenset(reached)


def _reached(
    graph: Sequence[Sequence[int]], starts: Sequence[int], inside: frozenset[int]
) -> frozenset[int]:
    reached, waiting = set(starts), list(starts)
    while waiting:
        new = [k for k in graph[waiting.pop()] if k in inside and k not in reached]
        reached.update(new)
        waiting.extend(new)
    return frozenset(reached)
