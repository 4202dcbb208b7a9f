"""Groups that are copied from others have the accesses that they have when they are executed."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracegen
from experiments.kernels import applications, common_kernels, matmul_steps
from memsim.trace import ArrayExtent
from tests.support.compilers import needs_amd, needs_nvidia
from tests.support.sized_kernels import sized
from tracegen.executed.targets import lowered
from tracegen.execution import operations as o
from tracegen.execution import run
from tracegen.execution.code import Assembler, Code
from tracegen.execution.run import Execution, Fault, Launch, Region
from tracegen.execution.slicing import sliced
from tracegen.execution.state import Reference, Size
from tracegen.machine_code.binding import bind

MIDDLE, BYTES = 1 << 40, 1 << 41


def launch(grid: tuple[int, int], base: int = MIDDLE - BYTES // 2, size: int = BYTES) -> Launch:
    """Of one array, which is not read: no access needs its value."""
    extent = ArrayExtent(name="array", base_bytes=base, size_bytes=size)
    region = Region(extent=extent, content=np.zeros(64, np.uint8))
    return Launch(grid=grid, group_shape=(40,), regions=[region])


def both(
    code: Code, bound: Launch, groups: np.ndarray, monkeypatch: Any
) -> tuple[dict[str, Any], int]:
    """What is recorded if all groups are executed; asserts that it is the same otherwise. Also how many are copied."""
    recorded: list[dict[str, Any]] = []
    references: list[np.ndarray] = []

    class Watched(Execution):
        def _with_references(self, *arguments: Any) -> Any:
            state = super()._with_references(*arguments)
            if state.sizes[Size.MOVES]:
                references.append(state.references)
            return state

    for few in (len(groups), 0):
        monkeypatch.setattr(run, "FEW_GROUPS", few)
        monkeypatch.setattr(run, "ANALYSIS_SECONDS", -1)
        one = Watched(code, bound).run(groups)._asdict()
        recorded.append(
            {
                name: np.asarray(of).tolist()
                for name, of in one.items()
                if name not in ("seconds", "like")
            }
        )
    assert [name for name, one in recorded[0].items() if recorded[1][name] != one] == []
    return recorded[0], int(sum(one[:, Reference.TIMES].sum() for one in references))


class Sums:
    """A random program whose addresses are sums of multiples of a group's place, with wrap-arounds, comparisons and guards."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng, self.made = rng, Assembler()
        self.rows = [self.made.special(name) for name in ("group_x", "group_y", "item_x")]
        self.masks = [o.ALWAYS]
        self.made.block(["begin"])
        for number in range(int(rng.integers(6, 16))):
            self.made.instruction(number)
            self._operation(number)
        for number in range(20, 23):
            self.made.instruction(number)
            self._access(number)
        self.made.instruction(30)
        self.made.emit("EXIT")

    def _row(self) -> int:
        return int(self.rng.choice(self.rows))

    def _constant(self) -> int:
        kinds = [0, 1, 4, 31, 64, 0xFFFFFFFF, 0xFFFFFFE0, int(self.rng.integers(1 << 32))]
        return self.made.constant(int(self.rng.choice(kinds)))

    def _guard(self) -> int:
        return int(self.rng.choice(self.masks)) if self.rng.random() < 0.3 else o.ALWAYS

    def _operation(self, number: int) -> None:
        rng, made = self.rng, self.made
        name = str(
            rng.choice(
                [
                    "ADD3",
                    "MULTIPLY_ADD",
                    "SHIFT_LEFT",
                    "SHIFT_RIGHT_S",
                    "SHIFT_RIGHT_U",
                    "LOGIC3",
                    "COMPARE",
                    "SELECT",
                ]
            )
        )
        if name == "COMPARE":
            mask = made.mask(f"m{number}")
            b = self._constant() if rng.random() < 0.7 else self._row()
            made.emit(
                str(rng.choice(["COMPARE_S", "COMPARE_U"])), d=mask, a=self._row(), b=b, x=int(rng.integers(1, 7)),
                guard=self._guard(), m=int(rng.choice(self.masks)),
            )  # fmt: skip
            self.masks += [2 * mask, 2 * mask + 1]
            return
        d = made.rows(f"r{int(rng.integers(4))}", 1)
        b = made.constant(int(rng.integers(0, 8))) if name.startswith("SHIFT") else self._constant()
        c = self._row() if rng.random() < 0.5 else o.ZERO_ROW
        x, y = (
            (int(rng.integers(0, 8)), 0)
            if name == "ADD3"
            else (0, int(rng.choice([0xC0, 0xFC, 0xE2])))
        )
        made.emit(
            name,
            d=d,
            a=self._row(),
            b=b,
            c=c,
            x=x,
            y=y,
            guard=self._guard(),
            m=int(rng.choice(self.masks)),
        )
        self.rows.append(d)

    def _access(self, number: int) -> None:
        """The address by one multiplication, or by halves."""
        made, pair = self.made, self.made.rows(f"address {number % 2}", 2)
        row, guard = self._row(), self._guard()
        if self.rng.random() < 0.5:
            name = str(self.rng.choice(["MULTIPLY_WIDE_S", "MULTIPLY_WIDE_U"]))
            made.emit(
                name,
                d=pair,
                a=row,
                b=made.constant(4),
                c=made.constant(0, MIDDLE >> 32),
                guard=guard,
            )
        else:
            low, high, carry = made.rows("low", 1), made.rows("high", 1), made.mask("carry")
            made.emit("SHIFT_RIGHT_S", d=high, a=row, b=made.constant(31))
            made.emit("FUNNEL_LEFT", d=high, a=row, b=made.constant(2), c=high, x=o.WRAP)
            made.emit("SHIFT_LEFT", d=low, a=row, b=made.constant(2))
            made.emit(
                "ADD_CARRY",
                d=pair,
                e=carry,
                a=low,
                b=made.constant(0xFFFFFF00),
                m=o.NEVER,
                n=o.NEVER,
            )
            made.emit(
                "ADD_CARRY",
                d=pair + 1,
                a=high,
                b=made.constant(MIDDLE >> 32),
                m=2 * carry,
                n=o.NEVER,
            )
        made.emit("LOAD", d=made.rows("loaded", 1), a=pair, x=4 << o.BYTES, y=8, guard=guard)


def test_sums(monkeypatch: pytest.MonkeyPatch) -> None:
    """Random programs: about half of the groups are copied."""
    copied = 0
    for seed in range(150):
        rng = np.random.default_rng(seed)
        code = sliced(Sums(rng).made.finish())
        groups = rng.permutation(12 * 9)[:80]
        copied += both(code, launch((12, 9)), groups, monkeypatch)[1]
    assert copied > 150 * 80 / 4


class Places(Sums):
    """As before, with what numbers of all lanes are computed by, divisions and remainders above all, and what lanes do together."""

    def _operation(self, number: int) -> None:
        rng, made = self.rng, self.made
        kind = rng.random()
        if kind < 0.4:
            super()._operation(number)
            return
        d, guard = made.rows(f"r{int(rng.integers(4))}", 1), self._guard()
        row, other = self._row(), self._constant() if rng.random() < 0.7 else self._row()
        if kind < 0.6:
            self._division(number, d, row, guard)
        elif kind < 0.7:
            made.emit("ABSOLUTE", d=d, a=row, guard=guard)
        elif kind < 0.8:
            names = ["MINIMUM_S", "MAXIMUM_U", "MULTIPLY_HIGH_U", "MULTIPLY_HIGH_S"]
            made.emit(str(rng.choice(names)), d=d, a=row, b=other, guard=guard)
        elif kind < 0.9:
            low, bits = made.rows("low bits", 1), made.constant(int(rng.integers(1, 64)))
            made.emit("LOGIC3", d=low, a=self.rows[2], b=bits, y=0xC0)
            made.emit("LOGIC3", d=d, a=row, b=low, y=0xFC, guard=guard)
        else:
            made.emit("SHUFFLE", d=d, a=row, b=made.constant(1), c=made.constant(31), y=3)
        self.rows.append(d)

    def _access(self, number: int) -> None:
        """Or by halves that are added to twice at once, the high one the sign of a number of 2 or 4 bytes (LEA.HI.X.SX32)."""
        made, by = self.made, int(self.rng.integers(1, 3))
        if self.rng.random() < 0.5:
            super()._access(number)
            return
        row, pair = self._row(), made.rows(f"address {number % 2}", 2)
        low, high, carries = (
            made.rows("low", 1),
            made.rows("high", 1),
            [made.mask("c0"), made.mask("c1")],
        )
        made.emit("SHIFT_LEFT", d=low, a=row, b=made.constant(by))
        made.emit("SHIFT_RIGHT_S", d=high, a=row, b=made.constant(32 - by))
        for d, a, e, more in ((low, low, carries[0], 0xFFFFFF00), (pair, low, carries[1], 0x80)):
            made.emit("ADD_CARRY", d=d, e=e, a=a, b=made.constant(more), m=o.NEVER, n=o.NEVER)
        upper = made.constant(MIDDLE >> 32)
        made.emit("ADD_CARRY", d=pair + 1, a=high, b=upper, m=2 * carries[0], n=2 * carries[1])
        made.emit("LOAD", d=made.rows("loaded", 1), a=pair, x=2 * by << o.BYTES)

    def _division(self, number: int, d: int, row: int, guard: int) -> None:
        """As compilers divide unsigned numbers: by a reciprocal, and a correction."""
        made, rng = self.made, self.rng
        by = made.constant(int(rng.choice([3, 5, 8, 40, 1000])))
        if rng.random() < 0.3:
            by = made.rows(f"by {number}", 1)
            made.emit("ADD3", d=by, a=self.rows[int(rng.integers(2))], b=made.constant(7))
        reciprocal, quotient = made.rows("reciprocal", 1), made.rows("quotient", 1)
        rest, less, error = made.rows("rest", 1), made.rows("less", 1), made.rows("error", 1)
        wrong = made.mask(f"wrong {number}")
        made.emit("CONVERT", d=reciprocal, a=by, x=o.U32 | o.F32 << 4)
        made.emit("SPECIAL", d=reciprocal, a=reciprocal, y=o.RECIPROCAL)
        made.emit("MULTIPLY_F32", d=reciprocal, a=reciprocal, b=made.constant(0x4F7FFFFE))
        made.emit("CONVERT", d=reciprocal, a=reciprocal, x=o.F32 | o.U32 << 4 | o.TO_ZERO << 8)
        made.emit("MULTIPLY_ADD", d=error, a=reciprocal, b=by, x=o.NEGATE_A)
        made.emit("MULTIPLY_HIGH_U", d=error, a=error, b=reciprocal)
        made.emit("ADD3", d=reciprocal, a=reciprocal, b=error)
        made.emit("MULTIPLY_HIGH_U", d=quotient, a=row, b=reciprocal)
        made.emit("MULTIPLY_ADD", d=rest, a=quotient, b=by, c=row, x=o.NEGATE_A)
        for _ in range(2):
            made.emit("COMPARE_U", d=wrong, a=rest, b=by, x=o.GREATER | o.EQUAL)
            made.emit("ADD3", d=less, a=rest, b=by, x=o.NEGATE_B)
            made.emit("SELECT", d=rest, a=less, b=rest, m=2 * wrong)
            made.emit("ADD3", d=quotient, a=quotient, b=made.constant(1), guard=2 * wrong)
        made.emit("MOVE", d=d, a=quotient if rng.random() < 0.5 else rest, guard=guard)


def test_numbers_of_places(monkeypatch: pytest.MonkeyPatch) -> None:
    """Random programs with divisions: about a third of the groups are copied."""
    copied = 0
    for seed in range(150):
        rng = np.random.default_rng(seed)
        code = sliced(Places(rng).made.finish())
        groups = rng.permutation(12 * 9)[:80]
        copied += both(code, launch((12, 9)), groups, monkeypatch)[1]
    assert copied > 150 * 80 / 4


class Choices(Sums):
    """A random program in which `exec` chooses the lanes that work, as in AMD's code: nested choices, with and without a second way,
    loops that lanes leave, copies of masks in masks and in scalar rows, and numbers of 64 bits."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng, self.made, self.number = rng, Assembler(), 0
        self.rows = [self.made.special(name) for name in ("group_x", "group_y", "item_x")]
        self.exec = self.made.mask("exec", "exec")
        self.masks = [2 * self.exec]
        self.made.block(["begin"])
        self._next()
        for name in (
            "wide 0",
            "wide 1",
            "wide 2",
        ):  # registers begin with what the group before has left
            self.made.emit("MOVE2", d=self.made.rows(name, 2))
        for k in range(4):
            row = self.made.rows(f"r{k}", 1)
            place, item = self.rows[k & 1], self.rows[2]
            self.made.emit("MULTIPLY_ADD", d=row, a=place, b=self.made.constant(8 * k), c=item)
            self.rows.append(row)
        self._body(0)
        self._next()
        self.made.emit("EXIT")

    def _next(self) -> None:
        self.made.instruction(self.number)
        self.number += 1

    def _guard(self) -> int:
        return 2 * self.exec

    def _constant(self) -> int:
        kinds = [
            0,
            1,
            8,
            16,
            64,
            0xFFFFFFF8,
            int(self.rng.integers(40)),
            int(self.rng.integers(1 << 32)),
        ]
        return self.made.constant(int(self.rng.choice(kinds)))

    def _body(self, depth: int) -> None:
        for _ in range(int(self.rng.integers(2, 6))):
            kind = self.rng.random()
            self._next()
            if kind < 0.15 and depth < 3:
                self._choice(depth)
            elif kind < 0.25 and depth < 3:
                self._loop(depth)
            elif kind < 0.4:
                self._wide_operation()
            elif kind < 0.75:
                self._operation(self.number)
            else:
                self._access(self.number)

    def _condition(self) -> int:
        mask = self.made.mask(f"c{self.number}")
        self.made.emit(
            str(self.rng.choice(["COMPARE_S", "COMPARE_U"])),
            d=mask,
            a=self._row(),
            b=self._constant() if self.rng.random() < 0.7 else self._row(),
            x=int(self.rng.integers(1, 7)),
            m=2 * self.exec,
        )
        return mask

    def _mask(self, d: int, one: int, other: int, table: int) -> None:
        self.made.emit("MASK_LOGIC3", d=d, m=2 * one, n=2 * other, x=table)

    def _choice(self, depth: int) -> None:
        made, number = self.made, self.number
        condition, saved = self._condition(), made.mask(f"s{number}")
        self._mask(saved, self.exec, o.TRUE_MASK, 0xC0)
        in_rows, rows = self.rng.random() < 0.5, made.rows(f"saved {number}", 2)
        if in_rows:
            made.emit("MASK_TO_ROWS", d=rows, m=2 * saved, x=2)
        self._mask(self.exec, condition, self.exec, 0xC0)
        self._body(depth + 1)
        self._next()
        if in_rows:
            made.emit("ROWS_TO_MASK", d=saved, a=rows)
        if self.rng.random() < 0.5:
            self._mask(self.exec, saved, condition, 0x30)
            self._body(depth + 1)
            self._next()
        self._mask(self.exec, saved, self.exec, int(self.rng.choice([0xFC, 0xF0])))

    def _loop(self, depth: int) -> None:
        made, number = self.made, self.number
        counter, again, saved = (
            made.rows(f"n{number}", 1),
            made.mask(f"a{number}"),
            made.mask(f"l{number}"),
        )
        made.emit("MOVE", d=counter, a=made.constant(3))
        self._mask(saved, self.exec, o.TRUE_MASK, 0xC0)
        made.block([f"loop {number}"])
        self._next()
        self._body(depth + 1)
        self._next()
        if self.rng.random() < 0.5:
            self._mask(self.exec, self.exec, self._condition(), 0x30)
        made.emit("ADD3", d=counter, a=counter, b=made.constant(0xFFFFFFFF))
        made.emit("COMPARE_U", d=again, a=counter, b=made.constant(0), x=o.LESS | o.GREATER)
        made.emit("BRANCH", m=2 * again, label=f"loop {number}")
        made.block([f"end {number}"])
        self._next()
        self._mask(self.exec, saved, self.exec, 0xFC)

    def _wide_operation(self) -> None:
        made, rng, guard = self.made, self.rng, self._guard()
        row, pair = self._row(), made.rows(f"wide {int(rng.integers(3))}", 2)
        factor = made.constant(int(rng.choice([3, 4, 7, 24])))
        kind = int(rng.integers(5))
        if kind == 0:  # a product of 64 bits from two of 32, as of a signed number
            high, both = made.rows("sign", 1), made.rows("both", 2)
            made.emit("SHIFT_RIGHT_S", guard=guard, d=high, a=row, b=made.constant(31))
            made.emit("MULTIPLY_WIDE_U", guard=guard, d=pair, a=row, b=factor)
            made.emit("MOVE", guard=guard, d=both, a=pair + 1)
            made.emit("MULTIPLY_WIDE_U", guard=guard, d=both, a=high, b=factor, c=both)
            made.emit("MOVE", guard=guard, d=pair + 1, a=both)
        elif kind == 1:  # the halves of an unsigned product
            made.emit("MULTIPLY_HIGH_U", guard=guard, d=pair + 1, a=row, b=factor)
            made.emit("MULTIPLY_ADD", guard=guard, d=pair, a=row, b=factor)
        elif kind == 2:  # one that is extended by zeros, shifted and added to
            made.emit("MOVE", guard=guard, d=pair, a=row)
            made.emit("MOVE", guard=guard, d=pair + 1)
            made.emit("SHIFT_LEFT64", guard=guard, d=pair, a=pair, b=made.constant(2), x=o.WRAP)
            made.emit("ADD64", guard=guard, d=pair, a=pair, b=made.constant(64, 0))
        elif kind == 3:  # a difference
            borrow = made.mask("borrow")
            made.emit("MULTIPLY_WIDE_S", guard=guard, d=pair, a=row, b=factor)
            made.emit("BORROW", guard=guard, d=pair, e=borrow, a=pair, b=made.constant(96))
            made.emit("BORROW", guard=guard, d=pair + 1, e=borrow, a=pair + 1, m=2 * borrow)
        else:
            d = made.rows(f"r{int(rng.integers(4))}", 1)
            name = str(rng.choice(["MINIMUM_S", "MAXIMUM_S", "READ_FIRST_LANE"]))
            made.emit(name, guard=guard, d=d, a=row, b=self._row())
            self.rows.append(d)
            return
        address = made.rows("wide address", 2)
        made.emit("SHIFT_LEFT64", guard=guard, d=address, a=pair, b=made.constant(2), x=o.WRAP)
        made.emit("ADD64", guard=guard, d=address, a=address, b=made.constant(0, MIDDLE >> 32))
        made.emit("LOAD", guard=guard, d=made.rows("loaded", 1), a=address, x=4 << o.BYTES)


def test_choices_of_lanes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Random programs that choose lanes."""
    copied = 0
    for seed in range(150):
        rng = np.random.default_rng(seed)
        code = sliced(Choices(rng).made.finish())
        groups = rng.permutation(12 * 9)[:80]
        copied += both(code, launch((12, 9)), groups, monkeypatch)[1]
    assert copied > 150 * 80 / 4


def _line(step: int, limit: int = 1 << 30, base: int = 1 << 20) -> Code:
    """Lanes below `limit` load neighbouring words, `step` words farther in each group."""
    made = Assembler()
    made.block()
    made.instruction(0)
    at, beyond, pair = made.rows("at", 1), made.mask("beyond"), made.rows("pair", 2)
    made.emit(
        "MULTIPLY_ADD",
        d=at,
        a=made.special("group_x"),
        b=made.constant(step),
        c=made.special("item_x"),
    )
    made.emit("COMPARE_S", d=beyond, a=at, b=made.constant(limit), x=o.EQUAL | o.GREATER)
    made.emit("EXIT", guard=2 * beyond)
    made.instruction(1)
    made.emit(
        "MULTIPLY_WIDE_S", d=pair, a=at, b=made.constant(4), c=made.constant(base, base >> 32)
    )
    made.instruction(2)
    made.emit("LOAD", d=made.rows("loaded", 1), a=pair, x=4 << o.BYTES)
    made.instruction(3)
    made.emit("EXIT")
    return sliced(made.finish())


@pytest.mark.parametrize(("step", "executed"), [(40, 1), (8, 1), (4, 2), (1, 8)])
def test_whole_granules(step: int, executed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Words that begin elsewhere in a granule of 8 have other granules."""
    groups = np.arange(50)
    recorded, copied = both(_line(step), launch((50, 1), 1 << 20), groups, monkeypatch)
    assert copied == 50 - executed
    assert min(recorded["granule"]) == (1 << 20) // 32
    assert max(recorded["granule"]) == ((1 << 20) + 4 * (49 * step + 39)) // 32


@pytest.mark.parametrize(
    ("limit", "executed"), [(2000, 1), (1999, 2), (1961, 2), (1960, 2), (1959, 3)]
)
def test_comparisons(limit: int, executed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 50 groups of 40 lanes all lanes are below 2000; another outcome in any lane is another way."""
    recorded, copied = both(_line(40, limit), launch((50, 1), 1 << 20), np.arange(50), monkeypatch)
    assert recorded["lane_accesses"] == limit
    assert copied == 50 - executed


@pytest.mark.parametrize("few", [50, 0])
def test_out_of_bounds(few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The array ends in group 30: copied or not, its lane 7 is the first beyond the end."""
    monkeypatch.setattr(run, "FEW_GROUPS", few)
    monkeypatch.setattr(run, "ANALYSIS_SECONDS", -1)
    with pytest.raises(Fault) as caught:
        Execution(_line(40), launch((50, 1), 1 << 20, 4 * (30 * 40 + 7))).run(np.arange(50))
    assert (caught.value.group, caught.value.item) == (30, 7)


def test_wraps_around(monkeypatch: pytest.MonkeyPatch) -> None:
    """2^31 words on, the signed index is negative: group 16 of those that are 2^27 words apart."""
    code = _line(1 << 27, (1 << 31) - 1, MIDDLE)
    recorded, copied = both(code, launch((30, 1)), np.arange(30), monkeypatch)
    first = np.array(recorded["granule"])[:: len(recorded["granule"]) // 30]
    index = (np.arange(30) << 27).astype(np.int32).astype(np.int64)
    assert first.tolist() == ((4 * index + MIDDLE) >> 5).tolist()
    assert copied == 28


def test_memory_and_interruptions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Buffers grow while groups are copied, and the run tells how far it is."""
    monkeypatch.setattr("tracegen.execution.columns.FIRST_ACCESSES", 8)
    monkeypatch.setattr("tracegen.execution.columns.FIRST_GRANULES", 64)
    groups = np.arange(50)
    recorded, copied = both(_line(40), launch((50, 1), 1 << 20), groups, monkeypatch)
    assert (copied, len(recorded["access"])) == (49, 100)
    told: list[int] = []
    Execution(_line(40), launch((50, 1), 1 << 20)).run(groups, progress=told.append, steps=20)
    assert told == sorted(told)
    assert len(told) >= 5


def tiles_by_division(n: int = 1024, across: int = 8) -> Any:
    """As products of matrices choose tiles that share rows in L2; 1,000 rows, so that those of the last tile wrap around."""
    text = """__global__ void tiles(const float *x, float *y, int n, int rows, int across) {
      int per_row = n / 32, in_group = across * per_row, first = (blockIdx.x / in_group) * across;
      int size = min(per_row - first, across);
      int row = first + (blockIdx.x % in_group) % size, column = (blockIdx.x % in_group) / size;
      int own = (row * 32 + threadIdx.x / 8) % rows;
      float sum = 0;
      for (int k = 0; k < n; k += 32) sum += x[own * n + k] * x[k * n + column * 32 + threadIdx.x % 8];
      y[(row * 32 + threadIdx.x / 8) * n + column * 32 + threadIdx.x % 8] = sum;
    }"""
    grid = (n // 32) ** 2
    arguments = [np.zeros((n, n), np.float32), np.zeros((n, n), np.float32), n, n - 24, across]
    return tracegen.CudaWorkload(
        source=text, kernel="tiles", grid=grid, block=256, arguments=arguments
    )


KERNELS: dict[str, tuple[Callable[[], Any], int]] = {
    "tiles_by_division": (tiles_by_division, 960),
    "vadd1": (lambda: common_kernels.KERNELS["vadd1"](n=1 << 16), 255),
    "jacobi7": (lambda: common_kernels.KERNELS["jacobi7"](nx=128, ny=64, nz=16), 400),
    "transpose_tiled": (lambda: common_kernels.KERNELS["transpose_tiled"](n=320), 99),
    "copy_stride8": (lambda: common_kernels.KERNELS["copy_stride8"](n=1 << 16), 31),
    "reduce_shuffle": (lambda: common_kernels.KERNELS["reduce_shuffle"](n=1 << 18), 1),
    "product": (lambda: matmul_steps.product(step="coalesced", n=256), 63),
    "wide_product": (lambda: sized("coalesced", n=256), 63),
    "wide_tiles": (lambda: sized("tiled", n=256), 63),
    "spmv_scalar": (lambda: common_kernels.KERNELS["spmv_scalar"](rows=1 << 13), 0),
}
"""Edges of a grid, loops, local memory; and addresses that depend on data. With the least number of groups that are copied."""


@needs_nvidia
@pytest.mark.parametrize("kernel", KERNELS)
def test_kernels(kernel: str, monkeypatch: pytest.MonkeyPatch) -> None:
    make, least = KERNELS[kernel]
    (bound,) = bind(make(), "sm_80")
    groups = np.random.default_rng(0).permutation(int(np.prod(bound.grid)))
    _, copied = both(sliced(lowered(bound.code, 32)), bound.launch, groups, monkeypatch)
    assert copied >= least


AMD_KERNELS: dict[str, tuple[Callable[[], Any], int]] = {
    "added": (lambda: applications.added(1 << 14), 63),
    "filtered": (lambda: applications.filtered(1 << 14, 16), 62),
    "smoothed": (lambda: applications.smoothed(256), 60),
    "nearest": (lambda: applications.nearest(1 << 13, 8), 31),
    "moved": (lambda: applications.moved(1 << 10), 3),
    "multiplied": (lambda: applications.multiplied(1 << 12, 8), 0),
}
"""Bounds of arrays, loops, local memory, scalar loads, numbers of 64 bits; and addresses that depend on data."""


@needs_amd
@pytest.mark.parametrize(
    ("kernel", "target"),
    [
        *((kernel, "gfx90a") for kernel in AMD_KERNELS),
        ("added", "gfx942"),
        ("smoothed", "gfx1100"),
        ("nearest", "gfx1100"),
    ],
)
def test_kernels_on_amd(kernel: str, target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    make, least = AMD_KERNELS[kernel]
    (bound,) = bind(make(), target)
    groups = np.random.default_rng(0).permutation(int(np.prod(bound.grid)))
    width = 64 if target.startswith("gfx9") else 32
    _, copied = both(sliced(lowered(bound.code, width)), bound.launch, groups, monkeypatch)
    assert copied >= least


def test_words_of_private_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of a group that is copied lie at its own place of the machine."""
    made = Assembler()
    group, item = made.special("group_x"), made.special("item_x")
    made.block(["begin"])
    made.instruction(0)
    made.emit("STORE", a=made.constant(8), c=item, x=o.PRIVATE | 4 << o.BYTES)
    pair = made.rows("address", 2)
    made.instruction(1)
    made.emit("MULTIPLY_WIDE_U", d=pair, a=group, b=made.constant(128), c=made.constant(0, 256))
    made.instruction(2)
    made.emit("LOAD", d=made.rows("loaded", 1), a=pair, x=4 << o.BYTES)
    made.instruction(3)
    made.emit("EXIT")
    code, bound = sliced(made.finish()), dataclasses.replace(launch((9, 1)), private_bytes=64)
    slots, found = 2 * np.arange(9)[::-1], []
    for few in (9, 0):
        monkeypatch.setattr(run, "FEW_GROUPS", few)
        monkeypatch.setattr(run, "ANALYSIS_SECONDS", -1)
        one = Execution(code, bound)
        found.append(one.run(np.arange(9), slots=slots, private_base=1 << 50))
    executed, copied = found
    assert len(set(copied.like.tolist())) == 1 < len(set(executed.like.tolist()))
    np.testing.assert_array_equal(executed.granule, copied.granule)
    assert len(set(copied.granule.tolist())) > 9 * 4
