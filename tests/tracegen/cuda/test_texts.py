"""Names of accesses and of kernels, and integers of templates, against cases written by hand."""

from __future__ import annotations

import pytest

from tracegen import CudaWorkload
from tracegen.cuda.program import kernels, read_program
from tracegen.executed.labels import label


@pytest.mark.parametrize(
    ("line", "at", "kind", "expected"),
    [
        ("  y[i] = factor * x[i * stride];", "= f", "store", "store y[i]"),
        ("  y[i] = factor * x[i * stride];", "x[", "load", "x[i * stride]"),
        ("  p[i].x += a->b[3].c;", "+=", "store", "store p[i].x"),
        ("  p[i].x += a->b[3].c;", "c;", "load", "a->b[3].c"),
        ("  *p = *q;", "= *", "store", "store *p"),
        ("  *p = *q;", "*q", "load", "*q"),
        ("  if (a) b[c[i]]++;", "++", "store", "store b[c[i]]"),
        ("  atomicAdd(&h[k], 1);", "atomicAdd", "atomic", "atomicAdd(&h[k], 1)"),
        ("  f(__ldg(&x[i]) + 2);", "__ldg", "load", "__ldg(&x[i])"),
        ("  (*out)[i] = 3;", "= 3", "store", "store (*out)[i]"),
    ],
)
def test_an_access_is_named_after_its_expression(
    line: str, at: str, kind: str, expected: str
) -> None:
    assert label(line, line.index(at) + 1, kind) == expected


def test_names_of_kernels() -> None:
    text = """
    // __global__ void commented(int x);
    extern "C" __global__ void plain(int *x) {}
    template <typename T> __global__ void __launch_bounds__(N * (2), 1) bounded(T *x);
    static __global__ __attribute__((unused)) void other (float x) {}
    """
    assert list(kernels(text)) == ["plain", "bounded", "other"]


@pytest.mark.parametrize(
    ("kernel", "integers"),
    [
        ("tiled<32>", {"TILE": 32}),
        ("ns::tiled<0x20, float>", {"TILE": 32}),
        ("tiled<K>", {}),
        ("blocks<128, 8, 4>", {"M": 128, "K": 8, "PER": 4}),
        ("blocks<128>", {"M": 128, "K": 16, "PER": 2}),
        ("plain", {}),
    ],
)
def test_integers_of_a_template(kernel: str, integers: dict[str, int]) -> None:
    """Loops are counted with them; a default holds where an argument is left out."""
    text = """
    namespace ns { template <int TILE, class T = float> __global__ void tiled(T *a) {} }
    template <const int M, unsigned K = 16, int PER = 2> // , int X>
    __global__ void __launch_bounds__(128) blocks(float *a) {}
    __global__ void plain(float *a) {}
    """
    program = read_program(CudaWorkload(source=text, kernel=kernel))
    assert program.template_integers == integers
