"""Products of matrices, as arrays, and tensor memory: what `tracegen.execution.tile_products` must do."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from memsim.errors import KernelError
from tests.twins.operations import EIGHTS, Step, first, operation
from tracegen.execution import operations as o

FORMATS = {0: ["f16", "bf16", "tf32"], 1: ["e4m3", "e5m2"], 2: ["u1", "i1"], 3: ["none", "e2m1"]}
BYTES = {
    "f16": 2, "bf16": 2, "tf32": 4, "e4m3": 1, "e5m2": 1, "u1": 1, "i1": 1, "f64": 8, "e2m1": 0.5, "f32": 4,
    "e4m3fnuz": 1, "e5m2fnuz": 1,
}  # fmt: skip
NAMES = list(BYTES)
EIGHT_BITS = {"e4m3": o.E4M3, "e5m2": o.E5M2, "e4m3fnuz": o.E4M3FNUZ, "e5m2fnuz": o.E5M2FNUZ}
DECODED = {
    form: np.copysign(
        [float(one.size) for one in EIGHTS[kind].values()],
        np.where(np.arange(256) < 128 + form.endswith("fnuz"), 1, -1),
    )
    for form, kind in EIGHT_BITS.items()
}
"""What each code of a float of 8 bits is."""


def places(s: Step, lane: int) -> list[tuple[int, int]]:
    """(lane, column) of tensor memory of each register; see operations.TENSOR_LOAD."""
    n, address = s.x >> o.TENSOR_COUNT & 0xFF, int(s.u("a")[lane]) + s.y
    every = {
        0: lambda k: (lane, k),
        1: lambda k: (lane // 4 + 8 * (lane // 2 % 2), 2 * k + lane % 2),
        2: lambda k: (lane // 4 + 8 * (k % 2), 4 * (k // 2) + lane % 4),
        3: lambda k: (lane // 4 + 8 * (k // 2 % 2), 8 * (k // 4) + 2 * (lane % 4) + k % 2),
        4: lambda k: (lane % 16, k),
    }[s.x & 7]
    if s.warp.group.rank % 2 and address >> 16 & 128:
        address -= 128 << 16  # the second group of a pair may count lanes from 128 on
    step = 2 if s.x & o.TENSOR_PACKED else 1
    found = [((address >> 16) + i, (address & 0xFFFF) + step * j) for i, j in map(every, range(n))]
    if any(i >= 128 or j + step > 512 for i, j in found):
        raise KernelError("beyond tensor memory")
    return found


@operation("TENSOR_LOAD")
def load(s: Step) -> None:
    tensor = s.warp.group.tensor
    for lane in np.flatnonzero(s.who):
        for k, (i, j) in enumerate(places(s, int(lane))):
            word = tensor[i, j]
            if s.x & o.TENSOR_PACKED:
                word = (word & 0xFFFF) | tensor[i, j + 1] << 16
            s.warp.rows[s.fields.d + k, lane] = word


@operation("TENSOR_STORE")
def store(s: Step) -> None:
    tensor = s.warp.group.tensor
    for lane in np.flatnonzero(s.who):
        for k, (i, j) in enumerate(places(s, int(lane))):
            word = s.warp.rows[s.fields.c + k, lane]
            tensor[i, j] = word
            if s.x & o.TENSOR_PACKED:
                tensor[i, j], tensor[i, j + 1] = word & 0xFFFF, word >> 16


@operation("TENSOR_MULTIPLY")
def multiply(s: Step) -> None:
    if s.who.any() and not s.x & o.SKIPPED:
        product(s, first(s))


def pair_of(s: Step) -> list[Any]:
    """The groups that an operation is of."""
    group = s.warp.group
    return (
        [one for one in group.cluster if one.rank // 2 == group.rank // 2]
        if s.x & o.PAIRED
        else [group]
    )


def product(s: Step, lane: int) -> None:
    what, groups = int(s.u("e")[lane]), pair_of(s)
    n, m = 8 * (what >> 17 & 63), 16 * (what >> 24 & 31) // len(groups)
    parts = [
        tile(
            one.local,
            int(s.u64("b")[lane]),
            range(n // len(groups)),
            second_of(s, what),
            what >> 16 & 1,
        )
        for one in groups
    ]
    for group in groups:
        half_product(s, lane, group, m, np.concatenate(parts))


def second_of(s: Step, what: int) -> Any:
    kinds = FORMATS[s.x & 7]
    if max(what >> 7 & 7, what >> 10 & 7) >= len(kinds):
        raise KernelError("a product that is not known")
    return kinds[what >> 10 & 7]


def half_product(s: Step, lane: int, group: Any, m: int, b: Any) -> None:
    what, tensor, n = int(s.u("e")[lane]), group.tensor, len(b)
    kinds = FORMATS[s.x & 7]
    if max(what >> 7 & 7, what >> 10 & 7) >= len(kinds) or what & 12 or m not in (64, 128):
        raise KernelError("a product that is not known")
    of_first = kinds[what >> 7 & 7]
    lines = np.arange(m) if m == 128 else np.arange(m) // 16 * 32 + np.arange(m) % 16
    if s.x & o.IN_TENSOR_MEMORY:
        held = int(s.u("a")[lane])
        rows = tensor[(lines + (held >> 16))[:, None], (held & 0xFFFF) + np.arange(8)]
        a = numbers(np.ascontiguousarray(rows).view(np.uint8), of_first)
    else:
        a = tile(group.local, int(s.u64("a")[lane]), range(m), of_first, what >> 15 & 1)
    a, b = (-one if what >> bit & 1 else one for bit, one in ((13, a), (14, b)))
    blocks = s.x >> o.SCALES & 7
    if blocks:
        held = [s.warp.rows[s.fields.d + k, lane] for k in (1, 2)]
        bytes_at = (what >> 29 & 3, what >> 4 & 3)
        is_float = not what >> 23 & 1
        a, b = (
            scaled(one, words(tensor, int(at), len(one)) >> 8 * first_byte, blocks, is_float)
            for one, at, first_byte in zip((a, b), held, bytes_at, strict=True)
        )
    place = int(s.u("c")[lane])
    where = np.ix_(lines + (place >> 16), (place & 0xFFFF) + np.arange(n))
    kind = np.float32 if blocks else {0: np.float16, 1: np.float32, 2: np.int32}[what >> 4 & 3]
    old = np.ascontiguousarray(tensor[where])
    values = old.astype(np.uint16).view(kind) if kind is np.float16 else old.view(kind)
    sums = values.astype(np.float64) * (int(s.u("d")[lane]) != 0)
    for k in range(a.shape[1]):
        sums = sums + a[:, k, None] * b[None, :, k]
    made = sums.astype(kind)
    tensor[where] = made.view(np.uint16 if kind is np.float16 else np.uint32)


@operation("MATRIX_MULTIPLY")
def multiply_fragments(s: Step) -> None:
    if not s.who.any():
        return
    n, m, depth = s.y & 511, s.y >> 9 & 31, s.y >> 14
    lane, own, local = first(s), 16 * (s.warp.number % 4), s.warp.group.local
    of_first, of_second = NAMES[s.x & 15], NAMES[s.x >> 4 & 15]
    if s.x & o.FIRST_IN_ROWS:
        a = fragment(s, "a", m, depth, of_first)
    else:
        described = older(int(s.u64("a")[lane]))
        a = tile(local, described, range(own, own + m), of_first, s.x & o.FIRST_ACROSS)
    if s.x & o.SECOND_IN_ROWS:
        b = fragment(s, "b", n, depth, of_second)
    else:
        described = older(int(s.u64("b")[lane]))
        b = tile(local, described, range(n), of_second, s.x & o.SECOND_ACROSS)
    if blocks := s.x >> o.SCALES & 7:
        row = np.arange(max(m, n))
        of_rows = 4 * (row % 8) + row // 8
        is_float, scales = bool(s.x & o.SCALE_IS_FLOAT), s.warp.rows[s.fields.e : s.fields.e + 2]
        a, b = (
            scaled(one, row[of_rows[: len(one)]], blocks, is_float)
            for one, row in zip((a, b), scales, strict=True)
        )
    kind: Any = np.int32 if s.x & o.WHOLE_SUMS else np.float16 if s.x & o.HALF_SUMS else np.float32
    kind = np.float64 if of_first == "f64" else kind
    i, j = sums_of(n, m, np.arange(32))
    rows = s.warp.rows[s.fields.c : s.fields.c + m * n * np.dtype(kind).itemsize // 128]
    held = np.ascontiguousarray(
        rows.reshape(-1, max(np.dtype(kind).itemsize // 4, 1), 32).swapaxes(1, 2)
    )
    if kind is np.float16:  # two numbers a row
        held = np.ascontiguousarray(rows[:, :32]).view(np.uint16).reshape(-1, 32, 2).swapaxes(1, 2)
    values = np.ascontiguousarray(held).view(kind).reshape(-1, 32)
    sums = np.zeros((m, n))
    sums[i, j] = values * bool((s.m() & s.who).any())
    for k in range(depth):
        sums = fused(a[:, k, None], b[None, :, k], sums)
    made = np.ascontiguousarray(sums[i, j].astype(kind))
    if kind is np.float16:
        words = made.view(np.uint16).astype(np.uint32)
        words = words[::2] | words[1::2] << 16
    else:
        words = made.view(np.uint32).reshape(len(made), 32, -1).swapaxes(1, 2).reshape(-1, 32)
    s.warp.rows[s.fields.d : s.fields.d + len(words), :32] = words


@operation("BLOCK_MULTIPLY")
def multiply_blocks(s: Step) -> None:
    rows, blocks, depth, each = s.y & 63, s.y >> 6 & 31, s.y >> 11 & 255, s.y >> 19
    lanes = s.warp.rows.shape[1]
    a, b = (
        of_blocks(s, field, (blocks, rows, depth), each, NAMES[s.x >> at & 15])
        for field, at in (("a", 0), ("b", 4))
    )
    double = NAMES[s.x & 15] == "f64"
    n = rows * rows * blocks // lanes
    place = sums_of_blocks(n, rows, np.arange(lanes), double)
    kind: Any = np.float64 if double else np.int32 if s.x & o.WHOLE_SUMS else np.float32
    held = s.warp.rows[s.fields.c : s.fields.c + n * (1 + double)]
    if s.x & o.HALF_SUMS:
        old = (held >> 16 * bool(s.x & o.HIGH_HALVES)).astype(np.uint16).view(np.float16)
    else:
        words_ = np.ascontiguousarray(held.reshape(n, 1 + double, lanes).swapaxes(1, 2))
        old = words_.view(kind)[..., 0]
    sums = np.zeros((blocks, rows, rows))
    sums[place] = old * (s.fields.m != o.NEVER)
    for k in range(depth):
        sums = fused(a[:, :, None, k], b[:, None, :, k], sums)
    made = sums[place]
    target = s.warp.rows[s.fields.d : s.fields.d + n * (1 + double)]
    if s.x & o.HALF_SUMS:
        shift = 16 * bool(s.x & o.HIGH_HALVES)
        bits = made.astype(np.float16).view(np.uint16).astype(np.uint32)
        target[:] = target & ~np.uint32(0xFFFF << shift) | bits << shift
    else:
        words_ = np.ascontiguousarray(made.astype(kind)[..., None]).view(np.uint32)
        target[:] = words_.swapaxes(1, 2).reshape(target.shape)


def of_blocks(s: Step, field: str, shape: tuple[int, int, int], each: int, form: str) -> Any:
    """(block, row, depth) numbers: lane l has row l modulo the rows, of the blocks in turn, and what follows along the depth behind
    them."""
    blocks, rows, depth = shape
    lane = np.arange(rows * blocks * depth // each)
    count = max(int(each * BYTES[form]) // 4, 1)
    first_row = getattr(s.fields, field)
    held = np.ascontiguousarray(s.warp.rows[first_row : first_row + count, : len(lane)].T)
    values = numbers(held.view(np.uint8), form)[:, :each]
    made = np.zeros(shape)
    group = lane // rows
    along = group[:, None] // blocks * each + np.arange(each)
    made[group[:, None] % blocks, lane[:, None] % rows, along] = values
    return made


def sums_of_blocks(n: int, rows: int, lane: Any, double: bool) -> tuple[Any, Any, Any]:
    """(number, lane) block, row and column of each sum."""
    group, column, number = lane // rows, lane % rows, np.arange(n)[:, None]
    if rows == 4:
        block, row = (group % 4, group // 4) if double else (group, number)
    elif len(lane) == 32:
        block, row = 0, 2 * number + group
    else:
        block, inside = number // (rows * rows // 64), number % (rows * rows // 64)
        row = 4 * inside + group if double else 256 // rows * (inside // 4) + 4 * group + inside % 4
    block, row, column = np.broadcast_arrays(block, row, column)
    return tuple(np.broadcast_to(one, (n, len(lane))) for one in (block, row, column))


def fused(a: Any, b: Any, c: Any) -> Any:
    """a b + c, rounded once."""
    every = np.broadcast_arrays(a, b, c)
    exact = [
        float(Fraction(x) * Fraction(y) + Fraction(z)) if np.isfinite(x * y + z) else x * y + z
        for x, y, z in zip(*(one.ravel().tolist() for one in every), strict=True)
    ]
    return np.array(exact).reshape(every[0].shape)


@operation("TENSOR_COPY")
def copy(s: Step) -> None:
    if not s.who.any():
        return
    lane = first(s)
    place, described = int(s.u("a")[lane]), int(s.u64("b")[lane])
    start, stride = (16 * (described >> at & 0x3FFF) for at in (0, 32))
    if place >> 16 or place + 4 > 512:
        raise KernelError("beyond tensor memory")
    for group in pair_of(s):
        for i in range(32):
            at = start + i // 8 * stride + i % 8 * 16
            row = group.local[at : at + 16].view(np.uint32)
            group.tensor[i::32, place : place + 4] = row


def words(tensor: Any, place: int, n: int) -> Any:
    """Of so many rows or columns, the word with their scales: 32 lie in the lanes of a column."""
    row = np.arange(n)
    return tensor[(place >> 16) + row % 32, (place & 0xFFFF) + row // 32]


def scaled(values: Any, held: Any, blocks: int, is_float: bool) -> Any:
    """Each block along the depth times the scale in its byte."""
    codes = held[:, None] >> 8 * np.arange(blocks, dtype=np.uint32) & 255
    powers = 2.0 ** (codes.astype(float) - 127)
    factors = numbers(codes.astype(np.uint8) & 127, "e4m3") if is_float else powers
    return values * np.repeat(factors, values.shape[1] // blocks, axis=1)


def sums_of(n: int, m: int, lane: Any) -> tuple[Any, Any]:
    """(number, lane) row and column of each sum: rows g and g + 8, columns 2 t and 2 t + 1, of 8 columns after the others."""
    r, block = np.arange(m // 4), np.arange(n // 8)
    i = lane // 4 + 8 * (r[:, None] // 2)
    j = 8 * block[:, None, None] + 2 * (lane % 4) + r[:, None] % 2
    return np.broadcast_to(i, j.shape).reshape(-1, 32), j.reshape(-1, 32)


def fragment(s: Step, field: str, n: int, depth: int, form: str) -> Any:
    """(n, depth) numbers that lie in registers: row g of lane 4 g + t, as many elements of each word from t times that number on, then 8
    rows below, then further along the depth."""
    size, words = BYTES[form], max(int(BYTES[form] // 4), 1)
    each_word, blocks = max(int(4 / size), 1), int(n * depth * size) // 128 // words
    first_row, made, lane = getattr(s.fields, field), np.zeros((n, depth)), np.arange(32)
    for number in range(blocks):
        rows = s.warp.rows[first_row + words * number : first_row + words * (number + 1), :32]
        values = numbers(np.ascontiguousarray(rows.T).view(np.uint8).reshape(32, -1), form)
        down, along = number % (n // 8), number // (n // 8)
        k = each_word * (4 * along + lane[:, None] % 4) + np.arange(each_word)
        made[lane[:, None] // 4 + 8 * down, k] = values
    return made


def older(words: int) -> int:
    """A descriptor of wgmma as one of tcgen05: numbers of swizzles of 128, 64 and 32 bytes differ."""
    return words & (1 << 61) - 1 | {0: 0, 1: 2, 2: 4, 3: 6}[words >> 62] << 61


def tile(local: Any, words: int, lines: range, form: str, across: int) -> Any:
    """(lines, depth) numbers that a matrix descriptor of tcgen05 describes: PTX ISA, "Canonical layouts"."""
    start, leading, stride = (16 * (words >> at & 0x3FFF) for at in (0, 16, 32))
    mode, size = words >> 61 & 7, BYTES[form]
    width = {0: 16, 1: 128, 2: 128, 4: 64, 6: 32}[mode]
    size = max(size, 1)  # of two numbers a byte the byte
    i, k = np.meshgrid(np.array(lines), np.arange(32 // size), indexing="ij")
    along, down = (i * size, k) if across else (k * size, i)
    at = start + down % 8 * width + along % width
    if across:
        outer, inner = (stride, leading) if mode == 0 else (leading, stride)
        at += along // width * outer + down // 8 * inner
    else:
        at += along // width * leading * (mode == 0) + down // 8 * stride
    at ^= at >> 2 & 0x60 if mode == 1 else at >> 3 & width - 16
    if at.max() + size > len(local):
        raise KernelError("beyond local memory")
    return numbers(local[at[..., None] + np.arange(size)].reshape(len(lines), -1), form)


def numbers(data: Any, form: str) -> Any:
    """Bytes of rows as doubles."""
    if form in ("f16", "u1", "i1", "f64"):
        return data.view({"f16": np.float16, "f64": np.float64}.get(form, form)).astype(np.float64)
    if form == "bf16":
        return (data.view(np.uint16).astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    if form == "tf32":
        return (data.view(np.uint32) & 0xFFFFE000).view(np.float32).astype(np.float64)
    if form == "f32":
        return data.view(np.float32).astype(np.float64)
    if form in DECODED:
        return DECODED[form][data]
    codes = np.stack([data & 15, data >> 4], -1).reshape(len(data), -1)  # e2m1
    return np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])[codes & 7] * np.where(codes & 8, -1, 1)
