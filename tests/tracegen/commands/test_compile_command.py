"""`memsim compile` from end to end."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.command_line import RunMemsim
from tests.support.compilers import needs_amd, needs_nvidia

TEXT = """\
__kernel void scale(__global float const *in, __global float *out, __local float *tile)
{
  int i = get_global_id(0), l = get_local_id(0);
  tile[l] = in[i];
  barrier(CLK_LOCAL_MEM_FENCE);
  out[i] = FACTOR * tile[get_local_size(0) - 1 - l];
}
"""
ARGUMENTS = """\
import numpy as np
import tracegen

def scale(n: int = 1024):
    return tracegen.OpenCLWorkload(
        arguments=[np.ones(n, np.float32), np.ones(n, np.float32), 40000],
        global_size=n, local_size=128, build_options="-DFACTOR=2.0f",
    )
"""
TWO = """\
import loopy as lp

def two():
    kernel = lp.make_kernel(
        "{[i, j]: 0 <= i, j < 256}",
        "a[i] = 2 * b[i] {id=first}\\n ... gbarrier {id=after, dep=first}\\n c[j] = a[255 - j] {dep=after}",
        lang_version=(2018, 2), name="two",
    )
    kernel = lp.add_dtypes(kernel, {"b": "float32"})
    kernel = lp.split_iname(kernel, "i", 64, outer_tag="g.0", inner_tag="l.0")
    return lp.split_iname(kernel, "j", 64, outer_tag="g.0", inner_tag="l.0")
"""


@pytest.fixture
def scale(tmp_path: Path) -> tuple[str, ...]:
    (tmp_path / "scale.cl").write_text(TEXT)
    (tmp_path / "args.py").write_text(ARGUMENTS)
    return ("compile", f"{tmp_path}/scale.cl:scale", "--args", f"{tmp_path}/args.py:scale")


@pytest.fixture
def two(tmp_path: Path) -> tuple[str, ...]:
    (tmp_path / "two.py").write_text(TWO)
    return ("compile", f"{tmp_path}/two.py:two", "-m", "mi250x")


@needs_nvidia
def test_what_a_kernel_needs_and_its_instructions(
    run_memsim: RunMemsim, scale: tuple[str, ...]
) -> None:
    ended = run_memsim(*scale, "-m", "v100")
    lines = ended.out.splitlines()
    assert lines[0].startswith("scale for sm_70, compiled by clang ")
    shown = {line[2:18].strip(): line[18:] for line in lines[1:6]}
    assert shown["registers"].endswith(" a work-item")
    assert shown["spills"] == "none"
    assert shown["private memory"] == "0 bytes a work-item"
    assert shown["local memory"] == "40000 bytes a group"
    # Two groups of 40000 bytes fit into the 96 KB of a V100's core.
    assert shown["occupancy"] == (
        "12 %: 2 groups of 128 work-items on a core of v100, limited by local memory"
    )
    titles = lines[6].split()
    assert titles[:3] == ["block", "loops", "instructions"]
    assert {"fma", "alu", "load_store", "barrier"} <= set(titles)
    assert lines[-1].startswith("note: The registers are those of sm_70; the instructions are")


@needs_nvidia
@needs_amd
def test_json(run_memsim: RunMemsim, scale: tuple[str, ...]) -> None:
    for machine, target in (("h100", "sm_90"), ("mi250x", "gfx90a")):
        data = json.loads(run_memsim(*scale, "-m", machine, "--json", "-").out)
        assert data["schema"] == 1
        (result,) = data["kernels"]
        assert (result["kernel"], result["machine"], result["target"]) == ("scale", machine, target)
        assert result["group_shape"] == [128]
        assert result["local_memory_bytes"] == 40000
        assert result["occupancy"]["groups_per_core"] >= 1
        assert result["instructions"]["barrier"] == 1
        assert sum(result["instructions"].values()) == sum(
            sum(block["instructions"].values()) for block in result["blocks"]
        )
        accesses = [one for block in result["blocks"] for one in block["accesses"]]
        in_global = [one for one in accesses if one["space"] == "global"]
        assert [(one["direction"], one["line"]) for one in in_global] == [("load", 4), ("store", 6)]


@needs_nvidia
@needs_amd
def test_the_text_of_the_code(
    run_memsim: RunMemsim, scale: tuple[str, ...], tmp_path: Path
) -> None:
    for machine, suffix, word in (
        *(("v100", "ptx", ".visible .entry scale"), ("v100", "sass", "LDG.E")),
        ("mi210", "s", "global_load_dword"),
    ):
        path = tmp_path / f"scale.{suffix}"
        ended = run_memsim(*scale, "-m", machine, "-o", str(path))
        assert ended.err == f"wrote {path}\n"
        assert word.removeprefix(".visible ") in path.read_text()
    ended = run_memsim(*scale, "-m", "mi210", "-o", "-")
    assert ended.out == (tmp_path / "scale.s").read_text() + "\n"
    error = run_memsim.refused(*scale, "-m", "mi210", "-o", str(tmp_path / "x.ptx"))
    assert f"--out for gfx90a must end in .s, got {tmp_path}/x.ptx" in error
    run_memsim.refused(*scale, "-m", "mi210", "-o", "-", "--json", "-")


@needs_amd
def test_each_launch_of_a_kernel_has_its_code(
    run_memsim: RunMemsim, two: tuple[str, ...], tmp_path: Path
) -> None:
    for words, names in (
        ((), ["two", "two_0"]),
        (("--launch", "1", "-o", str(tmp_path / "two.s")), ["two_0"]),
    ):
        ended = run_memsim(*two, *words, "--json", "-")
        assert [one["kernel"] for one in json.loads(ended.out)["kernels"]] == names
    error = run_memsim.refused(*two, "-o", str(tmp_path / "both.s"))
    assert "--out takes one kernel, there are two, two_0: name one with --launch" in error
    assert "--launch must be at most 1, got 2" in run_memsim.refused(*two, "--launch", "2")


@needs_amd
def test_another_target_and_a_limit_of_registers(
    run_memsim: RunMemsim, scale: tuple[str, ...]
) -> None:
    ended = run_memsim(*scale, "-m", "mi250x", "--target", "gfx803", "--registers-limit", "4")
    assert ended.out.startswith("scale for gfx803, compiled by clang ")
    assert "  registers       4 a work-item" in ended.out


def test_a_machine_that_compilers_have_no_name_for(
    run_memsim: RunMemsim, scale: tuple[str, ...]
) -> None:
    error = run_memsim.refused(*scale, "-m", "cpu-pocl")
    assert error == "memsim: machine cpu-pocl has no compiler_target: name one with --target"


@needs_amd
def test_errors_name_the_users_line(
    run_memsim: RunMemsim, scale: tuple[str, ...], tmp_path: Path
) -> None:
    # This text is correct OpenCL C; the compiler for AMD needs to see what is called.
    text = TEXT.replace("__kernel void", "float far(float);\n__kernel void", 1)
    (tmp_path / "scale.cl").write_text(text.replace("FACTOR *", "far(FACTOR) *"))
    error = run_memsim(*scale, "-m", "mi250x", code=2).err
    assert "function far is not available for gfx90a" in error
