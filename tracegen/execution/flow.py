"""Forward flow of data through the basic blocks of micro-operations: what is known where, whatever way lanes have come."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from typing import Any


class TooOften(Exception):
    """A basic block was visited more often than it may be."""


def follow(
    successors: Sequence[Sequence[int]],
    first: dict[Any, Any],
    step: Callable[[int, dict[Any, Any]], dict[Any, Any]],
    joined: Callable[[dict[Any, Any], dict[Any, Any], int], dict[Any, Any]],
    most: float = float("inf"),
    taken: Callable[[int, dict[Any, Any]], Sequence[int]] | None = None,
) -> None:
    """Calls `step` along all ways until nothing new comes to any block. The first block that something new has come to is next, so
    that what follows branches is followed once, with what all of them bring, and a loop before what is behind it.

    successors : of each micro-operation;  first : what is known before the first one
    step : (micro-operation, what is known before it, which may be changed) -> what is known behind it
    joined : (what is known at a block, what comes there, the block's first micro-operation) -> both; neither may be changed
    most : visits of a block. Raises TooOften.
    taken : (last micro-operation of a block, what is known behind it) -> the successors that lanes may go to; all, if not given
    """
    starts = {0} | {
        to for k, after in enumerate(successors) for to in after if to != k + 1 or len(after) > 1
    }
    entering, waiting, visits = {0: first}, [0] if successors else [], dict.fromkeys(starts, 0)
    while waiting:
        k = heapq.heappop(waiting)
        visits[k] += 1
        if visits[k] > most:
            raise TooOften
        state = dict(entering[k])
        while True:
            state = step(k, state)
            if tuple(successors[k]) != (k + 1,) or k + 1 in starts:
                break
            k += 1
        for to in successors[k] if taken is None else taken(k, state):
            before = entering.get(to)
            now = state if before is None else joined(before, state, to)
            if now != before:
                entering[to] = now
                if to not in waiting:
                    heapq.heappush(waiting, to)
