"""The signature of a kernel in its text: its parameters, and the shape of its groups."""

from __future__ import annotations

import re
from dataclasses import dataclass

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_SHAPE = re.compile(r"reqd_work_group_size\s*\(\s*(\d+)\s*,\s*(\d+)\s*,\s*(\d+)\s*\)")
_NAME = re.compile(r"(\w+)\s*(?:\[[^\]]*\]\s*)*$")


@dataclass(frozen=True)
class Signature:
    """A kernel's parameters and group shape, as far as the text gives them.

    parameters : names in order
    pointers : those of them that are pointers
    group_shape : of its attribute reqd_work_group_size, None without one
    """

    parameters: tuple[str, ...] = ()
    pointers: frozenset[str] = frozenset()
    group_shape: tuple[int, int, int] | None = None


def read_signature(text: str, kernel: str) -> Signature:
    """The signature of the kernel's definition; an empty one where the text has none, as with macros."""
    plain = _COMMENT.sub(" ", text)
    for match in re.finditer(rf"\b{re.escape(kernel)}\s*\(", plain):
        end = _closing(plain, match.end())
        if plain[end : end + 200].lstrip(") \t\r\n").startswith("{"):
            listed = _split(plain[match.end() : end])
            named = [(name, part) for part in listed if (name := _NAME.search(part))]
            return Signature(
                parameters=tuple(name[1] for name, _ in named),
                pointers=frozenset(name[1] for name, part in named if re.search(r"[*\[]", part)),
                group_shape=_shape(plain[: match.start()]),
            )
    return Signature()


def _shape(before: str) -> tuple[int, int, int] | None:
    """The attribute between the previous definition and the kernel's name."""
    match = _SHAPE.search(before, max(before.rfind("}"), before.rfind(";")) + 1)
    return (int(match[1]), int(match[2]), int(match[3])) if match else None


def _closing(text: str, position: int) -> int:
    """Offset of the parenthesis that closes the one before `position`; the end if there is none."""
    depth = 1
    for offset in range(position, len(text)):
        depth += {"(": 1, ")": -1}.get(text[offset], 0)
        if depth == 0:
            return offset
    return len(text)


def _split(text: str) -> list[str]:
    """The parts between commas outside brackets."""
    parts, depth, start = [], 0, 0
    for offset, character in enumerate(text):
        depth += {"(": 1, "[": 1, ")": -1, "]": -1}.get(character, 0)
        if character == "," and depth == 0:
            parts.append(text[start:offset])
            start = offset + 1
    return [part.strip() for part in (*parts, text[start:]) if part.strip() not in ("", "void")]
