"""Saved models are read back unchanged, damaged files are refused, commands read and write them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from calib.features.table import FeatureTable, scale_features_by_output
from calib.fitting.breakdown import break_down, draw, uncovered
from calib.fitting.fit import fit_model
from calib.fitting.performance_model import Model
from calib.fitting.saved_model import SavedModel, SavedModelError, load_model, save_model
from calib.kernels import ALL_GENERATORS, KernelCollection
from memsim.errors import MemsimError

pytestmark = pytest.mark.filterwarnings("ignore::loopy.diagnostic.LoopyWarning")

MODEL = Model(
    "f_cl_wall_time_pocl_cpu",
    "c_over + overlap(c_gmem, c_chip, p_edge)",
    costs={
        "c_gmem": "p_ld * f_mem_access_global_float32_load",
        "c_chip": "p_madd * f_op_float32_madd",
        "c_over": "p_launch * f_sync_kernel_launch + p_z * f_op_float32_div",
    },
)


def features_of(loads: float, madds: float) -> dict[str, float]:
    given = {"f_mem_access_global_float32_load": loads, "f_op_float32_madd": madds}
    return given | {"f_sync_kernel_launch": 1.0, "f_op_float32_div": 0.0}


def saved(rows: int = 30) -> SavedModel:
    rng = np.random.default_rng(1)
    values = {name: 10 ** rng.uniform(5, 8, rows) for name in MODEL.input_features}
    values["f_sync_kernel_launch"] = np.ones(rows)
    true = {"p_ld": 3e-10, "p_madd": 2e-10, "p_launch": 1e-5, "p_edge": 5.0, "p_z": 0.0}
    outputs = MODEL.evaluate(true, values) * (1 + 0.02 * rng.standard_normal(rows))
    table = FeatureTable(
        output=MODEL.output,
        kernels=tuple(f"k{row}" for row in range(rows)),
        values={**values, MODEL.output: outputs},
        spread=0.01 * outputs,
    )
    fit = fit_model(MODEL, scale_features_by_output(table), nonnegative=True, singular="report")
    said = {"name": "test", "device": "none", "driver": "1", "date": "2026-11-21T12:00:00"}
    return SavedModel(fit=fit, table=table, settings={"trials": 5}, **said)


def test_a_model_round_trips(tmp_path: Path) -> None:
    before = saved()
    save_model(before, tmp_path / "m.json")
    after = load_model(tmp_path / "m.json")
    assert dict(after.fit) == dict(before.fit)
    assert after.model == before.model
    assert np.array_equal(after.fit.covariance, before.fit.covariance)
    assert after.fit.at_bound == before.fit.at_bound
    assert np.array_equal(after.fit.errors, before.fit.errors)
    assert np.array_equal(after.table.outputs, before.table.outputs)
    assert after.table.spread is not None
    assert (after.device, after.driver, after.date) == ("none", "1", "2026-11-21T12:00:00")
    assert after.settings == {"trials": 5}
    features = dict.fromkeys(MODEL.input_features, 1e6)
    one, other = before.fit.predict(features), after.fit.predict(features)
    assert (one.value, one.low, one.high) == (other.value, other.low, other.high)
    # A parameter that is not determined.
    values = {"f_a": np.ones(4), "f_b": np.zeros(4), "f_t": np.ones(4)}
    table = FeatureTable(output="f_t", kernels=tuple("abcd"), values=values)
    fit = fit_model(Model("f_t", "p_a * f_a + p_b * f_b"), table, singular="report")
    save_model(SavedModel(fit=fit, table=table), tmp_path / "m.json")
    after = load_model(tmp_path / "m.json")
    assert after.fit.half_widths()["p_b"] == np.inf
    assert after.fit.indistinct == (("p_b",),)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda d: d.update(format="other"), "not a fitted model"),
        (lambda d: d.update(version=99), "has version 99"),
        (lambda d: d["model"].update(expression="p_a *"), "expected a value at the end"),
        (lambda d: d["model"].update(expression="p_other * f_x"), "damaged"),
        (lambda d: d["fit"]["parameters"].update(p_ld="many"), "damaged"),
        (
            lambda d: d["fit"].update(parameters={f"{k}_": 1.0 for k in d["fit"]["parameters"]}),
            "not those of its expression",
        ),
        (lambda d: d["fit"].update(covariance=[[1.0]]), "damaged"),
        (lambda d: d["data"]["values"][MODEL.output].__setitem__(2, -1.0), "must be positive"),
        (lambda d: d.pop("data"), "damaged"),
        (lambda d: d.update(model=[]), "damaged"),
    ],
)
def test_damaged_files_are_refused(
    tmp_path: Path, change: Callable[[dict[str, Any]], None], words: str
) -> None:
    path = tmp_path / "m.json"
    save_model(saved(), path)
    data = json.loads(path.read_text())
    change(data)
    path.write_text(json.dumps(data))
    with pytest.raises(SavedModelError, match=words) as refused:
        load_model(path)
    assert str(path) in str(refused.value)


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe", b"[" * 100_000])
def test_other_files_are_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "m.json"
    path.write_bytes(content)
    with pytest.raises(SavedModelError):
        load_model(path)
    with pytest.raises(SavedModelError, match="cannot read"):
        load_model(tmp_path / "none.json")


def test_parts_add_up_and_a_hidden_one_costs_more_alone(tmp_path: Path) -> None:
    fit = saved().fit
    features = features_of(1e9, 3e8)
    breakdown = break_down(fit, "k", features)
    assert sum(part.value for part in breakdown.parts) == pytest.approx(breakdown.value, rel=1e-9)
    assert breakdown.low < breakdown.value < breakdown.high
    shown = {part.name: part for part in breakdown.parts}
    assert shown["p_madd"].alone == pytest.approx(fit["p_madd"] * 3e8, rel=1e-6)
    assert shown["p_madd"].value < 0.1 * shown["p_madd"].alone
    assert shown["p_ld"].cost == "c_gmem"
    assert breakdown.parts[0].name == "p_ld"
    draw([breakdown, break_down(fit, "k <&>", features)], tmp_path / "bars.svg")
    assert (tmp_path / "bars.svg").stat().st_size > 3000


def test_predict_from_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The model has no feature for the stores of axpy; sizes of a workload are derived."""
    from calib.commands.predict_model import predict_with_model

    path = tmp_path / "m.json"
    save_model(saved(), path)
    tags = {"dtype": "float32", "groups_fit": "True", "n": "1024"}
    out, bar = tmp_path / "p.json", tmp_path / "bar.svg"
    assert predict_with_model("uipick:axpy", path, tags, json_out=out, plot=bar) == 0
    shown = capsys.readouterr()
    assert "95 % interval" in shown.out
    assert "leaves them out" in shown.err
    data = json.loads(out.read_text())
    fit = load_model(path).fit
    value = float(MODEL.evaluate(fit, features_of(2048.0, 32.0)))
    assert data["value"] == pytest.approx(value, rel=1e-12)
    assert bar.is_file()
    with pytest.raises(MemsimError, match="2 kernels"):
        predict_with_model("uipick:axpy", path, {"dtype": "float32", "n": "1024"})
    with pytest.raises(MemsimError, match="must end in"):
        predict_with_model("uipick:axpy", path, tags, plot=tmp_path / "bar.xyz")
    (kernel,) = KernelCollection(ALL_GENERATORS).generate_kernels(
        ["axpy", *(f"{name}:{value}" for name, value in tags.items())]
    )
    (missed,) = uncovered(saved(), kernel, dict.fromkeys(MODEL.input_features, 1.0))
    assert "z" in missed
    spec = "experiments/kernels/matmul.py:tiled"
    assert predict_with_model(spec, path, {"n": "64"}, json_out=out) == 0
    parts = json.loads(out.read_text())["parts"]
    counts = {name: value for part in parts for name, value in part["features"].items()}
    assert counts["f_op_float32_madd"] == 64**3 / 32
    assert counts["f_mem_access_global_float32_load"] == 2 * 64**3 / 16
