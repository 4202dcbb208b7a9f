"""Groups that are copied from others have the accesses that they have when they are executed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from experiments.kernels import common_kernels, matmul_steps
from memsim.trace import ArrayExtent
from tests.support.compilers import needs_nvidia
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


KERNELS: dict[str, tuple[Callable[[], Any], int]] = {
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
