"""Branches, calls, waits and barriers of AMD's sub-groups, and addresses of code and data."""

from __future__ import annotations

import re

from tracegen.execution import operations as o
from tracegen.machine_code.gcn_wave import Wave, by_patterns

_SYMBOL = re.compile(r"([\w$.]+)@(rel32|gotpcrel32|abs32)@(lo|hi)(?:\+(\d+))?$")
_COUNTERS = {
    "vm": 0,
    "loadcnt": 0,
    "loadcnt_dscnt": 0,
    "lgkm": 1,
    "kmcnt": 1,
    "vs": 2,
    "vscnt": 2,
    "storecnt": 2,
}
"""Name in the text -> x of WAIT_COUNT. Others count what has arrived here at once, as local memory's."""


def _jump(wave: Wave, m: int = o.ALWAYS) -> None:
    wave.out.emit("BRANCH", m=m, label=str(wave.successors[0]))


def _branch(wave: Wave, match: re.Match[str]) -> None:
    """s_branch, s_cbranch_scc1, s_cbranch_execz and so on; exec and vcc are tested whole."""
    what = match[1]
    if not what:
        _jump(wave)
    elif what.startswith("scc"):
        _jump(wave, wave.scc | (what == "scc0"))
    else:
        mask = wave.new_mask()
        wave.emit("VOTE_WHOLE", d=mask, m=wave.exec if what.startswith("exec") else wave.vcc)
        _jump(wave, 2 * mask | (not what.endswith("nz")))


def _set_counter(wave: Wave, match: re.Match[str]) -> None:
    """s_setpc_b64: a jump that is too far for s_branch, or the return from a function to one of its calls."""
    if len(wave.successors) == 1:
        _jump(wave)
    else:
        wave.emit("RETURN", a=wave.read(wave.operand(0), "b64"))


def _call(wave: Wave, match: re.Match[str]) -> None:
    """s_swappc_b64: the address behind it goes to the result."""
    if len(wave.successors) != 1:
        raise wave.unknown("a call through a pointer")
    d = wave.result(wave.operand(0), 2)
    wave.emit("MOVE2", d=d, a=wave.constant(16 * (wave.number + 1), 2))
    _jump(wave)


def _counter(wave: Wave, match: re.Match[str]) -> None:
    """s_getpc_b64 counts as 0: what is added to it afterwards is a whole address."""
    wave.counter_read = wave.number
    wave.emit("MOVE2", d=wave.result(wave.operand(0), 2), a=o.ZERO_ROW)


def _address(wave: Wave, match: re.Match[str]) -> bool:
    """`s_add_u32 s8, s8, taps@rel32@lo+4` and `s_addc_u32 s9, s9, taps@rel32@hi+12`, `s_mov_b32 s0, taps@abs32@lo`.

    The registers get the address of the symbol; the entry of the global offset table that has it counts as itself. The
    number that is added to a symbol has the bytes from behind s_getpc_b64 to that number: instructions in between, among
    them s_sext_i32_i16 from gfx12 on, have four bytes each, and additions of numbers eight.
    """
    operands = wave.parsed.operands
    symbol = _SYMBOL.match(operands[-1])
    if symbol is None:
        if ".Lpost_getpc" not in operands[-1]:
            return False
        wave.emit("MOVE", d=wave.result(operands[0]), a=o.ZERO_ROW)
        return True
    name, how, half, added = symbol[1], symbol[2], symbol[3], int(symbol[4] or 0)
    between = wave.number - wave.counter_read - 1
    offset = added - (0 if how == "abs32" else 4 * (between + (1 if half == "lo" else 2)))
    d = wave.result(operands[0])
    if name in wave.functions:
        place = 16 * wave.functions[name]
        wave.emit("MOVE", d=d, a=wave.constant(place if half == "lo" else 0))
        return True
    if how == "gotpcrel32":
        wave.table_entries.add(operands[0])
        offset = 0
    pair = wave.out.symbol(name)
    if not offset:
        wave.emit("MOVE", d=d, a=pair + (half == "hi"))
        return True
    total = wave.temporary(2)
    wave.emit("ADD64", d=total, a=pair, b=wave.constant(offset, 2))
    wave.emit("MOVE", d=d, a=total + (half == "hi"))
    return True


def _table_entry(wave: Wave, match: re.Match[str]) -> bool:
    """`s_load_dwordx2 s[8:9], s[8:9], 0x0` of the global offset table brings an address that is known already."""
    operands = wave.parsed.operands
    first = re.match(r"s\[(\d+):", operands[1])
    if first is None or f"s{first[1]}" not in wave.table_entries:
        return False
    wave.table_entries.discard(f"s{first[1]}")
    wave.emit("MOVE2", d=wave.result(operands[0], 2), a=wave.read(operands[1], "b64"))
    return True


def _wait(wave: Wave, match: re.Match[str]) -> None:
    """s_waitcnt vmcnt(0) lgkmcnt(0), and the waits of gfx11 and gfx12 for one counter each."""
    text = " ".join((*wave.parsed.operands, *wave.parsed.modifiers))
    counts = {name: int(value) for name, value in re.findall(r"(\w+)cnt\((\d+)\)", text)}
    if match[1]:
        value = int(wave.parsed.operands[-1], 0)
        counts = {match[1]: value >> 8 & 63 if match[1] == "loadcnt_dscnt" else value}
    for name in counts.keys() & _COUNTERS.keys():
        wave.emit("WAIT_COUNT", x=_COUNTERS[name], y=counts[name])


def _barrier(wave: Wave, match: re.Match[str]) -> None:
    """s_barrier; of the two that gfx12 has instead, the second one waits."""
    if match[1] != "_signal":
        wave.emit("BARRIER")


def _end(wave: Wave, match: re.Match[str]) -> None:
    wave.emit("EXIT")


def _trap(wave: Wave, match: re.Match[str]) -> None:
    wave.emit("TRAP", y=0)


def _clock(wave: Wave, match: re.Match[str]) -> None:
    wave.emit("CLOCK", d=wave.result(wave.operand(0), 2))


def _hardware_register(wave: Wave, match: re.Match[str]) -> None:
    if "HW_REG_SHADER_CYCLES" not in " ".join(wave.parsed.operands):
        raise wave.unknown()
    clock = wave.temporary(2)
    wave.emit("CLOCK", d=clock)
    wave.emit("MOVE", d=wave.result(wave.operand(0)), a=clock)


control = by_patterns(
    (r"s_(?:c?branch)(?:_(scc[01]|vccn?z|execn?z))?$", _branch),
    (r"s_(?:add|addc|mov|add_co|add_co_ci)_[ub]32$", _address),
    (r"s_load_(dwordx2|b64)$", _table_entry),
    (r"s_wait(?:cnt)?(?:_(\w+))?$", _wait),
    (r"s_barrier(_signal|_wait)?$", _barrier),
    (r"s_endpgm(_saved)?$", _end),
    (r"s_setpc_b64$", _set_counter),
    (r"s_swappc_b64$", _call),
    (r"s_getpc_b64$", _counter),
    (r"s_trap$", _trap),
    (r"s_mem(?:real)?time$", _clock),
    (r"s_getreg_b32$", _hardware_register),
)
"""Lowers an instruction of this module; False if it is another one."""
