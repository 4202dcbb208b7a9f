"""Random programs of micro-operations, over values at which arithmetic goes wrong."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tests.twins.execution import Memory
from tracegen.execution import operations as o
from tracegen.execution.code import Assembler

Rng = np.random.Generator
BASE = 1 << 20
WORDS = [
    *(0, 1, 2, 31, 32, 33, 0xFFFFFFFF, 0xFFFFFFFE, 0x7FFFFFFF, 0x80000000, 0x80000001, 0xFFFF, 0x10000, 0xFF, 0x80),
    *(0x7F800000, 0xFF800000, 0x7FC00000, 0x7F800001, 0x7F7FFFFF, 0xFF7FFFFF, 0x00800000, 0x007FFFFF, 0x80000003),
    *(0x3F800000, 0xBF800000, 0x3F000000, 0x3F7FFFFF, 0x3F800001, 0x40000000, 0x4B800001, 0x5F000000, 0x4F000000, 0x33800000),
    *(0x3C003C00, 0x7C00FC00, 0x7E017BFF, 0x00018001, 0x04000400, 0x3F803F80, 0x7F807F7F, 0x00010080, 0xBC003800),
]  # fmt: skip
"""Ends of ranges of integers, floats, pairs of halves and of bfloat16s."""
DOUBLES = [
    *(0, 1, 1 << 63, (1 << 63) - 1, (1 << 64) - 1, 0x7FF << 52, 0xFFF << 52, 0x7FF8 << 48, (0x7FF << 52) + 1, (0x7FF << 52) - 1),
    *(1 << 52, (1 << 52) - 1, 0x3FF << 52, 0xBFF << 52, (0x3FF << 52) + 1, (0x3FF << 52) - 1, 0x43E << 52, 0x41F << 52),
    *(0x3FE << 52, 0x3CA << 52, 0x434 << 52, (0x434 << 52) + 1, 0x47EFFFFFE0000000, 0x3690000000000000, 0x7FE << 52),
]  # fmt: skip


def words(rng: Rng, n_pairs: int, lanes: int) -> np.ndarray:
    """(2 * n_pairs, lanes) uint32: each pair is two words, or one number of 64 bits, near another one in places."""
    made = rng.integers(0, 1 << 32, (n_pairs, 2, lanes), np.uint32)
    edges = rng.choice(np.array(WORDS, np.uint32), made.shape)
    small = rng.integers(0, 70, made.shape).astype(np.uint32)
    floats = rng.normal(0, 3, made.shape).astype(np.float32).view(np.uint32)
    kind = rng.integers(0, 5, made.shape)
    made = np.select([kind == 0, kind <= 2, kind == 3], [made, edges, small], floats)
    wide = rng.choice(np.array(DOUBLES, np.uint64), (n_pairs, lanes))
    normal = rng.normal(0, 3, (n_pairs, lanes)).view(np.uint64)
    wide = np.where(rng.random((n_pairs, lanes)) < 0.6, wide, normal)
    is_wide = (rng.random((n_pairs, lanes)) < 0.4)[:, None]
    both = np.stack([wide & np.uint64(0xFFFFFFFF), wide >> np.uint64(32)], axis=1)
    return np.where(is_wide, both.astype(np.uint32), made).reshape(2 * n_pairs, lanes)


def bits(*flags: int) -> Callable[[Rng], dict[str, int]]:
    """Each of these modifiers in half of the cases."""
    return lambda rng: {"x": sum(flag for flag in flags if rng.random() < 0.5)}


def below(**ends: int) -> Callable[[Rng], dict[str, int]]:
    return lambda rng: {field: int(rng.integers(0, end)) for field, end in ends.items()}


def some(rng: Rng, *flags: int) -> int:
    """Most often none of these modifiers, else each with a chance of a half."""
    return sum(flag for flag in flags if rng.random() < 0.5) if rng.random() < 0.6 else 0


SIGNS = (o.NEGATE_A, o.NEGATE_B, o.NEGATE_C, o.ABSOLUTE_A, o.ABSOLUTE_B, o.ABSOLUTE_C)


def floats(*more: int, rounding: bool = False) -> Callable[[Rng], dict[str, int]]:
    def make(rng: Rng) -> dict[str, int]:
        mode = int(rng.integers(0, 4)) << 8 if rounding and rng.random() < 0.5 else 0
        return {"x": some(rng, *SIGNS, *more) | mode}

    return make


def halves(rng: Rng) -> dict[str, int]:
    places = (o.HALVES_A, o.HALVES_B, o.HALVES_C)
    chosen = sum(int(rng.integers(0, 4)) << place for place in places if rng.random() < 0.5)
    high = some(rng, o.NEGATE_HIGH_A, o.NEGATE_HIGH_B, o.NEGATE_HIGH_C)
    return {"x": some(rng, *SIGNS, o.SATURATE) | bits(o.BF16)(rng)["x"] | chosen | high}


def compared(*more: int) -> Callable[[Rng], dict[str, int]]:
    """A relation, combined with a mask, and modifiers of the operands."""

    def make(rng: Rng) -> dict[str, int]:
        return {"x": int(rng.integers(0, 16)) | int(rng.integers(0, 3)) << 20 | some(rng, *more)}

    return make


def compared_halves(rng: Rng) -> dict[str, int]:
    sides = int(rng.integers(0, 16)) << 24
    return {"x": compared(*SIGNED_COMPARED)(rng)["x"] | bits(o.BF16)(rng)["x"] | sides}


def conversion(rng: Rng) -> dict[str, int]:
    source, target = (int(kind) for kind in rng.integers(0, 16, 2))
    x = source | target << 4 | int(rng.integers(0, 4)) << 8
    is_float, to_float = source >= o.F16, target >= o.F16
    if is_float or source in (o.S8, o.S16, o.S32):
        x |= some(rng, o.NEGATE_SOURCE, o.ABSOLUTE_SOURCE)
    if source == o.F32:
        x |= some(rng, o.FLUSH_SOURCE)
    if is_float and to_float:
        x |= some(rng, o.WHOLE_NUMBER)
    if is_float if to_float else source not in (o.U64, o.S64):
        x |= some(rng, o.SATURATE_TO)
    of_8_bits = source in (o.U8, o.S8, o.E4M3, o.E5M2, o.E4M3FNUZ, o.E5M2FNUZ)
    parts = 4 if of_8_bits else 2 if source in (o.U16, o.S16, o.F16, o.BFLOAT16) else 1
    return {"x": x | int(rng.integers(0, parts)) << o.SOURCE_PART}


def special(rng: Rng) -> dict[str, int]:
    y = int(rng.integers(0, 8))
    return {"y": y, "x": some(rng, o.NEGATE_A, o.ABSOLUTE_A, o.SATURATE, o.FLUSH)}


SIGNED_COMPARED = tuple(flag << 8 for flag in (o.NEGATE_A, o.NEGATE_B, o.ABSOLUTE_A, o.ABSOLUTE_B))
WRAPS = bits(o.WRAP)
MODIFIERS: dict[str, Callable[[Rng], dict[str, int]]] = {
    "SELECT": bits(o.NEGATE_A, o.NEGATE_B, o.ABSOLUTE_A, o.ABSOLUTE_B),
    "ADD3": below(x=8), "ADD_CARRY": below(x=8), "MULTIPLY_ADD": bits(o.NEGATE_A, o.NEGATE_C), "ADD64": below(x=4),
    "MULTIPLY_24": below(x=2), "DOT4": below(x=4), "LOGIC3": below(y=256),
    **dict.fromkeys(
        ("SHIFT_LEFT", "SHIFT_RIGHT_U", "SHIFT_RIGHT_S", "FUNNEL_LEFT", "FUNNEL_RIGHT", "SHIFT_LEFT64", "SHIFT_RIGHT64_U",
         "SHIFT_RIGHT64_S", "BIT_MASK", "SIGN_EXTEND_AT"), WRAPS),
    "HIGHEST_BIT": below(x=4), "SUM_DIFFERENCES": below(x=4),
    **dict.fromkeys(("COMPARE_S", "COMPARE_U", "COMPARE64_S", "COMPARE64_U"), compared()),
    "COMPARE_F32": compared(*SIGNED_COMPARED, o.FLUSH << 8), "COMPARE_F64": compared(*SIGNED_COMPARED),
    "COMPARE_F16": compared_halves, "MASK_LOGIC3": below(x=256), "MASK_TO_ROWS": below(x=4), "VOTE": below(y=3),
    **{f"{name}_F32": floats(o.SATURATE, o.FLUSH, rounding=True) for name in ("ADD", "MULTIPLY", "FUSED")},
    **{f"{name}_F64": floats(o.SATURATE, rounding=True) for name in ("ADD", "MULTIPLY", "FUSED")},
    **{f"{name}_F32": floats(o.SATURATE, o.FLUSH) for name in ("MINIMUM", "MAXIMUM")},
    **{f"{name}_F64": floats(o.SATURATE) for name in ("MINIMUM", "MAXIMUM")},
    **{f"{name}_F16": halves for name in ("ADD", "MULTIPLY", "FUSED", "MINIMUM", "MAXIMUM")},
    "SPECIAL": special, "SPECIAL_F64": below(y=3),
    "SPECIAL_HIGH": lambda rng: {"y": int(rng.choice([o.RECIPROCAL, o.RECIPROCAL_ROOT]))},
    "FRACTION_F32": below(y=3), "FRACTION_F64": below(y=3), "CONVERT": conversion,
    "PACK_F16": lambda rng: {"x": bits(o.BF16, o.NEGATE_A, o.NEGATE_B)(rng)["x"] | int(rng.integers(0, 2)) * o.ROUND_ZERO},
    "SHUFFLE": below(y=4), "PERMUTE_LANES": below(x=2), "MATCH_ANY": below(x=2), "MATCH_ALL": below(x=2), "REDUCE": below(y=8),
}  # fmt: skip
"""Operation -> its modifiers, at random. Those that are not named have none."""
NOT_STRAIGHT = {
    *("LOAD", "STORE", "ATOMIC", "LOAD_CONSTANT", "CLOCK", "BLOCK", "BRANCH", "BRANCH_TABLE", "RETURN", "EXIT", "JOIN_SET"),
    *("JOIN_WAIT", "JOIN_LEAVE", "SYNC_LANES", "BARRIER", "WAIT_SLOTS", "WAIT_COUNT", "TRAP", "UNKNOWN", "COPIES_END", "WAIT_COPIES", "REST"),
    *("TENSOR_LOAD", "TENSOR_STORE", "TENSOR_MULTIPLY", "MATRIX_MULTIPLY", "TENSOR_COPY", "BLOCK_MULTIPLY"),
}  # fmt: skip
STRAIGHT = [name for name in o.OPERATIONS if name not in NOT_STRAIGHT]
"""Operations that only work on rows and masks."""
OF_32_LANES = {"SHUFFLE", "MATCH_ANY", "MATCH_ALL"}


class Program:
    """A program that loads random words into rows and masks, and what it loads.

    rows, masks : that operations may read
    """

    def __init__(self, rng: Rng, *, lanes: int, n_pairs: int = 24, n_items: int) -> None:
        self.rng, self.lanes, self.made = rng, lanes, Assembler(lanes=lanes)
        made, n = self.made, 2 * n_pairs
        self.size = -(-n_items // lanes) * lanes
        self.memory = Memory(
            arrays=[("words", BASE, words(rng, n_pairs, self.size).reshape(-1).view(np.uint8))]
        )
        made.block(["start"])
        made.instruction(0)
        at = made.rows("address", 2)
        made.emit("ADD3", d=at, a=made.special("lane"), b=made.special("first_item"))
        first = made.rows("inputs", n)
        self.masks = [made.mask(f"input {k}") for k in range(6)]
        base = made.constant(BASE, 0)
        if lanes == 64:
            made.mask("exec", "exec")
        for k in range(n):
            made.emit(
                "LOAD", d=first + k, a=at, b=base, x=o.GLOBAL | 4 << o.BYTES | o.ADDRESS_32 | 1 << o.SCALE, y=4 * k * self.size,
            )  # fmt: skip
        one = made.constant(1)
        for k, mask in enumerate(self.masks):
            made.emit("LOGIC3", d=at + 1, a=first + 2 * k + 1, b=one, y=0xC0)
            made.emit("COMPARE_U", d=mask, a=at + 1, b=one, x=o.EQUAL)
        self.rows = list(range(first, first + n))

    def mask(self) -> int:
        """A source mask; most often that which is always true."""
        if self.rng.random() < 0.4:
            return o.ALWAYS
        return 2 * int(self.rng.choice(self.masks)) + int(self.rng.integers(0, 2))

    def row(self, count: int) -> int:
        """The first of rows, at an even place where it is two."""
        rows = [row for row in self.rows[:: min(count, 2)] if row + count - 1 in self.rows]
        return int(self.rng.choice(rows))

    def operation(
        self, name: str, number: int, row: int, masks: list[int], **given: int
    ) -> dict[str, int]:
        """One operation on random inputs; its results go to row and to masks. Returns its fields."""
        kind, fields = o.OPERATIONS[name], MODIFIERS.get(name, lambda rng: {})(self.rng)
        fields |= {
            field: self.row(count) for field, count in kind.rows_read.items() if field != "d"
        }
        fields |= {field: self.mask() for field in kind.masks_read}
        if name.startswith("DIVISION_SCALE"):
            fields["a"] = fields[str(self.rng.choice(["b", "c"]))]
        fields |= dict(zip(kind.masks_written, masks, strict=False))
        if "d" in kind.rows_written:
            fields["d"] = row
        fields |= {"guard": self.mask(), **given}
        self.made.instruction(number)
        self.made.emit(name, **fields)  # type: ignore[arg-type]
        return fields


def result_format(name: str, fields: dict[str, int]) -> str:
    """What the rows of a result are, where they are not just bits: f16, bf16 (two of them), f32, f64, high (of f64)."""
    x, kind = fields.get("x", 0), name.rpartition("_")[2]
    if name.startswith(("COMPARE", "CLASS", "MULTIPLY_WIDE")) or (
        name.startswith("FRACTION") and fields["y"] == 2
    ):
        return ""
    if name == "CONVERT":
        return {o.F16: "f16", o.BFLOAT16: "bf16", o.F32: "f32", o.F64: "f64"}.get(x >> 4 & 15, "")
    if kind == "F16":
        return "bf16" if x & o.BF16 else "f16"
    if name == "SPECIAL_HIGH":
        return "high"
    return {"F32": "f32", "F64": "f64", "SPECIAL": "f32"}.get(kind, "")
