"""What a report says of the machine code that a trace was made with."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from memsim.montecarlo.result import Replay
from memsim.report import svg
from memsim.report.finding import headline
from memsim.report.html import listings, replay_page
from memsim.report.summary import summarise
from memsim.report.verdict import judge
from tests.support.fake_replay import HOSTILE, SITES, fake_dataset
from tests.support.outline import Outline, in_one_kind_of_space, printed

COMPILER: dict[str, Any] = {
    "target": "sm_70",
    "clang": "19.1.7",
    "ptxas": "12.9.86",
    "registers_per_item": 32,
    "notes": [],
}
OCCUPANCY: dict[str, Any] = {
    "groups_per_core": 16,
    "limited_by": "items",
    "occupancy": 0.5,
    "registers_per_item": 32,
}


def replay(compiler: object, occupancy: dict[str, Any] | None = None, **attributes: Any) -> Replay:
    provenance = {"trace": {"tracer": "polyhedral", "compiler": compiler}, "replay": {}}
    return Replay(
        fake_dataset(
            n_trials=4,
            provenance_json=json.dumps(provenance),
            occupancy_json=json.dumps(occupancy or OCCUPANCY),
            **attributes,
        )
    )


def told(one: Replay) -> str:
    return " ".join(printed(one.table(), 200).split())


def shown(one: Replay) -> str:
    return " ".join(" ".join(Outline(replay_page(one.dataset)).text).split())


def test_both_say_first_that_a_trace_is_one_of_many() -> None:
    provenance = {
        "trace": {"compiler": COMPILER, "one_of_many": "k took other paths"},
        "replay": {},
    }
    one = Replay(fake_dataset(n_trials=4, provenance_json=json.dumps(provenance)))
    said = "k took other paths, so its trace is one of many."
    assert said in told(one)
    assert said in shown(one)
    assert "one of many" not in told(replay(COMPILER))


def test_page_and_terminal_say_where_the_registers_are_from_and_what_limits_the_groups() -> None:
    one = replay(COMPILER)
    registers = "32 registers per work-item, compiled for sm_70"
    limiter = "50 % occupancy, limited by work-items"
    waves = "6.40 waves: 8,192 groups, of which all cores hold 1,280 at a time"
    assert f"16 groups per core, {limiter}; {waves}; {registers}" in told(one)
    assert f"Resident on a core 16 groups {limiter}; {waves}; {registers}" in shown(one)
    assert "Registers are unknown" not in told(one) + shown(one)


@pytest.mark.parametrize(
    ("registers", "options", "source"),
    [
        (32, {}, "compiled for sm_70"),
        (40, {}, "given with the kernel"),
        (32, {"registers": 32}, "given as an option"),
    ],
)
def test_registers_that_are_given_are_not_the_compilers(
    registers: int, options: dict[str, int], source: str
) -> None:
    occupancy = {**OCCUPANCY, "registers_per_item": registers}
    one = replay(COMPILER, occupancy, options_json=json.dumps(options))
    assert f"; {registers} registers per work-item, {source} " in told(one)


def test_what_stands_in_comes_first() -> None:
    """Before the finding, on the page and on a terminal: the lack of a compiler, and code of another target."""
    missing = replay(
        {"missing": "clang is not installed"}, {"groups_per_core": 16, "limited_by": "items"}
    )
    other = f"The instructions are those of sm_75 {HOSTILE}."
    source = "The accesses are in the order of the source"
    for one, first in ((missing, source), (replay({**COMPILER, "stand_ins": [other]}), other)):
        found = headline(summarise(one.dataset))
        assert told(one).startswith(first)
        assert told(one).index(first) < told(one).index(found)
        assert shown(one).index(first) < shown(one).index(found)
    for text in (told(missing), shown(missing)):
        assert text.count("clang is not installed.") == 1
    assert "registers per work-item" not in shown(missing)


def test_notes_are_among_the_notes_of_the_page() -> None:
    noted = {**COMPILER, "notes": ["printf is left out."]}
    assert "printf is left out." in judge(summarise(replay(noted).dataset)).caveats


@pytest.mark.parametrize("compiler", [None, {}, [], "x", {"notes": 1, "target": [], "code": 3}])
def test_results_without_a_compiler_still_render(compiler: object) -> None:
    assert "Expected latency of a load" in shown(replay(compiler))


CODE: dict[str, Any] = {
    "n_instructions": 4,
    "text": ["LDG.E R0, [R2] ;", "FADD R1, R0, R0 ;", "MOV R4, R5 ;", f"EXIT {HOSTILE} ;"],
    "pipe": ["load_store", "fma", "alu", "branch"],
    "line": [20, 20, 0, 4000],
    "site": [2, -1, -1, 99],
}


def lines_with_instructions(one: Replay) -> dict[int, list[str]]:
    [listing] = [result for result in listings(summarise(one.dataset)) if not result.file]
    assert [one.number for one in listing.unplaced_machine] == [2, 3]
    return {line.number: [i.text for i in line.machine] for line in listing.lines if line.machine}


def test_instructions_are_below_their_line_and_accesses_name_their_site() -> None:
    one = replay({**COMPILER, "code": CODE})
    assert lines_with_instructions(one) == {20: CODE["text"][:2]}
    result = summarise(one.dataset).compiled
    assert [i.site for i in result.instructions] == [SITES[2][0], None, None, None]
    text = shown(one)
    assert "Compiled for sm_70 by clang 19.1.7, ptxas 12.9.86: 4 instructions. Unfold" in text
    assert "0 load_store LDG.E R0, [R2] ; val[jj] 1 fma FADD" in text
    assert "2 instructions without a line" in text


def test_instructions_are_escaped_and_run_nothing() -> None:
    plain, coded = (
        Outline(replay_page(replay(c).dataset)) for c in (COMPILER, {**COMPILER, "code": CODE})
    )
    assert coded.scripts == plain.scripts
    assert "<script>alert(1)" in " ".join(coded.text)
    assert {tag for tag, _ in coded.tags} - {tag for tag, _ in plain.tags} <= {"details", "summary"}


def test_the_instructions_are_in_neither_the_provenance_nor_the_json() -> None:
    one = replay({**COMPILER, "code": CODE})
    assert "FADD" not in one.to_json()
    assert json.loads(one.to_json())["provenance"]["trace"]["compiler"] == COMPILER
    assert shown(one).count("FADD") == 1


def test_a_truncated_table_is_marked() -> None:
    cut = replay({**COMPILER, "code": {**CODE, "n_instructions": 9000}})
    assert "9,000 instructions, of which the first 4 are shown and counted" in shown(cut)


@pytest.mark.parametrize(
    "code", [{"text": 3}, {**CODE, "line": None}, {**CODE, "line": ["x", None, [], {}]}, {}]
)
def test_a_damaged_table_still_renders(code: object) -> None:
    assert "Expected latency of a load" in shown(replay({**COMPILER, "code": code}))


def at_groups(*groups: int) -> list[dict[str, Any]]:
    return [{"groups_per_core": n, "load_hit_ratio": {"L1": 1 / n, "L2": None}} for n in groups]


def test_hit_ratios_are_drawn_over_the_groups_of_a_core() -> None:
    drawn = replay(COMPILER, {**OCCUPANCY, "over_groups": at_groups(1, 4, 16)})
    text = shown(drawn)
    page = in_one_kind_of_space(replay_page(drawn.dataset))
    tile = page[page.index('id="groups"') :]
    assert tile.index("16: 6.2 %") < tile.index("</section>"), "the curve stands in the tile"
    for point in ("1: 100.0 %", "4: 25.0 %", "16: 6.2 %"):
        assert point in text
    assert "Registers are unknown" not in text


@pytest.mark.parametrize("rows", [[], at_groups(16), "x", [{"groups_per_core": 3}]])
def test_nothing_is_drawn_below_two_points(rows: object) -> None:
    assert "over groups per core" not in shown(replay(COMPILER, {**OCCUPANCY, "over_groups": rows}))


@pytest.mark.parametrize(("second", "spans"), [(50.01, False), (70.0, True)])
def test_small_differences_do_not_fill_the_height_of_a_curve(second: float, spans: bool) -> None:
    image = svg.curve({1: 50.0, 8: second}, 8, "groups", "%", "d", 10.0)
    heights = [float(y) for y in re.findall(r'cy="([\d.]+)"', str(image))]
    assert (heights[0] - heights[1] > 100) == spans
    assert spans or heights[0] - heights[1] < 1
