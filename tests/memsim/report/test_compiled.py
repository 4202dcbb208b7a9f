"""What a report says of the machine code that a trace was made with, and which listings it shows."""

from __future__ import annotations

import dataclasses
import json
import re
from types import SimpleNamespace
from typing import Any

import pytest

from memsim.machine.file import load_machine
from memsim.montecarlo.result import Replay
from memsim.report.finding import headline
from memsim.report.html import listings, replay_page
from memsim.report.source_view import colours, generated_listing
from memsim.report.summary import summarise
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
            provenance=provenance,
            occupancy=occupancy or OCCUPANCY,
            **attributes,
        )
    )


def told(one: Replay) -> str:
    return " ".join(printed(one.table(), 200).split())


def shown(one: Replay) -> str:
    return " ".join(" ".join(Outline(replay_page(one.dataset)).text).split())


def test_both_say_first_that_a_trace_is_one_of_many() -> None:
    trace = {"compiler": COMPILER, "one_of_many": "k took other paths"}
    one = Replay(fake_dataset(n_trials=4, provenance={"trace": trace, "replay": {}}))
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
    [(32, {}, "compiled for sm_70"), (40, {}, "given with the kernel"), (32, {"registers": 32}, "given as an option")],
)  # fmt: skip
def test_registers_that_are_given_are_not_the_compilers(
    registers: int, options: dict[str, int], source: str
) -> None:
    occupancy = {**OCCUPANCY, "registers_per_item": registers}
    one = replay(COMPILER, occupancy, options=options)
    assert f"; {registers} registers per work-item, {source} " in told(one)


def test_what_stands_in_comes_first() -> None:
    """Before the finding, on the page and on a terminal: the lack of a compiler, and code of another target."""
    missing = replay(
        {"missing": "clang is not installed"}, {"groups_per_core": 16, "limited_by": "items"}
    )
    other = f"The instructions are those of sm_75 {HOSTILE}."
    source = "The accesses are in the order of the source"
    coded = replay({**COMPILER, "stand_ins": [other]})
    for one, first in ((missing, source), (coded, other)):
        found = headline(summarise(one.dataset))
        on_terminal, on_page = told(one), shown(one)
        assert on_terminal.startswith(first)
        for words in (on_terminal, on_page):
            assert words.index(first) < words.index(found)
            assert words.count("clang is not installed.") == (one is missing)
        assert ("registers per work-item" in on_page) == (one is coded)


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


def test_the_instructions_are_in_neither_the_provenance_nor_the_json() -> None:
    one = replay({**COMPILER, "code": CODE})
    assert "FADD" not in one.to_json()
    assert json.loads(one.to_json())["provenance"]["trace"]["compiler"] == COMPILER
    assert shown(one).count("FADD") == 1


def test_a_truncated_table_is_marked() -> None:
    cut = replay({**COMPILER, "code": {**CODE, "n_instructions": 9000}})
    assert "9,000 instructions, of which the first 4 are shown and counted" in shown(cut)


DAMAGED = [{"text": 3}, {**CODE, "line": None}, {**CODE, "line": ["x", None, [], {}]}, {}]


@pytest.mark.parametrize(
    "compiler",
    [*(None, {}, [], "x", {"notes": 1, "target": [], "code": 3}),
     *({**COMPILER, "code": code} for code in DAMAGED)],
)  # fmt: skip
def test_results_without_a_compiler_and_damaged_ones_still_render(compiler: object) -> None:
    assert "Expected latency of a load" in shown(replay(compiler))


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


# Listings

SITE: Any = SimpleNamespace(site="x[i]", user_file="body.h", user_line=2, source_line=3)


def titles(program: str) -> list[str]:
    """The titles of a page for a program most of whose accesses lie in `body.h`."""
    summary: Any = SimpleNamespace(
        compiled=SimpleNamespace(instructions=()),
        generated_source=program,
        user_source="// body\ny[i] = x[i];\n",
        sites=[SITE],
    )
    shown_ones = listings(summary)
    accessed = {one.title: [line.number for line in one.lines if line.sites] for one in shown_ones}
    assert accessed["body.h"] == [2]
    assert [3] in [accessed[title] for title in accessed if title != "body.h"]
    return list(accessed)


def test_a_program_in_cuda_comes_before_the_files_that_it_includes() -> None:
    assert titles('#include "body.h"\n__global__ void k() {\n  body();\n}\n') == [
        "CUDA C++",
        "body.h",
    ]


def test_generated_opencl_comes_after_the_users_file() -> None:
    assert titles("__kernel void k()\n{\n  y[i] = x[i];\n}\n") == ["body.h", "Generated OpenCL"]


def test_only_what_has_a_colour_of_its_own_is_marked() -> None:
    """Of a kernel with 300 accesses, marks on names and blanks were a quarter of the page."""
    text = "  float s = a[i + 1] < 2; /* twice */\n"
    listing = generated_listing(text, [])
    (line,) = listing.lines
    assert line.code.striptags() == " ".join(text.split())
    assert re.findall(r'class="(\w+)"', line.code) == ["kt", "o", "o", "mi", "o", "mi", "cm"]
    styled = set(re.findall(r"\.code \.(\w+) ", colours()))
    assert {"kt", "o", "mi", "cm"} <= styled
    assert not styled & {"n", "p", "w", "err"}


@pytest.mark.parametrize(("fetched", "is_explained"), [(32, False), (64, True)])
def test_the_page_says_why_dram_reads_more_than_l2(fetched: int, is_explained: bool) -> None:
    machine = load_machine("v100")
    l2 = dataclasses.replace(machine.levels[1], fill_bytes=fetched)
    dataset = fake_dataset(n_trials=2, machine=machine.replace(levels=(machine.levels[0], l2)))
    words = f"A miss in L2 fetches {fetched} B, so more may be read from DRAM than is requested."
    assert (words in replay_page(dataset).replace("\N{NO-BREAK SPACE}", " ")) == is_explained
