"""A slow reader of Accel-Sim's text, line by line: the specification of the compiled reader."""

from __future__ import annotations

import re
from dataclasses import dataclass

BYTES = {
    "U8": 1,
    "S8": 1,
    "U16": 2,
    "S16": 2,
    "8": 1,
    "16": 2,
    "32": 4,
    "64": 8,
    "128": 16,
    "256": 32,
}
WIDE_ATOMIC = {"F64": 8, "S64": 8}
LOADS, STORES = ("LDG", "LD", "LDGSTS"), ("STG", "ST")
ATOMICS = ("ATOM", "ATOMG", "RED", "REDG")
WINDOW = 1 << 24


@dataclass(frozen=True)
class Seen:
    """An access: the name of its site, its number of lanes, and (granule, mask of requested bytes) pairs."""

    name: str
    lanes: int
    masks: tuple[tuple[int, int], ...]


def read(text: str) -> dict[tuple[int, int], list[Seen | None]]:
    """The accesses of each (thread block, warp) in program order; None stands for a barrier."""
    head = dict(re.findall(r"^-(.+?) = (.*)$", text, re.MULTILINE))
    grid = [int(extent) for extent in head["grid dim"].strip("()").split(",")]
    windows = [int(head.get(f"{name} base_addr", "0"), 16) for name in ("shmem", "local mem")]
    has_lines = head.get("enable lineinfo", "0") != "0"
    result: dict[tuple[int, int], list[Seen | None]] = {}
    block, own = 0, None
    for line in text[text.index("#BEGIN_TB") :].splitlines():
        words = line.split()
        if line.startswith("thread block"):
            x, y, z = (int(place) for place in line.split("=")[1].split(","))
            block = (z * grid[1] + y) * grid[0] + x
        elif line.startswith("warp"):
            own = result.setdefault((block, int(words[2])), [])
        elif words and own is not None and not line.startswith(("#", "insts", "cluster")):
            own += _instruction(words[has_lines:], windows)
    return result


def _instruction(words: list[str], windows: list[int]) -> list[Seen | None]:
    """The access of one instruction; an empty list where it does not reach global memory."""
    pc, mask = int(words[0], 16), int(words[1], 16)
    opcode = words[3 + int(words[2])]
    n_from = int(words[4 + int(words[2])])
    rest = words[5 + int(words[2]) + n_from :]
    base, *modifiers = opcode.split(".")
    if base == "BAR" and "ARV" not in modifiers and mask:
        return [None]
    if base not in (*LOADS, *STORES, *ATOMICS) or int(rest[0]) == 0 or mask == 0:
        return []
    lanes = [lane for lane in range(32) if mask >> lane & 1]
    mode, values = int(rest[1]), rest[2:]
    if mode == 0:
        addresses = [int(value, 16) for value in values[: len(lanes)]]
    elif mode == 1:
        addresses = [int(values[0], 16) + int(values[1]) * (k - lanes[0]) for k in lanes]
    else:
        addresses = [int(values[0], 16)]
        for delta in values[1 : len(lanes)]:
            addresses.append(addresses[-1] + int(delta))
    generic = base in ("LD", "ST", "ATOM")
    if generic and any(w and 0 <= addresses[0] - w < WINDOW for w in windows):
        return []
    sizes = BYTES | (WIDE_ATOMIC if base in ATOMICS else {})
    size = next((sizes[word] for word in modifiers if word in sizes), 4)
    masks: dict[int, int] = {}
    for address in addresses:
        for byte in range(address, address + size):
            masks[byte // 32] = masks.get(byte // 32, 0) | 1 << byte % 32
    return [Seen(f"{pc:04x} {opcode}", len(lanes), tuple(sorted(masks.items())))]
