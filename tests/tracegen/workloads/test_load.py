"""`file.py:NAME` and `package.module:NAME` to workloads, and `--set` to values."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest

import tracegen
from memsim.errors import KernelError
from memsim.machine import load_machine
from tracegen.workloads.settings import convert

FILE = """
from pathlib import Path
from typing import Literal

import loopy as lp
import numpy as np
from helper import SCALE

from tracegen import Workload

unit = lp.make_kernel(
    "{[i]: 0 <= i < n}",
    "y[i] = x[ind[i]] * s + other[i]",
    [
        lp.GlobalArg("x", np.float64, shape="2*n"),
        lp.GlobalArg("ind, other", np.int32, shape="n"),
        lp.GlobalArg("y", np.float64, shape="n", is_input=False),
        lp.ValueArg("n", np.int32),
        lp.ValueArg("s", np.float32),
    ],
    lang_version=(2018, 2),
)
number = 3


def made(n: int = 4, s: float = 1.0, kind: Literal["a", "b"] = "a", flag: bool = False,
         path: Path | None = None, plain="p") -> Workload:
    return Workload(unit, {"values": (n, s * SCALE, kind, flag, path, plain)})


def needs(n: int) -> Workload:
    return Workload(unit)


def fails() -> Workload:
    raise ValueError("two\\nlines")


def other():
    return 3
"""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "helper.py").write_text("SCALE = 2\n")
    path = tmp_path / "some_kernels.py"
    path.write_text(FILE)
    monkeypatch.delitem(sys.modules, "helper", raising=False)
    return path


def test_callable_with_settings(file: Path) -> None:
    loaded = tracegen.load_kernel(
        f"{file}:made",
        {"n": "7", "s": "0.5", "kind": "b", "flag": "yes", "path": "/x", "plain": "q"},
    )
    assert loaded.arguments["values"] == (7, 1.0, "b", True, Path("/x"), "q")
    assert loaded.source_file == str(file)
    assert tracegen.load_kernel(f"{file}:made", {}).arguments["values"][0] == 4


@pytest.mark.parametrize("kind", ["OpenCL", "Cuda", "Binary", "Triton"])
def test_functions_may_return_any_workload(tmp_path: Path, kind: str) -> None:
    """With --args or without."""
    launch = "global_size=4, local_size=4" if kind == "OpenCL" else "grid=(1,)"
    launch += ", block=4" if kind in ("Cuda", "Binary") else ""
    path = tmp_path / "made.py"
    path.write_text(
        f"import tracegen\ndef made(n: int):\n    return tracegen.{kind}Workload(arguments=[n], {launch})\n"
    )
    made = tracegen.load_kernel(f"{path}:made", {"n": "3"})
    assert isinstance(made, getattr(tracegen, f"{kind}Workload"))
    assert list(made.arguments) == [3]


def test_relative_file_leaves_nothing_behind(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(file.parent)
    path = list(sys.path)
    tracegen.load_kernel("some_kernels.py:made")
    assert sys.path == path
    assert sorted(entry.name for entry in file.parent.iterdir()) == ["helper.py", "some_kernels.py"]


def test_modules_and_files_of_a_package_are_loaded() -> None:
    loaded = tracegen.load_kernel("experiments.kernels.stream:copy")
    assert loaded.source_file.endswith("stream.py")
    root = Path(__file__).parents[3]
    tracegen.load_kernel(f"{root}/experiments/kernels/stream.py:copy")


def test_unit_with_made_up_arguments(file: Path, caplog: pytest.LogCaptureFixture) -> None:
    settings = {"n": "50", "s": "2.5"}
    loaded, again = (tracegen.load_kernel(f"{file}:unit", settings).arguments for _ in "12")
    assert "array other of kernel loopy_kernel is filled with zeros" in caplog.text
    assert loaded["n"] == 50
    assert loaded["s"] == 2.5
    assert loaded["x"].shape == (100,)
    assert loaded["ind"].min() >= 0
    assert 50 <= loaded["ind"].max() < 100
    assert np.array_equal(loaded["x"], again["x"])


def test_arrays_that_are_made_up_have_the_order_of_their_language(tmp_path: Path) -> None:
    """In Fortran a(j, i) follows a(j - 1, i) in memory, and a(1, i) lies n elements after a(1, i - 1)."""
    path = tmp_path / "sums.floopy"
    path.write_text(
        """\
subroutine sums(n, a, b)
  implicit none
  integer n, i, j
  real*8 a(n, n + 1), b(n)

  do i = 1, n
    b(i) = a(1, i) + a(1, i + 1)
  end do
end

!$loopy begin
! sums = lp.parse_fortran(SOURCE, FILENAME)
! sums = lp.split_iname(sums, "i", 32, outer_tag="g.0", inner_tag="l.0")
! RESULT = [sums]
!$loopy end
"""
    )
    workload = tracegen.load_kernel(f"{path}:sums", {"n": "64"})
    assert workload.arguments["a"].strides == (8, 64 * 8)
    trace = tracegen.trace(workload, load_machine("v100"), tracer="polyhedral")
    first = trace.granule[: int(trace.granule_offset[1])] - trace.granule[0]
    assert first.tolist() == [16 * k for k in range(32)]


@pytest.mark.parametrize(
    ("spec", "settings", "match"),
    [
        ("made", {"m": "1"}, "made has no parameter m; it has n, s, kind, flag, path, plain"),
        ("made", {"n": "1.5"}, r"n must be an integer, got '1\.5'"),
        ("made", {"kind": "c"}, "kind must be one of a, b, got 'c'"),
        ("made", {"flag": "maybe"}, "flag must be true or false, got 'maybe'"),
        ("unit", {}, "needs a value for n: --set n=VALUE"),
        ("unit", {"k": "3"}, "has no scalar argument k; it has n, s"),
        ("needs", {}, "needs a value for n: --set n=VALUE"),
        ("fails", {}, "fails failed: ValueError: two lines"),
        ("other", {}, r"must return a tracegen\.Workload, got a int"),
        ("number", {}, "number is a int; a kernel is"),
        ("nothing", {}, "has no nothing; it has unit, made, needs, fails, other"),
    ],
)
def test_wrong_names_and_settings(
    file: Path, spec: str, settings: dict[str, str], match: str
) -> None:
    with pytest.raises(KernelError, match=match) as caught:
        tracegen.load_kernel(f"{file}:{spec}", settings)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("spec", "match"),
    [
        ("kernel.py", r"a kernel is FILE\.py:NAME or PACKAGE\.MODULE:NAME"),
        ("/no/such/kernel.py:k", r"no such kernel file: /no/such/kernel\.py"),
        ("no_such_module:k", "cannot import no_such_module: ModuleNotFoundError"),
    ],
)
def test_wrong_places(spec: str, match: str) -> None:
    with pytest.raises(KernelError, match=match):
        tracegen.load_kernel(spec)


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("def k(:", r"cannot import .*SyntaxError"),
        ("raise SystemExit(0)", "SystemExit"),
        ("def k():\n    import sys; sys.exit('done')", "SystemExit"),
    ],
)
def test_a_kernel_file_that_fails_or_ends_the_program_is_one_line(
    tmp_path: Path, text: str, match: str
) -> None:
    path = tmp_path / "broken.py"
    path.write_text(text)
    with pytest.raises(KernelError, match=match) as raised:
        tracegen.load_kernel(f"{path}:k")
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("text", "hint", "value"),
    [
        ("none", int | None, None),
        ("2", Literal[1, 2], 2),
        ("off", bool, False),
        ("3", int | str, 3),
        ("x", int | str, "x"),
    ],
)
def test_convert(text: str, hint: Any, value: Any) -> None:
    assert convert("k", text, hint) == value
