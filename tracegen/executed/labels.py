"""Names of accesses: the text of the expression at a position in the source."""

from __future__ import annotations

import re

_NAME = re.compile(r"[A-Za-z_]\w*(?:::[A-Za-z_]\w*)*(?:<[^<>;()]*>(?=\())?")
_ASSIGNS = re.compile(r"(?:<<|>>|[-+*/%&|^])?=(?!=)|\+\+|--")
_CLOSING = {")": "(", "]": "["}
_LONGEST = 80


def label(line: str, column: int, kind: str) -> str:
    """The accessed expression on a line of the source, as `x[i]` or `store y[i]`.

    column : 1-based, where the compiler says that the access is: at the expression's beginning or the
        name of its member, at a store's `=`, or at a call
    """
    at = max(column - 1, 0)
    sign = _ASSIGNS.match(line, at)
    if sign and line[:at].strip() and not line[:at].rstrip().endswith(("(", ",", ";", "=", "{")):
        text = line[_beginning(line, len(line[:at].rstrip())) : at].strip()
    elif sign and sign[0] in ("++", "--"):
        text = _expression(line, at + 2)
    else:
        text = _expression(line, at)
    text = " ".join(text.split()) or " ".join(line.split())
    return f"store {shortened(text)}" if kind == "store" else shortened(text)


def shortened(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."


def _expression(line: str, at: int) -> str:
    """The postfix expression around an offset: its name, subscripts, members and calls."""
    if at < len(line) and line[at] in "*&(":
        end = at
        while end < len(line) and line[end] in "*&(":
            end = _matching(line, end, 1) + 1 if line[end] == "(" else end + 1
            if line[end - 1] == ")":
                return line[at:end]
        return line[at : _after(line, end)]
    start = at
    if line[:at].rstrip().endswith((".", "->")):
        start = _beginning(line, at)
    return line[start : _after(line, at)]


def _after(line: str, at: int) -> int:
    """Where the postfix expression that begins at an offset ends."""
    name = _NAME.match(line, at)
    end = name.end() if name else at
    while end < len(line):
        if line[end] in "[(":
            end = _matching(line, end, 1) + 1
            continue
        member = re.match(r"\s*(?:\.|->)\s*[A-Za-z_]\w*", line[end:])
        if member is None or line[end - 1 : end] == "(":
            return end
        end += member.end()
    return end


def _matching(line: str, at: int, step: int) -> int:
    """The offset of the bracket that belongs to the one at an offset; the line's last or first one for none.

    step : 1 looks for the one that closes it, -1 for the one that it closes
    """
    depth, last = 0, len(line) - 1 if step > 0 else 0
    for offset in range(at, last + step, step):
        depth += (line[offset] in "([") - (line[offset] in ")]")
        if depth == 0:
            return offset
    return last


def _beginning(line: str, end: int) -> int:
    """Where the postfix expression that ends before an offset begins."""
    at = end
    while at > 0:
        before = line[:at].rstrip()
        if not before:
            return at
        last = before[-1]
        if last in _CLOSING:
            at = _matching(before, len(before) - 1, -1)
        elif last == "." or before.endswith("->"):
            at = len(before) - (1 if last == "." else 2)
        elif (last.isalnum() or last == "_") and (at == end or line[at : at + 1] in "[(.-"):
            at = len(before) - len(re.search(r"\w+$", before)[0])  # type: ignore[index]
            if not line[:at].rstrip().endswith((".", "->")):
                break
        else:
            break
    while at > 0 and line[at - 1] == "*" and re.search(r"(?:^|[;{(,=])\s*\**$", line[:at]):
        at -= 1
    return at
