"""A sub-group's program as basic blocks: the instructions between two points where it must wait.

A program is a list of steps. A step is the number of a block, or a Repeat of steps. Loops stay folded, so
a program that runs a million blocks is as small as its source; `pairs` counts in closed form how often
one block follows another.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from memsim.errors import MemsimError


class BlockError(MemsimError):
    """A program cannot be cut into basic blocks."""


@dataclass(frozen=True, kw_only=True)
class Block:
    """One basic block.

    operations : operation -> instructions of one sub-group, under the names that
        calib.prediction.throughputs lists; global accesses are not included
    accesses : site names of the global accesses in issue order; a site that is issued twice is listed twice
    waits_for : the accesses whose data must have arrived, or be stored, before the next block starts
    bytes_per_item : bytes that one work-item accesses in the block; the paper's DataSize_i is this number
        times the sub-group size
    barrier : whether the block ends with a work-group barrier
    lag : 0, or how many blocks before it the latest of `waits_for` was loaded; below 0 where the block loads what is waited
        for later
    """

    operations: Mapping[str, float] = field(default_factory=dict)
    accesses: tuple[str, ...] = ()
    waits_for: tuple[str, ...] = ()
    bytes_per_item: float = 0.0
    barrier: bool = False
    lag: int = 0

    @property
    def key(self) -> Any:
        """Blocks with equal keys are the same block."""
        return (
            tuple(sorted(self.operations.items())),
            *(self.accesses, self.waits_for, self.bytes_per_item, self.barrier, self.lag),
        )


@dataclass(frozen=True)
class Repeat:
    """Steps that are executed `count` times in sequence."""

    steps: tuple[Step, ...]
    count: float


Step = int | Repeat


@dataclass(frozen=True, kw_only=True)
class Program:
    """The program of one sub-group.

    blocks : the distinct basic blocks
    steps : the order in which they run, from the beginning of the program to its end
    paths : the steps of each sub-group of a group, where they differ; `steps` are then those with most accesses.
        All have equally many barriers, and no loops. How often blocks run and follow each other are means over
        them
    share : the blocks of a mean group over those of the one that has these paths, where groups have different work and all begin at once:
        the launch takes as long as the longest group, and what all share does the mean's work
    """

    blocks: tuple[Block, ...]
    steps: tuple[Step, ...]
    paths: tuple[tuple[int, ...], ...] = ()
    share: float = 1.0

    @property
    def n_blocks(self) -> float:
        """NBB, the number of blocks that one sub-group executes."""
        if self.paths:
            return sum(map(len, self.paths)) / len(self.paths)
        return sum(map(n_blocks, self.steps))

    def pairs(self) -> dict[tuple[int, int], float]:
        """(a, b) -> how often block b follows block a; the first block follows the last one.

        The values add up to n_blocks.
        """
        if self.paths:
            ends: Counter[tuple[int, int]] = Counter()
            for path in self.paths:
                ends.update(zip(path, (*path[1:], path[0]), strict=True))
            return {pair: count / len(self.paths) for pair, count in ends.items()}
        if not self.steps:
            return {}
        counts, first, last = _pairs(self.steps)
        if first is None or last is None:
            return {}
        counts[last, first] += 1
        return {pair: count for pair, count in counts.items() if count}

    def occurrences(self) -> dict[int, float]:
        """block number -> how often it runs."""
        total: dict[int, float] = {}
        for (a, _), count in self.pairs().items():
            total[a] = total.get(a, 0.0) + count
        return total

    @property
    def last_blocks(self) -> frozenset[int]:
        """The blocks with which sub-groups end."""
        return frozenset(path[-1] for path in self.paths) or frozenset([_last(self.steps)])

    def with_first(self, block: Block) -> Program:
        """The program with one more block, number 0, before all others."""
        return Program(
            blocks=(block, *self.blocks),
            steps=(0, *renamed(self.steps, range(1, len(self.blocks) + 1))),
            paths=tuple((0, *(step + 1 for step in path)) for path in self.paths),
            share=self.share,
        )

    def unrolled(self, most: int) -> tuple[list[int], list[tuple[list[int], float]]]:
        """The sequence of blocks with every repeat cut to at most `most` iterations.

        The second value has an entry for every repeat that was cut: the blocks of one iteration, and the
        total number of iterations that the sequence omits.
        """
        order: list[int] = []
        cut: list[tuple[list[int], float]] = []
        _unroll(self.steps, most, 1.0, order, cut)
        return order, cut


def make_program(
    blocks: list[Block],
    steps: list[Any],
    paths: Sequence[Sequence[int]] = (),
    share: float = 1.0,
) -> Program:
    """A program in which equal blocks share a number and consecutive equal steps are one Repeat."""
    numbers: dict[Any, int] = {}
    distinct: list[Block] = []
    renumbered = []
    for block in blocks:
        if block.key not in numbers:
            numbers[block.key] = len(distinct)
            distinct.append(block)
        renumbered.append(numbers[block.key])
    return Program(
        blocks=tuple(distinct),
        steps=_folded(renamed(steps, renumbered)),
        paths=tuple(tuple(renumbered[step] for step in path) for path in paths),
        share=share,
    )


def _last(steps: Sequence[Step]) -> int:
    last = steps[-1]
    return _last(last.steps) if isinstance(last, Repeat) else last


def renamed(steps: Any, numbers: Sequence[int]) -> tuple[Step, ...]:
    """Steps with other numbers of blocks."""
    return tuple(
        Repeat(renamed(step.steps, numbers), step.count)
        if isinstance(step, Repeat)
        else numbers[step]
        for step in steps
    )


def _folded(steps: tuple[Step, ...]) -> tuple[Step, ...]:
    folded: list[Step] = []
    for step in steps:
        if isinstance(step, Repeat):
            step = Repeat(_folded(step.steps), step.count)
            if not step.steps:
                continue
        last = folded[-1] if folded else None
        if isinstance(last, Repeat) and not isinstance(step, Repeat) and last.steps == (step,):
            folded[-1] = Repeat(last.steps, last.count + 1)
        elif isinstance(last, Repeat) and isinstance(step, Repeat) and last.steps == step.steps:
            folded[-1] = Repeat(last.steps, last.count + step.count)
        elif isinstance(step, Repeat) and last is not None and step.steps == (last,):
            folded[-1] = Repeat(step.steps, step.count + 1)
        elif last is not None and last == step and not isinstance(step, Repeat):
            folded[-1] = Repeat((step,), 2)
        else:
            folded.append(step)
    return tuple(folded)


def n_blocks(step: Step) -> float:
    """How many blocks a step executes."""
    return sum(map(n_blocks, step.steps)) * step.count if isinstance(step, Repeat) else 1.0


def _pairs(
    steps: tuple[Step, ...],
) -> tuple[dict[tuple[int, int], float], int | None, int | None]:
    """Counts of consecutive blocks within a list of steps, and its first and last block."""
    total: dict[tuple[int, int], float] = defaultdict(float)
    first: int | None = None
    last: int | None = None
    for step in steps:
        if isinstance(step, Repeat):
            if step.count == 0:
                continue
            inner, begin, end = _pairs(step.steps)
            if begin is None or end is None:
                continue
            for pair, count in inner.items():
                total[pair] += count * step.count
            total[end, begin] += step.count - 1
        else:
            begin = end = step
        if last is not None:
            total[last, begin] += 1
        first = begin if first is None else first
        last = end
    return total, first, last


def _unroll(
    steps: tuple[Step, ...],
    most: int,
    times: float,
    order: list[int],
    cut: list[tuple[list[int], float]],
) -> None:
    for step in steps:
        if not isinstance(step, Repeat):
            order.append(step)
            continue
        whole = round(step.count)
        turns = min(whole, most)
        for k in range(turns):
            # The iterations that the last turn omits inside are omitted by the cut turns as well.
            missing = times * (1 + (whole - turns if k == turns - 1 else 0))
            _unroll(step.steps, most, missing, order, cut)
        if whole > turns:
            turn: list[int] = []
            _unroll(step.steps, most, 0.0, turn, [])
            cut.append((turn, times * (whole - turns)))
