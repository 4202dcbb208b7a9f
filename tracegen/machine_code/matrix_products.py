"""Products of small matrices whose elements lie in registers of all lanes (NVIDIA's mma, AMD's mfma and wmma), as micro-operations.

Each lane fetches the elements that its results need from the lanes that have them, and adds one product after another.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal, NamedTuple

from tracegen.execution import operations as o
from tracegen.execution.code import Assembler

Kind = Literal["f16", "bf16", "f32", "tf32", "f64", "i8"]
Emit = Callable[..., None]
_TF32 = 0xFFFFE000
"""The bits of a float that products of `tf32` see."""


class Place(NamedTuple):
    """Where an element lies: in which lane, element of its registers, counted in words of its kind, and part of that word."""

    lane: int
    word: int
    part: int = 0


@dataclass(frozen=True)
class Product:
    """The sum over k < depth of first(i, k) second(k, j), of blocks that are independent of each other.

    kind : of the elements of both factors
    first, second : (i or j, k, block) -> where that element is
    results : (lane, number of a result) -> (i, j, block)
    n_results : of a lane
    """

    kind: Kind
    depth: int
    first: Callable[[int, int, int], Place]
    second: Callable[[int, int, int], Place]
    results: Callable[[int, int], tuple[int, int, int]]
    n_results: int


class _Fetched(NamedTuple):
    """Which lane each lane takes a word of a factor from, and which part of the word."""

    table: tuple[int, ...]
    word: int
    part: int


@lru_cache(maxsize=64)
def _fetched(product: Product, lanes: int) -> list[list[tuple[_Fetched, _Fetched]]]:
    """By k, then by result: what of both factors is fetched."""
    step = 4 if product.kind == "i8" else 1
    return [
        [_of_result(product, lanes, k, result) for result in range(product.n_results)]
        for k in range(0, product.depth, step)
    ]


def _of_result(product: Product, lanes: int, k: int, result: int) -> tuple[_Fetched, _Fetched]:
    wanted = [product.results(lane, result) for lane in range(lanes)]
    return (
        _joined([product.first(i, k, block) for i, _, block in wanted]),
        _joined([product.second(j, k, block) for _, j, block in wanted]),
    )


def _joined(places: list[Place]) -> _Fetched:
    (where,) = {place[1:] for place in places}
    return _Fetched(tuple(place.lane for place in places), *where)


def multiply(
    out: Assembler, emit: Emit, product: Product, factors: tuple[int, int], totals: list[int], signs: int = 0
) -> None:  # fmt: skip
    """Adds a product to rows.

    factors : the first rows of both factors
    totals : a row for each result: floats, of `f64` two rows with a double, of `i8` integers
    signs : of `i8`: bit 0, whether the first factor is signed, bit 1, the second
    """
    name = {"f64": "FUSED_F64", "i8": "DOT4"}.get(product.kind, "FUSED_F32")
    x = signs if product.kind == "i8" else 0
    fetch = _Fetcher(out, emit, product.kind, factors)
    for wanted in _fetched(product, out.lanes):
        for total, (first, second) in zip(totals, wanted, strict=True):
            a, b = fetch.row(0, first), fetch.row(1, second)
            emit(name, d=total, a=a, b=b, c=total, x=x)


class _Fetcher:
    """Rows with elements of other lanes."""

    def __init__(self, out: Assembler, emit: Emit, kind: Kind, factors: tuple[int, int]) -> None:
        self.out, self.emit, self.kind, self.factors = out, emit, kind, factors
        self.words = 2 if kind == "f64" else 1
        self.rows: dict[Any, int] = {}

    def row(self, factor: int, wanted: _Fetched) -> int:
        """A row with the element of a factor as a float, or as it is where it is none of 16 bits."""
        key = (factor, wanted)
        if key not in self.rows:
            whole = self._word(factor, wanted)
            if self.kind == "tf32":
                self.rows[key] = made = self._new()
                self.emit("LOGIC3", d=made, a=whole, b=self.out.constant(_TF32), y=0xC0)
            elif self.kind in ("f16", "bf16"):
                self.rows[key] = made = self._new()
                kind = o.F16 if self.kind == "f16" else o.BFLOAT16
                x = kind | o.F32 << 4 | wanted.part << o.SOURCE_PART
                self.emit("CONVERT", d=made, a=whole, x=x)
            else:
                self.rows[key] = whole
        return self.rows[key]

    def _word(self, factor: int, wanted: _Fetched) -> int:
        source = self.factors[factor] + self.words * wanted.word
        if wanted.table == tuple(range(len(wanted.table))):
            return source
        key = (factor, wanted.table, wanted.word)
        if key not in self.rows:
            made = self.rows[key] = self._new()
            table = self.out.lane_table(wanted.table)
            for word in range(self.words):
                self.emit("PERMUTE_LANES", d=made + word, a=source + word, c=table, x=1)
        return self.rows[key]

    def _new(self) -> int:
        return self.out.rows(f"matrix {len(self.rows)}", 2)
