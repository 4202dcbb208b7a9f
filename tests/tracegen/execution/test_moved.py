"""Groups that are copied from others have the accesses that they have when they are executed."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracegen
from experiments.kernels import applications, common_kernels
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
    monkeypatch.setattr(run, "ANALYSIS_SECONDS", -1)

    class Watched(Execution):
        def _with_references(self, *arguments: Any) -> Any:
            state = super()._with_references(*arguments)
            if state.sizes[Size.MOVES]:
                references.append(state.references)
            return state

    for few in (len(groups), 0):
        monkeypatch.setattr(run, "FEW_GROUPS", few)
        one = Watched(code, bound).run(groups)._asdict()
        del one["seconds"], one["like"]
        recorded.append({name: np.asarray(of).tolist() for name, of in one.items()})
    assert [name for name, one in recorded[0].items() if recorded[1][name] != one] == []
    return recorded[0], int(sum(one[:, Reference.TIMES].sum() for one in references))


class Sums:
    """A random program whose addresses are sums of multiples of a group's place, with wrap-arounds, comparisons and guards."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng, self.made = rng, Assembler()
        self.rows = [self.made.special(name) for name in ("group_x", "group_y", "item_x")]
        self.masks = [o.ALWAYS]
        self.made.block(["begin"])
        for k in range(4):  # registers begin with what the group before has left
            self.made.instruction(k)
            self.emit("MOVE", self.made.rows(f"r{k}", 1))
        for number in range(int(rng.integers(6, 16))):
            self.made.instruction(number)
            self._operation(number)
        for number in range(20, 23):
            self.made.instruction(number)
            self._access(number)
        self.made.instruction(30)
        self.made.emit("EXIT")

    def emit(self, name: str, d: int, *sources: int, **fields: int) -> None:
        self.made.emit(name, d=d, **dict(zip("abc", sources, strict=False)), **fields)

    def _row(self) -> int:
        return int(self.rng.choice(self.rows))

    def _constant(self) -> int:
        kinds = [0, 1, 4, 31, 64, 0xFFFFFFFF, 0xFFFFFFE0, int(self.rng.integers(1 << 32))]
        return self.made.constant(int(self.rng.choice(kinds)))

    def _guard(self) -> int:
        return int(self.rng.choice(self.masks)) if self.rng.random() < 0.3 else o.ALWAYS

    def _operation(self, number: int) -> None:
        rng, made = self.rng, self.made
        names = "ADD3 MULTIPLY_ADD SHIFT_LEFT SHIFT_RIGHT_S SHIFT_RIGHT_U LOGIC3 COMPARE SELECT"
        name = str(rng.choice(names.split()))
        if name == "COMPARE":
            mask, guard = made.mask(f"m{number}"), self._guard()
            self._compare(mask, guard=guard, m=int(rng.choice(self.masks)))
            self.masks += [2 * mask, 2 * mask + 1]
            return
        d = made.rows(f"r{int(rng.integers(4))}", 1)
        b = made.constant(int(rng.integers(0, 8))) if name.startswith("SHIFT") else self._constant()
        c = self._row() if rng.random() < 0.5 else o.ZERO_ROW
        how = {"y": int(rng.choice([0xC0, 0xFC, 0xE2]))}
        if name == "ADD3":
            how = {"x": int(rng.integers(0, 8))}
        fields = {"guard": self._guard(), "m": int(rng.choice(self.masks)), **how}
        self.emit(name, d, self._row(), b, c, **fields)
        self.rows.append(d)

    def _compare(self, mask: int, **fields: int) -> None:
        b = self._constant() if self.rng.random() < 0.7 else self._row()
        name = str(self.rng.choice(["COMPARE_S", "COMPARE_U"]))
        self.emit(name, mask, self._row(), b, x=int(self.rng.integers(1, 7)), **fields)

    def _access(self, number: int) -> None:
        """The address by one multiplication, or by halves."""
        made, pair = self.made, self.made.rows(f"address {number % 2}", 2)
        row, guard = self._row(), self._guard()
        if self.rng.random() < 0.5:
            name = str(self.rng.choice(["MULTIPLY_WIDE_S", "MULTIPLY_WIDE_U"]))
            self.emit(
                name, pair, row, made.constant(4), made.constant(0, MIDDLE >> 32), guard=guard
            )
        else:
            low, high, carry = made.rows("low", 1), made.rows("high", 1), made.mask("carry")
            less, upper = made.constant(0xFFFFFF00), made.constant(MIDDLE >> 32)
            self.emit("SHIFT_RIGHT_S", high, row, made.constant(31))
            self.emit("FUNNEL_LEFT", high, row, made.constant(2), high, x=o.WRAP)
            self.emit("SHIFT_LEFT", low, row, made.constant(2))
            self.emit("ADD_CARRY", pair, low, less, e=carry, m=o.NEVER, n=o.NEVER)
            self.emit("ADD_CARRY", pair + 1, high, upper, m=2 * carry, n=o.NEVER)
        self.emit("LOAD", made.rows("loaded", 1), pair, x=4 << o.BYTES, y=8, guard=guard)


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
            self.emit("ABSOLUTE", d, row, guard=guard)
        elif kind < 0.8:
            names = ["MINIMUM_S", "MAXIMUM_U", "MULTIPLY_HIGH_U", "MULTIPLY_HIGH_S"]
            self.emit(str(rng.choice(names)), d, row, other, guard=guard)
        elif kind < 0.9:
            low, bits = made.rows("low bits", 1), made.constant(int(rng.integers(1, 64)))
            self.emit("LOGIC3", low, self.rows[2], bits, y=0xC0)
            self.emit("LOGIC3", d, row, low, y=0xFC, guard=guard)
        else:
            self.emit("SHUFFLE", d, row, made.constant(1), made.constant(31), y=3)
        self.rows.append(d)

    def _access(self, number: int) -> None:
        """Or by halves that are added to twice, at once by two carries or one after the other, the high one that of a signed or
        unsigned number of 2 or 4 bytes (LEA.HI.X.SX32, IADD3.X)."""
        made, by = self.made, int(self.rng.integers(1, 3))
        if self.rng.random() < 0.5:
            super()._access(number)
            return
        row, pair = self._row(), made.rows(f"address {number % 2}", 2)
        low, high, upper = made.rows("low", 1), made.rows("high", 1), made.constant(MIDDLE >> 32)
        first, second = made.mask("c0"), made.mask("c1")
        self.emit("SHIFT_LEFT", low, row, made.constant(by))
        shift = str(self.rng.choice(["SHIFT_RIGHT_S", "SHIFT_RIGHT_U"]))
        self.emit(shift, high, row, made.constant(32 - by))
        if self.rng.random() < 0.5:
            more, kind = made.rows("more", 2), int(self.rng.integers(4))
            below = made.constant(0xFFFFFF00, 0)
            self.emit("MULTIPLY_WIDE_S", more, self._row(), made.constant(8), below)
            if kind == 0:  # extended by zeros
                self.emit("SHIFT_LEFT", more, self._row(), made.constant(27))
                self.emit("MOVE", more + 1)
            own = {"e": first, "y": second, "m": o.NEVER, "n": o.NEVER}
            self.emit("ADD_CARRY", pair, low, made.constant(0xFFFFFF80), more, **own)
            own = {"m": 2 * first, "n": o.NEVER if kind == 1 else 2 * second}  # lost, or not
            self.emit("ADD_CARRY", pair + 1, high, upper, more + 1, **own)
            self.emit("LOAD", made.rows("loaded", 1), pair, x=2 * by << o.BYTES)
            return
        for d, carry, more in ((low, first, 0xFFFFFF00), (pair, second, 0x80)):
            self.emit("ADD_CARRY", d, low, made.constant(more), e=carry, m=o.NEVER, n=o.NEVER)
        self.emit("ADD_CARRY", pair + 1, high, upper, m=2 * first, n=2 * second)
        self.emit("LOAD", made.rows("loaded", 1), pair, x=2 * by << o.BYTES)

    def _division(self, number: int, d: int, row: int, guard: int) -> None:
        """As compilers divide unsigned numbers: by a reciprocal, and a correction."""
        made, rng, emit = self.made, self.rng, self.emit
        by = made.constant(int(rng.choice([3, 5, 8, 40, 1000])))
        if rng.random() < 0.3:
            by = made.rows(f"by {number}", 1)
            emit("ADD3", by, self.rows[int(rng.integers(2))], made.constant(7))
        reciprocal, quotient = made.rows("reciprocal", 1), made.rows("quotient", 1)
        rest, less, error = made.rows("rest", 1), made.rows("less", 1), made.rows("error", 1)
        wrong = made.mask(f"wrong {number}")
        emit("CONVERT", reciprocal, by, x=o.U32 | o.F32 << 4)
        emit("SPECIAL", reciprocal, reciprocal, y=o.RECIPROCAL)
        emit("MULTIPLY_F32", reciprocal, reciprocal, made.constant(0x4F7FFFFE))
        emit("CONVERT", reciprocal, reciprocal, x=o.F32 | o.U32 << 4 | o.TO_ZERO << 8)
        emit("MULTIPLY_ADD", error, reciprocal, by, x=o.NEGATE_A)
        emit("MULTIPLY_HIGH_U", error, error, reciprocal)
        emit("ADD3", reciprocal, reciprocal, error)
        emit("MULTIPLY_HIGH_U", quotient, row, reciprocal)
        emit("MULTIPLY_ADD", rest, quotient, by, row, x=o.NEGATE_A)
        for _ in range(2):
            emit("COMPARE_U", wrong, rest, by, x=o.GREATER | o.EQUAL)
            emit("ADD3", less, rest, by, x=o.NEGATE_B)
            emit("SELECT", rest, less, rest, m=2 * wrong)
            emit("ADD3", quotient, quotient, made.constant(1), guard=2 * wrong)
        emit("MOVE", d, quotient if rng.random() < 0.5 else rest, guard=guard)


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
        for k in range(3):  # registers begin with what the group before has left
            self.emit("MOVE2", self.made.rows(f"wide {k}", 2))
        for k in range(4):
            row = self.made.rows(f"r{k}", 1)
            self.emit(
                "MULTIPLY_ADD", row, self.rows[k & 1], self.made.constant(8 * k), self.rows[2]
            )
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
        numbers = int(self.rng.integers(40)), int(self.rng.integers(1 << 32))
        kinds = [0, 1, 8, 16, 64, 0xFFFFFFF8, *numbers]
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
        self._compare(mask, m=2 * self.exec)
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
        counter, again = made.rows(f"n{number}", 1), made.mask(f"a{number}")
        saved = made.mask(f"l{number}")
        self.emit("MOVE", counter, made.constant(3))
        self._mask(saved, self.exec, o.TRUE_MASK, 0xC0)
        made.block([f"loop {number}"])
        self._next()
        self._body(depth + 1)
        self._next()
        if self.rng.random() < 0.5:
            self._mask(self.exec, self.exec, self._condition(), 0x30)
        self.emit("ADD3", counter, counter, made.constant(0xFFFFFFFF))
        self.emit("COMPARE_U", again, counter, made.constant(0), x=o.LESS | o.GREATER)
        made.emit("BRANCH", m=2 * again, label=f"loop {number}")
        made.block([f"end {number}"])
        self._next()
        self._mask(self.exec, saved, self.exec, 0xFC)

    def _wide_operation(self) -> None:
        made, rng, guard = self.made, self.rng, self._guard()

        def emit(name: str, d: int, *sources: int, **fields: int) -> None:
            self.emit(name, d, *sources, guard=guard, **fields)

        row, pair = self._row(), made.rows(f"wide {int(rng.integers(3))}", 2)
        factor = made.constant(int(rng.choice([3, 4, 7, 24])))
        kind = int(rng.integers(5))
        if kind == 0:  # a product of 64 bits from two of 32, as of a signed number
            high, both = made.rows("sign", 1), made.rows("both", 2)
            emit("SHIFT_RIGHT_S", high, row, made.constant(31))
            emit("MULTIPLY_WIDE_U", pair, row, factor)
            emit("MOVE", both, pair + 1)
            emit("MULTIPLY_WIDE_U", both, high, factor, both)
            emit("MOVE", pair + 1, both)
        elif kind == 1:  # the halves of an unsigned product
            emit("MULTIPLY_HIGH_U", pair + 1, row, factor)
            emit("MULTIPLY_ADD", pair, row, factor)
        elif kind == 2:  # one that is extended by zeros, shifted and added to
            emit("MOVE", pair, row)
            emit("MOVE", pair + 1)
            emit("SHIFT_LEFT64", pair, pair, made.constant(2), x=o.WRAP)
            emit("ADD64", pair, pair, made.constant(64, 0))
        elif kind == 3:  # a difference
            borrow = made.mask("borrow")
            emit("MULTIPLY_WIDE_S", pair, row, factor)
            emit("BORROW", pair, pair, made.constant(96), e=borrow)
            emit("BORROW", pair + 1, pair + 1, e=borrow, m=2 * borrow)
        else:
            d = made.rows(f"r{int(rng.integers(4))}", 1)
            emit(
                str(rng.choice(["MINIMUM_S", "MAXIMUM_S", "READ_FIRST_LANE"])), d, row, self._row()
            )
            self.rows.append(d)
            return
        address = made.rows("wide address", 2)
        emit("SHIFT_LEFT64", address, pair, made.constant(2), x=o.WRAP)
        emit("ADD64", address, address, made.constant(0, MIDDLE >> 32))
        emit("LOAD", made.rows("loaded", 1), address, x=4 << o.BYTES)


@pytest.mark.parametrize("kind", [Sums, Places, Choices])
def test_random_programs(kind: type[Sums], monkeypatch: pytest.MonkeyPatch) -> None:
    """A third to a half of the groups are copied."""
    copied = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        code = sliced(kind(rng).made.finish())
        groups = rng.permutation(12 * 9)[:80]
        groups = rng.permutation(12 * 9)[:80]
        grid = (12, 9) if seed % 3 else (108, 1)
        copied += both(code, launch(grid), groups, monkeypatch)[1]
    assert copied > 60 * 80 / 4


def _line(step: int, limit: int = 1 << 30, base: int = 1 << 20) -> Code:
    """Lanes below `limit` load neighbouring words, `step` words farther in each group."""
    made = Assembler()
    made.block()
    made.instruction(0)
    at, beyond, pair = made.rows("at", 1), made.mask("beyond"), made.rows("pair", 2)
    group, item = made.special("group_x"), made.special("item_x")
    made.emit("MULTIPLY_ADD", d=at, a=group, b=made.constant(step), c=item)
    made.emit("COMPARE_S", d=beyond, a=at, b=made.constant(limit), x=o.EQUAL | o.GREATER)
    made.emit("EXIT", guard=2 * beyond)
    made.instruction(1)
    first = made.constant(base, base >> 32)
    made.emit("MULTIPLY_WIDE_S", d=pair, a=at, b=made.constant(4), c=first)
    made.instruction(2)
    made.emit("LOAD", d=made.rows("loaded", 1), a=pair, x=4 << o.BYTES)
    made.instruction(3)
    made.emit("EXIT")
    return sliced(made.finish())


@pytest.mark.parametrize(
    ("step", "limit", "executed"),
    [
        *((8, 1 << 30, 1), (4, 1 << 30, 2), (1, 1 << 30, 8)),
        *((40, 2000, 1), (40, 1999, 2), (40, 1961, 2), (40, 1960, 2), (40, 1959, 3)),
    ],
)
def test_whole_granules_and_comparisons(
    step: int, limit: int, executed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Words that begin elsewhere in a granule of 8 have other granules. Of 50 groups of 40 lanes all lanes are below 2000; another
    outcome in any lane is another way."""
    bound = launch((50, 1), 1 << 20)
    recorded, copied = both(_line(step, limit), bound, np.arange(50), monkeypatch)
    assert copied == 50 - executed
    assert recorded["lane_accesses"] == min(limit, 50 * 40)
    assert min(recorded["granule"]) == (1 << 20) // 32
    assert max(recorded["granule"]) == ((1 << 20) + 4 * min(49 * step + 39, limit - 1)) // 32


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


def stacked(matrices: int) -> Any:
    """Rows of some of a stack of matrices: addresses are sums of three numbers of 64 bits."""
    text = """
    __global__ void stacked(const float *x, float *y, int m, int n) {
      const float *own = x + (long long)blockIdx.x * m * n + blockIdx.y * 32 * n;
      float sum = 0;
      if (blockIdx.y * 32 + threadIdx.x < m)
        for (int k = 0; k < n; k += 32)
          if (k + threadIdx.y < n) sum += own[threadIdx.x * n + blockIdx.z * 8 + threadIdx.y + k];
      y[((long long)blockIdx.x * m + blockIdx.y * 32 + threadIdx.x) * 8 + threadIdx.y] = sum;
    }"""
    m, n = 192, 128
    x, y = np.zeros((matrices, m, n), np.float32), np.zeros((matrices, m, 8), np.float32)
    return tracegen.CudaWorkload(
        source=text,
        kernel="stacked",
        grid=(matrices, m // 32, 2),
        block=(32, 8),
        arguments=[x, y, m, n],
    )


KERNELS: dict[str, tuple[str, Callable[[], Any], int]] = {
    "stacked": ("sm_90", lambda: stacked(3), 35),
    "stacked, one": ("sm_80", lambda: stacked(1), 11),
    "tiles_by_division": ("sm_80", tiles_by_division, 960),
    "vadd1": ("sm_80", lambda: common_kernels.KERNELS["vadd1"](n=1 << 16), 255),
    "jacobi7": ("sm_80", lambda: common_kernels.KERNELS["jacobi7"](nx=128, ny=64, nz=16), 400),
    "transpose_tiled": ("sm_80", lambda: common_kernels.KERNELS["transpose_tiled"](n=320), 99),
    "reduce_shuffle": ("sm_80", lambda: common_kernels.KERNELS["reduce_shuffle"](n=1 << 18), 1),
    "wide_product": ("sm_80", lambda: sized("coalesced", n=128), 15),
    "wide_tiles": ("sm_80", lambda: sized("tiled", n=256), 63),
    "spmv_scalar": ("sm_80", lambda: common_kernels.KERNELS["spmv_scalar"](rows=1 << 13), 0),
    "added": ("gfx90a", lambda: applications.added(1 << 14), 63),
    "filtered": ("gfx90a", lambda: applications.filtered(1 << 14, 16), 62),
    "smoothed": ("gfx1100", lambda: applications.smoothed(256), 60),
    "nearest": ("gfx90a", lambda: applications.nearest(1 << 13, 8), 31),
    "moved": ("gfx90a", lambda: applications.moved(1 << 10), 3),
    "multiplied": ("gfx90a", lambda: applications.multiplied(1 << 12, 8), 0),
}
"""Edges of a grid, loops, local memory, scalar loads, numbers of 64 bits; and addresses that depend on data. With the least number
of groups that are copied."""


@pytest.mark.parametrize(
    "kernel",
    [
        pytest.param(kernel, marks=needs_amd if target.startswith("gfx") else needs_nvidia)
        for kernel, (target, _, _) in KERNELS.items()
    ],
)
def test_kernels(kernel: str, monkeypatch: pytest.MonkeyPatch) -> None:
    target, make, least = KERNELS[kernel]
    (bound,) = bind(make(), target)
    groups = np.random.default_rng(0).permutation(int(np.prod(bound.grid)))
    code = sliced(lowered(bound.code, 64 if target == "gfx90a" else 32))
    _, copied = both(code, bound.launch, groups, monkeypatch)
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
    monkeypatch.setattr(run, "ANALYSIS_SECONDS", -1)
    for few in (9, 0):
        monkeypatch.setattr(run, "FEW_GROUPS", few)
        found.append(Execution(code, bound).run(np.arange(9), slots=slots, private_base=1 << 50))
    executed, copied = found
    assert len(set(copied.like.tolist())) == 1 < len(set(executed.like.tolist()))
    np.testing.assert_array_equal(executed.granule, copied.granule)
    assert len(set(copied.granule.tolist())) > 9 * 4
