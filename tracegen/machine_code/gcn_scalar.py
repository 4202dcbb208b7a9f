"""Scalar instructions that the table of rules does not describe: flags, masks, bit fields, and the flow of control."""

from __future__ import annotations

import re

from tracegen.execution import operations as o
from tracegen.machine_code.gcn_table import LOGIC
from tracegen.machine_code.gcn_wave import AND, NOT_A, OR, Wave, by_patterns, relation

_ALL = -1
IGNORED = re.compile(
    r"s_(nop|delay_alu|clause|sleep|setprio|set_inst_prefetch_distance|inst_prefetch|sethalt|icache_inv|dcache_inv|dcache_wb"
    r"|code_end|round_mode|wakeup|ttracedata|waitcnt_depctr|sendmsg|incperflevel|decperflevel|version|waitcnt_expcnt"
    r"|wait_alu|wait_event|wait_idle)$"
    r"|buffer_(wbl2|inv|wbinvl1|wbinvl1_vol|gl0_inv|gl1_inv)|global_(wb|inv|wbinv)$|v_nop"
)
"""Instructions that change no register: waits for the pipeline, hints, and caches that this execution does not have."""


def _logic(wave: Wave, match: re.Match[str]) -> bool:
    """Of masks where one is named, else of registers."""
    operation, bits = match[1], int(match[2])
    texts = wave.parsed.operands
    if bits != wave.lanes or not any(wave.is_mask(text) for text in texts):
        if bits == 32:
            return False
        return _logic_of_rows(wave, operation)
    sources = [wave.read_mask(text) for text in texts[1:]]
    d = wave.result_mask(texts[0])
    if operation in ("not", "mov"):
        wave.mask_logic(d, sources[0] ^ (operation == "not"), o.ALWAYS, AND)
    else:
        wave.mask_logic(d, sources[0], sources[1], LOGIC[operation])
    if operation != "mov":
        _mask_to_scc(wave, 2 * d)
    return True


def _logic_of_rows(wave: Wave, operation: str) -> bool:
    texts = wave.parsed.operands
    if operation == "mov":
        return False
    a = wave.read(texts[1], "b64")
    b = wave.read(texts[2], "b64") if len(texts) > 2 else o.ZERO_ROW
    d = wave.result(texts[0], 2)
    for word in (0, 1):
        wave.logic(d + word, a + word, b + word, NOT_A if operation == "not" else LOGIC[operation])
    wave.set_scc(d, 2)
    return True


def _mask_to_scc(wave: Wave, mask: int) -> None:
    wave.emit("VOTE_WHOLE", d=wave.scc >> 1, m=mask)


def _save_exec(wave: Wave, match: re.Match[str]) -> None:
    """s_and_saveexec_b64: the old mask goes to the result; wrexec: the new one does."""
    texts = wave.parsed.operands
    source = wave.read_mask(texts[1])
    d = wave.result_mask(texts[0])
    if source >> 1 == d:
        source = 2 * wave.new_mask()
        wave.mask_logic(source >> 1, 2 * d, o.ALWAYS, AND)
    if match[2] == "saveexec":
        wave.mask_logic(d, wave.exec, o.ALWAYS, AND)
    wave.mask_logic(wave.exec >> 1, source, wave.exec, LOGIC[match[1]])
    if match[2] == "wrexec":
        wave.mask_logic(d, wave.exec, o.ALWAYS, AND)
    _mask_to_scc(wave, wave.exec)


def _select_pair(wave: Wave, match: re.Match[str]) -> None:
    """s_cselect_b64 and s_cmov_b64."""
    texts = wave.parsed.operands
    others = texts[1:] if len(texts) == 3 else (texts[1], texts[0])
    if wave.lanes == 64 and (wave.is_mask(texts[0]) or any(wave.is_mask(text) for text in others)):
        first, second = (wave.read_mask(text) for text in others)
        d = wave.result_mask(texts[0])
        wave.emit("MASK_LOGIC3", d=d, m=wave.scc, n=first, y=second, x=0xCA)
        return
    a, b = (wave.read(text, "b64") for text in others)
    d = wave.result(texts[0], 2)
    for word in (0, 1):
        wave.emit("SELECT", d=d + word, a=a + word, b=b + word, m=wave.scc)


def _compare(wave: Wave, match: re.Match[str]) -> None:
    condition, kind, bits = match[1], match[2], match[3]
    wide = "64" if bits == "64" else ""
    a, b = (
        wave.read(wave.operand(k), "b64" if wide else "f32" if kind == "f" else "b32")
        for k in (0, 1)
    )
    name = "COMPARE_F32" if kind == "f" else f"COMPARE{wide}_{'S' if kind == 'i' else 'U'}"
    wave.emit(name, d=wave.scc >> 1, a=a, b=b, x=relation(condition))


def _test_bit(wave: Wave, match: re.Match[str]) -> None:
    made = wave.temporary(2)
    wide = match[2] == "64"
    a, b = wave.read(wave.operand(0), "b64" if wide else "b32"), wave.read(wave.operand(1))
    wave.emit("SHIFT_RIGHT64_U" if wide else "SHIFT_RIGHT_U", d=made, a=a, b=b, x=o.WRAP)
    wave.logic(made, made, wave.constant(1), AND)
    wanted = o.EQUAL if match[1] == "1" else o.LESS
    wave.emit("COMPARE_U", d=wave.scc >> 1, a=made, b=wave.constant(1), x=wanted)


def _add_signed(wave: Wave, match: re.Match[str]) -> None:
    """Additions and subtractions whose flag is the signed overflow."""
    operands = wave.parsed.operands
    first, second = (operands[0], operands[1]) if match[2] else (operands[1], operands[2])
    a, b = wave.read(first), wave.read(second)
    d, subtracts = wave.result(operands[0]), match[1] == "sub"
    sum_row, wrong = wave.temporary(), wave.temporary()
    wave.emit("ADD3", d=sum_row, a=a, b=b, x=o.NEGATE_B * subtracts)
    # the signs of both operands differ from that of the sum, or, of a difference, a's alone
    wave.logic(wrong, a, b, 0x18 if subtracts else 0x42, sum_row)
    wave.emit("COMPARE_S", d=wave.scc >> 1, a=wrong, x=o.LESS)
    wave.emit("MOVE", d=d, a=sum_row)


def _extreme(wave: Wave, match: re.Match[str]) -> None:
    """s_min and s_max: the flag says whether the first operand was taken."""
    which, kind = match[1], "S" if match[2] == "i" else "U"
    a, b = wave.read(wave.operand(1)), wave.read(wave.operand(2))
    relation = o.LESS if which == "min" else o.GREATER
    wave.emit(f"COMPARE_{kind}", d=wave.scc >> 1, a=a, b=b, x=relation)
    name = "MINIMUM" if which == "min" else "MAXIMUM"
    wave.emit(f"{name}_{kind}", d=wave.result(wave.operand(0)), a=a, b=b)


def _bit_field(wave: Wave, match: re.Match[str]) -> None:
    """s_bfe: bits 0 to 5 of the second operand are the first bit, bits 16 to 22 the number of bits.

    Done as a shift up and a shift down of 64 bits, as 32 and 64 bits may be asked for.
    """
    kind, wide = match[1].upper().replace("I", "S"), match[2] == "64"
    source, field = wave.read(wave.operand(1), "b64"), wave.read(wave.operand(2))
    first, count, value, rest = (wave.temporary(2) for _ in range(4))
    wave.emit("BIT_FIELD_U", d=first, a=field, b=o.ZERO_ROW, c=wave.constant(6 if wide else 5))
    wave.emit("BIT_FIELD_U", d=count, a=field, b=wave.constant(16), c=wave.constant(7))
    wave.emit("MOVE", d=value, a=source)
    if wide:
        wave.emit("MOVE", d=value + 1, a=source + 1)
    elif kind == "S":
        wave.emit("SHIFT_RIGHT_S", d=value + 1, a=source, b=wave.constant(31))
    else:
        wave.emit("MOVE", d=value + 1)
    wave.emit(f"SHIFT_RIGHT64_{kind}", d=value, a=value, b=first)
    wave.emit("ADD3", d=rest, a=wave.constant(64), b=count, x=o.NEGATE_B)
    wave.emit("SHIFT_LEFT64", d=value, a=value, b=rest)
    wave.emit(f"SHIFT_RIGHT64_{kind}", d=value, a=value, b=rest)
    words = 2 if wide else 1
    d = wave.result(wave.operand(0), words)
    wave.emit("MOVE2" if wide else "MOVE", d=d, a=value)
    wave.set_scc(d, words)


def _count_pair(wave: Wave, match: re.Match[str]) -> None:
    """Of 64 bits: how many are set or not, the lowest set bit, or the highest counted from bit 63; -1 where none is."""
    what = match[1]
    low, d = wave.read(wave.operand(1), "b64"), wave.result(wave.operand(0))
    first, second = wave.temporary(), wave.temporary()
    if what.startswith("bcnt"):
        wave.emit("COUNT_ONES", d=first, a=low)
        wave.emit("COUNT_ONES", d=second, a=low + 1)
        wave.emit("ADD3", d=first, a=first, b=second)
        if what == "bcnt0":
            wave.emit("ADD3", d=first, a=wave.constant(64), b=first, x=o.NEGATE_B)
        wave.emit("MOVE", d=d, a=first)
        wave.set_scc(d)
        return
    name, x, near, far = ("LOWEST_BIT", 0, low, low + 1)
    if what in ("flbit", "clz"):
        name, x, near, far = "HIGHEST_BIT", 1, low + 1, low
    wave.emit(name, d=first, a=near, x=x)
    wave.emit(name, d=second, a=far, x=x)
    wave.logic(second, second, wave.constant(32), OR)  # of -1 it is still -1
    wave.emit("MINIMUM_U", d=d, a=first, b=second)


def _reverse_pair(wave: Wave, match: re.Match[str]) -> None:
    source, made, d = (
        wave.read(wave.operand(1), "b64"),
        wave.temporary(2),
        wave.result(wave.operand(0), 2),
    )
    for word in (0, 1):
        wave.emit("REVERSE_BITS", d=made + word, a=source + 1 - word)
    wave.emit("MOVE2", d=d, a=made)


def _mask_of_bits(wave: Wave, match: re.Match[str]) -> None:
    """s_bfm_b64: so many ones from a bit on."""
    count, first = wave.read(wave.operand(1)), wave.read(wave.operand(2))
    made, rest = wave.temporary(2), wave.temporary()
    wave.logic(rest, count, wave.constant(63), AND)
    wave.emit("SHIFT_LEFT64", d=made, a=wave.constant(_ALL, 2), b=rest)
    for word in (0, 1):
        wave.logic(made + word, made + word, o.ZERO_ROW, NOT_A)
    wave.emit("SHIFT_LEFT64", d=wave.result(wave.operand(0), 2), a=made, b=first, x=o.WRAP)


def _whole_quads(wave: Wave, match: re.Match[str]) -> None:
    """s_wqm: the four bits of each quad are set where one of them is."""
    words = 2 if match[1] == "64" else 1
    source, d = wave.read(wave.operand(1), "b64"), wave.result(wave.operand(0), words)
    for word in range(words):
        made, shifted = wave.temporary(), wave.temporary()
        wave.emit("MOVE", d=made, a=source + word)
        for by in (1, 2):
            wave.emit("SHIFT_RIGHT_U", d=shifted, a=made, b=wave.constant(by))
            wave.logic(made, made, shifted, OR)
        wave.logic(made, made, wave.constant(0x11111111), AND)
        wave.emit("MULTIPLY_ADD", d=d + word, a=made, b=wave.constant(15))
    wave.set_scc(d, words)


def _set_mode(wave: Wave, match: re.Match[str]) -> None:
    """Whether subnormal floats are kept, and whether conversions to floats of 8 bits saturate, from here on in the order of the text;
    compilers change no other mode."""
    found = re.match(r"hwreg\(HW_REG_MODE,(\d+),(\d+)\)", wave.operand(0))
    if found is None:
        raise wave.unknown("a register of the hardware")
    first, count = int(found[1]), int(found[2])
    if first <= 4 < first + count:
        wave.flush = 0 if int(wave.operand(1), 0) >> (4 - first) & 3 else o.FLUSH
    if first <= 23 < first + count:
        wave.saturates = bool(int(wave.operand(1), 0) >> (23 - first) & 1)


def _denormal_mode(wave: Wave, match: re.Match[str]) -> None:
    wave.flush = 0 if int(wave.operand(0), 0) & 3 else o.FLUSH


scalar = by_patterns(
    (rf"s_({'|'.join(LOGIC)}|not|mov)_b(32|64)$", _logic),
    (rf"s_({'|'.join(LOGIC)})_(saveexec|wrexec)_b(32|64)$", _save_exec),
    (r"s_(cselect|cmov)_b64$", _select_pair),
    (r"s_cmpk?_(eq|lg|ne|gt|ge|lt|le)_([iu])(32|64)$", _compare),
    (r"s_cmp_(n?(?:lt|eq|le|gt|lg|ge)|[ou])_(f)(32)$", _compare),
    (r"s_bitcmp([01])_b(32|64)$", _test_bit),
    (r"s_(add|sub)(k?)_(?:co_)?i32$", _add_signed),
    (r"s_(min|max)_([iu])32$", _extreme),
    (r"s_bfe_([iu])(32|64)$", _bit_field),
    (r"s_(bcnt0|bcnt1|ff1|ctz|flbit|clz)_i32_[bu]64$", _count_pair),
    (r"s_brev_b64$", _reverse_pair),
    (r"s_bfm_b64$", _mask_of_bits),
    (r"s_wqm_b(32|64)$", _whole_quads),
    (r"s_setreg_imm32_b32$", _set_mode),
    (r"s_denorm_mode$", _denormal_mode),
)
"""Lowers a scalar instruction that is not in the table; False if it is none of these either."""
