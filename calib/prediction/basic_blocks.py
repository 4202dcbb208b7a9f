"""A sub-group's program as basic blocks: what is issued between two points where it must wait.

A program is a list of steps: a block's number, or a Repeat of steps. Loops stay folded, so that a program
of a million blocks is as small as its text; `pairs` counts which block follows which in closed form.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from memsim.errors import MemsimError

Count = Any
"""A number of repeats: an int or float, or a calib.polynomials.quasi_polynomial.QuasiPolynomial in a kernel's sizes."""


class BlockError(MemsimError):
    """A program that cannot be cut into blocks."""


@dataclass(frozen=True, kw_only=True)
class Block:
    """One basic block.

    operations : operation -> instructions of one sub-group, named as calib.prediction.throughputs says. Global
        accesses are not among them
    accesses : global accesses issued, in order: names of sites, each as often as it is issued
    waits_for : those of them whose data must be there before the next block
    bytes_per_item : of the accesses, together, for one work-item: DataSize_i is so much times the width
    barrier : the block ends with a barrier of the group
    """

    operations: Mapping[str, float] = field(default_factory=dict)
    accesses: tuple[str, ...] = ()
    waits_for: tuple[str, ...] = ()
    bytes_per_item: float = 0.0
    barrier: bool = False

    @property
    def key(self) -> Any:
        """What makes two blocks alike."""
        return (
            tuple(sorted(self.operations.items())),
            *(self.accesses, self.waits_for, self.bytes_per_item, self.barrier),
        )


@dataclass(frozen=True)
class Repeat:
    """Steps, so many times over."""

    steps: tuple[Step, ...]
    count: Count


Step = int | Repeat


@dataclass(frozen=True, kw_only=True)
class Program:
    """blocks : the distinct ones;  steps : their order, from the program's beginning to its end."""

    blocks: tuple[Block, ...]
    steps: tuple[Step, ...]

    @property
    def n_blocks(self) -> Count:
        """NBB: blocks that one sub-group runs through, a formula where sizes are open."""
        return _length(self.steps)

    def at(self, **sizes: float) -> Program:
        """With numbers for the sizes that the counts depend on.

        Raises BlockError that asks for a size by name, or where a count becomes negative.
        """
        return Program(blocks=self.blocks, steps=_settled(self.steps, sizes))

    def pairs(self) -> dict[tuple[int, int], float]:
        """How often block a is followed by block b; the last is followed by the first.

        Counts of a closed program; the sum is n_blocks.
        """
        if not self.steps:
            return {}
        found, first, last = _pairs(self.steps)
        if first is None or last is None:
            return {}
        found[last, first] += 1
        return {pair: count for pair, count in found.items() if count}

    def occurrences(self) -> dict[int, float]:
        """How often each block is run."""
        total: dict[int, float] = {}
        for (a, _), count in self.pairs().items():
            total[a] = total.get(a, 0.0) + count
        return total

    def unrolled(self, most: int) -> tuple[list[int], list[tuple[list[int], float]]]:
        """The blocks in order, each repeat run at most `most` times.

        Also, for each repeat that was cut: the blocks of one turn of it, and how many turns
        are missing in all.
        """
        order: list[int] = []
        cut: list[tuple[list[int], float]] = []
        _unroll(self.steps, most, 1.0, order, cut)
        return order, cut


def make_program(blocks: list[Block], steps: list[Any]) -> Program:
    """Numbers alike blocks alike, and folds steps that stand several times in a row."""
    numbers: dict[Any, int] = {}
    distinct: list[Block] = []
    renumbered = []
    for block in blocks:
        if block.key not in numbers:
            numbers[block.key] = len(distinct)
            distinct.append(block)
        renumbered.append(numbers[block.key])
    return Program(blocks=tuple(distinct), steps=_folded(_renamed(steps, renumbered)))


def _renamed(steps: Any, numbers: list[int]) -> tuple[Step, ...]:
    return tuple(
        Repeat(_renamed(step.steps, numbers), step.count)
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


def _length(steps: tuple[Step, ...]) -> Count:
    total: Count = 0
    for step in steps:
        total = total + (_length(step.steps) * step.count if isinstance(step, Repeat) else 1)
    return total


def _settled(steps: tuple[Step, ...], sizes: Mapping[str, float]) -> tuple[Step, ...]:
    return tuple(
        Repeat(_settled(step.steps, sizes), settled_count(step.count, sizes))
        if isinstance(step, Repeat)
        else step
        for step in steps
    )


def settled_count(count: Count, sizes: Mapping[str, float]) -> float:
    """The number that a count is at these sizes."""
    names = getattr(count, "names", None)
    if names is None:
        return float(count)
    unknown = sorted(names - sizes.keys())
    if unknown:
        raise BlockError(f"how often a loop runs depends on {', '.join(unknown)}: give it a value")
    value = float(count.evaluate(sizes))
    if value < 0:
        raise BlockError(f"a loop would run {count} = {value:g} times: these sizes are too small")
    return value


def _pairs(
    steps: tuple[Step, ...],
) -> tuple[Counter[tuple[int, int]], int | None, int | None]:
    """Pairs within a list of steps, and its first and last block."""
    total: Counter[tuple[int, int]] = Counter()
    first: int | None = None
    last: int | None = None
    for step in steps:
        if isinstance(step, Repeat):
            if float(step.count) == 0:
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
        whole = round(float(step.count))
        turns = min(whole, most)
        for k in range(turns):
            # What the last turn leaves out inside is missing in the cut turns as well.
            missing = times * (1 + (whole - turns if k == turns - 1 else 0))
            _unroll(step.steps, most, missing, order, cut)
        if whole > turns:
            turn: list[int] = []
            _unroll(step.steps, most, 0.0, turn, [])
            cut.append((turn, times * (whole - turns)))
