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
@pytest.mark.parametrize("seed", range(2))
def test_each_operation(seed: int, lanes: int) -> None:
    """Every operation five times, on rows and masks of their own: a difference names its operation."""
    items = 2 * lanes - 5
    program = Program(np.random.default_rng((seed, lanes)), lanes=lanes, n_items=items)
    formats: dict[int, str] = {}
    approximate: list[int] = []
    made: dict[int, str] = {}
    names = [name for name in STRAIGHT if lanes == 32 or name not in OF_32_LANES] * 5
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


def test_powers_of_two() -> None:
    """Rounded as the exact ones, subnormal and infinite ones too; of whole numbers they are exact."""
    values = np.random.default_rng(0).uniform(-152, 130, (8, 32)).astype(np.float32)
    values[0, :16] = [*range(8), -150, -149, -127, 0, 1, 127, np.inf, np.nan]
    made = Assembler()
    powers = made.rows("powers", len(values))
    made.block()
    made.instruction(0)
    for k, row in enumerate(values.view(np.uint32).tolist()):
        made.emit("SPECIAL", d=powers + k, a=made.lane_table(tuple(row)), y=o.EXP2)
    made.emit("EXIT")
    execution = run.Execution(made.finish(), run.Launch(grid=(1,), group_shape=(32,), regions=[]))
    execution.run(np.zeros(1, np.int64))
    with np.errstate(over="ignore"):
        wanted = np.exp2(values.astype(np.float64)).astype(np.float32)
    found = execution.rows(powers, len(values))[0].view(np.float32)
    np.testing.assert_array_equal(found, wanted)


@pytest.fixture
def one_at_a_time(monkeypatch):
    """Sub-groups run one after another, as in the twin: random programs access the same memory without barriers."""
    monkeypatch.setattr(run, "BATCH", 1)


@pytest.mark.usefixtures("one_at_a_time")
@pytest.mark.parametrize("lanes", [32, 64])
@pytest.mark.parametrize("seed", range(8))
def test_programs(seed: int, lanes: int) -> None:
    """Two straight lines of hundreds of operations on each other's results and on memory, each for the lanes of a random mask; and
    loops, choices, joins, barriers and ends of single lanes, nested at random."""
    rng, is_line = np.random.default_rng((seed, lanes)), seed < 2
    items = 3 * lanes - 11 if is_line else int(rng.integers(1, 4 * lanes))
    program = Branching(rng, lanes=lanes, n_items=items)
    if is_line:
        program.line(300)
    code = program.finish(0 if is_line else 4)
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
    ("kernel", "target"),
    [
        *(pytest.param(kernel, "sm_80", marks=needs_nvidia) for kernel in SMALL),
        *(
            pytest.param(kernel, "gfx90a", marks=needs_amd)
            for kernel in ("spmv_scalar", "softmax_row")
        ),
    ],
)
def test_sub_groups_that_run_together_do_what_each_does_alone(
    kernel: str, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = []
    for batch in (1, 3, 4):
        monkeypatch.setattr(run, "BATCH", batch)
        (bound,) = bind(common_kernels.KERNELS[kernel](**SMALL[kernel]), target)
        code = lowered(bound.code, 32 if target == "sm_80" else 64)
        groups = np.arange(min(int(np.prod(bound.grid)), 4))
        recorded = run.Execution(code, bound.launch).run(groups)._asdict()
        # Rows of work are numbered as they are met.
        ends = [0, *recorded.pop("row_end").tolist()]
        of_rows = zip(
            recorded.pop("row_segment").tolist(), recorded.pop("row_count").tolist(), strict=True
        )
        done = list(of_rows)
        rows = [sorted(done[begin:end]) for begin, end in itertools.pairwise(ends)]
        columns = {name: [rows[k] for k in recorded.pop(name)] for name in ("work", "tail")}
        columns |= {n: one.tolist() for n, one in recorded.items() if isinstance(one, np.ndarray)}
        columns |= {name: np.asarray(one).tolist() for name, one in bound.outputs().items()}
        made.append(columns)
    assert made[0]["access"]
    for others in made[1:]:
        assert [name for name in made[0] if others[name] != made[0][name]] == []
