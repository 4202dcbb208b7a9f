"""profile, trace and replay from end to end, on a kernel small enough to be quick."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import memsim
from memsim.report.json_contract import json_schema
from tests.support.command_line import RunMemsim
from tracegen import doctor

"""The fixture of conftest.py: arguments -> an object with code, out and err."""

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


def test_profile_writes_every_requested_output(
    run_memsim: RunMemsim, spec: str, tmp_path: Path
) -> None:
    files = {option: tmp_path / f"out.{option}" for option in ("html", "json", "save", "trace-out")}
    outputs = [text for option, path in files.items() for text in (f"--{option}", str(path))]
    ended = run_memsim(
        *("profile", spec, "-m", "v100", "--set", "n=8192", "--set", "stride=8"),
        *("--trials", "16", "--seed", "3", "--jobs", "1", *outputs),
    )
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


def test_trace_and_replay_give_what_profile_gives(
    run_memsim: RunMemsim, spec: str, tmp_path: Path
) -> None:
    trace_file = tmp_path / "k.trace"
    options = ("-m", "v100", "--trials", "4", "--jobs", "1", "--json", "-")
    run_memsim("trace", spec, "-m", "v100", "-o", str(trace_file))
    replayed = run_memsim("replay", str(trace_file), *options)
    profiled = run_memsim("profile", spec, *options)
    one, other = json.loads(replayed.out), json.loads(profiled.out)
    assert one["sites"] == other["sites"]
    assert one["levels"] == other["levels"]


def test_compare_puts_two_saved_replays_side_by_side(
    run_memsim: RunMemsim, spec: str, tmp_path: Path
) -> None:
    saved = {stride: tmp_path / f"stride{stride}.nc" for stride in (1, 8)}
    for stride, path in saved.items():
        options = ("--trials", "4", "--jobs", "1", "--set", f"stride={stride}")
        run_memsim("profile", spec, "-m", "v100", *options, "--save", str(path))
    page = tmp_path / "change.html"
    ended = run_memsim("compare", *map(str, saved.values()), "--html", str(page))
    assert "table[index[i]]" in ended.out
    assert "table[index[i]]" in page.read_text(encoding="utf-8")
    assert str(page) in run_memsim.refused("compare", str(page), str(saved[1]))


@pytest.mark.filterwarnings("default::memsim.errors.SnapshotWarning")
def test_groups_and_registers_reach_the_replay(run_memsim: RunMemsim, spec: str) -> None:
    options = ("-m", "v100", "--trials", "2", "--jobs", "1", "--json", "-")
    ended = run_memsim("profile", spec, *options, "--groups", "8", "--registers", "32")
    data = json.loads(ended.out)
    assert data["snapshot"]["groups"] == 8
    assert data["snapshot"]["of_groups"] == 32
    assert "memsim: warning: the snapshot has 8 groups" in ended.err


def test_a_trace_must_not_be_overwritten_by_what_is_made_of_it(
    run_memsim: RunMemsim, spec: str, tmp_path: Path
) -> None:
    trace_file = tmp_path / "k.trace"
    trace_file.write_bytes(b"mine")
    error = run_memsim.refused("replay", str(trace_file), "-m", "v100", "--save", str(trace_file))
    assert "--save must not be" in error


@pytest.mark.parametrize(
    ("change", "arguments", "culprits"),
    [
        ("gather", ("--set", "m=4"), ("m", "n", "stride")),
        ("gather", ("--set", "n=many"), ("n", "many")),
        ("nothing", (), ("nothing",)),
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


@pytest.mark.parametrize("content", [b"", b"hello", b"ARROW1\0\0" + bytes(64)])
def test_a_foreign_trace_file_is_refused(
    run_memsim: RunMemsim, tmp_path: Path, content: bytes
) -> None:
    trace_file = tmp_path / "k.trace"
    trace_file.write_bytes(content)
    error = run_memsim.refused("replay", str(trace_file), "-m", "v100")
    assert error.startswith(f"memsim: {trace_file}: not a trace file")


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


@pytest.mark.slow
def test_a_dask_cluster_gives_the_same_report(
    run_memsim: RunMemsim, spec: str, tmp_path: Path
) -> None:
    distributed = pytest.importorskip("distributed")
    trace_file = tmp_path / "k.trace"
    run_memsim("trace", spec, "-m", "v100", "-o", str(trace_file))
    options = ("-m", "v100", "--trials", "4", "--jobs", "2", "--json", "-")
    here = run_memsim("replay", str(trace_file), *options)
    with distributed.LocalCluster(
        n_workers=2, processes=True, threads_per_worker=1, dashboard_address=None
    ) as cluster:
        dask = ("--backend", "dask", "--scheduler", cluster.scheduler_address)
        there = run_memsim("replay", str(trace_file), *options, *dask)
    one, other = json.loads(here.out), json.loads(there.out)
    assert one["sites"] == other["sites"]
    assert one["levels"] == other["levels"]


def test_doctor_reports_that_this_machine_is_ready(run_memsim: RunMemsim) -> None:
    ended = run_memsim("doctor")
    assert ended.out.splitlines()[-1] == "Ready."
    assert "chosen: " in ended.out


def test_doctor_wraps_where_the_number_of_columns_is_known(
    run_memsim: RunMemsim, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is lost, and no command that a user may copy is broken within a word; a pipe has long lines."""
    monkeypatch.setattr(doctor, "examine", functools.cache(doctor.examine))
    piped = run_memsim("doctor").out
    for columns in (40, 100):
        monkeypatch.setenv("COLUMNS", str(columns))
        wrapped = run_memsim("doctor").out
        assert wrapped.split() == piped.split()
        longest = max(map(len, wrapped.split()))
        assert all(len(line) <= max(columns, 8 + longest) for line in wrapped.splitlines())


def test_doctor_in_json(run_memsim: RunMemsim) -> None:
    ended = run_memsim("doctor", "--json", "-")
    data = json.loads(ended.out)
    assert data["schema"] == 1
    assert data["healthy"] is True
    assert {check["status"] for check in data["checks"]} <= {"ok", "note", "missing"}
    names = {check["name"] for check in data["checks"]}
    assert {
        "Python",
        "memsim",
        "numpy",
        "loopy",
        "OpenCL",
        "compilers for NVIDIA",
        "barvinok",
        "numba cache",
    } <= names


def test_doctor_names_a_damaged_file_of_compiled_loops(
    run_memsim: RunMemsim, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    (tmp_path / "cache.trial-1.py311.nbi").write_bytes(b"")
    checks = json.loads(run_memsim("doctor", "--json", "-").out)["checks"]
    (found,) = [check for check in checks if check["name"] == "compiled loops"]
    assert (found["status"], found["found"]) == (
        "note",
        f"1 damaged: {tmp_path}/cache.trial-1.py311.nbi",
    )


def test_doctor_reports_how_to_install_what_is_missing(
    run_memsim: RunMemsim, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEMSIM_OPENCL", "no-such-platform")
    monkeypatch.setattr(
        "tracegen.doctor.importlib.metadata.requires",
        lambda name: ["numpy>=99", "no-such-package>=1", "unasked; extra == 'more'"],
    )
    ended = run_memsim("doctor", code=1)
    lines = ended.out.splitlines()
    missing = [line.split()[1] for line in lines if line.startswith("MISSING")]
    assert missing == ["numpy", "no-such-package", "OpenCL"]
    assert "-> pip install 'numpy>=99'" in ended.out
    assert "-> pip install 'no-such-package>=1'" in ended.out
    assert "MEMSIM_OPENCL=no-such-platform names none" in ended.out
    assert "unasked" not in ended.out
    assert lines[-1].startswith("Not ready")


def test_doctor_notes_missing_compilers(
    run_memsim: RunMemsim, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEMSIM_CLANG", "none")
    ended = run_memsim("doctor", "--json", "-")
    checks = {check["name"]: check for check in json.loads(ended.out)["checks"]}
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


def test_a_quick_profile_says_that_it_has_few_orderings(run_memsim: RunMemsim, spec: str) -> None:
    ended = run_memsim("profile", spec, "-m", "v100", "--quick")
    assert "5 trials, seed 0" in ended.out
    for option in (("--trials", "3"), ("--ci", "0.1"), ("--budget", "9")):
        error = run_memsim.refused("profile", spec, "-m", "v100", "--quick", *option)
        assert "quick (--quick) decides on the number of trials" in error


def test_a_kernel_without_parallel_tags_is_warned_of(run_memsim: RunMemsim, spec: str) -> None:
    serial = spec.replace(":gather", ":serial")
    ended = run_memsim("profile", serial, "-m", "v100", "--quick")
    assert "serial has one work-item, so nothing runs in parallel" in ended.err
    assert "one work-item" not in run_memsim("profile", spec, "-m", "v100", "--quick").err
