"""Flow of data through basic blocks: each is followed with all that comes to it, and not once for each way to it."""

from __future__ import annotations

from typing import Any

from tracegen.execution.flow import follow


def _followed(successors: list[list[int]]) -> tuple[dict[int, set[int]], int]:
    """Of each operation those that lanes may have passed before it, and how often operations were followed."""
    passed: dict[int, set[int]] = {}
    steps = 0

    def step(k: int, state: dict[Any, Any]) -> dict[Any, Any]:
        nonlocal steps
        steps += 1
        passed.setdefault(k, set()).update(state)
        return state | {k: True}

    follow(successors, {}, step, lambda one, other, _: one | other)
    return passed, steps


def test_a_row_of_branches_is_followed_once() -> None:
    """A hundred times a branch, two ways and where they meet, four operations each, and an end."""
    n = 100
    rows = [[[4 * k + 1, 4 * k + 2], [4 * k + 3], [4 * k + 3], [4 * k + 4]] for k in range(n)]
    passed, steps = _followed([*(row for four in rows for row in four), []])
    assert passed[4 * n] == set(range(4 * n))
    assert steps <= 5 * n + 1


def test_what_a_loop_brings_comes_to_its_beginning() -> None:
    """0 enters a loop of 1 and 2 whose body branches to 3 at the end: 1 is reached from 0 and from 2."""
    passed, steps = _followed([[1], [2], [1, 3], []])
    assert passed == {0: set(), 1: {0, 1, 2}, 2: {0, 1, 2}, 3: {0, 1, 2}}
    assert steps <= 8
