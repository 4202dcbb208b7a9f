"""`memsim blocks`: counts at sizes that never ran, learned ones, costs, the picture, bad settings."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from calib.commands.blocks import blocks
from memsim.errors import MemsimError

GEMM = "experiments.kernels.polybench.products:gemm"
SPMV = "experiments.kernels.graphs:spmv"


def run(*arguments: str) -> str:
    result = CliRunner().invoke(blocks, list(arguments), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def test_a_kernel_without_arguments(tmp_path: Path) -> None:
    (tmp_path / "nothing.py").write_text(
        "import loopy as lp\n"
        "k = lp.make_kernel('{[i]: 0 <= i < 128}', '', [], name='k', lang_version=(2018, 2))\n"
    )
    text = run(f"{tmp_path / 'nothing.py'}:k", "--run")
    assert "1 of 1 exact counts are equal" in text


def test_a_run_without_exact_counts_compares_nothing() -> None:
    kernel = "experiments/kernels/merge_sort.cl:merge_global"
    arguments = "experiments/kernels/merge_sort.py:global_pass"
    text = run(kernel, "--args", arguments, "--set", "n=1000", "--set", "width=64", "--run")
    assert "run of the first size: counted; no count of the table is exact" in text
    assert "are equal" not in text
    assert "count them with --run" not in text


def test_exact_counts_over_a_range(tmp_path: Path) -> None:
    picture = tmp_path / "graph.png"
    out = tmp_path / "counts.json"
    text = run(
        GEMM, "--set", "ni=40", "--set", "nj=64", "--set", "nk=16:4000", "--run", "-m", "v100",
        "--formulas", "--plot", str(picture), "--json", str(out),
    )  # fmt: skip
    assert "5 of 5 exact counts are equal" in text
    assert picture.stat().st_size > 1000
    data = json.loads(out.read_text())
    assert [size["nk"] for size in data["sizes"]] == [16, 32, 64, 128, 256, 512, 1024, 2048, 4000]
    (body,) = [block for block in data["blocks"] if block["kind"] == "body"]
    assert body["by_work_items"][-1] == 40 * 64 * 4000
    assert body["by_sub_groups"][-1] == 40 * 2 * 4000
    assert all(block["way"] == "exact" for block in data["blocks"])
    assert data["costs"][-1]["requests"]["global loads"] == 2 * 40 * 2 * 4000 + 40 * 2
    assert all(row["equal"] for row in data["run"])
    (launch,) = data["launches"]
    assert launch["by_sub_groups"] == [row["by_sub_groups"] for row in data["run"]]


def test_data_dependent_counts_are_learned_and_marked() -> None:
    text = run(SPMV, "--set", "n=2048", "--train", "n=100:1000", "--runs", "24", "--json", "-")
    data: dict[str, Any] = json.loads(text[text.index("{") :])
    (body,) = [block for block in data["blocks"] if block["kind"] == "body"]
    assert body["way"] == "learned"
    assert "n = 2048 (trained on 100..1000)" in body["warning"]
    low, high = body["interval"][0]
    # 64 sub-groups, each as long as its longest row of 8 edges on average.
    assert 64 * 8 < low <= body["by_sub_groups"][0] <= high < 64 * 40
    entry = data["blocks"][0]
    assert (entry["way"], entry["by_sub_groups"]) == ("exact", [64])


def test_unknown_counts_are_reported_with_a_remedy() -> None:
    text = run(SPMV, "--set", "n=256")
    assert "unknown counts: learn them with --train" in text
    assert "it reads memory" in text


@pytest.mark.slow
def test_cost_at_a_size_that_never_ran() -> None:
    """atax reads its matrix twice, once by rows and once by columns: at 2^15 all of it from DRAM."""
    text = run(
        "experiments.kernels.polybench.vectors:atax", "--set", "nx=32768", "--set", "ny=32768",
        "-m", "v100", "--hits", "nx=512:4096", "--json", "-",
    )  # fmt: skip
    data = json.loads(text[text.index("{") :])
    (answer,) = data["beyond"]
    assert answer["with"] == ["nx", "ny"]
    assert "512..4096 to 32768" in answer["warning"]
    matrix = 4 * 32768**2
    assert answer["dram_bytes"]["mean"] == pytest.approx(2 * matrix, rel=0.02)
    assert (
        answer["dram_bytes"]["low"] <= answer["dram_bytes"]["mean"] <= answer["dram_bytes"]["high"]
    )
    assert answer["least_s"]["mean"] >= 2 * matrix / 900e9  # a V100's DRAM moves 900 GB/s


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((GEMM, "--set", "nk=64:16"), "--set must be NAME=LOW:HIGH with 0 < LOW <= HIGH"),
        ((SPMV, "--train", "n=5"), "--train must be NAME=LOW:HIGH"),
        ((GEMM, "--set", "depth=3"), "depth"),
        ((GEMM, "--hits", "nk=16:128"), "--hits needs a machine"),
        ((SPMV, "--set", "n=64", "--train", "n=9:9"), "input n is 9 in all 40 samples"),
    ],
)
def test_bad_settings_are_named(arguments: tuple[str, ...], words: str) -> None:
    with pytest.raises(MemsimError, match=words):
        CliRunner().invoke(blocks, list(arguments), catch_exceptions=False)
