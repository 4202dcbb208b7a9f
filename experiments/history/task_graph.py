"""The task graph of a tiled LU factorisation: the tiles of each task, and its dependencies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from experiments.history.lu_kernels import GEMM, GETRF, TRSM_LOWER, TRSM_UPPER

Tile = tuple[int, int]


@dataclass(frozen=True, kw_only=True)
class Task:
    """One kernel on its tiles. All tiles are read, and the last one is written.

    successors : numbers of the tasks that wait for this one
    n_before : number of tasks for which this one waits
    priority : number of tasks on the longest path from this one to the end, both included
    """

    number: int
    kind: str
    tiles: Sequence[Tile]
    successors: Sequence[int]
    n_before: int
    priority: int


def lu_tasks(n_tiles: int) -> list[Task]:
    """The tasks of a matrix of n_tiles x n_tiles tiles. A task waits for those that wrote its
    tiles.

    No tile is written after its last read by another task, so no task waits for a reader.
    """
    steps: list[tuple[str, tuple[Tile, ...]]] = []
    for k in range(n_tiles):
        steps.append((GETRF, ((k, k),)))
        steps += [(TRSM_LOWER, ((k, k), (k, j))) for j in range(k + 1, n_tiles)]
        steps += [(TRSM_UPPER, ((k, k), (i, k))) for i in range(k + 1, n_tiles)]
        steps += [
            (GEMM, ((i, k), (k, j), (i, j)))
            for i in range(k + 1, n_tiles)
            for j in range(k + 1, n_tiles)
        ]
    writer: dict[Tile, int] = {}
    before: list[set[int]] = []
    after: list[list[int]] = [[] for _ in steps]
    for number, (_, tiles) in enumerate(steps):
        before.append({writer[tile] for tile in tiles if tile in writer})
        for earlier in before[-1]:
            after[earlier].append(number)
        writer[tiles[-1]] = number
    priority = [1] * len(steps)
    for number in reversed(range(len(steps))):
        priority[number] += max((priority[later] for later in after[number]), default=0)
    return [
        Task(
            number=number,
            kind=kind,
            tiles=tiles,
            successors=after[number],
            n_before=len(before[number]),
            priority=priority[number],
        )
        for number, (kind, tiles) in enumerate(steps)
    ]
