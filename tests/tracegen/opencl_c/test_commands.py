"""`memsim trace` and `memsim profile` on kernels in OpenCL C and in Fortran, from their files."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tracegen
from memsim.errors import KernelError
from memsim.machine import load_machine
from memsim.trace.file import read_trace
from tests.support.command_line import RunMemsim
from tests.support.compilers import needs_amd, needs_nvidia
from tracegen import OpenCLWorkload
from tracegen.executed.launches import checked
from tracegen.options import TraceOptions

KERNEL = """\
__kernel void scaled(__global const float *restrict x, __global float *restrict y, float by)
{
  int i = get_global_id(0);
  y[i] = by * x[i];
}
__kernel void filled(__global float *y)
{
  y[get_global_id(0)] = 1;
}
"""
ARGS = """\
import numpy as np
import tracegen


def scaled(n: int = 1024, by: float = 2) -> tracegen.OpenCLWorkload:
    x = np.ones(n, np.float32)
    arguments = {"x": x, "y": np.zeros_like(x), "by": by}
    return tracegen.OpenCLWorkload(arguments=arguments, global_size=n, local_size=64)


def filled():
    arguments = [np.zeros(64, np.float32)]
    return tracegen.OpenCLWorkload(
        kernel="filled", arguments=arguments, global_size=64, local_size=64
    )


def number():
    return 3


def fortran(n: int):
    return {"n": n, "a": np.ones(n), "out": np.zeros(n), "k": 1}
"""
FORTRAN = """\
! sums neighbours
subroutine neighbours(out, a, n, k)
  implicit none
  real*8 a(n), out(n)
  integer n, i, k

!$loopy begin
!
! GROUP = 64
!
!$loopy end

  do i = 2, n
    out(i) = 2 * a(i) &
      + a(i - 1)
    out(i) = out(i) + k
  end do
end

!$loopy begin
!
! neighbours = lp.parse_fortran(SOURCE, FILENAME)
! neighbours = lp.split_iname(neighbours, "i", GROUP, outer_tag="g.0", inner_tag="l.0")
! RESULT = [neighbours]
!
!$loopy end
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, text in {"k.cl": KERNEL, "args.py": ARGS, "f.floopy": FORTRAN}.items():
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@needs_nvidia
def test_elements_that_no_work_item_stores_do_not_count_as_wrong(
    run_memsim: RunMemsim, tmp_path: Path
) -> None:
    (tmp_path / "shift.floopy").write_text(
        "subroutine shift(n, a, b)\n  integer n, i\n  real*8 a(n), b(n)\n\n"
        "  do i = 1, n - 1\n    b(i) = a(i + 1) - a(i)\n  end do\nend\n\n"
        "!$loopy begin\n! shift = lp.parse_fortran(SOURCE, FILENAME)\n"
        '! shift = lp.split_iname(shift, "i", 64, outer_tag="g.0", inner_tag="l.0")\n'
        "! RESULT = [shift]\n!$loopy end\n"
    )
    words = ("-m", "v100", "--set", "n=4096", "--check", "-o", str(tmp_path / "k.trace"))
    ended = run_memsim("trace", f"{tmp_path}/shift.floopy:shift", *words)
    assert "a run through OpenCL" in ended.out + ended.err


@needs_nvidia
def test_a_cl_file_is_traced_and_its_results_are_compared_with_a_run_of_the_text(
    folder: Path, run_memsim: RunMemsim
) -> None:
    words = ["trace", "k.cl:scaled", "--args", "args.py:scaled", "-m", "v100", "-o", "k.trace"]
    ended = run_memsim(*words, "--set", "n=2048", "--check")
    assert "a run through OpenCL" in ended.out + ended.err
    trace = read_trace(folder / "k.trace")
    assert [site.name for site in trace.sites] == ["x[i]", "store y[i]"]
    assert [site.source.user_line for site in trace.sites] == [4, 4]
    assert trace.launch.n_groups == 32
    assert trace.user_source == KERNEL


@needs_nvidia
def test_profile_of_fortran(folder: Path, run_memsim: RunMemsim) -> None:
    words = ["profile", "f.floopy:neighbours", "-m", "v100", "--set", "n=1000", "--trials", "16"]
    sites = json.loads(run_memsim(*words, "--set", "k=3", "--json", "-").out)["sites"]
    lines = [(site["array"], site["direction"], site["user_line"]) for site in sites]
    assert {Path(site["user_file"]).name for site in sites} == {"f.floopy"}
    # 14 begins the first assignment; what it stores the second one, in line 16, takes from a register and overwrites.
    assert sorted(lines) == [("a", "load", 14), ("a", "load", 14), ("out", "store", 16)]


@pytest.mark.parametrize(
    ("machine", "n_access", "n_granule"),
    [
        # 31 sub-groups of 32 lanes, and 7 lanes: 256 bytes from byte 8 of a granule on are 9 of them
        pytest.param("a100", 32, 31 * 9 + 2, marks=needs_nvidia),
        # 15 of 64 lanes, and 39 lanes
        pytest.param("mi250x", 16, 15 * 17 + 10, marks=needs_amd),
    ],
)
def test_accesses_of_fortran(folder: Path, machine: str, n_access: int, n_granule: int) -> None:
    """999 numbers of 8 bytes: a(i) from the second one on, a(i - 1) from the first."""
    workload = tracegen.load_kernel("f.floopy:neighbours", {"n": "1000"}, "args.py:fortran")
    trace = tracegen.trace(workload, machine)
    found = {}
    for k, site in enumerate(trace.sites):
        at = np.flatnonzero(trace.site == k)
        assert (len(at), trace.lanes[at].sum()) == (n_access, 999)
        found[site.name] = int(np.diff(trace.granule_offset)[at].sum())
    assert found == {
        "a[1 + 64 * gid(0) + lid(0)]": n_granule,
        "a[64 * gid(0) + lid(0)]": 250,
        "store out[1 + i]": n_granule,
    }


@needs_nvidia
def test_fortran_computes_what_its_text_states(folder: Path) -> None:
    workload = tracegen.load_kernel("f.floopy:neighbours", {"n": "100"}, "args.py:fortran")
    assert isinstance(workload, tracegen.Workload)

    def check(outputs: Any) -> None:
        np.testing.assert_array_equal(outputs["out"][1:], 4)

    made = dataclasses.replace(workload, check=check)
    assert checked(made, load_machine("a100"), TraceOptions()) == "the workload's own check"
    assert checked(workload, load_machine("a100"), TraceOptions()) == "a run through OpenCL"


@pytest.mark.parametrize(
    ("spec", "args", "match"),
    [
        ("k.cl:scaled", None, r"k\.cl does not describe its launch: --args FILE\.py:NAME names"),
        ("k.cl:scale", "args.py:scaled", r"k\.cl has no kernel scale; it has scaled, filled"),
        ("k.cl", "args.py:scaled", r"k\.cl has several kernels; name one of them: scaled, filled"),
        ("k.cl:scaled", "args.py:filled", r"args\.py:filled is for kernel filled, not for scaled"),
        ("k.cl:scaled", "args.py:number", r"must return a tracegen\.OpenCLWorkload, got a int"),
        ("k.cl:scaled", "args.py:nothing", r"args\.py has no nothing; it has scaled, filled"),
        ("k.cl:scaled", "args.py", r"--args is FILE\.py:NAME or PACKAGE\.MODULE:NAME, got"),
        ("none.cl:scaled", "args.py:scaled", r"no such kernel file: none\.cl"),
        ("args.py:filled", "args.py:filled", r"has its own arguments: --args is for kernels in"),
        ("f.floopy:other", None, r"f\.floopy has no subroutine other; it has neighbours"),
        ("f.floopy:neighbours", None, r"needs a value for n: --set n=VALUE"),
        ("f.floopy:neighbours", "args.py:number", "must return a mapping from argument to value"),
        ("none.floopy:neighbours", None, r"no such kernel file: none\.floopy"),
        ("empty.cl", None, r"empty\.cl is empty"),
        ("empty.cu:k", "args.py:scaled", r"empty\.cu is empty"),
    ],
)
def test_wrong_names(folder: Path, spec: str, args: str | None, match: str) -> None:
    for name in ("empty.cl", "empty.cu"):
        (folder / name).write_text("\n", encoding="utf-8")
    with pytest.raises(KernelError, match=match) as caught:
        tracegen.trace(tracegen.load_kernel(spec, {}, args))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "text",
    ["subroutine broken(\n", "", "!$loopy begin\n! RESULT = 3\n!$loopy end\n", FORTRAN[:200]],
)
def test_broken_fortran(folder: Path, text: str) -> None:
    (folder / "b.floopy").write_text(text)
    with pytest.raises(KernelError) as caught:
        tracegen.load_kernel("b.floopy:broken")
    assert "\n" not in str(caught.value)


@needs_nvidia
def test_workload_from_a_python_file(folder: Path) -> None:
    (folder / "fillings.py").write_text(ARGS)
    (folder / "whole.py").write_text(
        "import dataclasses, fillings\n"
        "def made():\n"
        "    return dataclasses.replace(fillings.filled(), path='k.cl')\n"
    )
    workload = tracegen.load_kernel("whole.py:made")
    assert isinstance(workload, OpenCLWorkload)
    assert tracegen.trace(workload).sites[0].source.user_file == "k.cl"
