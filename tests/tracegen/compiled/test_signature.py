"""Group shapes, from the text of a program."""

from __future__ import annotations

import pytest

from tracegen.compiled.signature import required_shape


def test_each_kernel_has_its_own_shape() -> None:
    text = """
    void first(int n); // first(y) {
    /* __attribute__((reqd_work_group_size(7, 1, 1))) void first( */
    __kernel void __attribute__ ((reqd_work_group_size(32, 4, 1))) first(int sizes[4]) { ; }
    __attribute__((reqd_work_group_size(64,1,1))) __kernel void second(int n) { ; }
    __kernel void third(int n) { ; }
    """
    shapes = [required_shape(text, name) for name in ("first", "second", "third")]
    assert shapes == [(32, 4, 1), (64, 1, 1), None]


@pytest.mark.parametrize("text", ["", "K(f)", "f(", "f(int", "void f(int x);"])
def test_a_text_without_the_definition(text: str) -> None:
    assert required_shape(text, "f") is None
