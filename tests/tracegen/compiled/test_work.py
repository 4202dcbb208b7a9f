"""Machine instructions between accesses, against counts by hand and an independent walk."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from tests.support.machine_code import compiled, instruction, machine_code, probe, rearranged
from tracegen.compiled.counting.quiet_code import executions
from tracegen.compiled.counting.source_loops import Counted, defined, source_loops, with_counted
from tracegen.compiled.counting.work import KINDS, kind_of
from tracegen.compiled.model import Instruction, Location, MemoryOperation
from tracegen.compiled.ordering.rearrange import CompiledLaunch, Rearranged

TEXT = "c[0] = a[0] + b[0];\n"
THREE = [probe("load", TEXT, "a[0]"), probe("load", TEXT, "b[0]"), probe("store", TEXT, "c[0]")]


def counts_of(result: Rearranged, kind: str = "alu") -> list[list[float]]:
    """For each sub-group, the instructions of a kind that each access counts."""
    columns = result.columns
    values = columns["work_table"][columns["work"], KINDS.index(kind)]
    return [list(part) for part in np.split(values, columns["subgroup_offset"][1:-1])]


def totals(result: Rearranged) -> list[float]:
    """Instructions of each sub-group."""
    columns = result.columns
    sums = columns["work_table"].sum(axis=1)[columns["work"]]
    return [float(part.sum()) for part in np.split(sums, columns["subgroup_offset"][1:-1])]


def with_loops(launch: CompiledLaunch, **values: int) -> CompiledLaunch:
    return CompiledLaunch(
        launch.code, launch.text, launch.probes, launch.sites, source_loops(launch.text, values)
    )


def test_instructions_count_with_the_next_access_and_the_last_ones_with_the_last() -> None:
    """A block ends with a jump, so there is one `alu` more than is written."""
    code = machine_code(
        [(["use R9", "use R9", "load R1 a 1:8", "use R9", "load R2 b 1:15"], (1,)),
         (["use R9"], (2,)),
         (["use R1", "store c 1:6", "use R9", "use R9"], ())]
    )  # fmt: skip
    result = rearranged(compiled(code, TEXT, THREE), [[(0, 10), (1, 20), (2, 30)]])
    assert counts_of(result) == [[2, 1, (1 + 2 + 1) + 3]]
    assert counts_of(result, "access") == [[1, 1, 1]]


def test_a_subgroup_that_skips_a_branch_issues_less() -> None:
    code = machine_code(
        [
            (["load R1 a 1:8"], (1, 2)),
            (["use R9", "load R2 b 1:15"], (2,)),
            (["store c 1:6"], ()),
        ]
    )
    streams = [[(0, 1), (1, 2), (2, 3)], [(0, 4), (2, 5)]]
    assert counts_of(rearranged(compiled(code, TEXT, THREE), streams)) == [[0, 2, 2], [0, 2]]


LOOP = "c[0] = a[0];\nfor (int i = 0; i < n; ++i) {\n x = x * s;\n}\nb[0] = x;\n"
PROBES = [probe("load", LOOP, "a[0]"), probe("store", LOOP, "c[0]"), probe("store", LOOP, "b[0]")]


def quiet(line: int) -> Instruction:
    """An instruction without memory that implements a line."""
    return structs.replace(instruction("use R9"), location=Location(line, 6))


def unrolled(main: int, remainder: int) -> CompiledLaunch:
    """The loop of LOOP, with `main` copies of its body, and behind it a loop with `remainder`."""
    code = machine_code(
        [(["load R1 a 1:8", "store c 1:1"], (1,)), ([], (1, 2)), ([], (2, 3)), (["store b 5:1"], ())]
    )  # fmt: skip
    blocks = list(code.blocks)
    for at, copies in ((1, main), (2, remainder)):
        own = tuple(quiet(3) for _ in range(copies))
        blocks[at] = replace(blocks[at], instructions=own)
    return compiled(replace(code, blocks=tuple(blocks)), LOOP, PROBES)


@pytest.mark.parametrize(("n", "main", "rest"), [(16, 4, 0), (18, 4, 2), (3, 0, 3)])
def test_an_unrolled_loop_without_accesses_runs_as_often_as_its_source(
    n: int, main: float, rest: float
) -> None:
    launch = with_loops(unrolled(4, 1), n=n)
    assert launch.executions.times == [1, main, rest, 1]
    stream = [[(0, 1), (1, 2), (2, 3)]]
    # The jumps of the first block and of the last one, and n times the body.
    assert counts_of(rearranged(launch, stream)) == [[0, 0, 1 + n + 1]]


@pytest.mark.parametrize(("mean", "main", "rest"), [(16, 4, 0), (18.5, 4, 2.5), (0.5, 0, 0.5)])
def test_an_unrolled_loop_runs_as_often_as_a_run_counted(
    mean: float, main: float, rest: float
) -> None:
    launch = with_loops(unrolled(4, 1))
    assert launch.unknown_loops == {(2, 1)}
    counted = replace(
        launch, turns=lambda: {(2, 1): Counted(mean, (2, 1)), (9, 1): Counted(7, (9, 1))}
    )
    result = rearranged(counted, [[(0, 1), (1, 2), (2, 3)]])
    assert counts_of(result) == [[0, 0, 1 + mean + 1]]
    (note,) = counted.provenance(result)["notes"]
    assert note.startswith(f"{mean:.3g} iterations are taken of the loop in line 2 ")
    known = replace(launch, loops=with_counted(launch.loops, counted.turns()))
    assert known.executions.times == [1, main, rest, 1]


NESTED = "c[0] = a[0];\nOUTER\n INNER { x = x * s; }\n\nb[0] = x;\n"
THRICE, ALWAYS = "for (int t = 0; t < 3; ++t)", "while (f(x))"


def nested(outer: str, inner: str, counted: dict[Any, Counted]) -> CompiledLaunch:
    """The loop of `unrolled`, four times, in another one."""
    text = NESTED.replace("OUTER", outer).replace("INNER", inner)
    return replace(unrolled(4, 1), text=text, loops=with_counted(source_loops(text, {}), counted))


@pytest.mark.parametrize(
    ("outer", "nest", "iterations"),
    [
        (THRICE, (2, 1), 5),
        (THRICE, (3, 2), 3 * 5),
        (THRICE, (9, 1), 5),
        (ALWAYS, (3, 2), 5),
        (ALWAYS, (2, 1), 5),
    ],
)
def test_what_is_counted_of_a_nest_is_its_whole(
    outer: str, nest: tuple[int, int], iterations: float
) -> None:
    """A loop that was counted in a loop around it, by itself, or in one of a caller."""
    launch = nested(outer, "while (x < n)", {(3, 2): Counted(5.0, nest)})
    _, main, rest, _ = launch.executions.times
    assert 4 * main + rest == iterations


def test_a_known_loop_in_a_counted_one() -> None:
    """8 iterations for each of 2.5."""
    inner = "for (int i = 0; i < 8; ++i)"
    launch = nested(ALWAYS, inner, {(2, 1): Counted(2.5, (2, 1))})
    assert launch.executions.times == [1, 5, 0, 1]
    assert launch.unknown_loops == {(2, 1)}
    assert nested(ALWAYS, inner, {}).executions.times == [1, 2, 0, 1]


def repeated(main: list[int], rest: list[int]) -> list[float]:
    """How often the blocks of `unrolled` run with n = 18, if places of the loops occur so often."""
    launch = unrolled(4, 1)
    blocks = list(launch.code.blocks)
    for at, counts in ((1, main), (2, rest)):
        own = [
            structs.replace(quiet(3), opcode=f"o{k}")
            for k, n in enumerate(counts)
            for _ in range(n)
        ]
        blocks[at] = replace(blocks[at], instructions=tuple(own))
    changed = compiled(replace(launch.code, blocks=tuple(blocks)), LOOP, PROBES)
    return list(with_loops(changed, n=18).executions.times)


def test_a_line_that_does_the_same_thrice_is_no_sign_of_more_copies() -> None:
    """NVRTC knows no columns: three subtractions of a line are one place, which four copies repeat twelve times."""
    assert repeated([12, 4, 4], [3, 1, 1]) == [1, 4, 2, 1]
    assert repeated([12, 4, 4, 8], [3, 1, 1, 2]) == [1, 4, 2, 1]
    # A constant that is loaded before all copies changes nothing.
    assert repeated([12, 12, 4, 4, 4, 1], [3, 3, 1, 1, 1, 1]) == [1, 4, 2, 1]


def test_what_copies_share_is_no_sign_of_fewer() -> None:
    """A sum of products of a tile, unrolled four times by NVRTC: loads are merged, addresses calculated."""
    assert repeated([3, 2, 2, 1, 4, 4], [1]) == [1, 4, 2, 1]
    assert repeated([4, 4, 1, 1, 1], [1]) == [1, 4, 2, 1]
    assert repeated([4, 4, 2], [1]) == [1, 4, 2, 1]


def test_a_loop_of_nothing_but_calls_is_known_by_its_header() -> None:
    """What a function does has the function's lines; the loop's own instructions are those of its header."""
    launch = unrolled(4, 1)
    blocks = list(launch.code.blocks)
    blocks[1] = replace(blocks[1], instructions=(quiet(9), quiet(9), quiet(2)))
    blocks[2] = replace(blocks[2], instructions=(quiet(9),), successors=(3,))
    calls = compiled(replace(launch.code, blocks=tuple(blocks)), LOOP, PROBES)
    assert with_loops(calls, n=16).executions.times == [1, 16, 1, 1]


def test_a_note_names_a_loop_that_its_header_does_not_bound() -> None:
    launch = with_loops(unrolled(4, 1))
    assert launch.executions.times == [1, 1, 1, 1]
    (note,) = launch.executions.notes
    assert note.startswith("one iteration is assumed of the loop in line 2 of the compiled text, ")
    for place, words in (
        ("", "in line 2 of the compiled text"),
        ("folder/k.cu:2", "at folder/k.cu:2"),
    ):
        placed = replace(launch, user_place=lambda _, place=place: place)
        assert placed.executions.notes == [note.replace("in line 2 of the compiled text", words)]


def test_the_slow_path_of_a_function_is_left_out() -> None:
    """A block beside the shortest way counts only if it implements a line of its own."""
    code = machine_code(
        [(["load R1 a 1:8"], (1, 2)), (["use R9"] * 50, (2,)), (["store c 1:6"], ())]
    )
    pair = [THREE[0], THREE[2]]
    assert totals(rearranged(compiled(code, TEXT, pair), [[(0, 1), (1, 3)]])) == [4]
    side = replace(code.blocks[1], instructions=tuple(quiet(2) for _ in range(50)))
    other = replace(code, blocks=(code.blocks[0], side, code.blocks[2]))
    text = TEXT + "x = y;\n"
    assert totals(rearranged(compiled(other, text, pair), [[(0, 1), (1, 3)]])) == [54]


SQUARES = "#define N0 9\n" + "".join(f"#define N{k + 1} N{k} * N{k}\n" for k in range(40))


@pytest.mark.parametrize(
    ("text", "values", "trips"),
    [
        ("for (int i = 0; i < 16; ++i) { f(i);\n }", {}, 16),
        ("for (int i = 0; i <= -1 + n; ++i)\n f(i);", {"n": 7}, 7),
        ("for (int i = n; i > 0; i -= 3) {\n}", {"n": 10}, 4),
        ("for (int i = 8; 2 <= i; i--) {\n}", {}, 7),
        ("const int k = 3 * n;\nfor (i = 0; i != k; i++) {\n}", {"n": 2}, 6),
        ("for (int i = 0; i < m; ++i) {\n}", {"n": 7}, None),
        ("while (x < 3) {\n}", {}, None),
        ("do {\n} while (x < 3);", {}, None),
        ("do {\n} while (0);", {}, 1),
        ("do {\n} while (false);", {}, 1),
        ("do {\n} while (n);", {"n": 0}, None),
        ("for (int i = 5; i < 3; i++) {\n}", {}, 0),
        ("# define N (4 * M) // of rows\nfor (int i = 0; i < N; i++) {\n}", {"M": 2}, 8),
        ("#define N 16\nfor (int i = 0; i < N; i++) {\n}", {"N": 5}, 5),
        ("#define N 1.5f\nfor (int i = 0; i < N; i++) {\n}", {}, None),
        ("static constexpr int k = N / 2;\nfor (int i = 0; i < k; i++) {\n}", {"N": 9}, 4),
        ("for (int i = 0; i < 010; i++) {\n}", {}, 8),
        ("for (int i = 0; i < 08; i++) {\n}", {}, None),
        ("for (int i = 0; i < -7 / 2 + 5; i++) {\n}", {}, 2),
        ("for (int i = 0; i < 1 << -1; i++) {\n}", {}, None),
        ("for (int i = 0; i < 1 << (1 << 62); i++) {\n}", {}, None),
        (f"for (int i = 0; i < {'9' * 5000}; i++) {{\n}}", {}, None),
        (f"for (int i = 0; i < 1{'*9' * 20000}; i++) {{\n}}", {}, None),
        (f"for (int i = 0; i < {'(' * 5000}3{')' * 5000}; i++) {{\n}}", {}, None),
        (SQUARES + "for (int i = 0; i < N40; i++) {\n}", {}, None),
        (SQUARES + "for (int i = 0; i < N0; i++) {\n}", {}, 9),
    ],
)
def test_iterations_of_a_header(text: str, values: dict[str, int], trips: float | None) -> None:
    (loop,) = source_loops(text, values)
    assert loop.trips == trips


@pytest.mark.parametrize(
    "text",
    [
        "// for (int i = 0; i < 9; i++) {}\n",
        "/* for (int i = 0; i < 9; i++) {\n} */ int j;",
        'printf("for (;;) ; // while (x) ;");',
        "char c = '\"'; // for (;;) ;\nchar d = '\"';",
    ],
)
def test_comments_and_strings_have_no_loops(text: str) -> None:
    assert source_loops(text, {}) == ()


def test_a_loop_beside_comments_keeps_its_lines() -> None:
    """A bracket in a comment closes nothing, and a comment declares no constant."""
    text = """\
// const int n = 7;
const int n = 3 /* of
   4 */;
for (int i = 0; i < n /* ) */; i++) { // }
    x += 1'0'0;
}
"""
    (loop,) = source_loops(text, {})
    assert (loop.line, loop.first_line, loop.last_line, loop.trips) == (4, 5, 6, 3)


def test_the_test_behind_a_loop_is_a_part_of_it() -> None:
    text = "do {\n x();\n do y(); while (z);\n} while (\n f());\nwhile (g()) ;\nint redo = 1, do_ = 2;\n"
    loops = source_loops(text, {})
    assert [(loop.at, loop.first_line, loop.last_line, loop.trips) for loop in loops] == [
        ((1, 1), 2, 5, None),
        ((3, 2), 3, 3, None),
        ((6, 1), 6, 6, None),
    ]


def test_macros_of_the_command_line() -> None:
    options = ["-DN=16", "-DFAST", "-DM=(2*3)", "-Ifolder", "-DX=1.5f", "-std=c++17"]
    assert defined(options) == {"N": 16, "FAST": 1, "M": 6}


def test_kinds_of_accesses() -> None:
    def accessing(space: Any, size: int) -> str:
        memory = MemoryOperation(space=space, direction="load", bytes_per_item=size)
        return kind_of(Instruction(opcode="L", text="L", pipe="load_store", memory=memory))

    assert [accessing("local", size) for size in (1, 4, 8, 16)] == [
        "local_32", "local_32", "local_64", "local_128",
    ]  # fmt: skip
    assert accessing("private", 4) == accessing("global", 4) == "access"
    assert accessing("constant", 4) == "constant"
    assert kind_of(Instruction(opcode="SHFL", text="SHFL", pipe="load_store")) == "exchange"


@settings(max_examples=60)
@given(data=st.data())
def test_all_instructions_on_a_walk_are_counted_once(data: st.DataObject) -> None:
    """A chain of blocks, some of which repeat: the total equals that of a plain walk."""
    n_block = data.draw(st.integers(1, 5))
    text = "".join(f"a{k}[0];\n" for k in range(n_block))
    probes = [probe("load", text, f"a{k}[0]") for k in range(n_block)]
    sizes = data.draw(st.lists(st.integers(0, 4), min_size=n_block, max_size=n_block))
    blocks = []
    for k, size in enumerate(sizes):
        body = ["use R9"] * size
        body.insert(data.draw(st.integers(0, size)), f"load R0 a{k} {k + 1}:1")
        blocks.append((body, (k, k + 1) if k + 1 < n_block else (k,)))
    turns = data.draw(
        st.lists(
            st.lists(st.integers(1, 4), min_size=n_block, max_size=n_block), min_size=1, max_size=3
        )
    )
    code = machine_code(blocks)
    streams = [
        [(k, 10 * k + t) for k, times in enumerate(mine) for t in range(times)] for mine in turns
    ]
    results = totals(rearranged(compiled(code, text, probes), streams))
    lengths = [len(block.instructions) for block in code.blocks]
    assert results == [
        sum(times * length for times, length in zip(mine, lengths, strict=True)) for mine in turns
    ]


def test_quiet_loops_of_code_without_source_run_once() -> None:
    results = executions(unrolled(4, 1).code, ())
    assert Counter(results.times) == {1.0: 4}
    assert not results.looped
