"""Which registers a GCN instruction reads and writes.

Operands name all registers of a group, so that only results and sources must be distinguished.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache

from tracegen.compiled.amd.gcn_opcodes import returns_value

_REGISTER = re.compile(
    r"(?<![\w.:])(?:(?P<kind>[vsa])(?:(?P<one>\d+)|\[(?P<first>\d+):(?P<last>\d+)\])"
    r"|(?P<named>vcc|exec)(?P<half>_lo|_hi)?)(?![\w\[])"
)
_OPERAND = re.compile(r"(?:\[[^\]]*\]|\([^)]*\)|\|[^|]*\||[^,\[(|])+")
_NO_RESULT = re.compile(
    r"(global|flat|scratch|buffer|tbuffer)_(store|wb|inv|load_lds)|ds_(write|store|gws)|s_store"
    r"|s_(cmp|cmpk|bitcmp|branch|cbranch|endpgm|setpc|wait|nop|barrier|sleep|setprio|sendmsg|setreg"
    r"|delay_alu|clause|set_inst|inst_prefetch|icache|dcache|trap|code_end|ttrace|setvskip)"
)
_ATOMIC = re.compile(
    r"(global|flat|scratch|buffer)_atomic"
    r"|ds_(add|sub|rsub|inc|dec|min|max|and|or|xor|mskor|cmp|wrx|condxchg|pk_)"
)
_CARRY = re.compile(r"v_(add|sub|subrev|addc|subb|subbrev)_(co_|co_ci_|nc_)?u32")
_TWO_RESULTS = re.compile(r"v_(div_scale|mad_(co_)?[ui]64)")
_UPDATES = re.compile(
    r"v_(dual_)?(pk_)?(fmac|mac|dot\d\w*c|writelane|swap)_|s_(addk|mulk|cmov|cmovk|bitset\d)_"
    r"|\w+_(sdwa|dpp|dpp8|d16_hi)$"
)
_EXEC = re.compile(r"s_\w*saveexec|v_cmpx")


def registers(opcode: str, operands: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Reads and writes as single registers: `v2`, `s4`, `a0`, `vcc_lo`. The flag scc is left out."""
    reads: list[str] = []
    writes: list[str] = []
    first, _, second = operands.partition("::")
    _add(opcode, first, reads, writes)
    if second:  # v_dual_mov_b32 v2, v3 :: v_dual_add_f32 v4, v5, v6
        _add(*_first_word(second), reads, writes)
    return tuple(dict.fromkeys(reads)), tuple(dict.fromkeys(writes))


@lru_cache(maxsize=1 << 14)
def split_operands(operands: str) -> tuple[str, ...]:
    """The operands between top-level commas."""
    return tuple(operand.strip() for operand in _OPERAND.findall(operands) if operand.strip())


def _first_word(text: str) -> tuple[str, str]:
    opcode, _, operands = text.strip().partition(" ")
    return opcode, operands


def _add(opcode: str, operands: str, reads: list[str], writes: list[str]) -> None:
    listed = split_operands(operands)
    n_results = _result_count(opcode, operands, listed)
    for index, operand in enumerate(listed):
        (writes if index < n_results else reads).extend(names(operand))
    if _UPDATES.match(opcode) and n_results:
        reads.extend(names(listed[0]))
    if "v_swap" in opcode:
        writes.extend(names(listed[1]))
    if _EXEC.match(opcode):
        writes.extend(names("exec"))


def _result_count(opcode: str, operands: str, listed: Sequence[str]) -> int:
    if _NO_RESULT.match(opcode):
        return 0
    if _ATOMIC.match(opcode):
        return 1 if returns_value(opcode, operands) else 0
    if opcode.startswith("v_cmpx") and len(listed) < 3:
        return 0
    if _TWO_RESULTS.match(opcode) or (_CARRY.match(opcode) and len(listed) >= 4):
        return 2
    return 1


@lru_cache(maxsize=1 << 14)
def names(operand: str) -> tuple[str, ...]:
    """The registers of an operand, with or without modifiers: `-v[2:3]`, `|v4|`, `vcc`."""
    return tuple(_names(operand))


def _names(operand: str) -> Iterator[str]:
    for match in _REGISTER.finditer(operand):
        if match["named"]:
            halves = [match["half"]] if match["half"] else ["_lo", "_hi"]
            yield from (match["named"] + half for half in halves)
        elif match["one"]:
            yield match["kind"] + match["one"]
        else:
            first, last = int(match["first"]), int(match["last"])
            yield from (f"{match['kind']}{number}" for number in range(first, last + 1))
