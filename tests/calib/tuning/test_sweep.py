"""`memsim sweep`: curves over a size, and the sizes at which an array leaves a cache."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

import memsim
from calib.tuning import Outcome
from calib.tuning.sweep import bound_changes, growth, knees
from tests.support.command_line import RunMemsim

AGAIN = """
import loopy as lp
import numpy as np

import tracegen


def again(n: int = 64) -> tracegen.Workload:
    knl = lp.make_kernel(
        "{[i, l, r, j]: 0 <= i < 8 and 0 <= l < 32 and 0 <= r < 4 and 0 <= j < n}",
        "b[i, l] = sum(r, sum(j, a[i, j, l]))",
        lang_version=(2018, 2),
        seq_dependencies=True,
    )
    knl = lp.tag_inames(knl, "i:g.0, l:l.0")
    return tracegen.Workload(knl, {"a": np.ones((8, n, 32), np.float32), "n": n})
"""


def outcome(n: int, time_s: float = 1.0, binds: str = "L1", **ratios: float) -> Outcome:
    return Outcome(
        configuration={"n": str(n)},
        machine="m",
        effort=2,
        time_s=time_s,
        binds=binds,
        array_hit_ratios={key.replace("_", "/"): value for key, value in ratios.items()},
    )


def test_a_knee_is_the_largest_fall() -> None:
    """Sizes that fail are passed over."""
    failed = Outcome(configuration={"n": "3"}, machine="m", effort=2, failure="no")
    first, *others = (
        outcome(n, L1_x=x, L2_y=y)
        for n, x, y in ((1, 0.99, 0.8), (2, 0.95, 0.78), (4, 0.30, 0.75), (8, 0.10, 0.79))
    )
    (knee,) = knees([first, others[0], failed, *others[1:]])
    assert str(knee) == "x leaves L1 between n=2 and n=4 (hits fall from 95 % to 30 %)"
    assert knees([failed]) == knees([]) == []


def test_what_binds_and_how_time_grows() -> None:
    outcomes = [outcome(2, 1.0, "latency"), outcome(4, 8.0, "DRAM"), outcome(8, 64.0, "DRAM")]
    assert bound_changes(outcomes) == ["limited by DRAM from n=4 on, before by latency"]
    assert growth(outcomes, "n") == pytest.approx(3.0)


def test_an_array_that_is_read_again_leaves_the_l1_at_its_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run_memsim: RunMemsim
) -> None:
    """Each of 8 groups, one a core, reads 128 n bytes four times over: 3 of 4 hit while they fit.

    The compiler does not know n, or it would keep some of them in registers."""
    monkeypatch.chdir(tmp_path)
    Path("again.py").write_text(AGAIN)
    capacity = memsim.load_machine("v100").levels[0].size_bytes
    ended = run_memsim(
        *("sweep", "again.py:again", "-m", "v100", "--set", "n=512:2048", "--jobs", "1"),
        *("--json", "out.json", "--csv", "out.csv", "--html", "out.html"),
    )
    assert "a leaves L1 between" in ended.out
    sizes = json.loads(Path("out.json").read_text())["machines"]["v100"]["sizes"]
    hits = {128 * one["configuration"]["n"]: one["hit_ratios"]["L1"] for one in sizes}
    assert hits[capacity // 2] == pytest.approx(3 / 4)
    assert hits[2 * capacity] < 0.5
    rows = list(csv.DictReader(Path("out.csv").read_text().splitlines()))
    assert {float(row["occupancy"]) for row in rows} == {32 / 2048}
    assert [int(row["n"]) for row in rows] == [512, 1024, 2048]
    assert "leaves L1" in Path("out.html").read_text()


def test_a_size_that_is_no_number_is_no_size_that_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run_memsim: RunMemsim
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("again.py").write_text(AGAIN)
    words = ("sweep", "again.py:again", "-m", "v100", "--json", "out.json")
    error = run_memsim.refused(*words, "--jobs", "1", "--set", "n=4,x")
    assert error == "memsim: n must be an integer, got 'x'"
    run_memsim(*words, "--jobs", "1", "--set", "n=4,-1")
    first, second = json.loads(Path("out.json").read_text())["machines"]["v100"]["sizes"]
    assert first["time_s"] > 0
    assert second["failure"]


@pytest.mark.parametrize(
    ("words", "rule"),
    [
        ((), "a sweep needs a setting with several sizes"),
        (("--set", "n=64"), "a sweep needs a setting with several sizes"),
        (("--set", "n=8:4"), "0 < LOW <= HIGH"),
        (("--set", f"n=1:{1 << 63}"), "--set must be NAME=LOW:HIGH with 0 < LOW <= HIGH < 2^63"),
        (("--set", "n=1:4", "-m", "v100"), "is given twice"),
        (("--set", "n=1:4", "--jobs", "1"), "no size can be predicted; the first: no such kernel file"),
    ],
)  # fmt: skip
def test_wrong_command_lines(run_memsim: RunMemsim, words: tuple[str, ...], rule: str) -> None:
    assert rule in run_memsim.refused("sweep", "again.py:again", "-m", "v100", *words)
