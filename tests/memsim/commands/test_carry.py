"""--carry-l2 from end to end: two launches, the second of which loads what the first one stored."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import memsim
from memsim.commands.cli import main
from tests.support.command_line import RunMemsim
from tests.support.json_schema import json_schema

KERNEL = '''
import loopy as lp
import numpy as np
from tracegen import Workload


def chain(n: int = 16384):
    """b = 2 a, then c = 2 b: 64 kB each, which any L2 holds."""
    kernel = lp.make_kernel(
        "{[i, j]: 0 <= i, j < n}",
        """
        b[i] = 2*a[i] {id=first}
        ... gbarrier {id=between, dep=first}
        c[j] = 2*b[j] {dep=between}
        """,
        [lp.GlobalArg("a, b, c", np.float32, shape="n"), lp.ValueArg("n", np.int32)],
        name="chain",
        lang_version=(2018, 2),
    )
    for name in "ij":
        kernel = lp.split_iname(kernel, name, 128, outer_tag="g.0", inner_tag="l.0")
    zeros = np.zeros(n, np.float32)
    return Workload(kernel, {"a": np.ones(n, np.float32), "b": zeros, "c": zeros.copy()})
'''
OPTIONS = ("-m", "v100", "--trials", "3", "--seed", "5", "--jobs", "1")


@pytest.fixture(scope="module")
def traced(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The file of a kernel, and that of the trace of its two launches."""
    import pyopencl  # noqa: F401  # see tracegen.own_process

    folder = tmp_path_factory.mktemp("chain")
    (folder / "my_kernel.py").write_text(KERNEL)
    words = ("-m", "v100", "--all-launches", "-o", str(folder / "chain.trace"))
    assert main(("trace", f"{folder / 'my_kernel.py'}:chain", *words)) == 0
    return folder / "my_kernel.py", folder / "chain.trace"


@pytest.fixture
def trace_file(traced: tuple[Path, Path]) -> Path:
    return traced[1]


def read_hits(data: dict[str, Any]) -> float:
    jsonschema.validate(data, json_schema())
    mean = data["levels"]["L2"]["read"]["hit_ratio"]["mean"]
    assert isinstance(mean, float)
    return mean


def test_the_second_launch_finds_in_l2_what_the_first_stored(
    run_memsim: RunMemsim, traced: tuple[Path, Path]
) -> None:
    kernel, trace_file = traced
    carried = run_memsim("replay", str(trace_file), *OPTIONS, "--carry-l2", "--json", "-")
    launches = json.loads(carried.out)["launches"]
    assert [read_hits(one) for one in launches] == [0.0, 1.0]
    # Left to itself it finds nothing.
    alone = run_memsim("replay", str(trace_file), *OPTIONS, "--launch", "1", "--json", "-")
    assert read_hits(json.loads(alone.out)) == 0.0
    profiled = run_memsim("profile", f"{kernel}:chain", *OPTIONS, "--carry-l2", "--json", "-")
    assert [one["sites"] for one in json.loads(profiled.out)["launches"]] == [
        one["sites"] for one in launches
    ]


def test_one_launch_is_reported_after_those_before_it_and_a_table_has_a_row_a_launch(
    run_memsim: RunMemsim, trace_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    files = {option: tmp_path / f"second.{option}" for option in ("html", "json", "save")}
    outputs = [text for option, path in files.items() for text in (f"--{option}", str(path))]
    carry = ("replay", str(trace_file), *OPTIONS, "--carry-l2")
    run_memsim(*carry, "--launch", "1", *outputs)
    assert read_hits(json.loads(files["json"].read_text())) == 1.0
    assert float(memsim.Replay.load(files["save"]).load_hit_ratio("L2").mean()) == 1.0
    assert "<html" in files["html"].read_text(encoding="utf-8")
    rows = [line.split() for line in run_memsim(*carry).out.splitlines() if "of 128" in line]
    assert [(row[0], "100.0" in row) for row in rows] == [("0", False), ("1", True)]


@pytest.mark.parametrize(
    ("arguments", "culprit"),
    [
        (("--carry-l2", "--html", "x.html"), "--html describes one launch"),
        (("--carry-l2", "--save", "x.nc"), "--save describes one launch"),
        (("--carry-l2", "--warm"), "--warm"),
        (("--carry-l2", "--launch", "2"), "--launch must be below 2, got 2"),
        ((), "choose one by --launch"),
    ],
)
def test_what_does_not_go_with_several_launches(
    run_memsim: RunMemsim, trace_file: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path,
    arguments: tuple[str, ...], culprit: str,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    assert culprit in run_memsim.refused("replay", str(trace_file), *OPTIONS, *arguments)
