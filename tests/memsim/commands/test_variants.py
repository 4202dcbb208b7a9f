"""Several machines, settings and saved replays in one table; what shells complete."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.shell_completion import ShellComplete

from memsim.commands import cli
from memsim.commands.completion import ColonComplete, kernels_in
from memsim.commands.variants import labels, parse_variants
from memsim.montecarlo.result import Replay
from memsim.report.launch_time import keep_time
from memsim.report.variants import letter
from tests.support.command_line import RunMemsim
from tests.support.fake_replay import SITES, fake_dataset
from tests.support.outline import Outline


def test_every_combination_of_the_values() -> None:
    assert parse_variants(()) == [{}]
    assert parse_variants(("n=1,2", "matrix=a\\,b", "m=3", "n=4")) == [
        {"n": n, "matrix": "a,b", "m": "3"} for n in ("1", "2", "4")
    ]
    assert parse_variants(("a=1,2", "b=3,4")) == [
        {"a": "1", "b": "3"}, {"a": "1", "b": "4"}, {"a": "2", "b": "3"}, {"a": "2", "b": "4"}
    ]  # fmt: skip
    assert parse_variants(("name=",)) == [{"name": ""}]


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (("n",), "must be NAME=VALUE, got 'n'"),
        (("n=1", "n=1"), "'n' is set to '1' twice"),
        (("a=" + ",".join(map(str, range(13))), "b=1,2,3,4,5"), "65 combinations are more than 64"),
    ],
)
def test_refused(texts: tuple[str, ...], message: str) -> None:
    with pytest.raises(click.BadParameter, match=message):
        parse_variants(texts)


def test_labels_name_what_differs() -> None:
    rows = [{"machine": m, "n": n, "k": "7"} for m in ("v100", "a100") for n in ("1", "2")]
    assert labels(rows) == ["v100, n=1", "v100, n=2", "a100, n=1", "a100, n=2"]
    assert labels([{"machine": "v100"}]) == [""]


def test_letters() -> None:
    assert [letter(k) for k in (0, 25, 26, 53)] == ["A", "Z", "A2", "B3"]


def test_three_saved_replays(run_memsim: RunMemsim, tmp_path: Path) -> None:
    paths = [
        str(Replay(fake_dataset(n_trials=8, seed=k)).save(tmp_path / f"{k}.nc")) for k in range(3)
    ]
    out = tmp_path / "c.json"
    ended = run_memsim("compare", *paths, "--json", str(out))
    shown = "".join(ended.out.split())  # long names are folded
    assert all(f"{name}:{k}.nc:spmv" in shown for k, name in enumerate("ABC"))
    data = json.loads(out.read_text())
    assert [one["name"] for one in data["variants"]] == paths
    assert "changes" not in data
    only_json = json.loads(run_memsim("compare", *paths[:2], "--json", "-").out)
    differences = [one for one in only_json["changes"] if one["access"]]
    first = next(one for one in differences if one["quantity"] == "latency_cycles")
    means = [
        site["latency_cycles"]["mean"]
        for one in only_json["variants"]
        for site in one["replay"]["sites"]
        if site["site"] == first["access"]
    ]
    assert first["difference"] == pytest.approx(means[1] - means[0])


def test_several_saved_replays_have_a_page(run_memsim: RunMemsim, tmp_path: Path) -> None:
    """The fastest, with what it is faster than; a line for each replay that has an access."""
    times = {"a": 3e-4, "b": 1e-4, "c": 2e-4}
    paths = []
    for k, (name, seconds) in enumerate(times.items()):
        time = {"time_s": {"mean": seconds}, "binds": "L2", "floors_s": {"L2": 5e-5}}
        dataset = keep_time(fake_dataset(n_trials=8, seed=k, sites=SITES[k:]), time)
        paths.append(str(Replay(dataset).save(tmp_path / f"{name}.nc")))
    out = tmp_path / "c.html"
    run_memsim("compare", *paths, "--html", str(out))
    words = "".join(Outline(out.read_text()).text)
    assert "B is predicted to be fastest, 100 us; C takes 2 times as long, A 3 times" in words
    assert "A: a.nc: spmv on " in words
    assert str(tmp_path) not in words
    first, second = SITES[0][0], SITES[1][0]
    content = out.read_text()
    assert [content.count(f"<code>{name}</code>") for name in (first, second)] == [1, 1]
    same = tmp_path / "other" / "a.nc"
    same.parent.mkdir()
    shutil.copy(paths[0], same)
    shown = "".join(run_memsim("compare", *paths, str(same)).out.split())
    assert shown.count("a.nc:spmv") == 2
    assert "other/a.nc:spmv" in shown, "names that are equal keep their folder"


def complete(*words: str) -> list[str]:
    shell = ShellComplete(cli.memsim, {}, "memsim", "_MEMSIM_COMPLETE")
    return [item.value for item in shell.get_completions(list(words[:-1]), words[-1])]


def test_machines_are_completed() -> None:
    assert complete("profile", "-m", "v10") == ["v100", "v100-accelsim"]
    assert complete("replay", "k.trace", "--machine", "mi21") == ["mi210"]
    assert complete("predict", "-m", "./my") == ["./my"]  # a file: the shell goes on
    assert complete("machines", "mi2") == ["mi210", "mi250x"]
    assert complete("machines", "m") == ["measure", *complete("profile", "-m", "m")]


@pytest.mark.skipif(not shutil.which("bash"), reason="bash is not installed")
def test_bash_completes_kernels_behind_the_colon(tmp_path: Path) -> None:
    """The words are those that bash makes of a line: it breaks them at the characters of COMP_WORDBREAKS."""
    (tmp_path / "k.py").write_text("def first(): pass\ndef second(): pass\n")
    program = tmp_path / "program"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m memsim.commands.start "$@"\n')
    program.chmod(0o755)
    script = f"""
        COMP_WORDBREAKS=' :='
        {ColonComplete(cli.memsim, {}, "memsim", "_MEMSIM_COMPLETE").source()}
        case $COMP_WORDBREAKS in
          *:*) COMP_WORDS=(memsim profile k.py : se) COMP_CWORD=4 ;;
          *) COMP_WORDS=(memsim profile k.py:se) COMP_CWORD=2 ;;
        esac
        _memsim_completion {program}
        echo "${{COMPREPLY[@]}}"
    """
    environment = {**os.environ, "PYTHONPATH": os.getcwd()}
    shown = subprocess.check_output(
        ["bash", "-c", script], cwd=tmp_path, env=environment, text=True
    )
    assert shown.split() == ["k.py:second"]


SOURCES = {
    "k.py": "raise SystemExit\nknl = 1\n_own = 2\ndef make(): pass\n",
    "k.cl": "__kernel void\nadd(int a) {}\nkernel __attribute__((reqd_work_group_size(64, 1, 1))) void sub(int b) {}",
    "k.cu": "template <int n>\n__global__ void transpose(float *a) {}",
    "k.floopy": "subroutine shift(n)\nend\nSUBROUTINE Back(n)\nend\n",
    "notes.txt": "",
}


def test_kernels_and_files_are_completed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name, content in SOURCES.items():
        Path(name).write_text(content)
    Path("more").mkdir()
    files = ["k.cl:", "k.cu:", "k.floopy:", "k.py:"]
    assert [complete("profile", word) for word in ("k", "")] == [files, [*files, "more/"]]
    kernels = {"k.py:": ["knl", "make"], "k.cl:": ["add", "sub"], "k.cu:": ["transpose"], "k.floopy:": ["shift", "Back"]}  # fmt: skip
    for file, names in kernels.items():
        assert complete("profile", file) == [f"{file}{name}" for name in names]
    assert complete("predict", "k.cu:t") == ["k.cu:transpose"]
    for name, content in (("a.py", b"def ("), ("b.py", b"\0"), ("c.cl", b"\xff")):
        Path(name).write_bytes(content)
        assert kernels_in(Path(name)) == []
    assert complete("profile", "none.py:") == []


def test_one_name_for_the_file_that_is_written() -> None:
    for name in ("trace", "compile", "calibrate"):
        command = cli.memsim.get_command(click.Context(cli.memsim), name)
        context = click.Context(command)
        record = "\n".join(
            first for p in command.params if (r := p.get_help_record(context)) for first in r[:1]
        )
        assert "-o, --out PATH" in record
