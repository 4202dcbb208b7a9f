"""Expressions against numpy, derivatives against finite differences, errors with their caret."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calib.fitting import expression as ex
from calib.fitting.expression import ExpressionError
from calib.fitting.performance_model import Model, ModelError

GLOBAL_A = "f_mem_access_global_float32_load_lstrides:{0:1;1:>15}_gstrides:{0:16}_afr:>1"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1 + 2 * 3", 7.0),
        ("(1 + 2) * 3", 9.0),
        ("2 ** 3 ** 2", 512.0),
        ("-2 ** 2", -4.0),
        ("2 ** -1", 0.5),
        ("8 / 4 / 2", 1.0),
        ("1 - 2 - 3", -4.0),
        ("1.5e-3 * 1e3", 1.5),
        ("max(1, 2) - min(1, 2) + abs(-3)", 4.0),
        ("exp(0) + sqrt(9) + log(1) + tanh(0)", 4.0),
        ("contrast(3, 1)", 0.5),
        ("contrast(0, 0)", 0.0),
        ("overlap(3, 1, 1000)", 3.0),
        ("overlap(1, 3, 1000)", 3.0),
        ("overlap(3, 1, 0)", 2.0),
    ],
)
def test_value(text: str, value: float) -> None:
    assert ex.evaluate(ex.parse(text), {}) == pytest.approx(value, rel=1e-15)


def test_features_may_contain_comparison_signs() -> None:
    tree = ex.parse(f"p_a*{GLOBAL_A} + p_b*f_op_float32_madd-p_c")
    assert ex.names(tree, "f_") == (GLOBAL_A, "f_op_float32_madd")
    assert ex.names(tree, "p_") == ("p_a", "p_b", "p_c")
    values = {"p_a": 2.0, GLOBAL_A: 3.0, "p_b": 5.0, "f_op_float32_madd": 7.0, "p_c": 1.0}
    assert ex.evaluate(tree, values) == 2 * 3 + 5 * 7 - 1


@pytest.mark.parametrize(
    ("text", "column", "words"),
    [
        ("p_a *", 5, "expected a value at the end"),
        ("p_a + f_mem_access_lstrides:{0:1", 27, "does not continue"),
        ("p_a f_x", 4, "operator"),
        ("foo + 1", 0, "'foo' is none of"),
        ("p_a * (f_x + 1", 14, "')' is missing"),
        ("p_a $ 3", 4, "unexpected '$'"),
        ("__import__('os')", 0, "none of"),
        ("max(p_a)", 0, "takes 2"),
        ("1 + 1e999", 4, "too large"),
        ("p_a * * 2", 6, "expected a value"),
        ("c_gmem + p_a", 0, "none of"),
        ("", 0, "expected a value at the end"),
    ],
)
def test_errors_have_a_caret(text: str, column: int, words: str) -> None:
    with pytest.raises(ExpressionError, match=re.escape(words)) as got:
        ex.parse(text)
    shown, caret = str(got.value).split("\n")[1:]
    assert shown == f"  {text}"
    assert caret == "  " + " " * column + "^"


def test_deep_nesting_and_long_texts_are_refused() -> None:
    with pytest.raises(ExpressionError, match="nest at most"):
        ex.parse("(" * 5000 + "1" + ")" * 5000)
    with pytest.raises(ExpressionError, match="nest at most"):
        ex.parse("2" + " ** 2" * 5000)
    with pytest.raises(ExpressionError, match="at most"):
        ex.parse("1 + " * 50_000 + "1")
    assert ex.evaluate(ex.parse("1 + " * 5000 + "1"), {}) == 5001


EXPRESSIONS = (
    "p_a * f_x + p_b * f_y", "p_a * f_x / (p_b + f_y)", "exp(p_a) * f_x - log(p_b) * f_y",
    "sqrt(p_a * f_x + p_b) * tanh(p_b * f_y)", "max(p_a * f_x, p_b * f_y) + min(p_a, p_b * f_x)",
    "abs(p_a - 3 * p_b) * f_x", "(p_a * f_x) ** 2 / (1 + p_b ** 2) + p_a ** p_b",
    "overlap(p_a * f_x, p_b * f_y, p_e) + p_c",
    "p_c + p_a*f_x*(tanh(p_e*(p_a*f_x - p_b*f_y)) + 1)/2 + p_b*f_y*(tanh(p_e*(p_b*f_y - p_a*f_x)) + 1)/2",
    "contrast(p_a * f_x, p_b * f_y) ** 3",
)  # fmt: skip


@pytest.mark.parametrize("text", EXPRESSIONS)
def test_derivatives_are_those_of_differences(text: str) -> None:
    rng = np.random.default_rng(4)
    tree = ex.parse(text)
    for _ in range(20):
        values = {
            name: rng.uniform(0.3, 2.0) for name in ("p_a", "p_b", "p_c", "p_e", "f_x", "f_y")
        }
        for name in ex.names(tree, "p_"):
            step = 1e-6
            above, below = (
                float(ex.evaluate(tree, values | {name: values[name] + sign * step}))
                for sign in (1, -1)
            )
            slope = float(ex.evaluate(ex.derivative(tree, name), values))
            # The error of a central difference is O(step^2) plus 1e-16 / step from rounding.
            assert slope == pytest.approx((above - below) / (2 * step), rel=2e-7, abs=2e-8)


def test_derivatives_at_a_kink_use_the_first_argument_and_are_finite_at_0() -> None:
    tree, at = ex.parse("max(p_a, p_b)"), {"p_a": 1.0, "p_b": 1.0}
    assert [ex.evaluate(ex.derivative(tree, name), at) for name in at] == [1, 0]
    tree = ex.parse("overlap(p_a * f_x, p_b * f_y, p_e)")
    values = {"p_a": 1.0, "p_b": 1.0, "p_e": 3.0, "f_x": 0.0, "f_y": 0.0}
    assert ex.evaluate(tree, values) == 0
    for name in ("p_a", "p_b", "p_e"):
        assert np.isfinite(ex.evaluate(ex.derivative(tree, name), values))


@given(st.floats(1e-3, 1e3), st.floats(1e-3, 1e3), st.floats(0, 50))
@settings(max_examples=60)
def test_overlap_lies_between_mean_and_maximum(a: float, b: float, edge: float) -> None:
    values = {"f_a": a, "f_b": b, "f_e": edge}
    value = float(ex.evaluate(ex.parse("overlap(f_a, f_b, f_e)"), values))
    assert (a + b) / 2 * (1 - 1e-12) <= value <= max(a, b) * (1 + 1e-12)


MODEL = Model(
    "f_cl_wall_time_pocl_cpu",
    "c_over + overlap(c_gmem, c_chip, p_edge)",
    costs={
        "c_gmem": f"p_ga * {GLOBAL_A} + p_gs * f_mem_access_global_float32_store",
        "c_chip": "p_madd * f_op_float32_madd + p_l * f_mem_access_local_float32",
        "c_over": "p_launch * f_sync_kernel_launch",
    },
)


def test_a_model_lists_its_features_with_the_output_first() -> None:
    assert MODEL.all_features()[0] == "f_cl_wall_time_pocl_cpu"
    assert set(MODEL.all_features()[1:]) == {
        GLOBAL_A,
        "f_mem_access_global_float32_store",
        "f_op_float32_madd",
        "f_mem_access_local_float32",
        "f_sync_kernel_launch",
    }
    assert set(MODEL.parameters) == {"p_ga", "p_gs", "p_madd", "p_l", "p_launch", "p_edge"}
    assert not MODEL.is_linear
    assert Model("f_t", "p_a * f_x + f_y * p_b / 3").is_linear
    assert not Model("f_t", "p_a * f_x + 1").is_linear
    assert not Model("f_t", "p_a * p_b * f_x").is_linear


def features(rows: int, seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {name: 10 ** rng.uniform(5, 8, rows) for name in MODEL.input_features}


PARAMETERS = {
    "p_ga": 3e-10,
    "p_gs": 1e-10,
    "p_madd": 2e-10,
    "p_l": 4e-10,
    "p_launch": 1e-5,
    "p_edge": 5.0,
}


def test_many_sizes_at_once_are_the_sizes_one_by_one() -> None:
    table = features(50)
    together = MODEL.evaluate(PARAMETERS, table)
    slopes = MODEL.gradient(PARAMETERS, table)
    assert slopes.shape == (50, len(MODEL.parameters))
    for row in range(50):
        one = {name: column[row] for name, column in table.items()}
        assert float(MODEL.evaluate(PARAMETERS, one)) == pytest.approx(together[row], rel=1e-14)
        assert MODEL.gradient(PARAMETERS, one) == pytest.approx(slopes[row], rel=1e-12, abs=1e-300)


def test_terms_add_up_and_a_hidden_cost_contributes_little() -> None:
    table = features(40)
    terms = MODEL.terms(PARAMETERS, table)
    assert np.sum(list(terms.values()), axis=0) == pytest.approx(
        MODEL.evaluate(PARAMETERS, table), rel=1e-12
    )
    assert "rest" not in terms
    assert "p_edge" not in terms
    hidden: dict[str, float] = dict.fromkeys(MODEL.input_features, 1.0)
    hidden |= {GLOBAL_A: 1e9, "f_op_float32_madd": 1e8}
    shown = MODEL.terms(PARAMETERS | {"p_edge": 50.0}, hidden)
    assert float(shown["p_ga"]) == pytest.approx(0.3, rel=1e-6)
    assert float(shown.get("p_madd", 0.0)) < 1e-6 * 0.02
    assert MODEL.cost_of("p_madd") == "c_chip"
    assert MODEL.features_of("p_madd") == ("f_op_float32_madd",)
    assert MODEL.features_of("p_edge") == ()
    shared = Model("f_t", "p_a * f_x + 2").terms({"p_a": 3.0}, {"f_x": 5.0})
    assert {name: float(value) for name, value in shared.items()} == {"p_a": 15.0, "rest": 2.0}


def test_missing_values_are_named() -> None:
    with pytest.raises(ModelError, match="p_b"):
        Model("f_t", "p_a * f_x + p_b").evaluate({"p_a": 1.0}, {"f_x": 1.0})
    with pytest.raises(ModelError, match="f_x"):
        Model("f_t", "p_a * f_x").evaluate({"p_a": 1.0}, {})


@pytest.mark.parametrize(
    ("output", "text", "costs", "words"),
    [
        ("time", "p_a", {}, "f_..."),
        ("f_t", "p_a * f_t", {}, "both output and input"),
        ("f_t", "1 + 2", {}, "has none"),
        ("f_t", "gmem * 2", {"gmem": "p_a"}, "c_..."),
    ],
)
def test_invalid_models_are_refused(
    output: str, text: str, costs: dict[str, str], words: str
) -> None:
    with pytest.raises((ModelError, ExpressionError), match=words.replace(".", r"\.")):
        Model(output, text, costs=costs)
