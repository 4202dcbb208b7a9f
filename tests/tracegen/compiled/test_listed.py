"""The table of instructions that a trace carries."""

from __future__ import annotations

import json

import pytest

from tests.support.machine_code import compiled, machine_code, probe, rearranged
from tracegen.compiled.model import PIPES
from tracegen.compiled.ordering import listed

TEXT = "c[0] = a[0] + b[0];\n"
PROBES = [probe("load", TEXT, "a[0]"), probe("load", TEXT, "b[0]"), probe("store", TEXT, "c[0]")]
STREAM = [[(0, 10), (1, 20), (2, 30)]]
CODE = ["load R1 b 1:15", "spill 8", "use R1", "load R2 a 1:8", "fill R3 8", "store c 1:6 R2"]


def test_each_instruction_has_its_line_pipe_and_site() -> None:
    launch = compiled(machine_code([(CODE, ())], private_bytes=16), TEXT, PROBES)
    made = rearranged(launch, STREAM)
    table = launch.provenance(made)["code"]
    names = [made.sites[site].name if site >= 0 else "" for site in table["site"]]
    assert names == [
        "b[0]", "store spilled registers", "", "a[0]", "spilled registers", "store c[0]", ""
    ]  # fmt: skip
    assert table["line"] == [1, 0, 0, 1, 0, 1, 0]
    assert table["text"][0] == CODE[0]
    assert set(table["pipe"]) <= set(PIPES)
    assert table["n_instructions"] == len(table["text"]) == 7
    assert json.loads(json.dumps(table)) == table


def test_an_instruction_without_an_access_of_the_source_has_no_site() -> None:
    launch = compiled(machine_code([(["load R1 z 9:1"], ())]), TEXT, PROBES)
    assert rearranged(launch, STREAM).code["site"] == [-1, -1]


@pytest.mark.parametrize("most", [1, 6, 7])
def test_the_table_is_bounded_and_has_the_total_number(
    most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listed, "MOST_INSTRUCTIONS", most)
    launch = compiled(machine_code([(CODE, ())], private_bytes=16), TEXT, PROBES)
    table = rearranged(launch, STREAM).code
    assert table["n_instructions"] == 7
    assert {len(table[name]) for name in ("text", "pipe", "line", "site")} == {most}
