"""Random programs whose operations work on each other's results, with memory, branches, loops and barriers."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.twins.execution import Memory
from tests.twins.programs import BASE, OF_32_LANES, STRAIGHT, Program, Rng, result_format
from tracegen.execution import operations as o

ARRAY_BYTES, LOCAL_BYTES, PRIVATE_BYTES = 1 << 10, 1 << 9, 1 << 7
_AND, _OR = 0xC0, 0xFC
_ONES = {
    "f16": (0x03FF03FF, 0x3C003C00), "bf16": (0x007F007F, 0x3F803F80), "f32": (0x7FFFFF, 0x3F800000), "f64": (0xFFFFF, 0x3FF00000),
}  # fmt: skip
"""Of the upper row of a number: bits that are kept, and what makes of it one in [1, 2)."""


class Branching(Program):
    """A random program; `formats` and `approximate` are those of comparison.differences."""

    def __init__(self, rng: Rng, *, lanes: int, n_items: int) -> None:
        super().__init__(rng, lanes=lanes, n_items=n_items, n_pairs=12)
        self.number, self.depth, self.n_label = 0, 0, 0
        self.form = str(rng.choice(["f16", "bf16", "f32", "f64"]))
        self.sink = self.made.rows("sink", 1)
        arrays = [
            ("integers", BASE + (1 << 16), rng.integers(0, 256, ARRAY_BYTES).astype(np.uint8))
        ]
        ones = np.full(ARRAY_BYTES // 4, 0x3F803F80, np.uint32).view(np.uint8)
        arrays += [("reals", BASE + (2 << 16), ones)]
        self.memory = Memory(
            [*self.memory.arrays, *arrays], {1: rng.integers(0, 256, 256).astype(np.uint8)}, LOCAL_BYTES, PRIVATE_BYTES
        )  # fmt: skip

    # --- straight lines -----------------------------------------------------------------------------
    def next(self) -> None:
        self.number += 1
        self.made.instruction(self.number, 16 * self.number)

    def emit(self, name: str, **fields: Any) -> None:
        self.made.emit(name, **fields)

    def line(self, count: int) -> None:
        """So many operations, a third of them on memory."""
        for _ in range(count):
            kind = self.rng.random()
            if kind < 0.25:
                self.access()
            elif kind < 0.3:
                self.wait()
            else:
                self.straight()

    def straight(self) -> None:
        name = str(self.rng.choice(STRAIGHT))
        if self.lanes == 64 and name in OF_32_LANES:
            return
        self.number += 1
        masks = [int(mask) for mask in self.rng.permutation(self.masks)[:3]]
        row = self.sink if name == "SPECIAL" else self.row(2)
        fields = self.operation(name, self.number, row, masks)
        if name != "SPECIAL":
            self.one_nan(row, result_format(name, fields))

    def one_nan(self, row: int, form: str) -> None:
        """What is not a number becomes the same one: its bits are not specified."""
        made = self.made
        low, high = 2 * made.temporary_mask(10), 2 * made.temporary_mask(11)
        nan = made.constant(0x7FF80000)
        unordered = o.UNORDERED | (o.BF16 if form == "bf16" else 0)
        if form == "f32":
            self.emit("COMPARE_F32", d=low >> 1, a=row, b=row, x=o.UNORDERED)
            self.emit("SELECT", d=row, a=nan, b=row, m=low)
        elif form == "f64":
            self.emit("COMPARE_F64", d=low >> 1, a=row, b=row, x=o.UNORDERED)
            for part in (0, 1):
                self.emit("SELECT", d=row + part, a=nan, b=row + part, m=low)
        elif form == "high":
            bits = made.rows("temporary", 1)
            self.emit("LOGIC3", d=bits, a=row, b=made.constant(0x7FFFFFFF), y=_AND)
            self.emit("COMPARE_U", d=low >> 1, a=bits, b=made.constant(0x7FF00000), x=o.GREATER)
            self.emit("SELECT", d=row, a=nan, b=row, m=low)
        elif form:
            self.emit("COMPARE_F16", d=low >> 1, e=high >> 1, a=row, b=row, x=unordered)
            for mask, ones in ((low, 0xFFFF), (high, 0xFFFF0000)):
                bits = made.rows("temporary", 1)
                self.emit("LOGIC3", d=bits, a=row, b=made.constant(ones), y=_OR)
                self.emit("SELECT", d=row, a=bits, b=row, m=mask)
        self.emit("MOVE", d=made.rows("temporary", 1))

    # --- memory -------------------------------------------------------------------------------------
    def access(self) -> None:
        """A load, a store or an atomic operation at a random aligned address."""
        rng, made = self.rng, self.made
        kind = str(rng.choice(["LOAD", "LOAD", "STORE", "ATOMIC", "LOAD_CONSTANT"]))
        atomic = kind == "ATOMIC"
        spaces = [o.GLOBAL, o.LOCAL, *([] if atomic else [o.PRIVATE]), o.GENERIC]
        space = int(rng.choice(spaces))
        size = int(rng.choice([4, 8] if atomic else [1, 2, 4, 8, 16]))
        floating = atomic and space == o.GLOBAL and rng.random() < 0.5
        if floating:
            size = 8 if self.form == "f64" else 4
        base, length = BASE + ((2 if floating else 1) << 16), ARRAY_BYTES
        if space == o.GENERIC:
            local, private = (o.LOCAL_WINDOW, LOCAL_BYTES), (o.PRIVATE_WINDOW, PRIVATE_BYTES)
            base, length = [(base, length), local, private][int(rng.integers(0, 3 - atomic))]
        elif space != o.GLOBAL:
            base, length = 0, LOCAL_BYTES if space == o.LOCAL else PRIVATE_BYTES
        if kind == "LOAD_CONSTANT":
            length = 256
        self.next()
        at = made.rows("offset", 2)
        self.emit("LOGIC3", d=at, a=self.row(1), b=made.constant(length // size - 1), y=_AND)
        x = size << o.BYTES
        if size in (1, 2) and not atomic:
            x |= o.SIGN_EXTEND * int(rng.integers(0, 2))
            x |= int(rng.choice([0, o.HIGH_HALF, o.KEEP_HALF])) * (kind != "LOAD_CONSTANT")
        guard = self.mask()
        if kind == "LOAD_CONSTANT":
            self.emit("MULTIPLY_ADD", d=at, a=at, b=made.constant(size))
            self.emit(kind, guard=guard, d=self.wide_row(size), a=at, n=1 << 1, x=x)
            return
        if size in (1, 4, 8, 16) and rng.random() < 0.5:
            x |= {1: 0, 4: 1, 8: 2, 16: 3}[size] << o.SCALE
        else:
            self.emit("MULTIPLY_ADD", d=at, a=at, b=made.constant(size))
        fields = {"a": at, "guard": guard, "slot": int(rng.choice([0, 1, 2, 6, 7]))}
        if space in (o.GLOBAL, o.GENERIC):
            x |= o.ADDRESS_32 | o.SIGNED_32 * int(rng.integers(0, 2))
            fields["b"] = made.constant(base & 0xFFFFFFFF, base >> 32)
            if not x >> o.SCALE & 3 and rng.random() < 0.5:
                self.emit("ADD64", d=at, a=at, b=fields.pop("b"))
                x &= ~(o.ADDRESS_32 | o.SIGNED_32)
        x |= space | o.SKIPPED * int(rng.random() < 0.1)
        if atomic:
            self.atomic(size, x, fields, floating)
        else:
            if kind == "STORE" and space in (o.GLOBAL, o.PRIVATE):
                x |= o.COUNTED * int(rng.integers(0, 2))
            self.emit(kind, **fields, x=x, **{"d" if kind == "LOAD" else "c": self.wide_row(size)})
        self.emit("MOVE", d=at + 1)  # the next offset has 32 bits

    def wide_row(self, size: int) -> int:
        """The first of as many rows as an access has."""
        n = max(1, size // 4)
        return int(self.rng.choice(self.rows[: -n + 1 or None : min(n, 2)]))

    def atomic(self, size: int, x: int, fields: dict[str, int], floating: bool) -> None:
        made, operand = self.made, self.row(2)
        operation = int(self.rng.integers(0, 16 if size == 8 else 13))
        if floating:
            operation = int(self.rng.choice([o.ATOMIC_ADD, o.ATOMIC_MIN_S, o.ATOMIC_MAX_S]))
            x |= o.FLOATING
            x |= {"f16": o.PACKED, "bf16": o.PACKED | o.BF16}.get(self.form, 0)
            keep, ones = _ONES[self.form]
            number = made.rows("temporary 2", 2)
            self.emit("MOVE", d=number, a=operand)
            kept, one = made.constant(keep), made.constant(ones)
            self.emit("LOGIC3", d=number + (size == 8), a=operand, b=kept, c=one, y=0xEA)
            operand = number
        x |= operation << o.ATOMIC_OPERATION | o.NO_RESULT * int(self.rng.integers(0, 2))
        self.emit("ATOMIC", **fields, c=operand, e=self.row(2), d=self.row(2), x=x)

    def wait(self) -> None:
        self.next()
        kind = self.rng.integers(0, 4)
        if kind == 0:
            self.emit("COPIES_END")
        elif kind == 1:
            self.emit("WAIT_COPIES", y=int(self.rng.integers(0, 4)))
        elif kind == 2:
            self.emit("WAIT_SLOTS", y=int(self.rng.integers(1, 8)))
        else:
            self.emit("WAIT_COUNT", y=int(self.rng.integers(0, 4)), x=int(self.rng.integers(0, 3)))

    # --- control flow -------------------------------------------------------------------------------
    def label(self) -> str:
        self.n_label += 1
        return f"label {self.n_label}"

    def branch(self, label: str, **fields: Any) -> None:
        """A branch ends its block."""
        self.next()
        self.emit("BRANCH", label=label, **fields)
        self.made.block()

    def place(self, label: str) -> None:
        self.made.block([label])
        self.next()

    def condition(self) -> int:
        """A source mask for a branch: with 64 lanes the same for all."""
        mask = 2 * int(self.rng.choice(self.masks))
        if self.lanes == 32:
            return mask ^ int(self.rng.integers(0, 2))
        self.next()
        whole = self.made.temporary_mask(20 + self.depth)
        self.emit("VOTE_WHOLE", d=whole, m=mask)
        return 2 * whole

    def joined(self, body: Any) -> None:
        """Lanes that part in the body meet behind it; sometimes they may wander."""
        if self.lanes == 64 or self.rng.random() < 0.3:
            body()
            return
        row = self.made.rows(f"join {self.depth} {self.number}", 1)
        self.next()
        self.emit("JOIN_SET", d=row)
        body()
        self.next()
        self.emit("JOIN_WAIT" if self.rng.random() < 0.8 else "SYNC_LANES", a=row)

    def choice(self) -> None:
        other, end = self.label(), self.label()

        def body() -> None:
            self.branch(other, m=self.condition())
            self.nested(8)
            self.branch(end)
            self.place(other)
            self.nested(8)
            self.place(end)

        self.joined(body)

    def loop(self) -> None:
        """One to four times, each lane its own; a lane may leave early."""
        made, begin, end = self.made, self.label(), self.label()
        count, left = made.rows(f"count {self.depth}", 1), made.mask(f"left {self.depth}")
        self.next()
        source = made.special("subgroup") if self.lanes == 64 else self.row(1)
        self.emit("LOGIC3", d=count, a=source, b=made.constant(3), y=_AND)

        def body() -> None:
            self.place(begin)
            self.nested(6)
            if self.rng.random() < 0.4:
                self.branch(end, m=self.condition())
                self.nested(4)
            self.next()
            self.emit("COMPARE_S", d=left, a=count, b=made.constant(0), x=o.GREATER)
            self.emit("ADD3", d=count, a=count, b=made.constant(-1))
            self.branch(begin, m=2 * left)
            self.place(end)

        self.joined(body)

    def nested(self, most: int) -> None:
        self.depth += 1
        self.line(int(self.rng.integers(1, most)))
        if self.depth < 4 and self.rng.random() < 0.5:
            (self.choice if self.rng.random() < 0.5 else self.loop)()
        self.depth -= 1

    def barrier(self) -> None:
        """All lanes come here; they count, or agree on, a mask."""
        self.next()
        how = int(self.rng.integers(0, 4))
        row, mask = self.row(1), int(self.rng.choice(self.masks))
        self.emit("BARRIER", d=row, e=mask, m=self.mask(), x=how << 1)
        self.made.block()

    def finish(self, parts: int) -> Any:
        """The code of so many loops, choices and barriers; some lanes end early."""
        for _ in range(parts):
            (self.choice, self.loop, self.barrier)[int(self.rng.integers(0, 3))]()
            self.line(5)
            if self.lanes == 32 and self.rng.random() < 0.2:
                self.next()
                self.emit("EXIT", guard=self.mask() if self.rng.random() < 0.9 else o.ALWAYS)
                self.made.block()
        self.next()
        self.emit("EXIT")
        return self.made.finish()
