"""Outputs replace neither what a run reads nor what memsim did not write, and none is lost."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from memsim.montecarlo.result import Replay
from memsim.trace.file import write_trace
from tests.support.command_line import RunMemsim
from tests.support.fake_replay import fake_dataset
from tests.support.traces import make_trace


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    data = fake_dataset(n_trials=4)
    unknown = data.assign_coords(user_line=("site", [-1] * data.sizes["site"]))
    return Replay(unknown).save(tmp_path / "scaled.nc")


@pytest.fixture
def trace_file(tmp_path: Path) -> Path:
    path = tmp_path / "k.trace"
    write_trace(make_trace([[[(0, [g])]] for g in range(8)]), path)
    return path


def test_a_source_of_the_users_stays(run_memsim: RunMemsim, tmp_path: Path, saved: Path) -> None:
    mine = tmp_path / "scaled.cl"
    mine.write_text("kernel void mine() {}")
    out = str(tmp_path / "scaled")
    error = run_memsim.refused("export", str(saved), "--format", "cachegrind", "-o", out)
    assert error == (
        f"memsim: {mine} must not be replaced: memsim did not write it;"
        " choose another name for the output"
    )
    mine.unlink()
    for _ in range(2):  # what memsim wrote it may replace
        run_memsim("export", str(saved), "--format", "cachegrind", "-o", out)
    assert "written by memsim" in mine.read_text()


@pytest.mark.parametrize("to", ["cachegrind", "csv", "json"])
def test_an_export_replaces_its_own_kind_only(
    run_memsim: RunMemsim, tmp_path: Path, saved: Path, to: str
) -> None:
    out = tmp_path / "out"
    for _ in range(2):
        run_memsim("export", str(saved), "--format", to, "-o", str(out))
    out.write_text("# my notes")
    error = run_memsim.refused("export", str(saved), "--format", to, "-o", str(out))
    assert f"--out must not replace {out}: memsim did not write it" in error


@pytest.mark.parametrize("option", ["--html", "--json", "--save"])
def test_a_replay_replaces_no_source(
    run_memsim: RunMemsim, tmp_path: Path, trace_file: Path, option: str
) -> None:
    mine = tmp_path / "kernel.cl"
    mine.write_text("kernel void mine() {}")
    error = run_memsim.refused("replay", str(trace_file), "-m", "v100", option, str(mine))
    assert f"{option} must not replace {mine}" in error


def test_neither_machine_nor_part_of_a_folder_is_replaced(
    run_memsim: RunMemsim, tmp_path: Path, trace_file: Path
) -> None:
    machine = tmp_path / "m.toml"
    machine.write_text("{}")
    words = ("-m", str(machine), "--json", str(machine))
    assert "that is the input" in run_memsim.refused("replay", str(trace_file), *words)
    folder = tmp_path / "traces"
    folder.mkdir()
    part = folder / "kernel-1.traceg"
    part.write_text("{}")
    error = run_memsim.refused("replay", str(folder), "-m", "v100", "--json", str(part))
    assert "that is a part of the input" in error


def test_files_are_written_though_nobody_reads_the_table(tmp_path: Path, trace_file: Path) -> None:
    command = "import sys; from memsim.commands.cli import main; sys.exit(main(sys.argv[1:]))"
    outs = {f"--{name}": tmp_path / f"k.{name}" for name in ("json", "save", "html")}
    arguments = [word for option, path in outs.items() for word in (option, str(path))]
    read, write = os.pipe()
    os.close(read)
    words = ["replay", str(trace_file), "-m", "v100", "--trials", "2", *arguments]
    ended = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", command, *words],
        stdout=write, stderr=subprocess.PIPE, check=False,
    )  # fmt: skip
    os.close(write)
    assert ended.returncode in (1, 141), ended.stderr
    assert all(path.stat().st_size > 100 for path in outs.values())


def test_a_link_to_itself_is_no_bug(
    run_memsim: RunMemsim, tmp_path: Path, trace_file: Path
) -> None:
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    run_memsim("replay", str(trace_file), "-m", "v100", "--trials", "2", "--json", str(loop))
    assert loop.read_text().startswith("{")


def test_a_calibration_does_not_replace_its_model(run_memsim: RunMemsim, tmp_path: Path) -> None:
    model, other = tmp_path / "m.toml", tmp_path / "other.json"
    for path, why in ((model, "that is the input"), (other, "memsim did not write it")):
        path.write_text("mine\n")
        assert why in run_memsim.refused("calibrate", str(model), "-o", str(path))
