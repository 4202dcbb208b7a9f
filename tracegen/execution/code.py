"""Lowered machine code: a table of micro-operations, and the assembler that lowering writes it with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import numpy.typing as npt

from tracegen.execution import operations as o
from tracegen.execution.operations import ALWAYS, OPERATIONS, MicroOperation

NO_SLOT = 7
ARGUMENTS = -1
"""Stands for AMD's arguments where a constant bank could be meant."""
INSTRUCTION_BITS = 20
"""Of a micro-operation's z; above them is the scoreboard slot of an access."""

Special = Literal[
    "lane", "item_x", "item_y", "item_z", "packed_items", "group_x", "group_y", "group_z", "subgroup",
    "lanes_below", "lanes_up_to", "lanes_above", "lanes_from", "this_lane",
    "arguments_low", "arguments_high", "dispatch_low", "dispatch_high", "first_item", "rank",
]  # fmt: skip
"""Rows that the driver fills: of every sub-group the lane, the work-item's place in its group (AMD's packed form: x | y << 10 |
z << 20), masks of lanes below and so on as bits (lanes 0 to 31), the number of the sub-group in its group and of its first
work-item; of every group its place in the grid, and its number in its cluster (rank); of the launch the addresses of AMD's arguments and dispatch packet."""

_ACCESSES = frozenset(o.numbers(*o.ACCESSES))
_NO_CARRY = dict.fromkeys(("ADD_CARRY", "BORROW", "MULTIPLY_WIDE_U", "MULTIPLY_WIDE_S"), o.NEVER)


@dataclass(frozen=True, kw_only=True)
class Segment:
    """Instructions that run one after another: of a basic block, up to an access that is recorded or the block's end.

    first, end : numbers of instructions, first <= number < end
    block : number of the basic block
    """

    first: int
    end: int
    block: int


@dataclass(frozen=True, kw_only=True)
class Code:
    """A kernel as micro-operations.

    lanes : of a register, 32 or 64
    width : lanes of a sub-group; further lanes of registers never work
    table : (n, 12) int32, the fields of MicroOperation
    n_rows, n_masks : that the table uses
    constants : row -> the 32 bits of all its lanes
    banks : row -> (constant bank, offset in bytes) of the 32 bits of all its lanes
    specials : row -> what the driver fills it with: a Special, or `name@lo` and `name@hi`, the halves of a symbol's address
    tables : row -> the 32 bits of each lane
    masks : mask -> "exec", the lanes that begin, for masks that do not begin empty
    places : address of an instruction in bytes -> its first micro-operation, for BRANCH_TABLE and RETURN
    segments : by number, see BLOCK
    skipped : numbers of instructions that have no micro-operations because nobody needs what they compute
    unknown : number -> text of the instructions that are not known; each is a TRAP
    """

    lanes: int
    width: int
    table: npt.NDArray[np.int32]
    n_rows: int
    n_masks: int
    constants: dict[int, int]
    banks: dict[int, tuple[int, int]]
    specials: dict[int, str]
    masks: dict[int, str]
    places: dict[int, int]
    segments: tuple[Segment, ...]
    skipped: frozenset[int] = frozenset()
    tables: dict[int, tuple[int, ...]] = field(default_factory=dict)
    unknown: dict[int, str] = field(default_factory=dict)

    def columns(self, *names: str) -> list[npt.NDArray[np.int32]]:
        """(n,) columns of the table, by the fields of MicroOperation."""
        return [self.table[:, o.COLUMNS[name]] for name in names]


@dataclass
class Assembler:
    """Collects micro-operations, in the order of the machine code.

    For each instruction call `instruction` and then `emit` as often as it needs; before the first one of a basic block call
    `block`. Branches name labels. `finish` puts BLOCK micro-operations in front of blocks and behind accesses.
    """

    lanes: int = 32
    width: int | None = None
    operations: list[MicroOperation] = field(default_factory=list)
    _rows: dict[object, int] = field(default_factory=dict)
    _masks: dict[object, int] = field(default_factory=dict)
    _constants: dict[int, int] = field(default_factory=dict)
    _banks: dict[int, tuple[int, int]] = field(default_factory=dict)
    _specials: dict[int, str] = field(default_factory=dict)
    _tables: dict[int, tuple[int, ...]] = field(default_factory=dict)
    unknown: dict[int, str] = field(default_factory=dict)
    _initial: dict[int, str] = field(default_factory=dict)
    _next_row: int = o.FIRST_ROW
    _labels: dict[str, int] = field(default_factory=dict)
    _pending: list[tuple[int, str]] = field(default_factory=list)
    _places: dict[int, int] = field(default_factory=dict)
    _segments: list[list[int]] = field(default_factory=list)
    _instruction: int = -1
    _block: int = -1
    _open: bool = False

    def rows(self, name: str, count: int) -> int:
        """The first of `count` rows that follow each other, for a register file: rows(`R`, 255). The same at every call."""
        if name not in self._rows:
            self._rows[name] = self._next_row
            self._next_row += count
        return self._rows[name]

    def constant(self, *words: int) -> int:
        """The first of rows with these 32-bit numbers, one behind the other."""
        words = tuple(word & 0xFFFFFFFF for word in words)
        if not any(words) and len(words) <= 2:
            return o.ZERO_ROW
        row = self.rows(f"constant {words}", len(words))
        self._constants.update((row + k, word) for k, word in enumerate(words))
        return row

    def bank(self, bank: int, offset: int, words: int = 1) -> int:
        """The first of rows with the 32-bit words of a constant bank from `offset` bytes on."""
        row = self.rows(f"bank {bank} {offset} {words}", words)
        self._banks.update((row + k, (bank, offset + 4 * k)) for k in range(words))
        return row

    def special(self, name: Special) -> int:
        """A row that the driver fills; must not be written."""
        row = self.rows(f"special {name}", 1)
        self._specials[row] = name
        return row

    def symbol(self, name: str) -> int:
        """The first of two rows with the address of a variable of the program."""
        row = self.rows(f"symbol {name}", 2)
        self._specials |= {row: f"{name}@lo", row + 1: f"{name}@hi"}
        return row

    def lane_table(self, values: tuple[int, ...]) -> int:
        """A row in which each lane has a number of its own. values : of all lanes, 32 bits each"""
        row = self.rows(f"table {values}", 1)
        self._tables[row] = tuple(value & 0xFFFFFFFF for value in values)
        return row

    def mask(self, name: str, initial: Literal["", "exec"] = "") -> int:
        """The number of a mask; `exec` begins with the sub-group's lanes, others empty."""
        if name not in self._masks:
            self._masks[name] = o.FIRST_MASK + len(self._masks)
            if initial:
                self._initial[self._masks[name]] = initial
        return self._masks[name]

    def block(self, labels: Sequence[str] = ()) -> None:
        """A basic block begins with the next instruction."""
        self._block += 1
        self._open = False
        for label in labels:
            self._labels[label] = len(self.operations)

    def instruction(self, number: int, address: int | None = None) -> None:
        """The next micro-operations belong to this instruction, at this address in bytes."""
        if not self._open:
            self._begin_segment(number)
        self._instruction = number
        self._segments[-1][1] = number + 1
        if address is not None:
            self._places[address] = len(self.operations) - self._just_begun
        self._just_begun = 0

    _just_begun: int = 0

    def _begin_segment(self, first: int) -> None:
        self.operations.append(
            MicroOperation(OPERATIONS["BLOCK"].number, y=len(self._segments), z=first)
        )
        self._segments.append([first, first, self._block])
        self._open, self._just_begun = True, 1

    def emit(
        self,
        name: str,
        *,
        guard: int = ALWAYS,
        d: int | None = None,
        e: int | None = None,
        a: int = o.ZERO_ROW,
        b: int = o.ZERO_ROW,
        c: int = o.ZERO_ROW,
        m: int | None = None,
        n: int | None = None,
        x: int = 0,
        y: int | None = None,
        slot: int = NO_SLOT,
        label: str = "",
    ) -> None:
        """Adds a micro-operation. Results that are not named are thrown away; carries that are not named are not set.

        label : of the block that a BRANCH goes to;  slot : the scoreboard that an access names
        """
        operation = OPERATIONS[name]
        m, n = (_NO_CARRY.get(name, ALWAYS) if one is None else one for one in (m, n))
        if d is None:
            d = o.TRASH_MASK if "d" in operation.masks_written else o.TRASH_ROW
        if e is None:
            e = o.TRASH_MASK if "e" in operation.masks_written else 0
        if y is None:
            y = o.TRASH_MASK if "y" in operation.masks_written else 0
        if not self._open:  # a second access of one instruction, which is counted before it
            self._begin_segment(self._instruction + 1)
            self._just_begun = 0
        z = self._instruction | slot << INSTRUCTION_BITS
        if label:
            self._pending.append((len(self.operations), label))
        self.operations.append(
            MicroOperation(operation.number, guard, d, e, a, b, c, m, n, x, y, z)
        )
        space = x & 7
        recorded = operation.number in _ACCESSES and space in (
            o.GLOBAL,
            o.PRIVATE,
            o.GENERIC,
            o.BULK,
        )
        if recorded or operation.number in o.GATHERING:
            self._open = False

    def temporary_mask(self, number: int = 0) -> int:
        """A mask that holds a value within one instruction."""
        return self.mask(f"temporary {number}")

    def finish(self) -> Code:
        """The code. Raises KeyError for a label that no block has."""
        table = np.array(self.operations, np.int32).reshape(-1, len(MicroOperation._fields))
        for at, label in self._pending:
            table[at, o.COLUMNS["y"]] = self._labels[label]
        return Code(
            lanes=self.lanes,
            width=self.width or self.lanes,
            table=table,
            n_rows=self._next_row,
            n_masks=o.FIRST_MASK + len(self._masks),
            constants=self._constants,
            banks=self._banks,
            specials=self._specials,
            masks=self._initial,
            places=self._places,
            segments=tuple(
                Segment(first=first, end=end, block=block) for first, end, block in self._segments
            ),
            tables=self._tables,
            unknown=self.unknown,
        )
