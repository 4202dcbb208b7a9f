"""Parameters and group shapes, from the text of a program."""

from __future__ import annotations

import pytest

from tracegen.compiled.signature import Signature, read_signature


def test_parameters_and_pointers() -> None:
    text = """
    void scale(__global float *x); // scale(y) {
    float twice(float x) { return 2 * x; }
    /* __kernel void scale( */
    __kernel void scale(__global float const *__restrict__ x, __local float *tile,
                        const float factor, int sizes[4], struct pair p)
    { x[0] = twice(factor); }
    """
    signature = read_signature(text, "scale")
    assert signature.parameters == ("x", "tile", "factor", "sizes", "p")
    assert signature.pointers == {"x", "tile", "sizes"}
    assert signature.group_shape is None


def test_no_parameters() -> None:
    assert read_signature("kernel void f(void) {}", "f") == Signature()
    assert read_signature("kernel void f() {}", "f") == Signature()


def test_each_kernel_has_its_own_shape() -> None:
    text = """
    __kernel void __attribute__ ((reqd_work_group_size(32, 4, 1))) first(int n) { ; }
    __attribute__((reqd_work_group_size(64,1,1))) __kernel void second(int n) { ; }
    __kernel void third(int n) { ; }
    """
    shapes = [read_signature(text, name).group_shape for name in ("first", "second", "third")]
    assert shapes == [(32, 4, 1), (64, 1, 1), None]


@pytest.mark.parametrize("text", ["", "K(f)", "f(", "f(int", "void f(int x);"])
def test_a_text_without_the_definition(text: str) -> None:
    assert read_signature(text, "f") == Signature()
