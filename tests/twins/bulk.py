"""Copies of tiles between global and local memory, element by element: what `tracegen.execution.bulk` must do."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from memsim.errors import KernelError
from tests.twins import execution as twin
from tests.twins.operations import Step, first, signed
from tracegen.execution import operations as o

ELEMENT_BYTES = [1, 2, 4, 4, 8, 8, 2, 4, 4, 8, 2, 4, 4]
"""By the number of a type in a tensor map: u8, u16, u32, s32, u64, s64, f16, f32, f32 flushed, f64, bf16, tf32, tf32 flushed."""


class Element(NamedTuple):
    """offset : in local memory, before its address is swizzled;  address : in global memory, None where it is out of bounds"""

    offset: int
    address: int | None


def field(data: Any, byte: int, bit: int, n: int) -> int:
    word = int.from_bytes(data[byte : byte + 8].tobytes(), "little")
    return word >> bit & (1 << n) - 1


def tile(s: Step, lane: int, size: int) -> tuple[int, int, int, list[Element]]:
    """(bytes of an element, type or -1, swizzle, elements)."""
    start, n = int(s.u64("a")[lane]), s.y & 7
    if not n:
        count = int(s.u("b")[lane]) // size
        return size, -1, 0, [Element(size * k, start + size * k) for k in range(count)]
    data = held(s, start, 128)
    kind, swizzle = field(data, 8, 7, 4), field(data, 8, 13, 2)
    if kind > 12 or field(data, 8, 11, 2) or field(data, 8, 15, 1) or field(data, 8, 4, 3) != n - 1:
        raise KernelError("a tensor map that is not known")
    size = ELEMENT_BYTES[kind]
    base = field(data, 0, 0, 64)
    distances = [size] + [
        16 * (field(data, 12 + 4 * k, 0, 32) + (field(data, 28, 4 * k, 4) << 32))
        for k in range(n - 1)
    ]
    sizes = [field(data, 32 + 4 * k, 0, 32) + 1 for k in range(n)]
    steps = [field(data, 52, 3 * k, 3) + 1 for k in range(n)]
    boxes = [field(data, 55 + k, 0, 8) + 1 for k in range(n)]
    corner = [int(signed(s.warp.rows[s.fields.b + k, lane].astype(object), 32)) for k in range(n)]
    elements = []
    axes = [range(0, box, step) for box, step in zip(boxes, steps, strict=True)]
    for place in itertools.product(*reversed(axes)):
        at = [a + b for a, b in zip(corner, reversed(place), strict=True)]
        inside = all(0 <= one < most for one, most in zip(at, sizes, strict=True))
        address = base + sum(a * d for a, d in zip(at, distances, strict=True))
        elements.append(Element(size * len(elements), address if inside else None))
    return size, kind, swizzle, elements


def held(s: Step, address: int, size: int) -> Any:
    for _, base, data in s.warp.group.memory.arrays:
        if base <= address and address + size <= base + len(data):
            return data[address - base : address - base + size]
    raise KernelError(f"{size} bytes at {address:#x} are out of bounds")


def copy(s: Step, kind: str) -> None:
    if not s.who.any():
        return
    lane, group = int(first(s)), s.warp.group
    if s.y & o.FROM_LOCAL:
        return within_cluster(s, lane)
    size, number, swizzle, elements = tile(s, lane, s.x >> o.BYTES & 63 if kind == "atomic" else 1)
    local, n_bytes = int(s.u("c")[lane]), size * len(elements)
    moves = not s.y & o.PREFETCH
    groups = targets(s, lane, local) if kind == "load" and moves else [group]
    local %= twin.WINDOW_BYTES
    if moves and (local % (128 if s.y & 7 else 16) or local + n_bytes > len(group.local)):
        raise KernelError(f"{n_bytes} bytes at {local:#x} of local memory")
    if not s.y & 7 and int(s.u64("a")[lane]) % 16:
        raise KernelError("a misaligned copy")
    for offset, address in elements:
        if address is not None:
            outside = held(s, address, size)
        if moves and not s.x & o.SKIPPED:
            at = local + offset
            at ^= (at >> 7 & (1 << swizzle) - 1) << 4
            inside = group.local[at : at + size]
            if kind == "load":
                for one in groups:
                    one.local[at : at + size] = outside if address is not None else 0
            elif address is not None:
                new = inside if kind == "store" else added(s, number, outside, inside)
                outside[:] = new
    if kind == "load" and moves and s.warp.settled > s.warp.in_step:
        for warp in group.warps:
            warp.events.append(
                twin.Event(
                    warp.number, twin.instruction(s), "barrier", o.LOCAL, {}, 0, warp.settled
                )
            )
            warp.in_step = warp.settled
    s.warp.brings = s.warp.brings or (kind == "load" and moves)
    warps = [warp for one in groups for warp in one.warps if warp.live.any()]
    share(s, kind, size, elements, warps)
    if kind == "load":
        s.put(n_bytes, who=np.arange(s.lanes) == lane)
        place = int(s.u("e")[lane]) % twin.WINDOW_BYTES
        for warp in warps:
            warp.copies.append(warp.last[twin.COPIES])
            warp.marks.append(place + warp.group.rank * twin.WINDOW_BYTES)


def targets(s: Step, lane: int, local: int) -> list[Any]:
    """The groups to whose local memory a copy brings bytes. local : where in one of them"""
    cluster, groups = s.warp.group.cluster, int(s.warp.rows[s.fields.e + 1, lane])
    return [
        one
        for one in cluster
        if (groups >> one.rank & 1 if groups else local // twin.WINDOW_BYTES == one.rank)
    ]


def within_cluster(s: Step, lane: int) -> None:
    """A copy from one local memory to another, which is no access."""
    start, to, n_bytes = (int(s.u(name)[lane]) for name in "acb")
    source = s.warp.group.local[start % twin.WINDOW_BYTES :][:n_bytes]
    (group,) = targets(s, lane, to)
    group.local[to % twin.WINDOW_BYTES :][:n_bytes] = source
    s.put(n_bytes, who=np.arange(s.lanes) == lane)


def added(s: Step, number: int, outside: Any, inside: Any) -> Any:
    """What an atomic operation leaves of an element."""
    size, kind = len(outside), s.x >> o.ATOMIC_OPERATION & 15
    old, given = (int.from_bytes(one.tobytes(), "little") for one in (outside, inside))
    if number in (3, 5) and kind in (o.ATOMIC_MIN_U, o.ATOMIC_MAX_U):
        kind += o.ATOMIC_MIN_S - o.ATOMIC_MIN_U
    x = s.x | (0 if number < 6 else o.FLOATING | (o.BF16 if number == 10 else 0))
    if x & o.FLOATING:
        new = twin.changed_floats(kind, old, given, size, x)
    else:
        new = twin.changed(kind, old, given, 8 * size)
    return np.frombuffer(new.to_bytes(size, "little"), np.uint8)


def share(s: Step, kind: str, size: int, elements: list[Element], warps: list[Any]) -> None:
    """Each of these sub-groups records its part of the granules, which ascend."""
    for piece in pieces(size, elements):
        edges = [len(piece) * k // len(warps) for k in range(len(warps) + 1)]
        for warp, (low, high) in zip(warps, itertools.pairwise(edges), strict=True):
            bytes_of = dict(enumerate(itertools.chain.from_iterable(piece[low:high])))
            if bytes_of:
                event = twin.Event(
                    warp.number, twin.instruction(s), kind, o.BULK, bytes_of, 1, warp.settled
                )
                warp.last[twin.COPIES] = (
                    len(warp.events) if kind == "load" else warp.last[twin.COPIES]
                )
                warp.events.append(event)


def pieces(size: int, elements: list[Element]) -> Iterator[list[list[int]]]:
    """Granules that ascend, each as its bytes."""
    piece: list[list[int]] = []
    for element in elements:
        for byte in range(size) if element.address is not None else ():
            at = int(element.address or 0) + byte
            if piece and piece[-1][0] >> 5 == at >> 5:
                piece[-1].append(at)
                continue
            if piece and piece[-1][0] >> 5 > at >> 5:
                yield piece
                piece = []
            piece.append([at])
    if piece:
        yield piece
