"""What a remedy proposes: a few steps, with a phrase that says what they do."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from calib.advice.facts import Facts
from calib.advice.variants import Relaid, Step

MOST_GROUP_ITEMS, LEAST_GROUP_ITEMS = 1024, 32


@dataclass(frozen=True, kw_only=True)
class Proposal:
    """Steps that are to be tried together.

    what : a phrase for people;  layouts : of arguments that change with them
    """

    what: str
    steps: tuple[Step, ...]
    layouts: tuple[Relaid, ...] = ()


Remedy = Callable[[Facts], Iterator[Proposal]]
"""Reads a kernel, and proposes what may help. Whether it is legal and pays is found out by trying it."""
