"""Dynamic programming: nw over the anti-diagonals of a tiled matrix, pathfinder over rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import loopy as lp
import numpy as np
import numpy.typing as npt

from experiments.kernels.parameters import require_group, require_indexable, require_positive
from experiments.kernels.polybench.building import make
from memsim.errors import KernelError
from tracegen.workloads import Workload

TILE = 16
"""Rows and columns of nw's tiles."""

FAR = 1 << 29
"""A cost larger than all others, for columns outside the table."""

Integers = npt.NDArray[np.int32]


def nw(n: int = 512, penalty: int = 10) -> Workload:
    """Needleman-Wunsch alignment scores of two sequences of n, tile by tile.

    There is one launch for each anti-diagonal of tiles, first of increasing, then of decreasing
    length. Inside a tile a group goes through its anti-diagonals.

    n : a multiple of 16
    """
    require_positive(n=n)
    require_indexable(score=(n + 1) * (n + 1))
    if n % TILE:
        raise KernelError(f"n must be a multiple of {TILE}, got {n}")
    kernel = make(
        "nw",
        [
            f"{{[d]: 1 <= d and {TILE}*d <= n}}",
            f"{{[e]: 1 <= e and {TILE}*e < n}}",
            *_tile_domains(""),
            *_tile_domains("2"),
        ],
        f"""
        for d
            {_tile_text("", "bx < d", "bx", "d - 1 - bx")}
            ... gbarrier
        end
        for e
            {_tile_text("2", "bx2 >= e", "bx2", f"n // {TILE} - 1 - bx2 + e")}
            ... gbarrier
        end
        """,
        [
            lp.ValueArg("n, penalty", np.int32),
            lp.GlobalArg("score", np.int32, shape="n + 1, n + 1"),
            lp.GlobalArg("similarity", np.int32, shape="n + 1, n + 1"),
            *(
                lp.TemporaryVariable(
                    name + suffix, np.int32, shape=shape, address_space=lp.AddressSpace.LOCAL
                )
                for suffix in ("", "2")
                for name, shape in (
                    ("part", (TILE + 1, TILE + 1)),
                    ("reference", (TILE, TILE)),
                )
            ),
        ],
        f"n >= {TILE} and n mod {TILE} = 0",
    )
    kernel = lp.tag_inames(kernel, {"bx": "g.0", "x": "l.0", "bx2": "g.0", "x2": "l.0"})
    rng = np.random.default_rng(0)
    similarity = rng.integers(-4, 11, (n + 1, n + 1), dtype=np.int32)
    score = np.zeros((n + 1, n + 1), np.int32)
    score[0] = score[:, 0] = -penalty * np.arange(n + 1, dtype=np.int32)

    def check(outputs: Mapping[str, Any]) -> None:
        np.testing.assert_array_equal(outputs["score"], _alignment(score, similarity, penalty))

    arguments = {"score": score, "similarity": similarity, "penalty": np.int32(penalty)}
    return Workload(kernel, arguments, check=check, source_file=__file__)


def _tile_domains(s: str) -> list[str]:
    return [
        f"{{[bx{s}, x{s}]: 0 <= bx{s} and {TILE}*bx{s} < n and 0 <= x{s} < {TILE}}}",
        f"{{[y{s}, z{s}, v{s}]: 0 <= y{s}, z{s}, v{s} < {TILE}}}",
        f"{{[m{s}]: 0 <= m{s} < {TILE}}}",
        f"{{[h{s}]: 0 <= h{s} < {TILE - 1}}}",
    ]


def _tile_text(s: str, within: str, column: str, row: str) -> str:
    """The work of one group: load a tile, its growing and its shrinking anti-diagonals, store."""
    top, left = f"{TILE}*({row})", f"{TILE}*({column})"
    cell = """
                        <> west{p} = part{s}[{r} + 1, {c}]
                        <> north{p} = part{s}[{r}, {c} + 1]
                        <> beside{p} = (west{p} if west{p} > north{p} else north{p}) - penalty
                        <> across{p} = part{s}[{r}, {c}] + reference{s}[{r}, {c}]
                        part{s}[{r} + 1, {c} + 1] = across{p} if across{p} > beside{p} else beside{p}"""
    growing = cell.format(s=s, p=f"_m{s}", r=f"m{s} - x{s}", c=f"x{s}")
    shrinking = cell.format(s=s, p=f"_h{s}", r=f"{TILE - 1} - x{s}", c=f"x{s} + h{s} + 1")
    return f"""
            for bx{s}, x{s}
                if {within}
                    if x{s} == 0
                        part{s}[0, 0] = score[{top}, {left}]
                    end
                    for y{s}
                        reference{s}[y{s}, x{s}] = similarity[{top} + y{s} + 1, {left} + x{s} + 1]
                    end
                    part{s}[x{s} + 1, 0] = score[{top} + x{s} + 1, {left}]
                    part{s}[0, x{s} + 1] = score[{top}, {left} + x{s} + 1]
                end
                ... lbarrier
                for m{s}
                    if {within} and x{s} <= m{s}
                        {growing}
                    end
                    ... lbarrier
                end
                for h{s}
                    if {within} and x{s} + h{s} <= {TILE - 2}
                        {shrinking}
                    end
                    ... lbarrier
                end
                for z{s}
                    if {within}
                        score[{top} + z{s} + 1, {left} + x{s} + 1] = part{s}[z{s} + 1, x{s} + 1]
                    end
                end
            end"""


def _alignment(score: Integers, similarity: Integers, penalty: int) -> Integers:
    """The recurrence over anti-diagonals of the whole matrix, without tiles."""
    exact = score.copy()
    n = len(exact) - 1
    for total in range(2, 2 * n + 1):
        i = np.arange(max(1, total - n), min(n, total - 1) + 1)
        j = total - i
        beside = np.maximum(exact[i, j - 1], exact[i - 1, j]) - penalty
        exact[i, j] = np.maximum(exact[i - 1, j - 1] + similarity[i, j], beside)
    return exact


ITEMS = 256
"""Work-items, and columns, of a group of pathfinder."""


def pathfinder(rows: int = 100, cols: int = 100_000, height: int = 20) -> Workload:
    """The cheapest paths through the rows of a cost table, `height` rows for each launch.

    A group processes 256 columns. The outermost `height` columns on both sides belong to other
    groups; one of them becomes invalid with every row.

    height : less than 128
    """
    require_positive(rows=rows, cols=cols, height=height)
    require_group(ITEMS)
    require_indexable(wall=rows * cols)
    if not height < ITEMS // 2:
        raise KernelError(f"height must be below {ITEMS // 2}, got {height}")
    if rows < 2:
        raise KernelError(f"rows must be at least 2, got {rows}")
    own = ITEMS - 2 * height
    kernel = make(
        "pathfinder",
        [
            f"{{[q]: 0 <= q and {height}*q < rows - 1}}",
            f"{{[b, x]: 0 <= b and {own}*b < cols and 0 <= x < {ITEMS}}}",
            f"{{[i]: 0 <= i < {height} and i + {height}*q < rows - 1}}",
        ],
        _pathfinder_text(own, height),
        [
            lp.ValueArg("rows, cols", np.int32),
            lp.GlobalArg("cost", np.int32, shape="2, cols"),
            lp.GlobalArg("wall", np.int32, shape="rows, cols"),
            lp.TemporaryVariable(
                "before", np.int32, shape=(ITEMS + 2,), address_space=lp.AddressSpace.LOCAL
            ),
            lp.TemporaryVariable(
                "after", np.int32, shape=(ITEMS,), address_space=lp.AddressSpace.LOCAL
            ),
        ],
        "rows >= 2 and cols >= 1",
    )
    kernel = lp.tag_inames(kernel, {"b": "g.0", "x": "l.0"})
    wall = np.random.default_rng(0).integers(0, 10, (rows, cols), dtype=np.int32)
    cost = np.zeros((2, cols), np.int32)
    cost[0] = wall[0]
    launches = -(-(rows - 1) // height)

    def check(outputs: Mapping[str, Any]) -> None:
        exact = wall[0].copy()
        for row in wall[1:]:
            framed = np.pad(exact, 1, constant_values=FAR)
            exact = row + np.minimum(exact, np.minimum(framed[:-2], framed[2:]))
        np.testing.assert_array_equal(outputs["cost"][launches % 2], exact)

    return Workload(kernel, {"cost": cost, "wall": wall}, check=check, source_file=__file__)


def _pathfinder_text(own: int, height: int) -> str:
    """Load a row of costs with a halo of `height`, advance it by `height` rows, store the inner
    part."""
    column = f"{own}*b - {height} + x"
    return f"""
        for q
            for b, x
                before[x + 1] = {FAR}
                if x == 0
                    before[0] = {FAR}
                    before[{ITEMS + 1}] = {FAR}
                end
                if {column} >= 0 and {column} < cols
                    before[x + 1] = cost[q % 2, {column}]
                end
                ... lbarrier
                for i
                    if x > i and x < {ITEMS - 1} - i and {column} >= 0 and {column} < cols
                        <> left = before[x]
                        <> middle = before[x + 1]
                        <> right = before[x + 2]
                        <> side = left if left < right else right
                        after[x] = (side if side < middle else middle) + wall[{height}*q + i + 1, {column}]
                    end
                    ... lbarrier
                    if x > i and x < {ITEMS - 1} - i and {column} >= 0 and {column} < cols
                        before[x + 1] = after[x]
                    end
                    ... lbarrier
                end
                if x >= {height} and x < {ITEMS - height} and {column} < cols
                    cost[(q + 1) % 2, {column}] = before[x + 1]
                end
            end
            ... gbarrier
        end
        """
