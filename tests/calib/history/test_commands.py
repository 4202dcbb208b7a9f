"""memsim history list, show, plot, export, import, prune."""

import json
import math
import re
import time

import numpy as np
import pytest

from calib.history.database import default_path
from calib.history.key import Key
from calib.history.records import Sample
from calib.history.starpu_file import read
from calib.history.store import Store

DAY_S = 86_400


@pytest.fixture
def place(tmp_path):
    rng = np.random.default_rng(0)
    path = tmp_path / "h.db"
    with Store(path, keep_samples=True) as store:
        for device, speed in (("cpu", 1.0), ("gpu", 0.1)):
            for size in 4096 * 4 ** np.arange(6):
                key = Key(kernel="gemm-1234", device=device, driver="1", layout=int(size))
                store.add_many(
                    Sample(
                        key=key,
                        time_s=speed * (2e-10 * size**1.2 + 3e-5) * math.exp(0.02 * noise),
                        size_bytes=int(size),
                    )
                    for noise in rng.standard_normal(40)
                )
        old = Key(kernel="trsm-99", device="cpu", driver="1", layout=1)
        store.add_many(
            Sample(key=old, time_s=1e-3 * mode, at=time.time() - 100 * DAY_S)
            for mode in rng.choice([1.0, 1.6], 60)
        )
    return path


def test_show_says_which_kind_fits(run_memsim, place):
    ended = run_memsim("history", "show", "gemm", "--device", "cpu", "--store", str(place))
    assert "power law with offset: fits" in ended.out
    assert "power law: does not fit" in ended.out
    assert "linear regression: not calibrated; needs terms" in ended.out
    assert "00001000" in ended.out
    assert "gpu" not in ended.out


def test_a_plot_of_sizes_or_of_a_layout_whose_modes_it_reports(run_memsim, place, tmp_path):
    for number, (words, said) in enumerate(
        (
            (("gemm",), ""),
            (("trsm", "--layout", "1"), "cpu: bimodal"),
            (("gemm", "--layout", "1000"), "gpu: unimodal"),
        )
    ):
        out = tmp_path / f"{number}.png"
        ended = run_memsim("history", "plot", *words, "--store", str(place), "-o", str(out))
        assert said in ended.out
        assert out.read_bytes().startswith(b"\x89PNG")


def test_export_and_import(run_memsim, place, tmp_path):
    out, other = tmp_path / "gemm.host", tmp_path / "other.db"
    export = ("history", "export", "gemm", "--cpu", "cpu", "--store", str(place), "-o", str(out))
    run_memsim(*export)
    assert [c.name for c in read(out).combinations] == ["cpu0", "opencl0"]
    assert "not overwritten" in run_memsim.refused(*export)
    bring = ("history", "import", str(out), "--store", str(other))
    run_memsim(*bring)
    assert "already in" in run_memsim(*bring, code=2).err
    with Store(place) as ours, Store(other) as theirs:
        mine = {(r.key.device, r.key.layout): r.accepted for r in ours.records(kernel="gemm-1234")}
        got = {
            ("cpu" if "cpu0" in r.key.device else "gpu", r.key.layout): r.accepted
            for r in theirs.records(kernel="gemm")
        }
    assert set(mine) == set(got)
    for key, state in mine.items():
        assert got[key].n == state.n
        assert got[key].mean == pytest.approx(state.mean, rel=1e-12)
        assert got[key].deviation == pytest.approx(state.deviation, rel=1e-9)


def test_prune_says_first_and_does_when_told(run_memsim, place):
    def listed():
        rows = json.loads(run_memsim("history", "list", "--store", str(place), "--json", "-").out)
        return [(r["kernel"], r["device"], r["layouts"], r["samples"]) for r in rows]

    gemms = [("gemm-1234", device, 6, 240) for device in ("cpu", "gpu")]
    assert listed() == [*gemms, ("trsm-99", "cpu", 1, 60)]
    assert "gemm-1234" in run_memsim("history", "list", "--store", str(place)).out
    for words, said in (
        ("--older-days 90", "would remove 1 layouts with 60 samples"),
        ("--older-days 90 --yes", "removed 1 layouts"),
        ("--below 40", "would remove 0 layouts"),
        ("--below 41", "would remove 12 layouts"),
    ):
        assert said in run_memsim("history", "prune", *words.split(), "--store", str(place)).out
    assert listed() == gemms


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("show", "nothing"), "no kernel 'nothing' in .*: gemm-1234, trsm-99"),
        (("show", ""), "several kernels begin with"),
        (("show", "gemm", "--device", "tpu"), "no device's name contains 'tpu': cpu, gpu"),
        (("plot", "gemm", "-o", "x.txt"), "--out must end in"),
        (("plot", "gemm", "--layout", "xyz", "-o", "x.png"), "hexadecimal digits"),
        (("plot", "gemm", "--layout", "2", "-o", "x.png"), "no layout 2 of gemm-1234: 00001000"),
        (("plot", "trsm", "-o", "x.png"), "no sizes are known"),
        (("export", "gemm", "--cpu", "tpu", "-o", "x.host"), "was not run on tpu"),
        (("prune",), "name what to prune"),
    ],
)
def test_what_a_user_can_mend_is_one_line(
    run_memsim, place, tmp_path, monkeypatch, arguments, message
):
    monkeypatch.chdir(tmp_path)
    error = run_memsim.refused("history", *arguments, "--store", str(place))
    assert re.search(message, error)


def test_no_history_and_bad_files(run_memsim, tmp_path):
    error = run_memsim.refused("history", "list", "--store", str(tmp_path / "none.db"))
    assert "no history" in error
    model = tmp_path / "gemm.host"
    model.write_text("# Performance Model Version\n44\n")
    store = ("--store", str(tmp_path / "h.db"))
    assert "version 44" in run_memsim.refused("history", "import", str(model), *store)


def test_where_the_history_lies(monkeypatch, tmp_path):
    monkeypatch.setenv("MEMSIM_HISTORY", str(tmp_path / "x.db"))
    assert default_path() == tmp_path / "x.db"
    monkeypatch.delenv("MEMSIM_HISTORY")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert default_path() == tmp_path / "memsim" / "history.db"


def test_ask_names_the_model_then_the_history(run_memsim, tmp_path):
    spec = ("history", "ask", "experiments/kernels/matmul.py:naive", "--set", "n=16")
    store = ("--store", str(tmp_path / "h.db"))
    assert "nothing is known of matmul_naive" in run_memsim.refused(*spec, *store)
    by_model = run_memsim(*spec, *store, "--machine", "v100", "--json", "-")
    predicted = json.loads(by_model.out)
    assert (predicted["kind"], predicted["n_samples"]) == ("uncalibrated model of v100", 0)
    assert not (tmp_path / "h.db").exists()

    from calib.history.workloads import launch_of
    from calib.timing.trials import find_context
    from tracegen import load_kernel

    launch = launch_of(
        load_kernel("experiments/kernels/matmul.py:naive", {"n": "16"}), find_context()
    )
    with Store(tmp_path / "h.db") as history:
        for _ in range(12):
            history.add(launch.key, 2e-3, size_bytes=launch.size_bytes)
    assert "2.000 ms by history on 12 samples" in run_memsim(*spec, *store).out


def test_ask_of_no_kernel_or_model(run_memsim, tmp_path):
    store = ("--store", str(tmp_path / "h.db"))
    spec = "experiments/kernels/matmul.py:naive"
    for words, culprit in (
        (("nowhere.py:k",), "nowhere.py"),
        ((spec, "--model", "none.json"), "none.json"),
        ((spec, "--machine", "cpu-pocl"), r"cpu-pocl describes no device.*machines measure"),
        ((spec, "--device", "nosuch"), "nosuch"),
    ):
        error = run_memsim("history", "ask", *words, *store, code=2).err
        assert re.search(culprit, error)
        assert len(error.splitlines()) == 1
