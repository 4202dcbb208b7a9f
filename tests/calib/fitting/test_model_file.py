"""Model files: their keys, sizes by device, and a calibration from end to end."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import calib
from calib.fitting.model_file import Measurements, ModelFileError, load_model_file, model_names
from tests.support.command_line import RunMemsim

pytestmark = pytest.mark.filterwarnings("ignore::loopy.diagnostic.LoopyWarning")

GOOD = """
expression = "p_l * f_sync_kernel_launch + p_g * f_thread_groups + p_b * f_sync_barrier_local"
[[measure]]
tags = ["barrier_pattern", "n_groups:16,64", "m:4,64"]
gpu = ["n_groups:4096,8192,16384"]
[[measure]]
tags = ["empty_kernel", "n_groups:16"]
"""


def written(folder: Path, text: str) -> str:
    path = folder / "mine.toml"
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_the_shipped_models_have_kernels_enough_for_either_device() -> None:
    assert model_names() == ["dg", "finite_diff", "general", "matmul"]
    for name in model_names():
        file = load_model_file(name)
        model = file.model("f_cl_wall_time")
        small, large = file.kernels(), file.kernels(on_gpu=True)
        assert min(len(small), len(large)) > len(model.parameters)
        for each in file.measure:
            small, large = each.kernels(), each.kernels(on_gpu=True)
            if each.gpu:
                assert sum(sum(k.env.values()) for k in large) > sum(
                    sum(k.env.values()) for k in small
                )


def test_a_gpus_tags_replace_those_of_the_same_arguments(tmp_path: Path) -> None:
    file = load_model_file(written(tmp_path, GOOD))
    assert [k.env for k in file.kernels()][:2] == [
        {"n_groups": 16, "m": 4},
        {"n_groups": 16, "m": 64},
    ]
    assert len(file.kernels(on_gpu=True)) == 3 * 2 + 1
    row = Measurements(tags=("word", "n:1,2", "m:3"), gpu=("n:4",))
    assert row.chosen(False) == ("word", "n:1,2", "m:3")
    assert row.chosen(True) == ("word", "m:3", "n:4")


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("expression", "expresion", "no key 'expresion'"),
        ('gpu = ["n_groups:', 'cpu = ["n_groups:', "no key 'cpu'; there are tags, match, gpu"),
        ('gpu = ["n_groups:4096,8192,16384"]', 'gpu = ["empty"]', "ARGUMENT:VALUE tags only"),
        ('"empty_kernel"', "3", "Expected `str`, got `int` - at `$.measure[1].tags[0]`"),
        ("[[measure]]", "[measure]", "not a TOML file"),
    ],
)
def test_a_wrong_file_is_refused_with_its_name(
    tmp_path: Path, old: str, new: str, words: str
) -> None:
    assert old in GOOD
    path = written(tmp_path, GOOD.replace(old, new, 1))
    with pytest.raises(ModelFileError, match=r"mine\.toml") as caught:
        load_model_file(path)
    assert words in str(caught.value)


def test_a_feature_with_a_mistake_has_a_caret(tmp_path: Path, run_memsim: RunMemsim) -> None:
    path = written(tmp_path, GOOD.replace("f_sync_barrier_local", "f_op_float32_mad"))
    ended = run_memsim("calibrate", path, "-o", str(tmp_path / "x.json"), code=2)
    error = ended.err.rstrip().splitlines()
    assert "mine.toml" in error[0]
    assert "madd" in error[0]
    assert error[1].strip() == "f_op_float32_mad"
    assert error[2].index("^") == error[1].index("mad")


def test_an_unknown_model_lists_the_shipped_ones() -> None:
    with pytest.raises(ModelFileError, match="dg, finite_diff, general, matmul"):
        load_model_file("matmull")


def test_calibrate_from_the_command(tmp_path: Path, run_memsim: RunMemsim) -> None:
    """Measures, fits, saves with provenance, and predicts."""
    out = tmp_path / "fitted.json"
    calibrate = ("calibrate", written(tmp_path, GOOD), "--trials", "3", "-o", str(out), "--rounds")
    shown = run_memsim(*calibrate, "3").out
    assert "p_b" in shown
    assert "5 kernels" in shown
    saved = calib.load_model(out)
    assert len(saved.table) == 5
    assert saved.device
    assert saved.driver
    assert saved.date.startswith("20")
    assert saved.settings["trials"] == 3
    assert json.loads(out.read_text())["data"]["kernels"] == list(saved.table.kernels)
    sizes = ("--set", "n_groups=32", "--set", "m=8")
    predict = ("predict", "uipick:barrier_pattern", "--model", str(out), *sizes)
    bar = tmp_path / "bar.png"
    data = json.loads(run_memsim(*predict, "--json", "-", "--plot", str(bar)).out)
    fit = saved.fit
    assert data["value"] == pytest.approx(fit["p_l"] + 32 * fit["p_g"] + 8 * fit["p_b"])
    assert data["low"] <= data["value"] <= data["high"]
    assert bar.stat().st_size > 5000


def test_numbers_out_of_range_are_refused(tmp_path: Path, run_memsim: RunMemsim) -> None:
    """nan would pass every range check."""
    calibrate = ("calibrate", written(tmp_path, GOOD), "--trials", "3", "-o", str(tmp_path / "x"))
    for option, value, error in (
        ("--rounds", "4", "at most trials (--trials), 3, which are divided among them, got 4"),
        ("--rounds", "9" * 18, f"which are divided among them, got {'9' * 18}"),
        ("--trial", "nan", "Invalid value for '--trial': must be a finite number, got nan"),
        ("--longest", "inf", "Invalid value for '--longest': must be a finite number, got inf"),
    ):
        assert error in run_memsim.refused(*calibrate, option, value)
