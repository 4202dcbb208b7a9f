"""The shape of a kernel's groups, as its text requires it."""

from __future__ import annotations

import re

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_SHAPE = re.compile(r"reqd_work_group_size\s*\(\s*(\d+)\s*,\s*(\d+)\s*,\s*(\d+)\s*\)")


def required_shape(text: str, kernel: str) -> tuple[int, int, int] | None:
    """The attribute reqd_work_group_size of the kernel's definition, between the previous definition and its name.

    None without one, and where the text has no such definition, as with macros.
    """
    plain = _COMMENT.sub(" ", text)
    for match in re.finditer(rf"\b{re.escape(kernel)}\s*\(", plain):
        end = _closing(plain, match.end())
        if plain[end : end + 200].lstrip(") \t\r\n").startswith("{"):
            before = plain[: match.start()]
            found = _SHAPE.search(before, max(before.rfind("}"), before.rfind(";")) + 1)
            return (int(found[1]), int(found[2]), int(found[3])) if found else None
    return None


def _closing(text: str, position: int) -> int:
    """Offset of the parenthesis that closes the one before `position`; the end if there is none."""
    depth = 1
    for offset in range(position, len(text)):
        depth += {"(": 1, ")": -1}.get(text[offset], 0)
        if depth == 0:
            return offset
    return len(text)
