"""Which accesses of the source each memory instruction performs.

A compiler keeps, merges, copies, moves or drops the accesses of a kernel. The position in the text
that it records for an instruction, the array that the address derives from, the direction and the
width say which probe of the source an instruction stands for.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from tracegen.compiled.loops import depths
from tracegen.compiled.model import Instruction, Location, MachineCode
from tracegen.probes.program import Probe

OUTSIDE = 1 << 30
_OFFSET_SASS = re.compile(r"\[(U?R\d+[^\[\]+]*(?:\+U?R\w+)*)(?:\+(-?0x[0-9a-fA-F]+))?\]\s*(?:,|$)")
_OFFSET_AMD = re.compile(r"\boffset:(-?(?:0x[0-9a-fA-F]+|\d+))|(?<=,)\s*(0x[0-9a-fA-F]+)\s*$")
MOST_NEIGHBOURS = 256
"""Accesses among which the neighbours in memory of one are looked for."""
MOST_OPEN = 64
"""Parts of accesses that a further part may belong to."""


@dataclass(frozen=True, kw_only=True)
class Match:
    """The accesses of machine code, as positions of probes.

    covers : for each load, store and atomic of global memory, in the order of the code: the
        positions that it performs at once. A position repeated is an access that the source
        executes several times; none where the source has no such access
    again : for each of them, whether it performs another part of the access before
    dropped : positions that the compiler dropped or merged with others
    kept : positions without an instruction, though there should be one
    joined : position -> the position in whose name it is performed, where several are copies of one
        text, and no copy has instructions of its own
    """

    covers: tuple[tuple[int, ...], ...]
    again: tuple[bool, ...]
    dropped: frozenset[int] = frozenset()
    kept: frozenset[int] = frozenset()
    joined: Mapping[int, int] = field(default_factory=dict)


def without(matching: Match, positions: frozenset[int]) -> Match:
    """The match without the instructions of some positions, which are kept."""
    covers = tuple(tuple(at for at in cover if at not in positions) for cover in matching.covers)
    return replace(matching, covers=covers, kept=matching.kept | positions)


def traced_instructions(code: MachineCode) -> list[Instruction]:
    """The instructions that `Match.covers` lists."""
    return [
        instruction
        for block in code.blocks
        for instruction in block.instructions
        if instruction.is_traced
    ]


Sample = Sequence[tuple[int, int]]
"""The accesses of one sub-group in the order of the source: position, and first byte."""


def match(
    code: MachineCode,
    text: str,
    probes: Sequence[Probe],
    sizes: Sequence[int],
    sample: Sample = (),
    missed: frozenset[int] = frozenset(),
) -> Match:
    """Matches machine code to the probes of the text that it was compiled from.

    sizes : bytes that each position accesses
    sample : shows which accesses are neighbours in memory, where instructions perform several at once
    missed : positions that must have an instruction. Their copies are performed in the name of one
    """
    return _Matching(code, text, probes, sizes, sample, missed).run()


@dataclass
class _Matching:
    code: MachineCode
    text: str
    probes: Sequence[Probe]
    sizes: Sequence[int]
    sample: Sample
    missed: frozenset[int]
    covers: list[tuple[int, ...]] = field(default_factory=list)
    joined: dict[int, int] = field(default_factory=dict)
    unused: set[int] = field(default_factory=set)

    def run(self) -> Match:
        instructions = traced_instructions(self.code)
        self.depth = depths(self.code)
        self.block_of, self.written = places(self.code)
        self.line_starts = [0]
        for line in self.text.splitlines(keepends=True):
            self.line_starts.append(self.line_starts[-1] + len(line))
        self.by_direction: dict[str, list[int]] = defaultdict(list)
        for position, probe in enumerate(self.probes):
            self.by_direction[probe.kind].append(position)
        self.covers = [self._at_location(instruction) for instruction in instructions]
        self._share_copies(instructions)
        self.sample = [(self.joined.get(at, at), byte) for at, byte in self.sample]
        taken = {position for cover in self.covers for position in cover}
        self._without_location(instructions, taken, only_wide=True)
        self._bundle(instructions, taken)
        taken = {position for cover in self.covers for position in cover}
        self._without_location(instructions, taken)
        return Match(
            covers=tuple(self.covers),
            again=tuple(self._parts(instructions)),
            joined=self.joined,
            **self._left_over(instructions, taken),
        )

    def _offset(self, location: Location) -> int | None:
        if not 1 <= location.line < len(self.line_starts):
            return None
        return self.line_starts[location.line - 1] + max(location.column - 1, 0)

    def _candidates(self, instruction: Instruction) -> list[int]:
        memory = instruction.memory
        assert memory is not None
        return [
            position
            for position in self.by_direction[memory.direction]
            if memory.array is None or memory.array in self.probes[position].array.split(" or ")
        ]

    def _at_location(self, instruction: Instruction) -> tuple[int, ...]:
        """The positions whose text is the nearest to an instruction's location, on its line; of NVRTC's code,
        which has the columns of statements, all of the line."""
        offset = None if instruction.location is None else self._offset(instruction.location)
        if offset is None:
            return ()
        assert instruction.location is not None
        line = instruction.location.line
        best = (OUTSIDE, 0)
        chosen: list[int] = []
        for position in self._candidates(instruction):
            span = self.probes[position].span
            if span is None:
                if self.probes[position].line == line:
                    distance = (OUTSIDE - 1, 0)
                else:
                    continue
            else:
                first, last = (self._line(at) for at in (span[0], span[1] - 1))
                if not first <= line <= last:
                    continue
                gap = max(span[0] - offset, offset - span[1] + 1, 0)
                distance = (0, 0) if "nvrtc" in self.code.tools else (gap, span[1] - span[0])
            if distance < best:
                best, chosen = distance, [position]
            elif distance == best:
                chosen.append(position)
        return tuple(chosen)

    def _line(self, offset: int) -> int:
        return bisect_left(self.line_starts, offset + 1)

    def _share_copies(self, instructions: Sequence[Instruction]) -> None:
        """Where one text stands for several positions (calls of a function), deals them out in order.

        That leaves copies without an instruction where there are fewer instructions: the compiler may have
        dropped these, or it performs several copies by one instruction (a loop that it did not unroll, a
        function that it did not inline, branches that end alike). The trace shows which, see `missed`.
        """
        groups: dict[tuple[int, ...], list[int]] = defaultdict(list)
        for number, cover in enumerate(self.covers):
            if len(cover) > 1:
                groups[cover].append(number)
        for positions, numbers in groups.items():
            dealt = self._dealt_out(positions, numbers)
            if dealt is None or not self.missed.isdisjoint(positions):
                first: dict[tuple[str, int], int] = {}
                for at in positions:
                    self.joined[at] = first.setdefault((self.probes[at].array, self.sizes[at]), at)
                dealt = _in_order(tuple(first.values()), numbers)
            for number, at in dealt.items():
                self.covers[number] = (at,)

    def _dealt_out(self, positions: Sequence[int], numbers: Sequence[int]) -> dict[int, int] | None:
        """The position of each of some instructions; None if they cannot be told apart.

        Each turn of a loop performs the positions of its block equally often.
        """
        dealt = _in_order(positions, numbers)
        blocks: dict[int, list[int]] = defaultdict(list)
        for number in numbers:
            blocks[self.block_of[number]].append(number)
        in_loops = [mine for block, mine in blocks.items() if self.depth[block]]
        times = [set(Counter(dealt[number] for number in mine).values()) for mine in in_loops]
        if len(numbers) <= len(positions) or all(len(each) == 1 for each in times):
            return dealt
        if any(len(mine) % len(positions) for mine in blocks.values()):
            return None
        return {
            number: positions[k % len(positions)]
            for mine in blocks.values()
            for k, number in enumerate(mine)
        }

    def _without_location(
        self, instructions: Sequence[Instruction], taken: set[int], *, only_wide: bool = False
    ) -> None:
        """Instructions without a usable location perform the accesses that none has, in order.

        only_wide : those that perform several at once. A compiler that merges loads of several lines
            may give the wide one no position; `_bundle` looks for its neighbours.
        """
        waiting: dict[tuple[int, ...], list[int]] = defaultdict(list)
        for number, instruction in enumerate(instructions):
            if not self.covers[number] and number not in self.unused:
                free = [p for p in self._candidates(instruction) if p not in taken]
                if only_wide and any(self.sizes[p] >= _width(instruction) for p in free):
                    continue
                waiting[tuple(free)].append(number)
        for candidates, numbers in waiting.items():
            left = [position for position in candidates if position not in taken]
            for k, number in enumerate(numbers):
                at = k * len(left) // len(numbers) if len(numbers) >= len(left) else k
                self.covers[number] = tuple(left[at : at + 1])
                taken.update(self.covers[number])

    def _bundle(self, instructions: Sequence[Instruction], taken: set[int]) -> None:
        """Instructions wider than their access perform its neighbours in memory too.

        A compiler that merges loads gives them all the position of one. So the instructions of one
        array are taken together, those of each loop's block by themselves, and dealt the accesses. One
        that would perform neighbours where there are none belongs to code that does not run: for strides
        of one element, a compiler may have a loop of its own.
        """
        depth, block_of, written = self.depth, self.block_of, self.written
        bundles: dict[tuple[int, str, str, int], list[int]] = defaultdict(list)
        for number, cover in enumerate(self.covers):
            if len(cover) == 1:
                own, size = self.probes[cover[0]], self.sizes[cover[0]]
                loop = block_of[number] if depth[block_of[number]] else OUTSIDE
                bundles[loop, own.array, own.kind, max(size, 1)].append(number)
        for (loop, *_, size), numbers in bundles.items():
            mine = [instructions[number] for number in numbers]
            if max(map(_width, mine)) <= size:
                continue
            places = [self.covers[number][0] for number in numbers]
            entries = self._neighbours(places)
            if loop != OUTSIDE:  # in a loop, only accesses without an instruction are to be had
                entries = [e for e in entries if e[0] not in taken or e[0] in places]
            bases = [(block_of[number], written[number]) for number in numbers]
            dealt = _dealt(entries, mine, bases, places, size)
            for number, cover in zip(numbers, dealt, strict=True):
                repeats = max(_width(instructions[number]) // size, 1)
                if not cover and not _may_lie(entries, self.covers[number][0], repeats, size):
                    self.unused.add(number)
                elif not cover:
                    cover = self.covers[number] * repeats
                self.covers[number] = cover
                taken.update(cover)

    def _neighbours(self, places: Sequence[int]) -> list[tuple[int, int]]:
        """The sampled accesses of the array of some positions, from the first of these on."""
        own = self.probes[places[0]]
        stream = [
            (position, byte)
            for position, byte in self.sample
            if self.probes[position].array == own.array and self.probes[position].kind == own.kind
        ]
        first = next((k for k, entry in enumerate(stream) if entry[0] in places), 0)
        return stream[max(first - MOST_NEIGHBOURS // 2, 0) : first + MOST_NEIGHBOURS]

    def _parts(self, instructions: Sequence[Instruction]) -> list[bool]:
        """Whether an instruction narrower than its access performs another part of one before.

        Parts of one access lie beside each other within its size, by one base register: those of an
        unrolled loop's copies do not, whether they perform whole accesses or parts that are used.
        """
        block_of, written = self.block_of, self.written
        opened: dict[tuple[int, str], list[_Part]] = defaultdict(list)
        again = []
        for number, (instruction, cover) in enumerate(zip(instructions, self.covers, strict=True)):
            size = self.sizes[cover[0]] if len(cover) == 1 else 0
            again.append(False)
            if size > _width(instruction):
                register, first = address(instruction)
                accesses = opened[cover[0], register]
                base = block_of[number], written[number]
                part = _Part(base, first, first + _width(instruction), size)
                of = next((p for p in accesses[: -MOST_OPEN - 1 : -1] if p.continues(part)), None)
                again[-1] = of is not None
                accesses.append(replace(part, of=of))
        return again

    def _left_over(
        self, instructions: Sequence[Instruction], taken: set[int]
    ) -> dict[str, frozenset[int]]:
        unknown = [
            instructions[number]
            for number, cover in enumerate(self.covers)
            if not cover and number not in self.unused
        ]
        dropped: set[int] = set()
        kept: set[int] = set()
        for position, probe in enumerate(self.probes):
            if probe.kind in ("edge", "barrier") or self.joined.get(position, position) in taken:
                continue
            perhaps = any(position in self._candidates(instruction) for instruction in unknown)
            (kept if perhaps or probe.kind != "load" else dropped).add(position)
        return {"dropped": frozenset(dropped), "kept": frozenset(kept)}


@dataclass(frozen=True)
class _Part:
    """A part of an access of `size` bytes.

    base : block of its instruction, and which instruction of the block wrote the base register
    first, end : bytes behind the base register;  of : the part of the same access before it
    """

    base: tuple[int, int]
    first: int
    end: int
    size: int
    of: _Part | None = None

    def continues(self, other: _Part) -> bool:
        """Whether another part may belong to the same access."""
        mine: _Part | None = self
        while mine is not None:
            same_base = mine.base == other.base or mine.base[0] != other.base[0]
            apart = mine.end <= other.first or other.end <= mine.first
            within = max(mine.end, other.end) - min(mine.first, other.first) <= mine.size
            if not (same_base and apart and within):
                return False
            mine = mine.of
        return True


def _in_order(positions: Sequence[int], numbers: Sequence[int]) -> dict[int, int]:
    """Instructions, by number, with the positions that are dealt out to them."""
    return {
        number: positions[k * len(positions) // len(numbers)] for k, number in enumerate(numbers)
    }


def _width(instruction: Instruction) -> int:
    assert instruction.memory is not None
    return instruction.memory.bytes_per_item


def places(code: MachineCode) -> tuple[list[int], list[int]]:
    """Of each traced instruction, its block, and which instruction last wrote what it reads."""
    block_of, written = [], []
    for number, block in enumerate(code.blocks):
        latest: dict[str, int] = {}
        for k, instruction in enumerate(block.instructions):
            if instruction.is_traced:
                block_of.append(number)
                written.append(
                    max((latest.get(name, -1) for name in instruction.reads), default=-1)
                )
            latest.update(dict.fromkeys(instruction.writes, k))
    return block_of, written


def _chains(
    instructions: Sequence[Instruction], bases: Sequence[tuple[int, int]]
) -> list[list[int]]:
    """Instructions whose addresses lie behind each other: one value of a base register, and offsets
    without gaps."""
    at = [(base, *address(one)) for base, one in zip(bases, instructions, strict=True)]
    chains: list[list[int]] = []
    last: dict[tuple[tuple[int, int], str, int], list[int]] = {}
    for k in sorted(range(len(at)), key=lambda k: at[k]):
        base, register, offset = at[k]
        chain = last.pop((base, register, offset), None)
        if chain is None:
            chain = []
            chains.append(chain)
        chain.append(k)
        last[base, register, offset + _width(instructions[k])] = chain
    return chains


def address(instruction: Instruction) -> tuple[str, int]:
    """The address of an access as text, without its constant offset, and that offset in bytes."""
    text = instruction.text.partition(instruction.opcode)[2]
    hexadecimal = _OFFSET_SASS.search(text)
    if hexadecimal is not None:
        return hexadecimal.group(1), int(hexadecimal.group(2) or "0", 16)
    offset = _OFFSET_AMD.search(text)
    operands = [part.strip() for part in _OFFSET_AMD.sub("", text).split(",")]
    data = 0 if instruction.memory is not None and instruction.memory.direction == "load" else 1
    del operands[data : data + 1]
    return ",".join(operands), 0 if offset is None else int(offset.group(1) or offset.group(2), 0)


def _dealt(
    entries: Sequence[tuple[int, int]],
    instructions: Sequence[Instruction],
    bases: Sequence[tuple[int, int]],
    places: Sequence[int],
    size: int,
) -> list[tuple[int, ...]]:
    """The positions of each of some instructions: neighbours in memory, wide ones first.

    entries : (position, first byte) of accesses
    bases, places : of each instruction, what its base register holds and the position of its text
    """
    left = list(entries)
    covers: list[tuple[int, ...]] = [()] * len(instructions)
    waiting = Counter(places)
    chains = [
        (chain, [max(_width(instructions[k]) // size, 1) for k in chain])
        for chain in _chains(instructions, bases)
    ]
    for chain, counts in sorted(chains, key=lambda one: (-sum(one[1]), min(one[0]))):
        own = {places[k] for k in chain}
        waiting.subtract(places[k] for k in chain)
        spare = Counter(position for position, _ in left)
        spare.subtract(waiting)
        runs = (_run(left, entry, sum(counts), size) for entry in left)
        whole = [run for run in runs if len(run) == sum(counts)]
        if not whole:
            continue
        # First those of its own positions, and those that no other instruction is waiting for.
        run = min(
            whole,
            key=lambda run: (
                not own & {position for position, _ in run},
                sum(spare[position] <= 0 for position, _ in run),
            ),
        )
        first = 0
        for k, count in zip(chain, counts, strict=True):
            covers[k] = tuple(position for position, _ in run[first : first + count])
            first += count
        for entry in run:
            left.remove(entry)
    return covers


def _may_lie(entries: Sequence[tuple[int, int]], position: int, n: int, size: int) -> bool:
    """Whether accesses of a position may be among n that lie behind each other in memory.

    So it is where the entries do not have the position.
    """
    if n == 1 or all(at != position for at, _ in entries):
        return True
    runs = (_run(entries, entry, n, size) for entry in entries)
    return any(len(run) == n and any(at == position for at, _ in run) for run in runs)


def _run(
    entries: Sequence[tuple[int, int]], first: tuple[int, int], n: int, size: int
) -> list[tuple[int, int]]:
    """Up to n accesses that lie behind each other in memory from a first one on."""
    run = [first]
    while len(run) < n:
        following = next((e for e in entries if e[1] == run[-1][1] + size), None)
        if following is None:
            break
        run.append(following)
    return run
