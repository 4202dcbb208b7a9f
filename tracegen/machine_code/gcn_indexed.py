"""Moves between AMD's registers whose number is the sum of that in the text and the value of a scalar register."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tracegen.execution import operations as o
from tracegen.machine_code.gcn_wave import Wave, by_patterns

_MOST = 32
"""Registers of the largest array that the compiler keeps in registers."""
_INDEXED = {"s": ("SRC0",), "d": ("DST",), "sd": ("SRC0", "DST")}


def _mode(wave: Wave, match: re.Match[str]) -> None:
    """`s_set_gpr_idx_on s2, gpr_idx(SRC0)` and `s_set_gpr_idx_off`."""
    wave.indexed = {}
    if match[1] == "on":
        register, operands = wave.parsed.operands
        wave.indexed = dict.fromkeys(re.findall(r"\w+", operands)[1:], register)


def _move(wave: Wave, match: re.Match[str]) -> bool:
    """v_mov_b32 between those two, and v_movreld_b32 and its like, whose index is m0."""
    indexed = dict.fromkeys(_INDEXED[match[2]], "m0") if match[2] else wave.indexed
    if not indexed:
        return False
    if not match[1] or not indexed.keys() <= {"SRC0", "DST"}:
        raise wave.unknown("of an indexed register")
    d, value = wave.result(wave.operand(0)), wave.source(1).row
    if "SRC0" in indexed:
        first, value = value, wave.temporary()
        for k, mask in _places(wave, 1, indexed["SRC0"]):
            wave.emit("SELECT", d=value, a=first + k, b=value, m=mask)
    if "DST" not in indexed:
        wave.emit("MOVE", d=d, a=value)
        return True
    for k, mask in _places(wave, 0, indexed["DST"]):
        wave.emit("SELECT", d=d + k, a=value, b=d + k, m=mask)
    return True


def _places(wave: Wave, operand: int, index: str) -> Iterator[tuple[int, int]]:
    """Each register that an operand may mean, counted from it, with the mask that says whether it does."""
    row, mask = wave.read(index), wave.new_mask()
    for k in range(min(wave.last["v"] - int(wave.operand(operand)[1:]) + 1, _MOST)):
        wave.emit("COMPARE_U", d=mask, a=row, b=wave.constant(k), x=o.EQUAL)
        yield k, 2 * mask


indexed = by_patterns(
    (r"s_set_gpr_idx_(on|off)$", _mode), (r"v_(mov(?:rel(sd|s|d))?_b32$)?", _move)
)
"""Lowers an instruction of this module; False if it is another one."""
