"""profile, trace and replay from end to end, on a kernel small enough to be quick."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import memsim
from tests.support.command_line import RunMemsim
from tests.support.json_schema import json_schema
from tracegen import doctor

KERNEL = '''
import loopy as lp
import numpy as np
from tracegen import Workload


def gather(n: int = 4096, stride: int = 1):
    """out[i] = table[index[i]], its index a stride."""
    kernel = lp.make_kernel(
        "{[i]: 0 <= i < n}", "out[i] = table[index[i]]", name="gather", lang_version=(2018, 2)
    )
    kernel = lp.split_iname(kernel, "i", 128, outer_tag="g.0", inner_tag="l.0")
    index = (np.arange(n, dtype=np.int32) * stride) % n
    return Workload(kernel, {"table": np.ones(n, np.float32), "index": index})


def serial():
    kernel = lp.make_kernel(
        "{[i]: 0 <= i < 256}", "out[i] = 2 * table[i]", name="serial", lang_version=(2018, 2)
    )
    return Workload(kernel, {"table": np.ones(256, np.float32)})


def empty():
    kernel = lp.make_kernel("{[i]: 0 <= i < 128}", "", [], name="empty", lang_version=(2018, 2))
    return Workload(kernel, {})


def broken():
    kernel = gather().kernel
    return Workload(kernel, {"table": np.ones(8, np.float32), "index": np.full(256, 8, np.int32)})
'''


@pytest.fixture
def spec(tmp_path: Path) -> str:
    path = tmp_path / "my_kernel.py"
    path.write_text(KERNEL)
    return f"{path}:gather"


def test_profile_writes_every_requested_output_and_trace_and_replay_give_the_same(
    run_memsim: RunMemsim, spec: str, tmp_path: Path
) -> None:
    files = {option: tmp_path / f"out.{option}" for option in ("html", "json", "save", "trace-out")}
    outputs = [text for option, path in files.items() for text in (f"--{option}", str(path))]
    kernel = (spec, "-m", "v100", "--set", "n=8192", "--set", "stride=8")
    options = ("--trials", "16", "--seed", "3", "--jobs", "1")
    ended = run_memsim("profile", *kernel, *options, *outputs)
    assert "table[index[i]]" in ended.out
    assert all(str(path) in ended.err for path in files.values())
    data = json.loads(files["json"].read_text())
    jsonschema.validate(data, json_schema())
    assert (data["machine"], data["seed"], data["trials"]) == ("v100", 3, 16)
    assert data["snapshot"]["of_groups"] == 64
    # 32 lanes, each in a 32-byte sector of its own.
    gather = next(site for site in data["sites"] if site["array"] == "table")
    assert gather["sectors_per_access"] == 32
    assert memsim.Replay.load(files["save"]).n_trials == 16
    assert memsim.read_trace(files["trace-out"]).n_groups == 64
    assert "<html" in files["html"].read_text(encoding="utf-8")
    assert sorted(tmp_path.glob("out*")) == sorted(files.values())
    trace_file = str(tmp_path / "k.trace")
    run_memsim("trace", *kernel, "-o", trace_file)
    replayed = json.loads(
        run_memsim("replay", trace_file, "-m", "v100", *options, "--json", "-").out
    )
    assert replayed["sites"] == data["sites"]
    assert replayed["levels"] == data["levels"]


def test_a_trace_is_neither_overwritten_by_what_is_made_of_it_nor_a_foreign_file(
    run_memsim: RunMemsim, tmp_path: Path
) -> None:
    trace_file = tmp_path / "k.trace"
    trace_file.write_bytes(b"ARROW1\0\0" + bytes(64))
    command = ("replay", str(trace_file), "-m", "v100")
    assert "--save must not be" in run_memsim.refused(*command, "--save", str(trace_file))
    assert run_memsim.refused(*command).startswith(f"memsim: {trace_file}: not a trace file")


@pytest.mark.parametrize(
    ("change", "arguments", "culprits"),
    [
        ("gather", ("--set", "m=4"), ("m", "n", "stride")),
        ("broken", (), ("table", "8")),
        ("empty", (), ("empty", "no global memory")),
        ("empty", ("--tracer", "instrumented"), ("empty", "no global memory")),
    ],
)
def test_a_wrong_kernel_is_named_in_one_line(
    run_memsim: RunMemsim,
    spec: str,
    change: str,
    arguments: tuple[str, ...],
    culprits: tuple[str, ...],
) -> None:
    error = run_memsim.refused(
        "profile", spec.replace(":gather", f":{change}"), "-m", "v100", *arguments
    )
    assert all(culprit in error for culprit in culprits)


def test_an_interrupted_replay_is_shown_and_written(
    run_memsim: RunMemsim, spec: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = memsim.replay

    def interrupted(
        trace: Any, machine: Any, options: memsim.ReplayOptions, **others: Any
    ) -> memsim.Replay:
        done = whole(trace, machine, options, trials=3, **others)
        return memsim.Replay(done.dataset.assign_attrs(interrupted=1))

    monkeypatch.setattr(memsim, "replay", interrupted, raising=False)
    out = tmp_path / "out.json"
    ended = run_memsim("profile", spec, "-m", "v100", "--jobs", "1", "--json", str(out), code=130)
    assert "memsim: interrupted after 3 of 3 trials" in ended.err.splitlines()
    assert json.loads(out.read_text())["interrupted"] is True


def test_doctor_reports_that_this_machine_is_ready_in_text_and_json(
    run_memsim: RunMemsim, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wrapped where the number of columns is known: nothing is lost, and no command that a user may copy is broken
    within a word; a pipe has long lines."""
    monkeypatch.setattr(doctor, "examine", functools.cache(doctor.examine))
    piped = run_memsim("doctor").out
    assert piped.splitlines()[-1] == "Ready."
    assert "chosen: " in piped
    data = json.loads(run_memsim("doctor", "--json", "-").out)
    assert data["schema"] == 1
    assert data["healthy"] is True
    assert {check["status"] for check in data["checks"]} <= {"ok", "note", "missing"}
    names = {check["name"] for check in data["checks"]}
    assert names >= {"Python", "memsim", "numpy", "loopy", "OpenCL", "barvinok", "numba cache"}
    assert "compilers for NVIDIA" in names
    for columns in (40, 100):
        monkeypatch.setenv("COLUMNS", str(columns))
        wrapped = run_memsim("doctor").out
        assert wrapped.split() == piped.split()
        longest = max(map(len, wrapped.split()))
        assert all(len(line) <= max(columns, 8 + longest) for line in wrapped.splitlines())


def test_doctor_reports_what_is_missing_or_damaged_and_how_to_install_it(
    run_memsim: RunMemsim, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("MEMSIM_OPENCL", "no-such-platform")
    monkeypatch.setenv("MEMSIM_CLANG", "none")
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    (tmp_path / "cache.trial-1.py311.nbi").write_bytes(b"")
    monkeypatch.setattr(
        "tracegen.doctor.importlib.metadata.requires",
        lambda name: ["numpy>=99", "no-such-package>=1", "unasked; extra == 'more'"],
    )
    monkeypatch.setattr(doctor, "examine", functools.cache(doctor.examine))
    ended = run_memsim("doctor", code=1)
    lines = ended.out.splitlines()
    missing = [line.split()[1] for line in lines if line.startswith("MISSING")]
    assert missing == ["numpy", "no-such-package", "OpenCL"]
    assert "-> pip install 'numpy>=99'" in ended.out
    assert "-> pip install 'no-such-package>=1'" in ended.out
    assert "MEMSIM_OPENCL=no-such-platform names none" in ended.out
    assert "unasked" not in ended.out
    assert lines[-1].startswith("Not ready")
    listed = json.loads(run_memsim("doctor", "--json", "-", code=1).out)["checks"]
    checks = {check["name"]: check for check in listed}
    loops = checks["compiled loops"]
    assert loops["status"] == "note"
    assert loops["found"] == f"1 damaged: {tmp_path}/cache.trial-1.py311.nbi"
    for vendor in ("NVIDIA", "AMD"):
        result = checks[f"compilers for {vendor}"]
        assert result["status"] == "note"
        assert "MEMSIM_CLANG=none is no clang" in result["found"]
        assert "registers and the order of loads are unknown" in result["found"]


def test_machines_and_settings_in_one_table(
    run_memsim: RunMemsim, spec: str, tmp_path: Path
) -> None:
    out = tmp_path / "all.json"
    command = ("profile", spec, "-m", "v100", "-m", "a100", "--set", "n=4096,8192", "--quick")
    ended = run_memsim(*command, "--json", str(out))
    names = ["v100, n=4096", "a100, n=4096", "v100, n=8192", "a100, n=8192"]
    found = json.loads(out.read_text())["variants"]
    assert [one["name"] for one in found] == names
    assert [one["replay"]["machine"] for one in found] == ["v100", "a100"] * 2
    assert {one["replay"]["trials"] for one in found} == {5}
    assert all(name in " ".join(ended.out.split()) for name in names)
    alone = run_memsim(
        *("profile", spec, "-m", "a100", "--set", "n=8192", "--quick", "--json", "-")
    )
    assert json.loads(alone.out)["sites"] == found[3]["replay"]["sites"]
    error = run_memsim.refused(*command, "--html", str(tmp_path / "x.html"))
    assert "--html describes one variant, got 4" in error


@pytest.mark.filterwarnings("default::memsim.errors.SnapshotWarning")
def test_a_quick_profile_of_some_groups(run_memsim: RunMemsim, spec: str) -> None:
    """It says that it has few orderings, and of too few groups."""
    command = ("profile", spec, "-m", "v100", "--quick")
    ended = run_memsim(*command, "--groups", "8", "--registers", "32", "--json", "-")
    data = json.loads(ended.out)
    assert (data["snapshot"]["groups"], data["snapshot"]["of_groups"]) == (8, 32)
    assert "memsim: warning: the snapshot has 8 groups" in ended.err
    assert "one work-item" not in ended.err
    for option in (("--trials", "3"), ("--ci", "0.1"), ("--budget", "9")):
        error = run_memsim.refused(*command, *option)
        assert "quick (--quick) decides on the number of trials" in error


def test_a_kernel_without_parallel_tags_is_warned_of(run_memsim: RunMemsim, spec: str) -> None:
    ended = run_memsim("profile", spec.replace(":gather", ":serial"), "-m", "v100", "--quick")
    assert "5 trials, seed 0" in ended.out
    assert "serial has one work-item, so nothing runs in parallel" in ended.err
