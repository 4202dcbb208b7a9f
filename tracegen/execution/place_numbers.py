"""Numbers that depend on a group's place in the grid alone, and are the same in all its lanes: what of its tile a group computes
by divisions is one.

Such a number is kept as what computes it, a *word*: a constant, a coordinate of the place, or a result of a micro-operation of
words. Code that computes words runs in the interpreter with a group in each lane, so a number is what the kernel's own code makes
of it, to the bit.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tracegen.execution import slow
from tracegen.execution.code import Assembler, Code
from tracegen.execution.operations import ACCESSES, ALWAYS, NEVER, OPERATIONS
from tracegen.execution.slicing import PRODUCTS, ROOTS, WHOLE

Integers = npt.NDArray[np.int64]
Compute = Callable[[Code, int, int, Mapping[str, Integers]], Integers]
"""(code, its first row of results, how many there are, name of a row -> (n,) what it has in each lane) -> (n, results)"""
N_AXES = 3
"""The first words are the coordinates of the place."""


class Bit(NamedTuple):
    """A source mask that is a word: 1 where it is set, or where it is not."""

    word: int
    negated: bool = False


class Made(NamedTuple):
    """What computes words. operands, masks : by field;  guard, old : of what is written under a guard, and was there before"""

    operation: str
    x: int
    y: int
    operands: tuple[tuple[str, tuple[int, ...]], ...]
    masks: tuple[tuple[str, Bit], ...]
    guard: Bit | None
    old: tuple[tuple[str, tuple[int, ...]], ...]


TOGETHER = frozenset(slow.TOGETHER)
"""What reads lanes that may be at another place of the code."""
_OF_MASKS = WHOLE | {"VOTE", "LOAD_CONSTANT", "CLOCK", "UNKNOWN"}
COMPUTING = frozenset(OPERATIONS) - ROOTS - {*ACCESSES} - PRODUCTS - _OF_MASKS - TOGETHER | {
    "READ_FIRST_LANE"
}
"""Operations whose results depend on their operands alone, lane by lane, or that copy what all lanes have."""


@dataclasses.dataclass
class PlaceNumbers:
    """The words of a kernel. compute : runs code for places;  sample : (n, 3) places spread over the grid"""

    compute: Compute
    sample: Integers
    made: list[Made | int | None] = dataclasses.field(default_factory=lambda: [None] * N_AXES)
    """Of each word: what makes it, a constant, or None of a coordinate."""
    fields: list[tuple[str, int]] = dataclasses.field(default_factory=lambda: [("", 0)] * N_AXES)
    """Of each word, which result of what makes it."""
    _known: dict[tuple[Made | int, str, int], int] = dataclasses.field(default_factory=dict)
    _numbers: dict[int, int | None] = dataclasses.field(default_factory=dict)
    _sampled: dict[int, Integers] = dataclasses.field(default_factory=dict)

    def word(self, made: Made | int, field: str = "", k: int = 0) -> int:
        """That of a constant, or of the k-th row of a result."""
        key = (made, field, k)
        if key not in self._known:
            self._known[key] = len(self.made)
            self.made.append(made)
            self.fields.append((field, k))
        return self._known[key]

    def number(self, word: int) -> int | None:
        """The number that a word is in all groups; None where it depends on the place."""
        if word not in self._numbers:
            made = self.made[word]
            if isinstance(made, Made):
                fixed = all(self.number(one) is not None for one in _words(made))
                self._numbers[word] = (
                    int(self.values([word], np.zeros((1, 3), np.int64))[0, 0]) if fixed else None
                )
            else:
                self._numbers[word] = made
        return self._numbers[word]

    def usual(self, word: int) -> int | None:
        """The number that a word is at all places of the sample. Its operands have been asked for before, so each word takes a step."""
        found = self._of_sample(word)
        return int(found[0]) if np.all(found == found[0]) else None

    def _of_sample(self, word: int) -> Integers:
        if word not in self._sampled:
            made = self.made[word]
            if isinstance(made, Made):
                given = {one: self._of_sample(one) for one in _words(made)}
                self._sampled[word] = self._computed([word], given)[:, 0]
            else:
                own = self.sample[:, word] if made is None else np.full(len(self.sample), made)
                self._sampled[word] = own
        return self._sampled[word]

    def values(self, words: Sequence[int], places: Integers) -> Integers:
        """(n, words) the numbers of n places. places : (n, 3)"""
        given = dict(enumerate(places.T))
        if all(word < N_AXES for word in words):
            return places[:, list(words)]
        return self._computed(words, given)

    def _computed(self, words: Sequence[int], given: Mapping[int, Integers]) -> Integers:
        """given : words that need not be computed"""
        code, first = self._code(words, given)
        rows = {f"word_{word}": one for word, one in given.items()}
        return self.compute(code, first, len(words), rows)

    def _code(self, words: Sequence[int], given: Collection[int]) -> tuple[Code, int]:
        """Code that computes words, and the first row of these."""
        needed, waiting = set(words), list(words)
        while waiting:
            word = waiting.pop()
            made = self.made[word]
            if isinstance(made, Made) and word not in given:
                new = set(_words(made)) - needed
                needed |= new
                waiting += new
        assembler = Assembler()
        assembler.block()
        assembler.instruction(0)
        writer, emitted = _Writer(assembler), set()
        for word in sorted(needed):  # operands have been made before
            made = self.made[word]
            if word in given:
                writer.rows[word] = assembler.special(f"word_{word}")  # type: ignore[arg-type]
            elif isinstance(made, Made):
                if made not in emitted:
                    writer.emit(made)
                    emitted.add(made)
                writer.keep(word, made, *self.fields[word])
            else:
                writer.rows[word] = assembler.constant(made or 0)
        first = assembler.rows("results", len(words))
        for k, word in enumerate(words):
            writer.copy(first + k, word)
        assembler.emit("EXIT")
        return assembler.finish(), first


def _words(made: Made) -> Iterable[int]:
    yield from (word for _, words in (*made.operands, *made.old) for word in words)
    yield from (bit.word for _, bit in made.masks)
    if made.guard is not None:
        yield made.guard.word


@dataclasses.dataclass
class _Writer:
    """rows, masks : of words"""

    assembler: Assembler
    rows: dict[int, int] = dataclasses.field(default_factory=dict)
    masks: dict[int, int] = dataclasses.field(default_factory=dict)

    def copy(self, to: int, word: int) -> None:
        """A row gets a word, 0 or 1 where that is a mask."""
        if word in self.masks:
            one = self.assembler.constant(1)
            self.assembler.emit("SELECT", d=to, a=one, m=2 * self.masks[word])
        else:
            self.assembler.emit("MOVE", d=to, a=self.rows[word])

    def _source(self, bit: Bit) -> int:
        """A source mask. That of a constant is ALWAYS or NEVER."""
        if bit.word in self.masks:
            return 2 * self.masks[bit.word] + bit.negated
        row = self.rows[bit.word]
        mask = self.assembler.mask(f"of row {row}")
        self.assembler.emit("COMPARE_U", d=mask, a=row, x=5)
        return 2 * mask + bit.negated

    def emit(self, made: Made) -> None:
        operation, fields = OPERATIONS[made.operation], dict[str, int]()
        for field, words in made.operands:
            fields[field] = self.assembler.rows(f"operand {field}", 4)
            for k, word in enumerate(words):
                self.copy(fields[field] + k, word)
        fields |= {field: self._source(bit) for field, bit in made.masks}
        guard = ALWAYS if made.guard is None else self._source(made.guard)
        for field, count in operation.rows_written.items():
            fields[field] = self.row(made, field, count)
        fields |= {field: self.mask(made, field) for field in operation.masks_written}
        for field, words in made.old:
            for k, word in enumerate(words):
                if field in operation.masks_written:
                    self.assembler.emit(
                        "MASK_LOGIC3", d=fields[field], m=self._source(Bit(word)), x=0xF0
                    )
                else:
                    self.copy(fields[field] + k, word)
        if made.operation == "MASK_LOGIC3":
            fields.setdefault("y", NEVER)
        fields.setdefault("y", made.y)
        emit: Any = self.assembler.emit
        emit(made.operation, guard=guard, x=made.x, **fields)

    def row(self, made: Made, field: str, count: int = 4) -> int:
        return self.assembler.rows(f"{field} of {made}", max(count, 2))

    def mask(self, made: Made, field: str) -> int:
        return self.assembler.mask(f"{field} of {made}")

    def keep(self, word: int, made: Made, field: str, k: int) -> None:
        """Says where a word is that has been made."""
        if field in OPERATIONS[made.operation].masks_written:
            self.masks[word] = self.mask(made, field)
        else:
            self.rows[word] = self.row(made, field) + k
