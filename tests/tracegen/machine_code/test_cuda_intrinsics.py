"""CUDA's functions on parts of a word, on floats of 16 and 8 bits and on 128 bits, as NVRTC compiles them, against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from memsim.errors import KernelError
from tests.support.cuda_kernels import needs_both, run, workload
from tracegen.tools.toolchain import cuda_headers

pytestmark = [
    *needs_both,
    pytest.mark.skipif(len(cuda_headers()) < 3, reason="CUDA's headers are not installed"),
]
N = 64
rng = np.random.default_rng(0)


def computed(headers: str, parameters: str, body: str, machine: str, *arrays: Any) -> Any:
    """What a kernel leaves in its last parameter."""
    includes = "".join(f"#include <{name}>\n" for name in headers.split())
    text = f"{includes}__global__ void k({parameters}) {{ int i = threadIdx.x; {body} }}"
    given = workload(text, *arrays, block=N)
    return run(given, machine, compiler="nvrtc")[parameters.split("*")[-1]]


def words(*shape: int) -> Any:
    found = rng.integers(0, 1 << 32, shape, np.uint32)
    edges = np.array([0, 1, 0x7FFF8000, 0x80007FFF, 0xFFFFFFFF, 0x80000000], np.uint32)
    found[..., :24] = rng.choice(edges, (*shape[:-1], 24))
    return found


@pytest.mark.parametrize("kind", ["s", "u"])
def test_halves_of_a_word_in_one_instruction(kind: str) -> None:
    """Hopper's, with which of two it was."""
    x = words(3, N)
    a, b, c = x.view(np.int16 if kind == "s" else np.uint16).reshape(3, N, 2)
    body = f"""unsigned a = x[i], b = x[i + {N}], c = x[i + {2 * N}]; bool h, l;
      y[i] = __viaddmax_{kind}16x2(a, b, c); y[i + {N}] = __viaddmin_{kind}16x2(a, b, c);
      y[i + {2 * N}] = __vimax3_{kind}16x2(a, b, c); y[i + {3 * N}] = __vibmin_{kind}16x2(a, b, &h, &l);
      y[i + {4 * N}] = 2 * h + l; y[i + {5 * N}] = __vimin3_s16x2_relu(a, b, c);"""
    found = computed("", "const unsigned *x, unsigned *y", body, "h100", x, np.zeros((6, N), np.uint32))  # fmt: skip
    s = x.view(np.int16).reshape(3, N, 2)
    parts = [np.maximum(a + b, c), np.minimum(a + b, c), np.maximum(np.maximum(a, b), c), np.minimum(a, b)]  # fmt: skip
    np.testing.assert_array_equal(found[:4].view(a.dtype).reshape(4, N, 2), parts)
    np.testing.assert_array_equal(found[4], (a <= b) @ [1, 2])
    np.testing.assert_array_equal(found[5].view(np.int16).reshape(N, 2), s.min(0).clip(0))


def brain(values: Any) -> Any:
    """The nearest bfloat16 of floats, as bits."""
    bits = np.asarray(values, np.float32).view(np.uint32)
    return np.where(np.isnan(values), 0x7FFF, bits + 0x7FFF + (bits >> 16 & 1) >> 16).astype(np.uint16)  # fmt: skip


@pytest.mark.parametrize("kind", ["half", "nv_bfloat16"])
def test_comparisons_and_limits_of_pairs(kind: str) -> None:
    is_half = kind == "half"
    values = rng.choice(np.array([0, -0.0, 1, -2.5, np.nan, np.inf, -np.inf, 3], np.float32), (3, N, 2))  # fmt: skip
    a, b, c = values
    given = values.astype(np.float16).view(np.uint16) if is_half else brain(values)
    pair = "half2" if is_half else "nv_bfloat162"
    body = f"""{pair} a = x[i], b = x[i + {N}], c = x[i + {2 * N}];
      y[i] = __hlt2(a, b); y[i + {N}] = __hneu2(a, b); y[i + {2 * N}] = __hmax2_nan(a, b);
      y[i + {3 * N}] = __hfma2_relu(a, b, c); y[i + {4 * N}] = __hcmadd(a, b, c);
      y[i + {5 * N}] = __hge(a.x, b.y) ? a : b; y[i + {6 * N}] = h2tanh_approx(a);"""
    left = computed(f"cuda_{'fp16' if is_half else 'bf16'}.h", f"const {pair} *x, {pair} *y", body, "h100", given, np.zeros((7, N, 2), np.uint16))  # fmt: skip
    found = left.view(np.float16).astype(float) if is_half else (left.astype(np.uint32) << 16).view(np.float32)  # fmt: skip
    with np.errstate(invalid="ignore"):
        total = a * b + c
        product = np.stack([-a[:, 1] * b[:, 1] + (a[:, 0] * b[:, 0] + c[:, 0]), a[:, 1] * b[:, 0] + (a[:, 0] * b[:, 1] + c[:, 1])], 1)  # fmt: skip
        chosen = np.where(a[:, :1] >= b[:, 1:], a, b)
    expected = [a < b, (a != b), np.maximum(a, b), np.maximum(total, 0), product, chosen, np.tanh(a)]  # fmt: skip
    np.testing.assert_allclose(found, np.stack(expected).astype(float), rtol=1e-2)


def test_no_number_becomes_the_highest_bit() -> None:
    """Of an integer of 64 bits, and of one that comes from a double; else 0."""
    body = """float f = x[0]; double d = f;
      y[0] = __float2ll_rn(f); y[1] = __double2ull_rz(d); y[2] = __double2int_rn(d); y[3] = __double2uint_rd(d);
      y[4] = __float2int_rz(f); y[5] = __float2ll_rd(-x[1]); y[6] = __double2int_ru(x[1]);"""
    found = computed("", "const float *x, long long *y", body, "a100", np.array([np.nan, 2.5], np.float32), np.zeros(7, np.int64))  # fmt: skip
    assert list(found) == [-(1 << 63), -(1 << 63), -(1 << 31), 1 << 31, 0, -3, 3]


def eighths(fraction: int, bias: int) -> Any:
    """The numbers of all codes of 8 bits."""
    code = np.arange(256)
    exponent, part = code >> fraction & (1 << 7 - fraction) - 1, code & (1 << fraction) - 1
    size = np.ldexp(part + (exponent > 0) * 2.0**fraction, np.maximum(exponent, 1) - bias - fraction)  # fmt: skip
    if fraction == 3:
        size[code & 127 == 127] = np.nan
    else:
        size[exponent == 31] = np.where(part[exponent == 31], np.nan, np.inf)
    return np.where(code & 128, -size, size)


@pytest.mark.parametrize(
    ("name", "fraction", "bias", "most"), [("e4m3", 3, 7, 448), ("e5m2", 2, 15, 57344)]
)
@pytest.mark.parametrize("machine", ["a100", "h100"])
def test_floats_of_8_bits(name: str, fraction: int, bias: int, most: float, machine: str) -> None:
    """By integer arithmetic on an A100, by instructions on an H100."""
    numbers = eighths(fraction, bias)
    x = (rng.normal(size=4 * N) * 10 ** rng.uniform(-7, 6, 4 * N)).astype(np.float32)
    x[:6] = [0, np.inf, -np.inf, 3.5 * 2.0**-10, 2.5 * 2.0**-16, -most]
    body = f"""y[i] = float4(__nv_fp8x4_{name}(x[i]));
      __nv_fp8x4_{name} q; q.__x = i * 0x04040404u + 0x03020100; y[i + {N}] = float4(q);"""
    left = computed("cuda_fp8.h", "const float4 *x, float4 *y", body, machine, x, np.zeros((2, N, 4), np.float32))  # fmt: skip
    finite = np.flatnonzero(np.isfinite(numbers[:128]))
    gaps = abs(np.minimum(abs(x.astype(float)), most)[:, None] - numbers[finite])
    near = np.array([min(zip(gap, finite % 2, finite, strict=True))[2] for gap in gaps])
    np.testing.assert_array_equal(left[0].ravel(), np.copysign(numbers[near], x))
    np.testing.assert_array_equal(left[1].ravel(), numbers)


@pytest.mark.parametrize("machine", ["a100", "rtx5090"])
def test_numbers_of_128_bits(machine: str) -> None:
    x = rng.integers(0, 1 << 63, N, np.uint64) >> rng.integers(0, 63, N).astype(np.uint64)
    body = """unsigned __int128 a = (unsigned __int128)x[i] << 64 | x[i ^ 1], b = (unsigned __int128)x[i ^ 2] << 9 | 1;
      y[4 * i] = a / b; y[4 * i + 1] = a % b; y[4 * i + 2] = a * b >> 64; y[4 * i + 3] = a - b >> 64;"""
    found = computed("", "const unsigned long long *x, unsigned long long *y", body, machine, x, np.zeros((N, 4), np.uint64))  # fmt: skip
    for i, row in enumerate(found.tolist()):
        a, b = int(x[i]) << 64 | int(x[i ^ 1]), int(x[i ^ 2]) << 9 | 1
        results = (a // b, a % b, a * b >> 64, a - b >> 64)
        assert row == [value % (1 << 64) for value in results]


@pytest.mark.parametrize(
    ("parameters", "body", "reason"),
    [
        ("cudaTextureObject_t t, float *y", "y[i] = tex2D<float>(t, i, 0);", "a texture cannot be traced: TEX"),
        ("cudaTextureObject_t t, float *y", "y[i] = tex1Dfetch<float>(t, i);", "a texture cannot be traced: TLD"),
        ("cudaSurfaceObject_t t, float *y", "surf2Dwrite(y[i], t, i, 0);", "a surface cannot be traced: SUST"),
        ("long long n, float *y", 'asm volatile("{.reg .b128 a; mov.b128 a, {%1, %1}; atom.global.exch.b128 a, [%0], a;}" :: "l"(y), "l"(n));', "instruction 'ATOMG.E.EXCH.128"),
    ],
)  # fmt: skip
def test_what_is_not_run_is_named(parameters: str, body: str, reason: str) -> None:
    with pytest.raises(KernelError, match=rf"^kernel.cu:1: kernel k: {reason}"):
        computed("", parameters, body, "h100", 0, np.zeros(N, np.float32))
