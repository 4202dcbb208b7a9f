"""LLVM IR as libNVVM reads it: that of LLVM 7, in which pointers have types.

clang 14 and 15 can still write such pointers. What else has changed since LLVM 7, in code that was not
optimised, are attributes, parts of debug information, and a few spellings (NVVM IR Specification;
LLVM Language Reference of versions 7 and 15).
"""

from __future__ import annotations

import re
from collections.abc import Callable

LAYOUT = (
    "e-p:64:64:64-i1:8:8-i8:8:8-i16:16:16-i32:32:32-i64:64:64-i128:128:128-f32:32:32-f64:64:64"
    "-v16:16:16-v32:32:32-v64:64:64-v128:128:128-n16:32:64"
)
_KNOWN_ATTRIBUTES = re.compile(
    r"alwaysinline|argmemonly|builtin|cold|convergent|inlinehint|minsize|nobuiltin|noduplicate|noimplicitfloat"
    r"|noinline|norecurse|noreturn|nounwind|optnone|optsize|readnone|readonly|speculatable|writeonly"
)
_FLAGS = "((?:(?:fast|nnan|ninf|nsz|arcp|contract|afn|reassoc) )*)"
_VERSION = "\n!nvvmir.version = !{!%d}\n!%d = !{i32 2, i32 0, i32 3, i32 2}\n"


def _attributes(match: re.Match[str]) -> str:
    known = [word for word in match[2].split() if _KNOWN_ATTRIBUTES.fullmatch(word)]
    return f"{match[1]}{{ {' '.join(known)} }}"


def _subprogram(match: re.Match[str]) -> str:
    is_definition = "true" if "Definition" in match[1] else "false"
    return f"isLocal: false, isDefinition: {is_definition}, isOptimized: true"


def _negated(match: re.Match[str]) -> str:
    """fneg, which is the difference from -0."""
    flags, kind, value = match[1], match[2], match[3]
    zero = "-0.0"
    if vector := re.fullmatch(r"<(\d+) x (\w+)>", kind):
        zero = f"<{', '.join([f'{vector[2]} -0.0'] * int(vector[1]))}>"
    return f"= fsub {flags}{kind} {zero}, {value}"


def _with_first_label(match: re.Match[str]) -> str:
    """The first block of a function without a name has the number after those of the parameters."""
    return f"{match[0]}{len(re.findall(r'%[0-9]+', match[0]))}:\n"


def _named(match: re.Match[str]) -> str:
    """A value or a block with a number, which has a name then."""
    return match[0] if match[1] is None else f"{match[1]}$.{match[2]}"


_CHANGES: tuple[tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]], ...] = tuple(
    (re.compile(pattern, re.MULTILINE), change)
    for pattern, change in (
        (r"^target datalayout = .*$", f'target datalayout = "{LAYOUT}"'),
        (r"^target triple = .*$", 'target triple = "nvptx64-nvidia-cuda"'),
        (r"^(attributes #\d+ = )\{ ([^\"}]*)[^}]*\}", _attributes),
        (r" (?:noundef|immarg|nofree)\b", ""),
        (r"\b(byval|sret)\([^()]*\)", r"\1"),
        (r"(?<![%@\w.\"$-])poison(?![\w.\"$-])", "undef"),
        (rf"= fneg {_FLAGS}(\w+|<\d+ x \w+>) (\S+)", _negated),
        (rf"= (select|phi) {_FLAGS}", r"= \1 "),
        (r"^(\s*(?:%\S+ = )?(?:atomicrmw|cmpxchg)\b[^\n]*?), align \d+", r"\1"),
        (r"^declare !dbg !\d+ ", "declare "),
        (r"spFlags: ([\w| ]+)", _subprogram),
        (r" ?\|? ?DIFlagAllCallsDescribed", ""),
        (r", (?:nameTableKind: \w+|sysroot: \"[^\"]*\")", ""),
        (r"\bDebugDirectivesOnly\b", "LineTablesOnly"),
        (r"\bDW_LANG_OpenCL\b", "DW_LANG_C99"),
        (r"^define [^\n]*\{\n(?!\S+:)", _with_first_label),
        (r"\"[^\"\n]*\"|(%|^(?=\d+:))(\d+)", _named),
    )
)


def as_nvvm(ir: str) -> str:
    """The text of a module as libNVVM reads it."""
    for pattern, change in _CHANGES:
        ir = pattern.sub(change, ir)
    number = 1 + max(map(int, re.findall(r"^!(\d+) = ", ir, re.MULTILINE)), default=-1)
    return ir + _VERSION % (number, number)
