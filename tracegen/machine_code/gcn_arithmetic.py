"""Instructions that the table of rules describes, and comparisons: rows in, rows and masks out."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from tracegen.execution import operations as o
from tracegen.execution.operations import OPERATIONS
from tracegen.machine_code.gcn_table import RULES, Rule, Step
from tracegen.machine_code.gcn_text import Kind
from tracegen.machine_code.gcn_wave import AND, OR, Source, Wave, relation

_FLOATING = re.compile(r"(ADD|MULTIPLY|FUSED|MINIMUM|MAXIMUM)_(F16|F32|F64)$")
_SCALES = {"mul:2": 2.0, "mul:4": 4.0, "div:2": 0.5}
_COMPARISON = re.compile(r"v_cmp(x?)_(n?(?:lt|eq|le|gt|lg|ge)|ne|tru?|[ouft])_([fiu])(16|32|64)$")
_CLASS = re.compile(r"v_cmp(x?)_class_f(16|32|64)$")
_KINDS: dict[str, Kind] = {"F16": "f16", "F32": "f32", "F64": "f64", "U64": "b64", "S64": "i64"}


@lru_cache(maxsize=1024)
def _kind(step: Step, field: str) -> Kind:
    """How a source of a micro-operation is meant."""
    if step.name == "CONVERT":
        return _KINDS.get(step.conversion[0], "b32")
    scale = step.name.startswith("SCALE_") and field == "b"
    if step.name.endswith(("_F16", "_F32", "_F64")) and step.name != "PACK_F16" and not scale:
        return _KINDS[step.name[-3:]]
    if step.name == "PACK_F16":
        return "f32"
    wide = OPERATIONS[step.name].rows_read[field] == 2
    return "i64" if wide and step.name.endswith("_S") else "b64" if wide else "b32"


def _width(step: Step) -> int:
    """Rows of a result."""
    if step.name == "CONVERT":
        return 2 if step.conversion[1].endswith("64") else 1
    return int(step.modifiers.get("w", OPERATIONS[step.name].rows_written.get("d", 0)))


def apply_rule(wave: Wave, rule: Rule) -> None:
    """The micro-operations of an instruction that the table has."""
    results: dict[str, int] = {}
    wave.first_source = (
        2 if any("e" in s.modifiers for s in rule.steps) and wave.unit == "vector" else 1
    )
    for step in rule.steps:
        _apply(wave, rule, step, results)


def _apply(wave: Wave, rule: Rule, step: Step, results: dict[str, int]) -> None:
    fields: dict[str, int] = {}
    x, last = step.x(), not step.result
    for field, text in zip(OPERATIONS[step.name].rows_read, step.sources, strict=False):
        fields[field], signs = _source(wave, rule, step, field, text, results)
        x |= signs
    if match := _FLOATING.match(step.name):
        x |= wave.flush if match[2] == "F32" else 0
    for field in ("m", "e"):
        if name := step.modifiers.get(field):
            fields[field] = _mask(wave, name, field == "e")
    y = step.y()
    if y is not None:
        fields["y"] = y
    words = _width(step)
    d = results[step.result] = wave.temporary(words) if not last else 0
    if last:
        x |= _clamp(wave, step)
        target = int(step.modifiers.get("d", 0))
        d = result_row(wave, target, words, rule.half if rule.half[-2:] != "32" else "")
    wave.emit(step.name, d=d, x=x, **fields)
    if "e" in step.modifiers and wave.guard != o.ALWAYS and wave.tests_whole_masks:
        wave.mask_logic(
            fields["e"], 2 * fields["e"], wave.guard, AND
        )  # lanes that rest carry nothing
    if last:
        _scale(wave, step, d)
    if step.sets_scc:
        wave.set_scc(d, words)


def _source(
    wave: Wave, rule: Rule, step: Step, field: str, text: str, results: dict[str, int]
) -> tuple[int, int]:
    """The row of a source, and the modifiers of its sign."""
    negate = text.startswith("-")
    text = text.lstrip("-")
    kind = _kind(step, field)
    place = "abc".index(field)
    if text in results:
        return results[text], o.NEGATE_A << place if negate else 0
    if text == "_":
        return o.ZERO_ROW, 0
    if text.startswith("#"):
        return wave.constant(int(text[1:], 0)), 0
    halved = rule.half[1:2] in ("u", "s", "f")
    source = half_source(wave, int(text), rule.half) if halved else wave.source(int(text), kind)
    negate ^= source.negate
    if step.name == "CONVERT":
        signs = (o.NEGATE_SOURCE if negate else 0) | (o.ABSOLUTE_SOURCE if source.absolute else 0)
        return source.row, signs
    takes_signs = _FLOATING.match(step.name) or step.name in ("SELECT", "SPECIAL", "SPECIAL_F64")
    if takes_signs or not source.negate:
        signs = (o.NEGATE_A << place if negate else 0) | (
            o.ABSOLUTE_A << place if source.absolute else 0
        )
        if takes_signs or not source.absolute:
            return source.row, signs
    return wave.plain(source, kind), 0


def half_source(wave: Wave, index: int, half: str) -> Source:
    """A 16-bit operand: integers are extended to 32 bits, floating-point numbers are in the low half."""
    source = wave.source(index, "f16")
    high = wave.parsed.listed("op_sel", (0, 0, 0, 0))[index - wave.first_source] if index else 0
    if half[1] == "f":
        return source._replace(row=wave.part(source.row, "WORD_1")) if high else source
    return Source(wave.part(source.row, f"WORD_{high}", half[1] == "s"))


def _mask(wave: Wave, name: str, is_result: bool) -> int:
    negated = name.startswith("!")
    name = name.lstrip("!")
    if name == "scc":
        return wave.scc >> 1 if is_result else wave.scc | negated
    if name == "vcc":
        return wave.vcc
    text = wave.operand(int(name))
    return wave.result_mask(text, of_active=True) if is_result else wave.read_mask(text) | negated


def _clamp(wave: Wave, step: Step) -> int:
    modifiers = wave.parsed.modifiers
    if "clamp" not in modifiers:
        return 0
    if not _FLOATING.match(step.name) and step.name != "SPECIAL":
        raise wave.unknown("clamp of this operation")
    return 0 if _scaling(wave) else o.SATURATE


def _scaling(wave: Wave) -> float | None:
    found = [_SCALES[f"{k}:{v}"] for k, v in wave.parsed.modifiers.items() if f"{k}:{v}" in _SCALES]
    return found[0] if found else None


def _scale(wave: Wave, step: Step, d: int) -> None:
    """The result of a floating-point operation times 2, times 4 or halved (omod)."""
    by = _scaling(wave)
    if by is None:
        return
    if not step.name.endswith("_F32"):
        raise wave.unknown("an output modifier of this operation")
    factor = wave.read(str(by), "f32")
    wave.emit("MULTIPLY_F32", d=d, a=d, b=factor, x=o.SATURATE * ("clamp" in wave.parsed.modifiers))


def result_row(wave: Wave, index: int, words: int = 1, half: str = "") -> int:
    """The row of a result, or one from which its part is taken when the instruction ends.

    half : not empty where the result has 16 bits
    """
    d = wave.result(wave.operand(index), words)
    selected = wave.parsed.modifiers.get("dst_sel", "DWORD")
    if selected == "DWORD" and not half:
        return d
    made = wave.temporary()
    high = wave.parsed.listed("op_sel", (0,) * 5)[len(wave.parsed.operands) - 1] if half else 0
    if selected == "DWORD":
        selected = f"WORD_{high}"
    unused = wave.parsed.modifiers.get("dst_unused", "UNUSED_PAD")
    if half and (high or wave.generation > 9):
        unused = "UNUSED_PRESERVE"
    wave.pending.append(lambda: _place(wave, d, made, selected, unused))
    return made


def _place(wave: Wave, d: int, made: int, selected: str, unused: str) -> None:
    """Puts the low bits of a row into a byte or half of another one."""
    bits, number = (8 if selected.startswith("BYTE") else 16), int(selected[-1])
    field = ((1 << bits) - 1) << bits * number
    if unused == "UNUSED_SEXT" and number == 0:
        wave.emit("SIGN_EXTEND_AT", d=d, a=made, b=wave.constant(bits))
        return
    if unused == "UNUSED_SEXT":
        raise wave.unknown("sign extension of a higher part")
    if number:
        wave.emit("SHIFT_LEFT", d=made, a=made, b=wave.constant(bits * number))
    if unused == "UNUSED_PRESERVE":
        wave.logic(d, wave.constant(field), made, 0xCA, d)
    else:
        wave.logic(d, made, wave.constant(field), AND)


# --- comparisons --------------------------------------------------------------------------------------
def compare(wave: Wave) -> bool:
    """v_cmp and v_cmpx: the bits of inactive lanes are 0. False if the instruction is another one."""
    opcode = wave.parsed.opcode
    match, of_class = _COMPARISON.match(opcode), _CLASS.match(opcode)
    if match is None and of_class is None:
        return False
    writes_exec = (match or of_class)[1] == "x"  # type: ignore[index]
    listed = len(wave.parsed.operands)
    a = wave.first_source = listed - 2
    named = listed == 3 and not (writes_exec and wave.generation > 9)
    mask = wave.result_mask(wave.operand(0)) if named else wave.new_mask()
    if match is not None:
        _relation(wave, mask, match[2], match[3], int(match[4]), a, a + 1)
    elif of_class is not None:
        kind = _KINDS[f"F{of_class[2]}"]
        row, chosen = wave.plain(wave.source(a, kind), kind), wave.source(a + 1).row
        if kind == "f16":
            kind, row = "f32", _class_as_float(wave, row)
        wave.emit(f"CLASS_{kind.upper()}", guard=o.ALWAYS, d=mask, a=row, b=chosen)
        wave.mask_logic(mask, 2 * mask, wave.guard, AND)
    if writes_exec:
        wave.mask_logic(wave.exec >> 1, 2 * mask, wave.exec, AND)
    return True


def _class_as_float(wave: Wave, half: int) -> int:
    """A float of the same class as a half: its exponent is all ones, or none, where the half's is."""
    made, sign, mask = wave.temporary(), wave.temporary(), wave.new_mask()
    infinite = wave.constant(0x1F << 23)
    wave.emit("SHIFT_LEFT", guard=o.ALWAYS, d=made, a=half, b=wave.constant(13))
    wave.emit("SHIFT_LEFT", guard=o.ALWAYS, d=sign, a=half, b=wave.constant(16))
    wave.emit("LOGIC3", guard=o.ALWAYS, d=made, a=made, b=wave.constant((1 << 28) - 1), y=AND)
    wave.emit("COMPARE_U", guard=o.ALWAYS, d=mask, a=made, b=infinite, x=o.GREATER | o.EQUAL)
    wave.emit("LOGIC3", guard=o.ALWAYS, d=sign, a=sign, b=wave.constant(1 << 31), c=made, y=0xEA)
    wave.emit("LOGIC3", guard=2 * mask, d=sign, a=sign, b=wave.constant(7 << 28), y=OR)
    return sign


def _relation(wave: Wave, mask: int, condition: str, kind: str, bits: int, a: int, b: int) -> None:
    x = relation(condition)
    unsigned, wide = ("U" if kind == "u" else "S"), "64" * (bits == 64)
    name = f"COMPARE_F{bits}" if kind == "f" else f"COMPARE{wide}_{unsigned}"
    if kind == "f":
        sources = [wave.source(k, _KINDS[f"F{bits}"]) for k in (a, b)]
        x |= _comparison_modifiers(wave, sources, bits)
    elif bits == 16:
        sources = [half_source(wave, k, f"h{unsigned.lower()}") for k in (a, b)]
    else:
        sources = [wave.source(k, _KINDS.get(f"{unsigned}{bits}", "b32")) for k in (a, b)]
    first, second = (source.row for source in sources)
    wave.emit(name, guard=o.ALWAYS, d=mask, a=first, b=second, m=wave.guard, x=x)


def _comparison_modifiers(wave: Wave, sources: Sequence[Source], bits: int) -> int:
    x = o.FLUSH << 8 if bits == 32 and wave.flush else 0
    for place, source in enumerate(sources):
        signs = o.NEGATE_A * source.negate | o.ABSOLUTE_A * source.absolute
        x |= signs << place << 8
    if bits == 16:
        high = wave.parsed.listed("op_sel", (0, 0))
        x |= 1 + high[0] << 24 | 1 + high[1] << 26
    return x


def arithmetic(wave: Wave) -> bool:
    """An instruction of the table, or a comparison. False if it is neither."""
    rule = RULES.get(_renamed(wave))
    if rule is not None:
        apply_rule(wave, rule)
        return True
    return compare(wave)


def _renamed(wave: Wave) -> str:
    """Before gfx9 additions that write a carry had the names that those without it have now."""
    opcode = wave.parsed.opcode
    if len(wave.parsed.operands) > 3 and re.match(
        r"v_(add|sub|subrev|addc|subb|subbrev)_[ui]32$", opcode
    ):
        return opcode[:-4] + "_co_u32"
    return opcode
