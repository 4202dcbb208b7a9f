"""Integer points of parametric sets against closed forms, isl's enumeration, and barvinok."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any

import islpy as isl
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calib.counting.feature_counts import _DECODER, _ENCODER, _Kept
from calib.counting.inventory import Inventory
from calib.polynomials.isl_forms import conditions, fix
from calib.polynomials.lattice_points import Uncountable, count_points
from calib.polynomials.piecewise import Piecewise
from calib.polynomials.quasi_polynomial import QuasiPolynomial, floor_of, sum_of_range


def counted(text: str) -> Piecewise:
    pieces = count_points(isl.Set(text))
    return Piecewise(tuple((conditions(piece.domain), piece.value) for piece in pieces))


def enumerated(text: str, **sizes: int) -> int:
    return int(fix(isl.Set(text), sizes).count_val().to_python())


def assert_counted(text: str, count: Piecewise, sizes: Iterable[int]) -> None:
    for n in sizes:
        assert count.at({"n": n}) == enumerated(text, n=n), (text, n)


@pytest.mark.parametrize(
    ("text", "formula"),
    [
        # Stevens and Klöckner 2020, section 5
        (
            "[n, p] -> { [i, j] : p <= i < n and p <= j < i + 1 }",
            "-n*p + n^2/2 + p^2/2 + n/2 - p/2  where n >= p + 1",
        ),
        ("[n] -> { [i, j] : 0 <= i < n and 0 <= j <= i }", "n^2/2 + n/2  where n >= 1"),
        (
            "[n] -> { [o, i, k] : 0 <= i < 16 and 0 <= 16o + i < n and 0 <= k < n }",
            "n^2  where n >= 1",
        ),
        (
            "[n] -> { [g, s] : exists l : 0 <= l < 128 and 0 <= g and 128g + l < n"
            " and 32s <= l < 32s + 32 }",
            "floor((n + 31)/32)  where n >= 1",
        ),
        ("[n] -> { [i] : 0 <= i < n and i mod 3 = 1 }", "floor((n + 1)/3)  where n >= 2"),
    ],
)
def test_closed_form(text: str, formula: str) -> None:
    assert str(counted(text)) == formula


SETS = [
    "[n] -> { [i, j] : 0 <= i < n and 0 <= 3j <= 2i }",
    "[n] -> { [i, j] : 0 <= i < n and 0 <= j < n and (i + j) mod 3 = 1 }",
    "[n] -> { [i] : 0 <= i < n or 5 <= i <= 20 }",
    "[n] -> { [i, j] : 0 <= i < n and 0 <= j < n and 2i + 3j <= 2n }",
    "[n] -> { [y] : exists i : y = 3i and 0 <= i < n }",
    "[n] -> { [o, i, j] : 0 <= i < 16 and 0 <= 16o + i < n and 0 <= j <= 16o + i }",
    "[n] -> { [g, h, s] : exists l, m : 0 <= l, m < 10 and 10g + l < n and 10h + m < n"
    " and 0 <= g, h and 32s <= l + 10m <= 32s + 31 }",
]


@pytest.mark.parametrize("text", SETS)
def test_equals_enumeration_at_every_small_size(text: str) -> None:
    """The cache on disk keeps the polynomial, and barvinok, where it is there, finds the same."""
    count = counted(text)
    assert_counted(text, count, range(61))
    empty = Inventory("k", (), "{ : }", (), (), (), (), ())
    again = _DECODER.decode(_ENCODER.encode(_Kept(empty, {"count": count}, {}))).forms["count"]
    assert (again, str(again)) == (count, str(count))
    if hasattr(isl.Set, "card"):
        card = isl.Set(text).card()
        origin = isl.Point.zero(card.domain().get_space())
        for n in (7, 100, 12345):
            point = origin.set_coordinate_val(isl.dim_type.param, 0, isl.Val(n))
            assert count.at({"n": n}) == card.eval(point).to_python()


def test_two_parameters() -> None:
    text = "[n, m] -> { [i, j] : 0 <= i < n and 0 <= j < m and j <= i }"
    count = counted(text)
    for n, m in itertools.product(range(9), repeat=2):
        assert count.at({"n": n, "m": m}) == enumerated(text, n=n, m=m)


@st.composite
def sets(draw: Any) -> str:
    dims = "abc"[: draw(st.integers(1, 3))]
    number = st.integers(-2, 2)
    parts = [f"0 <= {draw(st.integers(1, 3))}{dim} < n + {draw(st.integers(0, 3))}" for dim in dims]
    for _ in range(draw(st.integers(0, 2))):
        terms = " + ".join(f"{draw(number)}{dim}" for dim in dims)
        parts.append(f"{terms} + {draw(number)}n + {draw(number)} >= 0")
    if draw(st.booleans()):
        parts.append(f"({dims[0]} + {dims[-1]}) mod {draw(st.integers(2, 3))} = 0")
    return f"[n] -> {{ [{', '.join(dims)}] : {' and '.join(parts)} }}"


@settings(max_examples=30)
@given(sets())
def test_a_random_set_is_counted_correctly_or_refused(text: str) -> None:
    try:
        count = counted(text)
    except Uncountable:
        return
    assert_counted(text, count, (0, 1, 2, 5, 8, 13, 24))


def test_unbounded_and_too_hard_sets_are_refused() -> None:
    with pytest.raises(Uncountable):
        counted("[n] -> { [i] : i >= n }")
    with pytest.raises(Uncountable):
        counted("[n] -> { [i, j] : 0 <= i, j < n and exists k : 7k <= 5i + 3j <= 7k + 1 }")


@settings(max_examples=80)
@given(st.integers(-9, 9), st.integers(-9, 9), st.integers(1, 12), st.integers(-50, 50))
def test_floors_are_normalised_without_changing_their_value(
    slope: int, shift: int, denominator: int, n: int
) -> None:
    form = QuasiPolynomial.atom("n") * slope + shift
    assert floor_of(form, denominator).evaluate({"n": n}) == (slope * n + shift) // denominator


@pytest.mark.parametrize("power", range(6))
def test_sums_of_powers(power: int) -> None:
    t, last = QuasiPolynomial.atom("t"), QuasiPolynomial.atom("T")
    total = sum_of_range(t**power, "t", last)
    for end in range(-1, 8):
        assert total.evaluate({"T": end}) == sum(k**power for k in range(end + 1))


def test_many_sizes_at_once_equal_one_by_one() -> None:
    count = counted(SETS[0])
    n = np.array([[0, 1, 2], [50, 1000, 10**9]])
    many = count.at_many({"n": n})
    assert many.shape == n.shape
    assert many.tolist() == [[count.at({"n": int(v)}) for v in row] for row in n]
    assert many[1, 2] > 2**53  # exact beyond the precision of a float
