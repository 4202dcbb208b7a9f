"""The interpreter does what its readable twin does, on random programs."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from experiments.kernels import common_kernels
from tests.support.compilers import needs_amd, needs_nvidia
from tests.twins.branching import Branching
from tests.twins.comparison import differences
from tests.twins.programs import OF_32_LANES, STRAIGHT, Program, result_format
from tracegen.executed.targets import lowered
from tracegen.execution import operations as o
from tracegen.execution import run
from tracegen.execution.code import Assembler
from tracegen.machine_code.binding import bind

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


@pytest.mark.parametrize("seed", range(8))
def test_powers_of_two(seed: int) -> None:
    """Rounded as the exact ones, subnormal and infinite ones too; of whole numbers they are exact."""
    values = np.random.default_rng(seed).uniform(-152, 130, 32).astype(np.float32)
    values[:8] = np.array([-150, -149, -127, 0, 1, 127, np.inf, np.nan]) if seed else np.arange(8)
    made = Assembler()
    powers = made.rows("powers", 1)
    made.block()
    made.instruction(0)
    exponents = made.lane_table(tuple(values.view(np.uint32).tolist()))
    made.emit("SPECIAL", d=powers, a=exponents, y=o.EXP2)
    made.emit("EXIT")
    execution = run.Execution(made.finish(), run.Launch(grid=(1,), group_shape=(32,), regions=[]))
    execution.run(np.zeros(1, np.int64))
    with np.errstate(over="ignore"):
        wanted = np.exp2(values.astype(np.float64)).astype(np.float32)
    np.testing.assert_array_equal(execution.rows(powers, 1)[0, 0].view(np.float32), wanted)


@pytest.fixture
def one_at_a_time(monkeypatch):
    """Sub-groups run one after another, as in the twin: random programs access the same memory without barriers."""
    monkeypatch.setattr(run, "BATCH", 1)


@pytest.mark.usefixtures("one_at_a_time")
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


@pytest.mark.usefixtures("one_at_a_time")
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


SMALL = {
    "spmv_scalar": {"rows": 1 << 10},
    "softmax_row": {"rows": 8, "columns": 512},
    "transpose_tiled": {"n": 64},
    "hist_shared": {"n": 1 << 12},
}
"""Loops of other lengths in each lane; barriers and shuffles; local memory; atomic operations."""


@pytest.mark.parametrize(
    ("target", "lanes"),
    [pytest.param("sm_80", 32, marks=needs_nvidia), pytest.param("gfx90a", 64, marks=needs_amd)],
)
@pytest.mark.parametrize("kernel", SMALL)
def test_sub_groups_that_run_together_do_what_each_does_alone(
    kernel: str, target: str, lanes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = []
    for batch in (1, 3, 4):
        monkeypatch.setattr(run, "BATCH", batch)
        (bound,) = bind(common_kernels.KERNELS[kernel](**SMALL[kernel]), target)
        execution = run.Execution(lowered(bound.code, lanes), bound.launch)
        recorded = execution.run(np.arange(min(int(np.prod(bound.grid)), 4)))
        # Rows of work are numbered as they are met.
        starts = np.concatenate([[0], recorded.row_end])
        rows = [
            tuple(
                sorted(
                    zip(
                        recorded.row_segment[begin:end].tolist(),
                        recorded.row_count[begin:end].tolist(),
                        strict=True,
                    )
                )
            )
            for begin, end in itertools.pairwise(starts)
        ]
        columns = {
            name: column.tolist()
            for name, column in recorded._asdict().items()
            if isinstance(column, np.ndarray)
            and name not in ("work", "tail")
            and name[:4] != "row_"
        }
        columns |= {name: [rows[k] for k in getattr(recorded, name)] for name in ("work", "tail")}
        columns |= {name: np.asarray(one).tolist() for name, one in bound.outputs().items()}
        made.append(columns)
    assert made[0]["access"]
    for others in made[1:]:
        assert [name for name in made[0] if others[name] != made[0][name]] == []
