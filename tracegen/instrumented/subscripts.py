"""Subscripts as they stand in the user's kernel."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from loopy.symbolic import IdentityMapper
from pymbolic import primitives as p


def readable(expression: Any) -> str:
    """A subscript as in the user's kernel: without tags, and with the halves of split inames joined."""
    text = str(_Readable()(expression))
    return re.sub(r" \+ -(?=\d)", " - ", re.sub(r" \+ \(-1\)\*", " - ", text))


class _Readable(IdentityMapper):  # type: ignore[misc]
    def map_tagged_variable(self, expr: Any, *args: Any) -> Any:
        return p.Variable(expr.name)

    def map_sum(self, expr: Any, *args: Any) -> Any:
        children = list(_flat([self.rec(child) for child in expr.children]))
        while (pair := _halves(children)) is not None:
            inner, outer, whole = pair
            children = [
                whole if k == inner else child for k, child in enumerate(children) if k != outer
            ]
        return children[0] if len(children) == 1 else p.Sum(tuple(children))


def _flat(children: Sequence[Any]) -> Sequence[Any]:
    flat: list[Any] = []
    for child in children:
        flat += _flat(child.children) if isinstance(child, p.Sum) else [child]
    return flat


def _halves(children: Sequence[Any]) -> tuple[int, int, Any] | None:
    for k, inner in enumerate(children):
        if not (isinstance(inner, p.Variable) and inner.name.endswith("_inner")):
            continue
        whole = inner.name.removesuffix("_inner")
        for m, outer in enumerate(children):
            factors = outer.children if isinstance(outer, p.Product) else ()
            if any(isinstance(f, p.Variable) and f.name == f"{whole}_outer" for f in factors):
                return k, m, p.Variable(whole)
    return None
