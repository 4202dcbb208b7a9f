"""Fits against known parameters, closed forms and scipy; intervals against their coverage."""

from __future__ import annotations

import numpy as np
import pytest

from calib.features.table import FeatureTable, scale_features_by_output
from calib.fitting.fit import Fit, FitError, fit_model, geometric_mean
from calib.fitting.performance_model import Model
from memsim.errors import MemsimError

FORMS = {
    "contrast": "p_0 * f_k + overlap(p_g * f_g, p_l * f_l, p_edge)",
    # Equations (5) and (6) of Stevens and Klöckner 2020 as printed: the edge has the unit 1/s.
    "paper": "p_0*f_k + p_g*f_g*(tanh(p_edge*(p_g*f_g - p_l*f_l)) + 1)/2"
    " + p_l*f_l*(tanh(p_edge*(p_l*f_l - p_g*f_g)) + 1)/2",
}
TRUE = {"p_0": 1e-5, "p_g": 1e-11, "p_l": 2e-12}
EDGE = {"contrast": 6.0, "paper": 800.0}


def table(
    model: Model, true: dict[str, float], rows: int, noise: float, seed: int, **columns: object
) -> FeatureTable:
    rng = np.random.default_rng(seed)
    values = {
        "f_g": 10 ** rng.uniform(6, 9, rows),
        "f_l": 10 ** rng.uniform(6, 10, rows),
        "f_k": np.ones(rows),
    }
    values |= {name: np.asarray(column) for name, column in columns.items()}
    outputs = model.evaluate(true, values) * (1 + noise * rng.standard_normal(rows))
    kernels = tuple(f"kernel {row}" for row in range(rows))
    return FeatureTable(output=model.output, kernels=kernels, values={**values, "f_t": outputs})


def table_of(**values: np.ndarray) -> FeatureTable:
    return FeatureTable(
        output="f_t", kernels=tuple(map(str, range(len(values["f_t"])))), values=values
    )


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("nonnegative", [False, True])
def test_an_overlap_is_recovered_from_exact_data(form: str, nonnegative: bool) -> None:
    model = Model("f_t", FORMS[form])
    true = TRUE | {"p_edge": EDGE[form]}
    fit = fit_model(
        model, scale_features_by_output(table(model, true, 60, 0.0, 1)), nonnegative=nonnegative
    )
    for name, value in true.items():
        assert fit[name] == pytest.approx(value, rel=1e-3)
    assert fit.mean_error < 1e-4


@pytest.mark.parametrize("form", FORMS)
def test_calibrations_error_is_the_error_of_prediction(form: str) -> None:
    """With the paper's form, p_edge fitted to scaled features would be wrong on unscaled ones."""
    model = Model("f_t", FORMS[form])
    gathered = table(model, TRUE | {"p_edge": EDGE[form]}, 60, 0.02, 2)
    fit = fit_model(model, scale_features_by_output(gathered))
    predicted = model.evaluate(fit, gathered.values) / gathered.outputs - 1
    assert predicted == pytest.approx(fit.errors, rel=1e-12, abs=1e-15)
    assert fit.residual_norm == pytest.approx(np.linalg.norm(predicted), rel=1e-9)
    assert fit.mean_error < 0.02
    if form == "paper":
        divided = {name: column / gathered.outputs for name, column in gathered.values.items()}
        naive = FeatureTable(output="f_t", kernels=gathered.kernels, values=divided)
        trapped = fit_model(model, naive, singular="report")
        wrong = model.evaluate(trapped, gathered.values) / gathered.outputs - 1
        assert geometric_mean(np.abs(wrong)) > 3 * fit.mean_error


def test_a_linear_fit_is_the_normal_equations() -> None:
    model = Model("f_t", "p_g * f_g + p_l * f_l + p_0 * f_k")
    gathered = table(model, TRUE, 40, 0.05, 3)
    for scaled in (False, True):
        fit = fit_model(model, scale_features_by_output(gathered) if scaled else gathered)
        weight = 1 / gathered.outputs if scaled else np.ones(40)
        matrix = np.stack([gathered.values[f] for f in ("f_g", "f_l", "f_k")], axis=1)
        matrix = matrix * weight[:, None]
        # Long double and columns of similar size: an independent, better conditioned solution.
        unit = matrix.max(axis=0)
        q, r = np.linalg.qr(matrix / unit)
        exact = np.linalg.solve(r, q.T @ (gathered.outputs * weight)) / unit
        assert [fit[p] for p in ("p_g", "p_l", "p_0")] == pytest.approx(exact, rel=1e-8)
        assert fit.relative == scaled
        assert fit.degrees_of_freedom == 37
        residual = matrix @ exact - gathered.outputs * weight
        variance = residual @ residual / 37
        covariance = variance * np.linalg.inv((matrix / unit).T @ (matrix / unit))
        covariance = covariance / np.outer(unit, unit)
        assert fit.covariance == pytest.approx(covariance, rel=1e-6)


def test_intervals_have_their_nominal_coverage() -> None:
    """95 % of the intervals of 200 fits contain the true value, and 95 % of new measurements."""
    model = Model("f_t", "p_g * f_g + p_l * f_l + p_0 * f_k")
    inside, fresh, trials = 0, [], 200
    for seed in range(trials):
        fit = fit_model(model, scale_features_by_output(table(model, TRUE, 20, 0.03, 100 + seed)))
        half = fit.half_widths()
        inside += abs(fit["p_g"] - TRUE["p_g"]) <= half["p_g"]
        new = table(model, TRUE, 20, 0.03, 9000 + seed)
        prediction = fit.predict(new.values)
        fresh.append(
            float(np.mean((prediction.low <= new.outputs) & (new.outputs <= prediction.high)))
        )
    deviation = np.sqrt(0.95 * 0.05 / trials)
    assert abs(inside / trials - 0.95) < 5 * deviation
    assert abs(np.mean(fresh) - 0.95) < 5 * np.std(fresh) / np.sqrt(trials)


def test_prediction_intervals_widen_away_from_the_data() -> None:
    model = Model("f_t", "p_g * f_g + p_l * f_l")
    gathered = table(model, TRUE, 20, 0.02, 5, f_l=np.full(20, 1.0))
    fit = fit_model(model, scale_features_by_output(gathered), singular="report")
    known = fit.predict({"f_g": 1e8, "f_l": 0.0})
    unknown = fit.predict({"f_g": 1e8, "f_l": 1e9})
    assert (known.high - known.low) / known.value < 0.2
    assert unknown.high - unknown.low > 100 * (known.high - known.low)


def test_a_nonnegative_fit_sets_negative_parameters_to_0() -> None:
    model = Model("f_t", "p_g * f_g + p_l * f_l")
    rng = np.random.default_rng(6)
    g, noise = rng.uniform(1, 2, 30), rng.uniform(0, 0.1, 30)
    gathered = table_of(f_g=g, f_l=noise, f_t=g - noise)
    free = fit_model(model, gathered)
    assert free["p_l"] == pytest.approx(-1, rel=1e-9)
    result = fit_model(model, gathered, nonnegative=True)
    assert result["p_l"] == 0
    assert result.at_bound == ("p_l",)
    assert result["p_g"] == pytest.approx(g @ (g - noise) / (g @ g), rel=1e-9)
    assert np.isnan(result.half_widths()["p_l"])
    assert result.degrees_of_freedom == 29


def test_a_nonnegative_search_ends_exactly_at_the_bound() -> None:
    model = Model("f_t", FORMS["contrast"] + " + p_z * f_z")
    true = TRUE | {"p_edge": 6.0, "p_z": -2e-13}
    z = 10 ** np.random.default_rng(8).uniform(4, 6, 60)
    gathered = table(model, true, 60, 0.0, 7, f_z=z)
    fit = fit_model(model, scale_features_by_output(gathered), nonnegative=True)
    assert fit["p_z"] == 0
    assert "p_z" in fit.at_bound


def test_indistinct_parameters_are_named() -> None:
    model = Model("f_t", "p_g * f_g + p_a * f_a + p_b * f_b + p_z * f_z")
    rng = np.random.default_rng(9)
    a = rng.uniform(1, 2, 12)
    g = rng.uniform(1, 2, 12)
    gathered = table_of(f_g=g, f_a=a, f_b=3 * a, f_z=np.zeros(12), f_t=g + a)
    with pytest.raises(FitError) as refused:
        fit_model(model, gathered)
    message = str(refused.value)
    assert "p_a (f_a), p_b (f_b): only the sum of" in message
    assert "p_z (f_z): its features are 0 in every kernel" in message
    assert "p_g" not in message
    fit = fit_model(model, gathered, singular="report")
    assert fit.indistinct == (("p_a", "p_b"), ("p_z",))
    half = fit.half_widths()
    assert half["p_a"] == half["p_b"] == half["p_z"] == np.inf
    assert half["p_g"] < 1e-6
    assert fit["p_a"] + 3 * fit["p_b"] == pytest.approx(1, rel=1e-9)
    assert fit.degrees_of_freedom == 10


def test_nearly_collinear_parameters_are_distinguished() -> None:
    model = Model("f_t", "p_a * f_a + p_b * f_b")
    rng = np.random.default_rng(10)
    a = rng.uniform(1, 2, 12)
    b = a * (1 + 1e-5 * rng.standard_normal(12))
    fit = fit_model(model, table_of(f_a=a, f_b=b, f_t=a + 2 * b))
    assert (fit["p_a"], fit["p_b"]) == pytest.approx((1, 2), rel=1e-6)


def test_too_few_kernels_are_refused_with_the_names_of_the_parameters() -> None:
    model = Model("f_t", "p_g * f_g + p_l * f_l + p_0 * f_k")
    with pytest.raises(FitError, match="2 kernels cannot determine 3 parameters: p_g, p_l, p_0"):
        fit_model(model, table(model, TRUE, 2, 0.0, 11))
    exact = fit_model(model, table(model, TRUE, 3, 0.0, 11))
    assert exact["p_g"] == pytest.approx(TRUE["p_g"], rel=1e-6)
    assert exact.half_widths()["p_g"] == np.inf  # no degrees of freedom are left


def test_impossible_timings_are_refused_with_the_kernels_name() -> None:
    good = table(Model("f_t", "p_g * f_g"), TRUE, 5, 0.0, 12)
    for value in (0.0, -1e-3, np.nan, np.inf):
        outputs = good.outputs.copy()
        outputs[3] = value
        with pytest.raises(MemsimError, match="f_t of kernel kernel 3 must be"):
            FeatureTable(output="f_t", kernels=good.kernels, values={**good.values, "f_t": outputs})


def test_a_model_without_a_finite_value_is_refused() -> None:
    model = Model("f_t", "sqrt(-1 - p_a ** 2) * f_g")
    with pytest.raises(FitError, match="no finite value"):
        fit_model(model, table(Model("f_t", "p_g * f_g"), TRUE, 5, 0.0, 13))


def test_scaling_twice_is_scaling_once_and_can_be_undone() -> None:
    model = Model("f_t", "p_g * f_g")
    gathered = table(model, TRUE, 5, 0.1, 14)
    once = scale_features_by_output(gathered)
    assert scale_features_by_output(once) is once
    assert (once.outputs == 1).all()
    assert once.unscaled().outputs == pytest.approx(gathered.outputs, rel=1e-15)


def test_the_same_seed_gives_the_same_fit() -> None:
    model = Model("f_t", FORMS["paper"])
    scaled = scale_features_by_output(table(model, TRUE | {"p_edge": 800.0}, 40, 0.05, 15))
    first, second = (fit_model(model, scaled, seed=3) for _ in range(2))
    assert dict(first) == dict(second)
    assert isinstance(first, Fit)
