"""The positions of the probes that stand in a probed text or expression."""

from __future__ import annotations

import re

from tracegen.polyhedral.expressions import Node

_AT = re.compile(r"\bTG_AT\((\d+)\)")


def first_position(text: str, start: int, end: int) -> int:
    """The position that a run of text[start:end] comes to first."""
    return min(int(match.group(1)) for match in _AT.finditer(text, start, end))


def has_probe(tree: Node) -> bool:
    """Whether an access, a back-edge or a barrier is inside."""
    return (
        tree.is_call("_tg_probe")
        or tree.is_call("_tg_event")
        or any(has_probe(child) for child in tree.children)
    )


def positions(tree: Node) -> list[int]:
    """All positions inside, in order of evaluation: a probe's comes after those of its operands."""
    inner = [p for child in tree.children if child.text != "TG_AT" for p in positions(child)]
    own = [int(child.children[0].text) for child in tree.children if child.is_call("TG_AT")]
    return inner + own
