"""The interpreter does what its readable twin does, on random programs."""

from __future__ import annotations

import numpy as np
import pytest

from tests.twins.branching import Branching
from tests.twins.comparison import differences
from tests.twins.programs import OF_32_LANES, STRAIGHT, Program, result_format

APPROXIMATE = {"SPECIAL"}


def explained(program: Program, found: list[str], of_row: dict[int, str]) -> str:
    """The first differences, with the operations that made the rows."""
    lines = []
    for line in found[:20]:
        words = line.split()
        name = of_row.get(int(words[3]), "") if words[2] == "row" else ""
        lines.append(f"{name} {line}")
    return "\n".join(lines)


@pytest.mark.parametrize("lanes", [32, 64])
@pytest.mark.parametrize("seed", range(3))
def test_each_operation(seed: int, lanes: int) -> None:
    """Every operation four times, on rows and masks of their own: a difference names its operation."""
    items = 2 * lanes - 5
    program = Program(np.random.default_rng((seed, lanes)), lanes=lanes, n_items=items)
    formats: dict[int, str] = {}
    approximate: list[int] = []
    made: dict[int, str] = {}
    names = [name for name in STRAIGHT if lanes == 32 or name not in OF_32_LANES] * 4
    for number, name in enumerate(names, 1):
        row = program.made.rows(f"result {number}", 2)
        masks = [program.made.mask(f"result {number} {k}") for k in range(3)]
        fields = program.operation(name, number, row, masks)
        made[row] = made[row + 1] = f"{name} {fields}"
        if form := result_format(name, fields):
            formats[row] = form
        if name in APPROXIMATE:
            approximate.append(row)
    program.made.instruction(len(names) + 1)
    program.made.emit("EXIT")
    found = differences(program.made.finish(), (items, 1, 1), program.memory, formats, approximate)
    assert not found, explained(program, found, made)


@pytest.mark.parametrize("lanes", [32, 64])
@pytest.mark.parametrize("seed", range(4))
def test_straight_lines(seed: int, lanes: int) -> None:
    """Hundreds of operations on each other's results and on memory, each for the lanes of a random mask."""
    items = 3 * lanes - 11
    program = Branching(np.random.default_rng((seed, lanes, 1)), lanes=lanes, n_items=items)
    program.line(300)
    code = program.finish(0)
    found = differences(code, (items, 1, 1), program.memory, {program.sink: "f32"}, [program.sink])
    assert not found, "\n".join(found[:20])


@pytest.mark.parametrize("lanes", [32, 64])
@pytest.mark.parametrize("seed", range(6))
def test_branches(seed: int, lanes: int) -> None:
    """Loops, choices, joins, barriers and ends of single lanes, nested at random."""
    rng = np.random.default_rng((seed, lanes, 2))
    items = int(rng.integers(1, 4 * lanes))
    program = Branching(rng, lanes=lanes, n_items=items)
    code = program.finish(4)
    found = differences(code, (items, 1, 1), program.memory, {program.sink: "f32"}, [program.sink])
    assert not found, "\n".join(found[:20])
