"""--site: one access in words below the table, and its name completed by a shell."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from click.shell_completion import ShellComplete

from memsim.commands import cli
from memsim.report.summary import summarise
from memsim.report.table import explanations
from memsim.report.verdict import findings_on, judge
from memsim.trace.file import write_launches, write_trace
from memsim.trace.launches import Launches
from tests.support.command_line import RunMemsim
from tests.support.fake_replay import fake_dataset
from tests.support.outline import printed
from tests.support.traces import make_trace


@pytest.fixture
def trace_file(tmp_path: Path) -> str:
    """site0 loads, site1 stores; both access the array `a`."""
    path = tmp_path / "k.trace"
    accesses = [[[(0, [4 * g]), (1, [4 * g + 1])]] for g in range(64)]
    write_trace(make_trace(accesses, ("load", "store")), path)
    return str(path)


def replay(run_memsim: RunMemsim, trace_file: str, *more: str) -> str:
    return run_memsim("replay", trace_file, "-m", "v100", "--trials", "4", *more).out


def test_an_access_or_all_of_an_array_is_explained_below_the_table(
    run_memsim: RunMemsim, trace_file: str
) -> None:
    plain = replay(run_memsim, trace_file)
    out, of_array = (replay(run_memsim, trace_file, "--site", name) for name in ("site0", "a"))
    assert out[: len(plain)] == of_array[: len(plain)] == plain
    below = out[len(plain) :]
    assert below.startswith("site0 (load): 100 % of the load latency, ")
    assert "L2 misses are 100 % cold: requested here for the first time." in below
    assert "  Certainty: " in below
    assert "site1" not in below
    below = of_array[len(plain) :]
    assert below.startswith("site0 (load)")
    assert "\nsite1 (store): nothing waits for it" in below
    as_json, with_site = (
        replay(run_memsim, trace_file, "--json", "-", *more) for more in ((), ("--site", "a"))
    )
    assert with_site.startswith("{"), "JSON stays alone on standard output"
    assert len(with_site.splitlines()) == len(as_json.splitlines())


def test_it_says_what_the_page_says() -> None:
    """Of a slow access the words are those of the verdict."""
    summary = summarise(fake_dataset())
    for finding in judge(summary).findings:
        (own,) = findings_on(summary, finding.site.name)
        for part in ("headline", "reasons", "certainty"):
            assert getattr(own, part) == getattr(finding, part)
        (paragraph,) = explanations(summary, finding.site.name)
        for sentence in (*finding.reasons, *finding.certainty):
            assert sentence in printed(paragraph, 1000)


def test_a_name_is_shown_as_text(run_memsim: RunMemsim, tmp_path: Path) -> None:
    path = tmp_path / "k.trace"
    trace = make_trace([[[(0, [g])]] for g in range(8)])
    (site,) = trace.sites
    write_trace(trace.replace(sites=(replace(site, name="[bold]x\x1b[31m\n\u202e"),)), path)
    out = replay(run_memsim, str(path), "--site", "a")
    assert "\n[bold]x\\x1b[31m\\n\\u202e (load): 100 % of the load latency" in out
    assert "\x1b" not in out


def test_a_name_that_no_access_has_is_refused(
    run_memsim: RunMemsim, trace_file: str, tmp_path: Path
) -> None:
    page = tmp_path / "k.html"
    words = ("-m", "v100", "--site", "site\x1b[2J", "--html", str(page))
    error = run_memsim.refused("replay", trace_file, *words)
    assert error == r"memsim: no access is called 'site\x1b[2J': choose one of site0, site1"


def test_it_needs_one_launch_and_one_variant(run_memsim: RunMemsim, tmp_path: Path) -> None:
    path = tmp_path / "two.trace"
    launches = (make_trace([[[(0, [0])]]]),) * 2
    write_launches(Launches(launches=launches, between=((),)), path)
    error = run_memsim.refused("replay", str(path), "-m", "v100", "--carry-l2", "--site", "a")
    assert error == "memsim: --site describes one launch: choose it with --launch I"
    kernel = ("profile", "experiments/kernels/transpose.py:naive", "--site", "x")
    error = run_memsim.refused(*kernel, "-m", "v100", "-m", "a100")
    assert error.startswith("memsim: --site describes one variant, got 2: ")


def complete(*words: str) -> list[str]:
    shell = ShellComplete(cli.memsim, {}, "memsim", "_MEMSIM_COMPLETE")
    return [item.value for item in shell.get_completions(list(words[:-1]), words[-1])]


def test_names_are_completed_from_the_trace(trace_file: str, tmp_path: Path) -> None:
    assert complete("replay", trace_file, "--site", "") == ["site0", "site1"]
    assert complete("replay", trace_file, "-m", "v100", "--site", "site1") == ["site1"]
    damaged = tmp_path / "damaged.trace"
    damaged.write_bytes(Path(trace_file).read_bytes()[:-9])
    for other in (damaged, tmp_path / "missing.trace", tmp_path):
        assert complete("replay", str(other), "--site", "") == []


def test_names_are_completed_from_the_text_of_a_kernel(tmp_path: Path) -> None:
    in_c = tmp_path / "k.cl"
    in_c.write_text("__kernel void add(__global int *a) { a[0] += table[a[1]]; }")
    assert complete("profile", f"{in_c}:add", "--site", "") == ["a", "table"]
    in_python = tmp_path / "k.py"
    in_python.write_text("raise SystemExit\nlist[int]\nmake_kernel('{[i]: 0<=i<n}', 'y[i] = x[i]')")
    assert complete("profile", f"{in_python}:knl", "--site", "") == ["y", "x"]
    in_python.write_text("def (")
    assert complete("profile", f"{in_python}:knl", "--site", "") == []
