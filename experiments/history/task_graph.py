"""The task graph of a tiled LU factorisation: who reads and writes which tile, and who waits for whom."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from experiments.history.lu_kernels import GEMM, GETRF, TRSM_LOWER, TRSM_UPPER

Tile = tuple[int, int]


@dataclass(frozen=True, kw_only=True)
class Task:
    """One kernel on its tiles; the last of `tiles` is written, all are read.

    successors : numbers of the tasks that wait for this one
    n_before : how many tasks this one waits for
    priority : tasks on the longest path from here to the end, this one too
    """

    number: int
    kind: str
    tiles: Sequence[Tile]
    successors: Sequence[int]
    n_before: int
    priority: int


def lu_tasks(n_tiles: int) -> list[Task]:
    """Of an n_tiles x n_tiles matrix; a task waits for those that wrote what it reads or writes.

    Nothing is written after it was last read, so no task waits for a reader.
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
