"""Vector instructions on pairs of numbers, with sources of mixed width, and on bytes."""

from __future__ import annotations

import re

from tracegen.execution import operations as o
from tracegen.machine_code.gcn_arithmetic import apply_rule
from tracegen.machine_code.gcn_table import RULES
from tracegen.machine_code.gcn_text import number
from tracegen.machine_code.gcn_wave import AND, OR, Wave, by_patterns

_OPERATIONS = {
    "add": "ADD",
    "mul": "MULTIPLY",
    "fma": "FUSED",
    "fmac": "FUSED",
    "min": "MINIMUM",
    "max": "MAXIMUM",
}


def _selected(wave: Wave, n: int) -> list[tuple[int, int]]:
    """Of each source, which half the low and the high result take."""
    low, high = wave.parsed.listed("op_sel", (0,) * n), wave.parsed.listed("op_sel_hi", (1,) * n)
    return list(zip(low, high, strict=False))[:n]


def _floats(wave: Wave, match: re.Match[str]) -> None:
    """Two floats at once, in pairs of registers."""
    n = len(wave.parsed.operands) - 1
    selected = _selected(wave, n)
    pairs = [_pair(wave, wave.operand(1 + k)) for k in range(n)]
    made = wave.temporary(2)
    for half, modifier in enumerate(("neg_lo", "neg_hi")):
        rows = [pair + which[half] for pair, which in zip(pairs, selected, strict=True)]
        if match[1] == "mov":
            wave.emit("MOVE", d=made + half, a=pairs[half] + selected[half][0])
            continue
        x = wave.flush | sum(
            o.NEGATE_A << k for k, on in enumerate(wave.parsed.listed(modifier, (0,) * n)) if on
        )
        x |= o.SATURATE * ("clamp" in wave.parsed.modifiers)
        wave.emit(
            f"{_OPERATIONS[match[1]]}_F32",
            d=made + half,
            x=x,
            **dict(zip("abc", rows, strict=False)),
        )
    wave.emit("MOVE2", d=wave.result(wave.operand(0), 2), a=made)


def _pair(wave: Wave, text: str) -> int:
    """Two rows; a constant is in both."""
    value = number(text, "f32")
    return wave.read(text, "b64") if value is None else wave.constant(value | value << 32, 2)


def _halves(wave: Wave, match: re.Match[str]) -> None:
    """Two numbers of half precision in one register."""
    indices = [1, 2, 0] if match[1] == "fmac" else list(range(1, len(wave.parsed.operands)))
    n = len(indices)
    low, high = (wave.parsed.listed(name, (0,) * n) for name in ("neg_lo", "neg_hi"))
    x = o.BF16 * (match[2] == "bf16") | o.SATURATE * ("clamp" in wave.parsed.modifiers)
    rows = []
    for k, (index, which) in enumerate(zip(indices, _selected(wave, n), strict=True)):
        row = wave.source(index, "f16").row
        if which == (1, 0):
            swapped = wave.temporary()
            wave.emit("FUNNEL_RIGHT", d=swapped, a=row, b=wave.constant(16), c=row)
            row = swapped
        rows.append(row)
        x |= {(0, 0): 1, (1, 1): 2}.get(which, 0) << (o.HALVES_A, o.HALVES_B, o.HALVES_C)[k]
        x |= (o.NEGATE_A << k) * low[k] | (o.NEGATE_HIGH_A << k) * (low[k] != high[k])
    d = wave.result(wave.operand(0))
    wave.emit(f"{_OPERATIONS[match[1]]}_F16", d=d, x=x, **dict(zip("abc", rows, strict=False)))


def _integers(wave: Wave, match: re.Match[str]) -> None:
    """Two 16-bit integers in one register: done one after another by the rule of the single instruction."""
    rule = RULES.get(f"v_{match[1]}")
    if rule is None or "clamp" in wave.parsed.modifiers:
        raise wave.unknown()
    n = len(wave.parsed.operands) - 1
    selected, whole, results = _selected(wave, n), wave.parsed, []
    d = wave.result(wave.operand(0))
    for half in (0, 1):
        made = wave.temporary()
        wave.names["half"] = made
        chosen = ",".join(str(which[half]) for which in selected)
        wave.parsed = whole.with_operands(("half", *whole.operands[1:]), {"op_sel": f"[{chosen}]"})
        wave.forget()
        apply_rule(wave, rule)
        results.append(made)
    wave.end()
    wave.pending.clear()
    wave.emit("PERMUTE_BYTES", d=d, a=results[0], b=results[1], c=wave.constant(0x5410))


def _mixed(wave: Wave, match: re.Match[str]) -> None:
    """A product and sum of floats; op_sel_hi says which sources are halves, op_sel which ones, and |a| and -a are as elsewhere."""
    rows, x = [], wave.flush
    low, is_half = (
        wave.parsed.listed("op_sel", (0, 0, 0)),
        wave.parsed.listed("op_sel_hi", (0, 0, 0)),
    )
    negated = wave.parsed.listed("neg_lo", (0, 0, 0))
    absolute = wave.parsed.listed("neg_hi", (0, 0, 0))
    for k in range(3):
        source = wave.source(1 + k, "f16" if is_half[k] else "f32")
        row = source.row
        if is_half[k]:
            row = wave.temporary()
            wave.emit(
                "CONVERT", d=row, a=source.row, x=o.F16 | o.F32 << 4 | low[k] << o.SOURCE_PART
            )
        rows.append(row)
        x |= o.NEGATE_A << k if source.negate != bool(negated[k]) else 0
        x |= o.ABSOLUTE_A << k if source.absolute or absolute[k] else 0
    x |= o.SATURATE * ("clamp" in wave.parsed.modifiers)
    d = wave.result(wave.operand(0))
    if not match[1]:
        wave.emit("FUSED_F32", d=d, x=x, a=rows[0], b=rows[1], c=rows[2])
        return
    made = wave.temporary()
    wave.emit("FUSED_F32", d=made, x=x, a=rows[0], b=rows[1], c=rows[2])
    wave.emit("CONVERT", d=made, a=made, x=o.F32 | o.F16 << 4)
    chosen = 0x3254 if match[1] == "lo" else 0x5410
    wave.emit("PERMUTE_BYTES", d=d, a=d, b=made, c=wave.constant(chosen))


def _dot_halves(wave: Wave, match: re.Match[str]) -> None:
    """v_dot2: the products of two halves each are added to a float, one after another."""
    d, accumulates = wave.result(wave.operand(0)), bool(match[1])
    made, left, right = (wave.temporary() for _ in range(3))
    wave.emit("MOVE", d=made, a=d if accumulates else wave.source(3, "f32").row)
    kind = o.BFLOAT16 if "bf16" in wave.parsed.opcode else o.F16
    for half in (0, 1):
        for row, index in ((left, 1), (right, 2)):
            wave.emit(
                "CONVERT",
                d=row,
                a=wave.source(index, "f16").row,
                x=kind | o.F32 << 4 | half << o.SOURCE_PART,
            )
        wave.emit("FUSED_F32", d=made, a=left, b=right, c=made)
    wave.emit("MOVE", d=d, a=made)


def _dot_bytes(wave: Wave, match: re.Match[str]) -> None:
    """v_dot4_i32_iu8: neg_lo tells which factors have a sign."""
    signs = wave.parsed.listed("neg_lo", (0, 0, 0))
    left, right, added = (wave.read(wave.operand(k)) for k in (1, 2, 3))
    x = signs[0] | signs[1] << 1
    wave.emit("DOT4", d=wave.result(wave.operand(0)), a=left, b=right, c=added, x=x)


def _permute_bytes(wave: Wave, match: re.Match[str]) -> None:
    """v_perm_b32: byte k of the third source chooses: 0 to 3 of the second, 4 to 7 of the first, 8 to 11 the sign of byte 1, 3, 5
    or 7 of both, 12 zero, more 255."""
    high, low, choice = (wave.source(k).row for k in (1, 2, 3))
    chosen, nibbles, part = (wave.temporary() for _ in range(3))
    special = _bytes_with_bit(wave, choice, 3)
    wave.emit("SHIFT_LEFT", d=part, a=choice, b=wave.constant(1))
    wave.logic(part, part, wave.constant(0x06060606), AND)
    wave.logic(part, part, wave.constant(0x09090909), OR)
    wave.logic(chosen, choice, wave.constant(0x07070707), AND)
    wave.logic(chosen, special, part, 0xCA, chosen)
    wave.logic(nibbles, chosen, wave.constant(15), AND)
    for byte in (1, 2, 3):
        wave.emit("SHIFT_RIGHT_U", d=part, a=chosen, b=wave.constant(4 * byte))
        wave.logic(part, part, wave.constant(15 << 4 * byte), AND)
        wave.logic(nibbles, nibbles, part, OR)
    wave.emit("PERMUTE_BYTES", d=nibbles, a=low, b=high, c=nibbles)
    wave.logic(special, special, _bytes_with_bit(wave, choice, 2), AND)
    ones = _bytes_with_bit(wave, choice, 0)
    wave.logic(ones, ones, _bytes_with_bit(wave, choice, 1), OR)
    wave.logic(wave.result(wave.operand(0)), special, ones, 0xCA, nibbles)


def _bytes_with_bit(wave: Wave, row: int, bit: int) -> int:
    """A row with 255 in each byte that has this bit, and else 0."""
    made = wave.temporary()
    wave.emit("SHIFT_RIGHT_U", d=made, a=row, b=wave.constant(bit))
    wave.logic(made, made, wave.constant(0x01010101), AND)
    wave.emit("MULTIPLY_ADD", d=made, a=made, b=wave.constant(255))
    return made


packed = by_patterns(
    (r"v_pk_(add|mul|fma|mov)_[fb]32$", _floats),
    (r"v_pk_(add|mul|fma|fmac|min|max)(?:_num)?_(f16|bf16)$", _halves),
    (r"v_pk_(\w+_[uib]16)$", _integers),
    (r"v_(?:mad|fma)_mix(lo|hi)?_(?:f32|f16)(?:_f16)?$", _mixed),
    (r"v_dot2(c|acc)?_f32_b?f16$", _dot_halves),
    (r"v_dot4_i32_iu8$", _dot_bytes),
    (r"v_perm_b32$", _permute_bytes),
)
"""Lowers an instruction of this module; False if it is another one."""
