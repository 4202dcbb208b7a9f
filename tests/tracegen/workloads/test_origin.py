"""Accesses of Loopy kernels have the user's lines, wherever and however often the text stands."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import tracegen
from experiments.kernels import spmv
from memsim.errors import KernelError
from tracegen.workloads.load import load_kernel

TWO_KERNELS = '''\
import loopy as lp


def first():
    return lp.make_kernel(
        "{[i]: 0 <= i < 64}",
        """
        a[i] = b[i] + c[i]
        d[i] = b[i]
        a[i] = a[i] * b[i]
        a[i] = 2 * a[i]
        """,
        name="twice",
        seq_dependencies=True,
        lang_version=(2018, 2),
    )


def second():
    kernel = lp.make_kernel(
        "{[i]: 0 <= i < 64}",
        """
        a[i] = b[i] + c[i]
        d[i] = b[i]
        """,
        name="twice",
        lang_version=(2018, 2),
    )
    kernel = lp.split_iname(kernel, "i", 32, outer_tag="g.0", inner_tag="l.0")
    return lp.add_prefetch(kernel, "c", "i_inner", default_tag="l.auto")
'''


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    (tmp_path / "kernels.py").write_text(TWO_KERNELS)
    (tmp_path / "user.py").write_text("import kernels\n\nMADE = kernels.second()\n")
    (tmp_path / "by_name.py").write_text("from kernels import second\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "kernels", raising=False)  # of other tests
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        if name in ("kernels", "user") or name.startswith("_kernel_file_"):
            del sys.modules[name]


def places(spec: str) -> dict[str, tuple[str, int | None]]:
    """Site -> (name of the user's file, line)."""
    trace = tracegen.trace(load_kernel(spec), tracer="instrumented", reduced=False)
    return {
        site.name: (Path(site.source.user_file or "").name, site.source.user_line)
        for site in trace.sites
    }


def line_of(text: str, nth: int = 1) -> int:
    """The line of the n-th occurrence of a text in the file."""
    lines = [n for n, line in enumerate(TWO_KERNELS.splitlines(), 1) if text in line]
    return lines[nth - 1]


def test_equal_texts_have_their_own_lines(folder: Path) -> None:
    """The statements of both kernels of the file are equal, and so are accesses of one kernel."""
    found = places("kernels.py:first")
    texts = ("b[i] + c[i]", "d[i] = b[i]", "a[i] * b[i]", "2 * a[i]")
    sums, copies, product, twice = map(line_of, texts)
    assert found == {
        "b[i]": ("kernels.py", sums),
        "c[i]": ("kernels.py", sums),
        "store a[i]": ("kernels.py", sums),
        "b[i] #2": ("kernels.py", copies),
        "store d[i]": ("kernels.py", copies),
        "a[i]": ("kernels.py", product),
        "b[i] #3": ("kernels.py", product),
        "store a[i] #2": ("kernels.py", product),
        "a[i] #2": ("kernels.py", twice),
        "store a[i] #3": ("kernels.py", twice),
    }


@pytest.mark.parametrize("spec", ["kernels.py:second", "user.py:MADE", "by_name.py:second"])
def test_a_kernel_that_is_imported_has_the_lines_of_its_file(folder: Path, spec: str) -> None:
    """Also after a transformation, and the access of a prefetch, which no statement contains."""
    found = places(spec)
    sums, copies = line_of("b[i] + c[i]", 2), line_of("d[i] = b[i]", 2)
    assert {name.split("[")[0]: place for name, place in found.items()} == {
        "c": ("kernels.py", sums),
        "b": ("kernels.py", copies),
        "store a": ("kernels.py", sums),
        "store d": ("kernels.py", copies),
    }
    assert found["b[i]"] == ("kernels.py", sums)


TILED = """\
import loopy as lp
import numpy as np

import tracegen


def tiled():
    kernel = lp.make_kernel("{[i]: 0 <= i < 64}", "out[i] = x[63 - i]", lang_version=(2018, 2))
    return launch(lp.split_iname(kernel, "i", 16, outer_tag="g.0", inner_tag="l.0"))


def launch(kernel):
    kernel = lp.add_prefetch(kernel, "x", ["i_inner"], default_tag="l.auto")
    return tracegen.Workload(kernel, {"x": np.ones(64)})
"""


def test_what_loopy_loads_ahead_has_the_line_of_its_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Loopy makes half of the instructions, and another function than the kernel's makes the workload."""
    (tmp_path / "prefetched.py").write_text(TILED)
    monkeypatch.syspath_prepend(str(tmp_path))
    workload = importlib.import_module("prefetched").tiled()
    sites = tracegen.trace(workload).sites
    (line,) = (n for n, text in enumerate(TILED.splitlines(), 1) if "x[63 - i]" in text)
    assert {site.instruction for site in sites} == {"x_fetch_rule", "insn"}
    assert [site.source.user_line for site in sites] == [line, line]
    other = spmv.spmv("fem-tri-p1", 40).kernel
    assert tracegen.Workload(other).origin is None, "elsewhere nothing is guessed"


def test_errors_in_the_users_code_name_its_line(folder: Path) -> None:
    (folder / "wrong.py").write_text(
        "import numpy as np\n\n\ndef helper(n):\n    return np.zeros(n) @ np.ones(3)\n\n\n"
        "def kernel(n: int = 2):\n    return helper(n)\n\n\nTABLE = {}\n"
    )
    with pytest.raises(
        KernelError, match=r"wrong.py:kernel failed: ValueError: .* \(wrong.py:5\)$"
    ):
        load_kernel("wrong.py:kernel")
    (folder / "worse.py").write_text("TABLE = {}\nKERNEL = TABLE['kernel']\n")
    with pytest.raises(KernelError, match=r"cannot import worse.py: KeyError: .* \(worse.py:2\)$"):
        load_kernel("worse.py:KERNEL")
    (folder / "bad.py").write_text(
        "import loopy as lp\n\n\ndef kernel():\n    return lp.make_kernel('{[i]: 0<=i<n}', 'a[i] = = 1')\n"
    )
    with pytest.raises(KernelError, match=r"bad.py:kernel failed: .* \(bad.py:5\)$"):
        load_kernel("bad.py:kernel")


ELSEWHERE = """\
import loopy as lp
import numpy as np
{before}

def made(n=64, terms=2):
    body = {body}
    kernel = lp.make_kernel(
        "{{[i]: 0 <= i < n}}",
        body,
        [lp.GlobalArg("w, v, u", np.float32, shape="n"), ...],
        name="made",
        lang_version=(2018, 2),
    )
    return lp.fix_parameters(kernel, n=n)
"""


def test_a_text_elsewhere_in_the_file_is_found_not_a_list_of_arguments(folder: Path) -> None:
    before = 'BODY = """\n    <> left = u[i]\n    v[i] = left + w[i]\n"""'
    text = ELSEWHERE.format(before=before, body="BODY")
    (folder / "elsewhere.py").write_text(text)
    lines = text.splitlines()
    first = 1 + next(n for n, line in enumerate(lines) if "left = u" in line)
    assert places("elsewhere.py:made") == {
        "u[i]": ("elsewhere.py", first),
        "w[i]": ("elsewhere.py", first + 1),
        "store v[i]": ("elsewhere.py", first + 1),
    }


def test_a_text_that_a_program_makes_has_the_line_of_the_call(folder: Path) -> None:
    body = '"\\n".join(f"{name}[i] = {k} * u[i]" for k, name in enumerate("vw"))'
    text = ELSEWHERE.format(before="", body=body)
    (folder / "elsewhere.py").write_text(text)
    call, template = (
        1 + next(n for n, line in enumerate(text.splitlines()) if words in line)
        for words in ("make_kernel(", "u[i]")
    )
    found = places("elsewhere.py:made")
    assert {found[f"store {name}[i]"] for name in "vw"} == {("elsewhere.py", call)}
    assert found["u[i]"] == ("elsewhere.py", template), "the only line that names the array"


def test_an_access_out_of_bounds_has_its_line(folder: Path) -> None:
    text = ELSEWHERE.format(before="", body='"v[i] = u[k[i]]"').replace(
        '"w, v, u", np.float32, shape="n")',
        '"v, u", np.float32, shape="n"), lp.GlobalArg("k", np.int32, shape="n")',
    )
    text = text.replace("return lp.fix", "kernel = lp.fix")
    text += "    arrays = {'u': np.ones(64, np.float32), 'k': np.full(64, 70, np.int32)}\n"
    text += "    return tracegen.Workload(kernel, arrays)\n"
    (folder / "elsewhere.py").write_text(f"import tracegen; {text}")
    with pytest.raises(KernelError, match=r"index 70 .* \(load u\[k\[i\]\].*, elsewhere.py:6\)"):
        tracegen.trace(load_kernel("elsewhere.py:made"))
