"""What a report says of the machine code that a trace was made with."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
from rich.console import Console

from memsim.montecarlo.result import Replay
from memsim.report.html import page
from memsim.report.summary import summarise
from memsim.report.verdict import judge
from tests.support.fake_replay import fake_dataset
from tests.support.outline import Outline

COMPILER: dict[str, Any] = {
    "target": "sm_70",
    "clang": "19.1.7",
    "ptxas": "12.9.86",
    "registers_per_item": 32,
    "unmatched_percent": 0.0,
    "notes": [],
}
OCCUPANCY = {"groups_per_core": 16, "limited_by": "items", "registers_per_item": 32}


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


def printed(one: Replay) -> str:
    file = io.StringIO()
    Console(file=file, width=200).print(one.table())
    return " ".join(file.getvalue().split())


def shown(one: Replay) -> str:
    return " ".join(" ".join(Outline(page(one.dataset)).text).split())


def test_page_and_terminal_say_where_the_registers_are_from_and_what_limits_the_groups() -> None:
    one = replay(COMPILER)
    line = (
        "32 registers per work-item, compiled for sm_70; 16 groups per core, limited by work-items"
    )
    assert line in printed(one)
    assert "Registers per work-item 32 compiled for sm_70" in shown(one)
    assert "Groups per core 16 limited by work-items" in shown(one)
    assert "Registers are unknown" not in printed(one) + shown(one)


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
    assert f"{registers} registers per work-item, {source};" in printed(one)


def test_one_line_says_which_compiler_is_missing() -> None:
    one = replay(
        {"missing": "clang is not installed"}, {"groups_per_core": 16, "limited_by": "items"}
    )
    for text in (printed(one), shown(one)):
        assert text.count("clang is not installed.") == 1
        assert "The accesses are in the order of the source" in text
    assert "Registers per work-item" not in shown(one)


def test_notes_and_unmatched_accesses_are_among_the_notes_of_the_page() -> None:
    unmatched = {**COMPILER, "unmatched_percent": 3.25, "notes": ["printf is left out."]}
    caveats = judge(summarise(replay(unmatched).dataset)).caveats
    assert "printf is left out." in caveats
    assert any("No instruction was found for 3.2 % of the accesses" in line for line in caveats)
    matched = judge(summarise(replay(COMPILER).dataset)).caveats
    assert not any("No instruction" in line for line in matched)


@pytest.mark.parametrize("compiler", [None, {}, [], "x", {"notes": 1, "target": [], "code": 3}])
def test_results_without_a_compiler_still_render(compiler: object) -> None:
    assert "Expected latency of a load" in shown(replay(compiler))
