"""What NVIDIA's opcodes (SASS) do to memory, as far as a trace must know."""

from __future__ import annotations

from dataclasses import dataclass

from memsim.formats.accel_sim import tables
from memsim.trace.model import Direction

_ATOMICS = ("ATOM", "ATOMG", "RED", "REDG")
_KINDS: dict[str, int] = {
    **dict.fromkeys(("LDG", "LDGSTS", "LD"), tables.LOAD),
    **dict.fromkeys(("STG", "ST"), tables.STORE),
    **dict.fromkeys(_ATOMICS, tables.ATOMIC),
    **dict.fromkeys(("LDS", "STS", "ATOMS", "LDSM", "STSM", "REDS"), tables.SHARED),
    **dict.fromkeys(("LDL", "STL"), tables.LOCAL),
    **dict.fromkeys(("LDC", "LDCU", "ULDC"), tables.CONSTANT),
    # Textures, surfaces, bulk copies: they reach global memory by other ways.
    **dict.fromkeys(
        ("TEX", "TLD", "TLD4", "TXD", "SULD", "SUST", "SUATOM", "SURED"), tables.ELSEWHERE
    ),
    **dict.fromkeys(("UTMALDG", "UTMASTG", "UTMAREDG", "UTMAPF"), tables.ELSEWHERE),
    **dict.fromkeys(("UBLKCP", "UBLKRED", "UBLKPF"), tables.ELSEWHERE),
}
DIRECTIONS: dict[int, Direction] = {
    tables.LOAD: "load",
    tables.STORE: "store",
    tables.ATOMIC: "atomic",
}
_GENERIC = ("LD", "ST", "ATOM")
_BYTES = {
    **{str(8 * n): n for n in (1, 2, 4, 8, 16, 32)},
    **dict.fromkeys(("U8", "S8"), 1),
    **dict.fromkeys(("U16", "S16"), 2),
    **{f"U{8 * n}": n for n in (4, 8, 16)},
}
_ATOMIC_BYTES = {"F64": 8, "S64": 8}
_SCOPES_BEYOND_L1 = {"GPU", "SYS"}
_UNCACHED = {"BYPASS", "CG", "CV", "VOLATILE"}


@dataclass(frozen=True)
class Opcode:
    """kind : one of memsim.formats.accel_sim.tables.KINDS, by number
    generic : its addresses determine whether it accesses global, shared or local memory
    size_bytes : of a lane; 4 where the opcode does not say
    bypasses_l1 : a load that L1 may not serve: of GPU or system scope, volatile, `.cg`
    """

    kind: int
    generic: bool
    size_bytes: int
    bypasses_l1: bool


def decode(text: str) -> Opcode:
    """What an opcode such as `LDG.E.64.STRONG.GPU` does; what is unknown does nothing to memory."""
    base, *modifiers = text.split(".")
    words = set(modifiers)
    kind = _KINDS.get(base, tables.OTHER)
    if base == "BAR" and "ARV" not in words:  # an arrival does not wait
        kind = tables.BARRIER
    sizes = _BYTES | (_ATOMIC_BYTES if kind == tables.ATOMIC else {})
    size = next((sizes[word] for word in modifiers if word in sizes), 4)
    strong = "STRONG" in words and bool(words & _SCOPES_BEYOND_L1)
    bypasses = kind == tables.LOAD and (strong or bool(words & _UNCACHED))
    return Opcode(kind, base in _GENERIC, size, bypasses)
