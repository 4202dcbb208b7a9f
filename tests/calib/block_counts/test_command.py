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
    assert "1 of 1 counts are equal" in text


CUDA = """
extern "C" __global__ void doubled(const float *in, float *out, int n)
{
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n)
    out[i] = 2 * in[i];
}
"""
ARGUMENTS = """
import numpy as np
import tracegen

def doubled(n: int = 1000):
    arrays = {"in": np.ones(n, np.float32), "out": np.zeros(n, np.float32)}
    return tracegen.CudaWorkload(path="doubled.cu", arguments={**arrays, "n": np.int32(n)}, grid=-(-n // 128), block=128)
"""


def test_cuda(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A thousand threads are eight blocks of four warps, of which all have a thread; 2 * in[i] is 1000 of them."""
    monkeypatch.chdir(tmp_path)
    Path("doubled.cu").write_text(CUDA)
    Path("args.py").write_text(ARGUMENTS)
    kernel = ("doubled.cu:doubled", "--args", "args.py:doubled")
    text = run(*kernel, "--set", "n=1000:5000000", "-m", "a100", "--json", "-")
    data = json.loads(text[text.index("{") :])
    entry, body = data["blocks"][0], data["blocks"][-1]
    assert (entry["by_work_items"][0], entry["by_sub_groups"][0]) == (1024, 32)
    assert (body["by_work_items"][0], body["by_sub_groups"][0]) == (1000, 32)
    assert (body["by_work_items"][-1], body["by_sub_groups"][-1]) == (5000000, -(-5000000 // 32))
    assert [one for one in body["accesses"] if "global" in one] == ["global load", "global store"]
    assert body["way"] == "exact"
    assert data["costs"][-1]["requests"]["global stores"] == 156250


def test_exact_counts_over_a_range(tmp_path: Path) -> None:
    picture = tmp_path / "graph.png"
    out = tmp_path / "counts.json"
    text = run(
        GEMM, "--set", "ni=40", "--set", "nj=64", "--set", "nk=160:500", "--run", "-m", "v100",
        "--formulas", "--plot", str(picture), "--json", str(out),
    )  # fmt: skip
    assert "17 of 17 counts are equal" in text
    assert "ni nj nk/512 for ni = 8 mod 32, nj = 0 mod 32, nk = 0 mod 32" in text
    assert picture.stat().st_size > 1000
    data = json.loads(out.read_text())
    assert [size["nk"] for size in data["sizes"]] == [160, 320, 500]
    (body,) = [block for block in data["blocks"] if block["accesses"].count("global load") == 32]
    # Sixteen products a turn, by rows of a tile of 8 by 32.
    assert body["by_work_items"][-1] == 40 * 64 * (500 // 16)
    assert body["by_sub_groups"][-1] == 40 * 2 * (500 // 16)
    assert all(block["way"] == "exact" for block in data["blocks"])
    assert data["costs"][-1]["requests"]["global loads"] == 2 * 40 * 2 * 500 + 40 * 2
    assert all(row["equal"] for row in data["run"])
    (launch,) = data["launches"]
    assert launch["by_sub_groups"] == [row["by_sub_groups"] for row in data["run"]]


def test_data_dependent_counts_are_learned_and_marked() -> None:
    text = run(SPMV, "--set", "n=2048", "--train", "n=100:1000", "--runs", "16", "--json", "-")
    data: dict[str, Any] = json.loads(text[text.index("{") :])
    learned = [block for block in data["blocks"] if block["way"] == "learned"]
    remainder = max(learned, key=lambda block: block["by_sub_groups"][0])
    assert "n = 2048 (trained on 100..1000)" in remainder["warning"]
    low, high = remainder["interval"][0]
    # Of 64 sub-groups, each with rows that leave up to three entries to the loop's remainder.
    assert 64 < low <= remainder["by_sub_groups"][0] <= high < 64 * 4
    entry = data["blocks"][0]
    assert (entry["way"], entry["by_sub_groups"]) == ("exact", [64])


def test_data_dependent_counts_are_executed_where_that_is_quick_and_else_unknown() -> None:
    text = run(SPMV, "--set", "n=1500", "--run")
    assert "executed" in text
    assert "counts are equal" in text
    assert "unknown" not in text
    text = run(SPMV, "--set", "n=1000000")
    assert "unknown counts: learn them with --train" in text
    assert "it depends on loaded values" in text


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
    matrix, moved = 4 * 32768**2, answer["dram_bytes"]
    assert moved["mean"] == pytest.approx(2 * matrix, rel=0.02)
    assert moved["low"] <= moved["mean"] <= moved["high"]
    assert answer["least_s"]["mean"] >= 2 * matrix / 900e9  # a V100's DRAM moves 900 GB/s


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((GEMM, "--set", "nk=64:16"), "--set must be NAME=LOW:HIGH with 0 < LOW <= HIGH"),
        ((SPMV, "--train", "n=5"), "--train must be NAME=LOW:HIGH"),
        ((GEMM, "--set", "depth=3"), "depth"),
        ((GEMM, "--hits", "nk=16:128"), "--hits needs a machine"),
        ((GEMM, "--plot", "graph"), "--plot must end in .png, .svg, .pdf, got graph"),
        ((SPMV, "--set", "n=4096", "--train", "n=9:9"), "input n is 9 in all 40 samples"),
    ],
)
def test_bad_settings_are_named(arguments: tuple[str, ...], words: str) -> None:
    with pytest.raises(MemsimError, match=words):
        CliRunner().invoke(blocks, list(arguments), catch_exceptions=False)
