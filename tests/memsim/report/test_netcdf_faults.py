"""Saved results: hostile text and files, full disks."""

from __future__ import annotations

import csv
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import h5py
import numpy as np
import pytest
import xarray as xr

from memsim.errors import ResultError
from memsim.montecarlo.result import Replay
from memsim.report import netcdf, replay_page
from memsim.report.access_csv import site_csv
from memsim.report.cachegrind import write as write_cachegrind
from memsim.report.summary import summarise
from memsim.trace.model import AccessSite
from tests.support.command_line import RunMemsim
from tests.support.fake_replay import SITES, fake_dataset
from tests.support.mutations import refused

NAMES = (
    "=cmd|'/c calc'!A1", "@SUM(A1)", "+1", "-x[i]", "a\x1b[31mred\x1b]0;title\x07",
    "b\u202etxt.exe\n<script>alert(1)</script>\0\ud800",
)  # fmt: skip


def saved(path: Path) -> Path:
    """A saved replay whose names passed through the model of a trace, as those of every reader do."""
    names = [
        AccessSite(name=name, array=name, direction="load", itemsize_bytes=4).name for name in NAMES
    ]
    sites = tuple((name, name, *site[2:]) for name, site in zip(names, SITES, strict=True))
    data = fake_dataset(n_trials=4, sites=sites, generated_source="a\0b\ud800\n\tc")
    return Replay(data).save(path)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return saved(tmp_path_factory.mktemp("saved") / "k.nc")


@pytest.fixture
def hostile(written: Path, tmp_path: Path) -> Path:
    """A copy, which a test may damage."""
    return Path(shutil.copy(written, tmp_path))


@pytest.fixture(scope="module")
def whole(written: Path) -> xr.Dataset:
    """What is read from such a file."""
    return Replay.load(written).dataset


def test_names_are_text_everywhere(
    run_memsim: RunMemsim, tmp_path: Path, hostile: Path, whole: xr.Dataset
) -> None:
    out = tmp_path / "k.csv"
    ended = run_memsim("export", str(hostile), "--format", "csv", "-o", str(out))
    rows = list(csv.DictReader(io.StringIO(out.read_text())))
    assert len(rows) == len(NAMES)
    for row in rows:
        for cell in (row["site"], row["array"]):
            assert not cell.startswith(("=", "+", "-", "@", "\t", "\r"))
            assert cell.isprintable()
    assert {row["site"] for row in rows} >= {"'=cmd|'/c calc'!A1", "'+1", "'-x[i]"}

    run_memsim("export", str(hostile), "--format", "json", "-o", str(tmp_path / "j"))
    report = json.loads((tmp_path / "j").read_text())
    assert all(site["site"].isprintable() for site in report["sites"])

    files = write_cachegrind(whole, tmp_path / "cg")
    assert files[0].read_text().replace("\n", "").isprintable()

    ended = run_memsim("compare", str(hostile), str(hostile), "--html", str(tmp_path / "p.html"))
    assert "\x1b" not in ended.out
    assert "\u202e" not in ended.out
    page = (tmp_path / "p.html").read_text()
    assert "<script>alert" not in page
    assert not set("\x1b\x07\0\u202e") & set(page)


def test_names_of_a_hostile_file_too(tmp_path: Path, hostile: Path) -> None:
    with h5py.File(hostile, "r+") as file:
        file["array"][0] = "x\x1b[2J"
        file.attrs["kernel"] = "k\x1b[31m\n"
        file.attrs["machine"] = "m\nfn=x"
    loaded = Replay.load(hostile)
    assert str(loaded.dataset["array"].values[0]) == r"x\x1b[2J"
    assert loaded.attrs["kernel"] == r"k\x1b[31m\n"
    assert loaded.attrs["machine"].name == r"m\nfn=x"
    assert loaded.attrs["generated_source"] == "a\\x00b\\ud800\n\tc"
    assert all(line.isprintable() for line in site_csv(summarise(loaded.dataset)).splitlines())


def test_a_small_file_that_claims_to_hold_much(tmp_path: Path, hostile: Path) -> None:
    with h5py.File(hostile, "r+") as file:
        del file["dram_latency_cycles"]
        file.create_dataset(
            "dram_latency_cycles",
            shape=(4, 400_000_000),
            dtype=np.float32,
            chunks=(4, 1 << 20),
            compression="gzip",
        )
    assert hostile.stat().st_size < 200_000
    with pytest.raises(ResultError, match="must not unpack to more than 2000 times its size"):
        Replay.load(hostile)


BY_LEVEL = ("trial", "level", "site")
HUGE = 10**400
ATTRIBUTES: list[tuple[str, object, str]] = [
    ("occupancy_json", "[]", "attribute occupancy_json must be a JSON object"),
    ("traced_subgroups", "many", "attribute traced_subgroups must be an integer"),
    ("options_json", "{", "attribute options_json must be JSON"),
    ("provenance_json", "[" * 100_000, "attribute provenance_json must be JSON"),
    ("provenance_json", '{"x": ' + "9" * 5000 + "}", "attribute provenance_json must be JSON"),
    ("arrays_json", "[" * 100_000, "attribute arrays_json must be JSON"),
    ("orders_json", '{"x": ' * 50_000, "attribute orders_json must be JSON"),
    ("time_json", 7, "attribute time_json must be a text"),
    ("time_json", f'{{"local_share": {HUGE}}}', "time_json must be below 1.8e308"),
    ("model_error_json", f'{{"L1": -{HUGE}}}', "model_error_json must be below 1.8e308"),
    ("machine_json", "{}", "schema of a machine must be 1"),
    ("machine_json", "[]", "attribute machine_json must be a JSON object"),
    ("kernel", 7, "attribute kernel must be a text"),
    ("seed", "x", "attribute seed must be an integer"),
]
VARIABLES: list[tuple[str, tuple[str, ...], object, str]] = [
    ("far_hits", BY_LEVEL, 10**9, "far_hits must not exceed hits + pending"),
    ("doubtful", BY_LEVEL, 10**9, "doubtful must not exceed hits + pending"),
    ("far_hits", BY_LEVEL, -1, "far_hits must not be negative, got -1"),
    ("far_hits", ("site",), 0, "far_hits must be integers over (trial, level, site)"),
    ("far_hits", BY_LEVEL, 0.5, "far_hits must be integers over"),
    ("missed_translations", ("trial", "site"), "x", "missed_translations must be integers"),
    ("missed_translations", ("site",), 1, "must be integers over (trial, site)"),
    ("dirtied_bytes", BY_LEVEL, 1, "it must have all of dirtied_bytes, dirty"),
]


def wrong(stored: xr.Dataset) -> Iterator[tuple[xr.Dataset, str]]:
    """Changed results, and what is said of each."""
    for name, value, message in ATTRIBUTES:
        yield stored.assign_attrs({name: value}), message
    for name, dims, value, message in VARIABLES:  # not every machine has these
        shape = [stored.sizes[dim] for dim in dims]
        yield stored.assign({name: (dims, np.full(shape, value))}), message
    machine = {**json.loads(stored.attrs["machine_json"]), "levels": [], "model_error_points": {}}
    without = stored.assign_attrs(machine_json=json.dumps(machine))
    assert netcdf.decoded(without).sizes["trial"] == 4
    doubtful = without.assign(doubtful=0 * stored["hits"])
    yield doubtful, "doubtful needs a machine that describes every level"


def test_what_is_no_result_is_refused_in_one_line(whole: xr.Dataset, tmp_path: Path) -> None:
    for data, message in wrong(netcdf.encoded(whole)):
        why = refused(lambda data=data: netcdf.decoded(data))
        assert message in why, why
    path = tmp_path / "k.nc"
    data.to_netcdf(path, engine="h5netcdf")
    why = refused(lambda: Replay.load(path))
    assert why.startswith(str(path))
    assert message in why


def test_a_file_that_hdf5_does_not_survive(hostile: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Zero bytes in the place of one of its heaps, for example, keep it in a loop in C."""

    read = netcdf._read

    def spin(_: str) -> None:
        while True:
            pass

    def sleep(_: str) -> None:
        time.sleep(60)

    def wait(name: str) -> xr.Dataset:
        time.sleep(1.2)  # as where others keep the processor busy
        return read(name)

    def crash(_: str) -> None:
        os.kill(os.getpid(), signal.SIGSEGV)

    monkeypatch.setattr(netcdf, "_MOST_S", 1)
    for ends, longest_wait, message in (
        (spin, 60, "HDF5 takes more than 1 s on it"),  # of the processor's, however busy it is
        (sleep, 2, "HDF5 takes more than 2 s on it"),
        (crash, 60, "ends by SIGSEGV"),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(netcdf, "_LONGEST_WAIT", longest_wait)
            patch.setattr(netcdf, "_read", ends)
            with pytest.raises(ResultError) as caught:
                Replay.load(hostile)
        assert str(caught.value).startswith(f"{hostile} is not a memsim result, or is damaged: ")
        assert message in str(caught.value)
    monkeypatch.setattr(netcdf, "_read", wait)
    assert Replay.load(hostile).dataset.sizes["trial"] == 4


@pytest.mark.parametrize("value", ["x", None, {}, float("nan"), float("inf"), 1e300, -1])
def test_a_page_leaves_out_what_is_no_number(whole: xr.Dataset, value: object) -> None:
    row = {"groups_per_core": value, "load_hit_ratio": {"L1": value}}
    occupancy = {"groups_per_core": value, "occupancy": value, "over_groups": [row, row]}
    data = netcdf.encoded(whole).assign_attrs(
        occupancy_json=json.dumps(occupancy),
        options_json=json.dumps({"snapshots": value, "trials": value}),
        traced_groups=1,
    )
    assert replay_page(netcdf.decoded(data)).rstrip().endswith("</html>")


LIMITED = """
import resource, signal, sys
from pathlib import Path
from memsim.errors import ResultError
from memsim.montecarlo.result import Replay
from tests.support.fake_replay import fake_dataset
replay = Replay(fake_dataset(n_trials=4))
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
try:
    replay.save(Path(sys.argv[1]))
except ResultError as error:
    print(error)
"""


def test_a_disk_that_is_full(tmp_path: Path) -> None:
    """A bound on the size of files stands for it; HDF5 writes through a file ended by a signal."""
    path = tmp_path / "k.nc"
    path.write_bytes(b"before")
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", LIMITED, str(path)],
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).parents[3],
    )
    assert (done.returncode, done.stdout) == (0, f"cannot write {path}: File too large\n"), (
        done.stderr
    )
    assert path.read_bytes() == b"before"
    assert list(tmp_path.iterdir()) == [path]
