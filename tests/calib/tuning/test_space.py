"""Spaces of configurations and the conditions between their parameters."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from calib.tuning.space import (
    MOST_VALUES,
    Condition,
    ConditionError,
    SpaceError,
    number,
    parse_parameter,
    parse_space,
)
from memsim.errors import MemsimError


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("b=16,32,64", ("16", "32", "64")),
        ("b=1:4", ("1", "2", "3", "4")),
        ("b=64:256:96", ("64", "160", "256")),
        ("b=1,4:6,float", ("1", "4", "5", "6", "float")),
        ("b=0.5,-1", ("0.5", "-1")),
        ("b=a:b", ("a:b",)),
    ],
)
def test_values_of_a_parameter(text: str, values: tuple[str, ...]) -> None:
    assert parse_parameter(text).values == values


def test_what_is_no_range_of_numbers_is_a_text() -> None:
    assert len(parse_parameter("b=" + "9" * 5000 + ":1").values) == 1


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("b", "--over must be NAME=VALUE"),
        ("=1", "--over must be NAME=VALUE"),
        ("b-c=1", "--over must be NAME=VALUE"),
        ("b=", "empty value"),
        ("b=1,,2", "empty value"),
        ("b=1,2,1", "'1' twice"),
        ("b=4:1", "LOW <= HIGH"),
        ("b=1:4:0", "STEP > 0"),
        ("b=1:2:3:4", "LOW <= HIGH"),
        (f"b=1:{MOST_VALUES + 1}", "more than"),
        ("b=1:9000000000000000000", "more than"),
    ],
)
def test_wrong_parameters(text: str, rule: str) -> None:
    with pytest.raises(SpaceError, match=rule) as raised:
        parse_parameter(text)
    assert "\n" not in str(raised.value)
    assert len(str(raised.value)) < 300


def test_configurations_satisfy_all_conditions() -> None:
    space = parse_space(["a=1:8", "b=1,2,4"], ["a*b <= 8", "a % b == 0"])
    pairs = [(a, b) for a in range(1, 9) for b in (1, 2, 4) if a * b <= 8 and a % b == 0]
    assert space.configurations() == [{"a": str(a), "b": str(b)} for a, b in pairs]
    assert space.n_combinations == 8 * 3


@pytest.mark.parametrize(
    ("over", "where", "rule"),
    [
        ([], [], "needs a parameter"),
        (["a=1", "a=2"], [], "a more than once"),
        (["a=1,2"], ["a > 2"], "no combination satisfies --where 'a > 2'"),
        (["a=1,2"], ["a < 2", "a > 1"], "all of --where 'a < 2', 'a > 1'"),
        ([f"{name}=1:4096" for name in "abc"], [], "combinations of a, b, c are more than"),
    ],
)
def test_spaces_without_configurations(over: list[str], where: list[str], rule: str) -> None:
    with pytest.raises(SpaceError, match=rule.replace("*", r"\*")):
        parse_space(over, where).configurations()


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("", "not an expression"),
        ("a <", "not an expression"),
        ("c > 1", "c is not among the parameters a, b"),
        ("a ** 99999999", "Pow is not allowed"),
        ("1 << a", "LShift is not allowed"),
        ("__import__('os').system('true')", "is not allowed|may call only|not among"),
        ("(lambda: 1)()", "is not allowed|may call only"),
        ("a.real", "Attribute is not allowed"),
        ("[a][0]", "is not allowed"),
        ("open(a)", "may call only|not among"),
        ("min(*a)", "Starred is not allowed"),
        ("(" * 5000, "longer than|not an expression"),
        ("a" * 3000, "longer than"),
        ("a\x00b", "not an expression"),
    ],
)
def test_conditions_that_are_refused(text: str, rule: str) -> None:
    with pytest.raises(ConditionError, match=rule) as raised:
        Condition(text, ["a", "b"])
    assert "\n" not in str(raised.value)


def test_a_condition_that_fails_names_the_configuration() -> None:
    with pytest.raises(ConditionError, match=r"fails at a=1 b=0: .*zero"):
        Condition("a % b == 0", ["a", "b"]).holds({"a": "1", "b": "0"})
    with pytest.raises(ConditionError, match="fails at a=x"):
        Condition("a < 1", ["a"]).holds({"a": "x"})


@given(st.text(max_size=40))
def test_any_text_is_a_condition_or_refused(text: str) -> None:
    with contextlib.suppress(MemsimError):
        assert Condition(text, ["a"]).holds({"a": "3"}) in (True, False)


def test_numbers() -> None:
    texts = {"12": 12, "-3": -3, "0.5": 0.5, "1e3": 1000.0, "x": "x", "nan": "nan"}
    assert {text: number(text) for text in texts} == texts
