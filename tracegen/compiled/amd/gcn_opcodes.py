"""Instructions of AMD's GCN, CDNA and RDNA: the unit that executes one, its access, the registers that its operands name.

Opcodes follow patterns, so that one pattern serves all targets. Sources: AMD, "Vega" and "CDNA3"
Instruction Set Architecture Reference Guides; LLVM, "User Guide for AMDGPU Backend".
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

from tracegen.compiled.model import Direction, MemoryOperation, Pipe, Space

_PIPES: tuple[tuple[str, Pipe], ...] = (
    (r"s_(waitcnt|wait_|nop|delay_alu|clause|sleep|set_?inst|inst_prefetch|code_end)", "wait"),
    (r"s_barrier", "barrier"),
    (r"s_(branch|cbranch|endpgm|setpc|swappc|call|trap|rfe)", "branch"),
    (r"s_", "scalar"),
    (r"(global|flat|scratch|buffer|tbuffer|image|ds)_", "load_store"),
    (r"v_(mfma|smfmac|wmma|swmmac)", "tensor"),
    (r"v_(s_)?(exp|log|rcp|rcp_iflag|rsq|sqrt|sin|cos)_", "special"),
    (r"v_\w*f64", "fp64"),
    (r"v_\w*(b?f16)", "fp16"),
    (r"v_(dual_|pk_)?(fma|fmac|mac|mad|add|sub|subrev|mul|fmamk|fmaak|madmk|madak)_\w*f32", "fma"),
    (r"v_div_(scale|fmas|fixup)_f32", "fma"),
    (r"v_", "alu"),
)
_SPACES: tuple[tuple[str, Space], ...] = (
    (r"(global|flat)_(load|store|atomic)", "global"),
    (r"(scratch|buffer)_(load|store|atomic)", "private"),
    (r"ds_(read|write|load|store|add|sub|rsub|inc|dec|min|max|and|or|xor|mskor|cmp|wrx|condxchg|pk_)", "local"),
    (r"s_(buffer_)?load_", "constant"),
)  # fmt: skip
_SIZE = re.compile(
    r"(?:(?P<dwords>dword)(?:x(?P<count>\d+))?|(?P<word>ubyte|sbyte|byte|ushort|sshort|short)"
    r"|[ubif](?P<bits>8|16|32|64|96|128|256|512)|_x(?P<wide>2))(?!\d)"
)
_WORDS = {"ubyte": 1, "sbyte": 1, "byte": 1, "ushort": 2, "sshort": 2, "short": 2}


@lru_cache(maxsize=4096)
def pipe(opcode: str) -> Pipe:
    """The pipe of an opcode, `other` if it follows no pattern.

    32-bit integer products count as `alu`, although they take four times as long there.
    """
    return next((name for pattern, name in _PIPES if re.match(pattern, opcode)), "other")


def memory(opcode: str, comment: str) -> MemoryOperation | None:
    """The access of an instruction, None if it accesses no memory that a kernel can name.

    Flat accesses count as global. Buffer accesses are private: clang uses buffers for nothing else.
    """
    space = next((name for pattern, name in _SPACES if re.match(pattern, opcode)), None)
    if space is None or "permute" in opcode:
        return None
    return MemoryOperation(
        space=space,
        direction=_direction(opcode),
        bytes_per_item=access_bytes(opcode),
        spill="Folded Spill" in comment or "Folded Reload" in comment,
    )


def _direction(opcode: str) -> Direction:
    if re.match(r"\w+?_(load|read)", opcode):
        return "load"
    return "store" if re.match(r"\w+?_(store|write)", opcode) else "atomic"


@lru_cache(maxsize=4096)
def access_bytes(opcode: str) -> int:
    """Bytes for each item: `global_load_dwordx2` 8, `ds_read2_b32` 8, `global_atomic_add` 4."""
    match = _SIZE.search(opcode)
    size = 4
    if match and match["dwords"]:
        size = 4 * int(match["count"] or 1)
    elif match and match["word"]:
        size = _WORDS[match["word"]]
    elif match and match["bits"]:
        size = int(match["bits"]) // 8
    elif match:
        size = 8
    if opcode.startswith(("global_atomic_pk", "flat_atomic_pk", "ds_pk")):
        size = 4
    pairs = ("ds_read2", "ds_write2", "ds_load_2addr", "ds_store_2addr", "ds_wrxchg2")
    return 2 * size if opcode.startswith(pairs) else size


def returns_value(opcode: str, operands: str) -> bool:
    """Whether an atomic writes the old value to its first operand."""
    if opcode.startswith("ds_"):
        return "_rtn" in opcode
    return re.search(r"\b(glc|sc0|TH_ATOMIC_\w*RETURN)\b", operands) is not None


_REGISTER = re.compile(
    r"(?<![\w.:])(?:(?P<kind>[vsa])(?:(?P<one>\d+)|\[(?P<first>\d+):(?P<last>\d+)\])"
    r"|(?P<named>vcc|exec)(?P<half>_lo|_hi)?)(?![\w\[])"
)
_OPERAND = re.compile(r"(?:\[[^\]]*\]|\([^)]*\)|\|[^|]*\||[^,\[(|])+")


@lru_cache(maxsize=1 << 14)
def split_operands(operands: str) -> tuple[str, ...]:
    """The operands between top-level commas."""
    return tuple(operand.strip() for operand in _OPERAND.findall(operands) if operand.strip())


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
