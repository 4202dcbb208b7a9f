"""Instructions that multiply matrices: whole products, loaded and stored as the makers' manuals say, against NumPy."""

from __future__ import annotations

import functools
import re
from collections import defaultdict
from typing import Any

import numpy as np
import pytest

from tests.support import gcn_runs, sass_runs
from tests.support.compilers import needs_amd, needs_nvidia
from tests.tracegen.machine_code.gcn_programs import machine_code, run
from tests.tracegen.machine_code.test_gcn_small_floats import number_of
from tracegen.compiled.model import MachineCode
from tracegen.machine_code.gcn_lowering import lower

PTX = """
.visible .entry k{number}(.param .u64 pa, .param .u64 pb, .param .u64 pc, .param .u64 pd) {{
  .reg .b32 a<32>, b<32>, c<32>, d<32>, i<8>; .reg .f64 x<32>, y<32>, z<32>, w<32>; .reg .b64 p<8>;
  ld.param.u64 p0, [pa]; ld.param.u64 p1, [pb]; ld.param.u64 p2, [pc]; ld.param.u64 p3, [pd];
  cvta.to.global.u64 p0, p0; cvta.to.global.u64 p1, p1; cvta.to.global.u64 p2, p2; cvta.to.global.u64 p3, p3;
  {body}
  ret;
}}
"""
BODIES: defaultdict[str, list[str]] = defaultdict(list)
"""Target -> what its kernels do: they are compiled together."""


def planned(target: str, body: str) -> tuple[str, int]:
    """A kernel to be compiled: its target, and its number there."""
    BODIES[target].append(body)
    return target, len(BODIES[target]) - 1


@functools.cache
def compiled(target: str) -> dict[str, MachineCode]:
    kernels = [PTX.format(number=k, body=body) for k, body in enumerate(BODIES[target])]
    head = f".version 8.7\n.target {target}\n.address_size 64\n"
    return sass_runs.compiled(
        head + "".join(kernels), target, [f"k{k}" for k in range(len(kernels))]
    )


def product(kernel: tuple[str, int], a: Any, b: Any, c: Any) -> Any:
    """What a sub-group leaves, by the interpreter and by its twin. b : its columns follow each other"""
    target, number = kernel
    arrays = {"a": a.ravel(), "b": b.ravel(), "c": c.ravel(), "d": np.zeros_like(c).ravel()}
    found, same = (
        sass_runs.executed(compiled(target)[f"k{number}"], arrays, list(arrays), by_twin=by_twin)[
            "d"
        ]
        for by_twin in (False, True)
    )
    np.testing.assert_array_equal(found, same)
    return found.reshape(c.shape)


def registers(letter: str, n: int) -> str:
    return "{" + ", ".join(f"{letter}{k}" for k in range(n)) + "}"


def whole(
    target: str, shape: str, kind: str, total: str, n: tuple[int, int, int]
) -> tuple[str, int]:
    """A product of matrices in memory: the compiler knows which lane has which element. n : registers of a, b, and c"""
    width, depth = (int(part) for part in shape.partition("n")[2].split("k"))
    words = "xyzw" if kind == "f64" else "abcd"
    a, b, c, d = (registers(w, k) for w, k in zip(words, (*n, n[2]), strict=True))
    types = f"{total}.{total}" if kind == "f16" else f"{total}.{kind}.{kind}.{total}"
    return planned(
        target,
        f"""wmma.load.a.sync.aligned.row.{shape}.global.{kind} {a}, [p0], {depth};
      wmma.load.b.sync.aligned.col.{shape}.global.{kind} {b}, [p1], {depth};
      wmma.load.c.sync.aligned.row.{shape}.global.{total} {c}, [p2], {width};
      wmma.mma.sync.aligned.row.col.{shape}.{types} {d}, {a}, {b}, {c};
      wmma.store.d.sync.aligned.row.{shape}.global.{total} [p3], {d}, {width};""",
    )


def of_registers(
    target: str,
    opcode: str,
    n: tuple[int, int, int],
    *,
    doubles: bool = False,
    scales: bool = False,
) -> tuple[str, int]:
    """Each lane loads its registers, which lie behind each other. scales : both factors have one more with these"""
    size, kind, words = (8, "f64", "xyzw") if doubles else (4, "b32", "abcd")
    lines = ["mov.u32 i0, %tid.x;"]
    for k, (letter, count) in enumerate(
        zip(words, (n[0] + scales, n[1] + scales, n[2], n[2]), strict=True)
    ):
        lines.append(f"mad.wide.u32 p{k}, i0, {size * count}, p{k};")
        if k < 3:
            lines += [f"ld.global.{kind} {letter}{j}, [p{k}+{size * j}];" for j in range(count)]
    a, b, c, d = (registers(w, k) for w, k in zip(words, (*n, n[2]), strict=True))
    more = f", a{n[0]}, {{0, 0}}, b{n[1]}, {{0, 0}}" if scales else ""
    lines.append(f"mma.sync.aligned.{opcode} {d}, {a}, {b}, {c}{more};")
    lines += [f"st.global.{kind} [p3+{size * j}], {words[3]}{j};" for j in range(n[2])]
    return planned(target, "\n".join(lines))


def brain(values: Any) -> Any:
    """The bits of floats that bfloat16 has exactly."""
    return (values.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)


def small(shape: tuple[int, ...], seed: int) -> Any:
    """Numbers that all kinds of floating-point numbers have exactly, as their sums of products."""
    return np.random.default_rng(seed).integers(-4, 5, shape).astype(np.float64)


def convert(of: Any, values: Any) -> Any:
    if isinstance(of, str):
        return eighths(values, of)
    return of(values) if of is brain else values.astype(of)


def eighths(values: Any, form: str) -> Any:
    """The codes of whole numbers from -4 to 4 as floats of 8 bits."""
    bias, bits, codes = *((7, 3) if form.startswith("e4m3") else (15, 2)), [0]
    bias += form.endswith("fnuz")
    for size in range(1, 5):
        exponent = size.bit_length() - 1
        codes.append(exponent + bias << bits | (size << bits >> exponent) & (1 << bits) - 1)
    return (np.array(codes)[np.abs(values).astype(int)] | 128 * (values < 0)).astype(np.uint8)


WHOLE = [
    (whole(*kernel), [int(part) for part in re.findall(r"\d+", kernel[1])], of, to)
    for *kernel, of, to in (
        ("sm_75", "m16n16k16", "f16", "f32", (8, 8, 8), np.float16, np.float32),
        ("sm_80", "m16n16k16", "f16", "f32", (8, 8, 8), np.float16, np.float32),
        ("sm_80", "m16n16k16", "f16", "f16", (8, 8, 4), np.float16, np.float16),
        ("sm_90", "m32n8k16", "f16", "f32", (8, 8, 8), np.float16, np.float32),
        ("sm_80", "m16n16k16", "bf16", "f32", (4, 4, 8), brain, np.float32),
        ("sm_80", "m16n16k8", "tf32", "f32", (4, 4, 8), np.float32, np.float32),
        ("sm_80", "m8n8k4", "f64", "f64", (1, 1, 2), np.float64, np.float64),
        ("sm_75", "m16n16k16", "s8", "s32", (2, 2, 8), np.int8, np.int32),
        ("sm_80", "m16n16k16", "s8", "s32", (2, 2, 8), np.int8, np.int32),
        ("sm_120", "m16n16k16", "u8", "s32", (2, 2, 8), np.uint8, np.int32),
    )
]


@needs_nvidia
@pytest.mark.parametrize(("kernel", "shape", "of", "to"), WHOLE)
def test_wmma(kernel: tuple[str, int], shape: tuple[int, int, int], of: Any, to: Any) -> None:
    m, n, k = shape
    a, b, c = small((m, k), 1), small((n, k), 2), small((m, n), 3)
    if of is np.uint8:
        a, b = a + 200, b + 100
    if of is np.float64:
        a /= 3
    found = product(kernel, convert(of, a), convert(of, b), c.astype(to))
    np.testing.assert_allclose(found, a @ b.T + c, rtol=0, atol=1e-14 * (of is np.float64))


LANE = np.arange(32)


def sums_of_lanes(matrix: Any) -> Any:
    """(lane, register) of 8 columns: lane l has two neighbours of row l / 4, further registers are 8 rows below."""
    return np.stack([matrix[LANE // 4 + down, LANE % 4 * 2 + q] for down in range(0, len(matrix), 8) for q in (0, 1)], 1)  # fmt: skip


def fragments(target: str, shape: str, types: str, parts: int) -> tuple[str, int]:
    rows, depth = (16 if "m16" in shape else 8), int(shape.partition("k")[2])
    steps, of_rows = depth // (4 * parts), rows // 8
    n = (steps * of_rows, steps, 2 * of_rows)
    return of_registers(target, f"{shape}.row.col.{types}", n, doubles="f64" in types)


FRAGMENTS = [
    (fragments(*kernel), kernel[1], kernel[3], "u8" in kernel[2], of, to)
    for *kernel, of, to in (
        ("sm_80", "m16n8k8", "f32.f16.f16.f32", 2, np.float16, np.float32),
        ("sm_80", "m16n8k8", "f32.bf16.bf16.f32", 2, brain, np.float32),
        ("sm_80", "m16n8k4", "f32.tf32.tf32.f32", 1, np.float32, np.float32),
        ("sm_75", "m8n8k16", "s32.s8.u8.s32", 4, np.int8, np.int32),
        ("sm_80", "m16n8k32", "s32.s8.s8.s32", 4, np.int8, np.int32),
        ("sm_89", "m16n8k32", "f32.e4m3.e4m3.f32", 4, "e4m3", np.float32),
        ("sm_120", "m16n8k32", "f32.e5m2.e5m2.f32", 4, "e5m2", np.float32),
        ("sm_90", "m16n8k4", "f64.f64.f64.f64", 1, np.float64, np.float64),
        ("sm_90", "m16n8k8", "f64.f64.f64.f64", 1, np.float64, np.float64),
        ("sm_90", "m16n8k16", "f64.f64.f64.f64", 1, np.float64, np.float64),
    )
]


@needs_nvidia
@pytest.mark.parametrize(("kernel", "shape", "parts", "is_unsigned", "of", "to"), FRAGMENTS)
def test_mma(
    kernel: tuple[str, int], shape: str, parts: int, is_unsigned: bool, of: Any, to: Any
) -> None:
    """Fragments as the PTX ISA draws them: lane l has row l / 4, and of k as many elements as a register has from (l modulo 4) times
    that number on; further registers are 8 rows below, then further along k."""
    rows, depth = (16 if "m16" in shape else 8), int(shape.partition("k")[2])
    a, b, c = small((rows, depth), 1), small((8, depth), 2) + 100 * is_unsigned, small((rows, 8), 3)
    row, along = LANE[:, None] // 4, LANE[:, None] % 4 * parts + np.arange(parts)
    steps = range(0, depth, 4 * parts)
    left = np.stack([a[row + down, along + k] for k in steps for down in range(0, rows, 8)], 1)
    right = np.stack([b[row, along + k] for k in steps], 1)
    found = product(kernel, convert(of, left), convert(of, right), sums_of_lanes(c).astype(to))
    np.testing.assert_array_equal(found, sums_of_lanes(a @ b.T + c))


TYPES = "row.col.f32.e2m1.e2m1.f32"
OF_BYTES = of_registers("sm_120a", f"kind::f8f6f4.m16n8k32.{TYPES}", (4, 2, 4))


@needs_nvidia
def test_floats_of_4_bits_that_have_a_byte_each_are_refused() -> None:
    zeros = np.zeros(8, np.uint8)
    with pytest.raises(AssertionError, match="QMMA"):  # not known
        product(OF_BYTES, zeros, zeros, np.zeros(8, np.float32))


SCALED = [
    (
        of_registers("sm_120a", f"{shape}.row.col.kind::{kind}.block_scale.scale_vec::{blocks}X.f32.{form}.{form}.f32.{scale}", (4, 2, 4), scales=True),
        int(shape[5:].strip("k")), blocks, form, scale,
    )
    for shape, kind, blocks, form, scale in (
        ("m16n8k32", "mxf8f6f4", 1, "e4m3", "ue8m0"),
        ("m16n8k64", "mxf4nvf4", 2, "e2m1", "ue8m0"),
        ("m16n8k64", "mxf4nvf4", 4, "e2m1", "ue4m3"),
    )
]  # fmt: skip
E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])


@needs_nvidia
@pytest.mark.parametrize(("kernel", "depth", "blocks", "form", "scale"), SCALED)
def test_blocks_with_scales(
    kernel: tuple[str, int], depth: int, blocks: int, form: str, scale: str
) -> None:
    """Along k so many blocks have a scale each: of row g of the first factor byte by byte in lane 4 g, of row g + 8 in the
    next lane, of column g of the second in lane 4 g."""
    rng = np.random.default_rng(3)
    if form == "e2m1":
        codes = [rng.integers(0, 16, (rows, depth)) for rows in (16, 8)]
        values = [E2M1[one & 7] * np.where(one & 8, -1, 1) for one in codes]
        data = [(one[:, ::2] | one[:, 1::2] << 4).astype(np.uint8) for one in codes]
    else:
        values = [small((rows, depth), rows) for rows in (16, 8)]
        data = [eighths(one, form) for one in values]
    exponents = [rng.integers(-2, 3, (rows, blocks)) for rows in (16, 8)]
    held = [(one + 7 << 3 if scale == "ue4m3" else one + 127).astype(np.uint8) for one in exponents]
    a, b = (
        one * np.repeat(2.0**e, depth // blocks, 1)
        for one, e in zip(values, exponents, strict=True)
    )
    of_lane = np.zeros((2, 32, 4), np.uint8)
    of_lane[0, 0::4, :blocks], of_lane[0, 1::4, :blocks] = held[0][:8], held[0][8:]
    of_lane[1, 0::4, :blocks] = held[1]
    first, second = (one.view(np.uint32) for one in data)
    row, along = LANE // 4, LANE % 4
    left = [first[row + down, along + k] for k in (0, 4) for down in (0, 8)]
    right = [second[row, along + k] for k in (0, 4)]
    given = [
        np.stack([*factor, scales.view(np.uint32)[:, 0]], 1)
        for factor, scales in zip((left, right), of_lane, strict=True)
    ]
    c = small((16, 8), 9)
    found = product(kernel, *given, sums_of_lanes(c).astype(np.float32))
    np.testing.assert_array_equal(found, sums_of_lanes(a @ b.T + c))


TRANSPOSED = planned(
    "sm_80",
    """mov.u32 i0, %tid.x; mad.wide.u32 p0, i0, 4, p0; mad.wide.u32 p3, i0, 4, p3; ld.global.b32 a0, [p0];
      movmatrix.sync.aligned.m8n8.trans.b16 d0, a0; st.global.b32 [p3], d0;""",
)


@needs_nvidia
def test_a_transposed_matrix() -> None:
    given = np.arange(64, dtype=np.uint16).reshape(8, 8)
    assert np.array_equal(product(TRANSPOSED, given, given, given), given.T)


MFMA = [
    ("gfx90a", "v_mfma_f32_32x32x2f32", 32, 1, 1, np.float32, np.float32),
    ("gfx90a", "v_mfma_f32_32x32x1f32", 32, 1, 2, np.float32, np.float32),
    ("gfx90a", "v_mfma_f32_32x32x8f16", 32, 4, 1, np.float16, np.float32),
    ("gfx90a", "v_mfma_f32_4x4x4f16", 4, 4, 16, np.float16, np.float32),
    ("gfx90a", "v_mfma_f32_16x16x8bf16", 16, 2, 1, brain, np.float32),
    ("gfx90a", "v_mfma_f32_16x16x16bf16_1k", 16, 4, 1, brain, np.float32),
    ("gfx90a", "v_mfma_i32_16x16x16i8", 16, 4, 1, np.int8, np.int32),
    ("gfx90a", "v_mfma_f64_16x16x4f64", 16, 1, 1, np.float64, np.float64),
    ("gfx942", "v_mfma_f32_16x16x4_4b_f16", 16, 4, 4, np.float16, np.float32),
    ("gfx942", "v_mfma_f32_32x32x4_xf32", 32, 2, 1, np.float32, np.float32),
    ("gfx942", "v_mfma_i32_32x32x16_i8", 32, 8, 1, np.int8, np.int32),
    ("gfx942", "v_mfma_f32_16x16x32_fp8_fp8", 16, 8, 1, "e4m3fnuz", np.float32),
    ("gfx942", "v_mfma_f32_32x32x16_bf8_bf8", 32, 8, 1, "e5m2fnuz", np.float32),
    ("gfx950", "v_mfma_f32_16x16x32_fp8_fp8", 16, 8, 1, "e4m3", np.float32),
    ("gfx950", "v_mfma_f32_16x16x128_f8f6f4", 16, 32, 1, "e4m3", np.float32),
    ("gfx950", "v_mfma_f32_32x32x16_f16", 32, 8, 1, np.float16, np.float32),
    ("gfx950", "v_mfma_i32_16x16x64_i8", 16, 16, 1, np.int8, np.int32),
]


@pytest.mark.weekly(2)
@pytest.mark.parametrize(("target", "opcode", "rows", "each", "blocks", "of", "to"), MFMA)
def test_mfma(
    target: str, opcode: str, rows: int, each: int, blocks: int, of: Any, to: Any
) -> None:
    """Lane l has `each` elements along k of row l modulo `rows`, of block l / rows or behind those of the lanes before; of a column
    of results four follow each other, those of the next groups of lanes come next, and the next four behind these. Of doubles
    results of the groups of lanes follow each other."""
    lane, group = np.arange(64) % rows, np.arange(64) // rows
    block, along = group % blocks, group // blocks * each
    depth = each * 64 // rows // blocks
    a, b, c = small((blocks, rows, depth), 1), small((blocks, rows, depth), 2), small((blocks, rows, rows), 3)  # fmt: skip
    k = along[:, None] + np.arange(each)
    left, right = (convert(of, one[block[:, None], lane[:, None], k]) for one in (a, b))
    number = np.arange(rows * rows * blocks // 64)
    inside = number % max(rows * rows // 64, 4)
    if rows == 4:
        place = group[:, None], inside, lane[:, None]
    else:
        row = 4 * inside + group[:, None] if to is np.float64 else 256 // rows * (inside // 4) + 4 * group[:, None] + inside % 4  # fmt: skip
        place = number // (rows * rows // 64), row, lane[:, None]
    found = by_registers(target, opcode, left, right, c[place].astype(to))
    assert np.array_equal(found, (a @ b.transpose(0, 2, 1) + c)[place])


def by_registers(target: str, opcode: str, left: Any, right: Any, sums: Any, more: str = "") -> Any:
    """(lane, number) results, of (lane, element) factors and summands."""
    words = [np.ascontiguousarray(one).view(np.uint32) for one in (left, right, sums)]
    n, start, inputs, names = [one.shape[1] for one in words], 4, {}, []
    for count, values in zip(n, words, strict=True):
        inputs |= {f"v{start + k}": values[:, k] for k in range(count)}
        names.append(f"v[{start}:{start + count - 1}]" if count > 1 else f"v{start}")
        start += count + count % 2
    text = f"{opcode} {names[2]}, {names[0]}, {names[1]}, {names[2]}{more}"
    found = run(text, inputs, [f"v{start - n[2] - n[2] % 2 + k}" for k in range(n[2])], target, items=(len(left), 1, 1))  # fmt: skip
    return np.ascontiguousarray(np.stack(found, 1)).view(sums.dtype).reshape(sums.shape)


@pytest.mark.parametrize(
    ("opcode", "of", "to", "more"),
    [
        ("v_wmma_f32_16x16x16_f16", np.float16, np.float32, ""),
        ("v_wmma_f32_16x16x16_bf16", brain, np.float32, ""),
        ("v_wmma_i32_16x16x16_iu8", np.int8, np.int32, " neg_lo:[1,1,0]"),
        ("v_wmma_f16_16x16x16_f16", np.float16, np.float16, ""),
        ("v_wmma_f16_16x16x16_f16", np.float16, np.float16, " op_sel:[0,0,1]"),
    ],
)
def test_wmma_of_gfx11(opcode: str, of: Any, to: Any, more: str) -> None:
    """Lane l and lane l + 16 have the whole row, or column, l; results of the second lanes lie between those of the first ones.
    Results that are halves are the low ones, with op_sel the high ones; the others stay."""
    a, b, c = (small((16, 16), seed) for seed in range(3))
    place = 2 * np.arange(8) + LANE[:, None] // 16, LANE[:, None] % 16
    left, right = convert(of, a)[LANE % 16], convert(of, b)[LANE % 16]
    step, first = 2 if to is np.float16 else 1, int("op_sel" in more)
    sums = np.full((32, 8 * step), 9, to)
    sums[:, first::step] = c[place]
    wanted = sums.copy()
    wanted[:, first::step] = (a @ b.T + c)[place]
    assert np.array_equal(by_registers("gfx1100", opcode, left, right, sums, more), wanted)


@pytest.mark.parametrize(("target", "name"), [("gfx942", "fnuz"), ("gfx950", "")])
def test_factors_of_two_formats(target: str, name: str) -> None:
    """And of all codes: those that are not numbers make sums that are none."""
    rng = np.random.default_rng(4)
    codes = rng.permutation(256).astype(np.uint8).reshape(4, 16, 4).repeat(2, 2)
    others = rng.integers(-4, 5, (4, 16, 8))
    right = eighths(others.reshape(64, 8), f"e5m2{name}")
    left, sums = codes.reshape(64, 8), np.zeros((64, 4), np.float32)
    found = by_registers(target, "v_mfma_f32_16x16x32_fp8_bf8", left, right, sums)
    values = np.vectorize(lambda code: number_of(int(code), f"e4m3{name}"))(codes)
    with np.errstate(invalid="ignore"):
        want = np.einsum("gik,gjk->ij", values, others.astype(float))
    lane = np.arange(64)
    place = 4 * (lane[:, None] // 16) + np.arange(4), lane[:, None] % 16
    assert np.array_equal(found, want[place].astype(np.float32), equal_nan=True)
    assert np.isnan(found).any()
    assert np.isfinite(found).any()


def test_sums_begin_with_a_constant() -> None:
    ones = np.ones((64, 4), np.float16).view(np.uint32)
    inputs = {"v4": ones[:, 0], "v5": ones[:, 1]}
    for text in ("0", "1.0", "-4.0"):
        command = f"v_mfma_f32_16x16x16_f16 v[8:11], v[4:5], v[4:5], {text}"
        for row in run(command, inputs, ["v8", "v9", "v10", "v11"], "gfx942", items=(64, 1, 1)):
            assert np.all(np.asarray(row).view(np.float32) == 16 + float(text))


def test_blocks_that_share_a_matrix_are_not_known() -> None:
    text = "v_mfma_f32_32x32x1f32 a[0:31], v0, v1, a[0:31] cbsz:1"
    (reason,) = lower(machine_code(f"\t{text}")).unknown.values()
    assert reason.startswith(f"{text} (matrices that blocks share")


HIP = """
typedef float floats __attribute__((ext_vector_type(4)));
extern "C" __attribute__((global)) void k(const float *a, const float *b, float *d) {
  const int l = __builtin_amdgcn_workitem_id_x(), i = l % 16, k = l / 16;
  floats sum = {1, 1, 1, 1};
  for (int step = 0; step < 32; step += 4)
    sum = __builtin_amdgcn_mfma_f32_16x16x4f32(a[32 * i + step + k], b[32 * i + step + k], sum, 0, 0, 0);
  for (int r = 0; r < 4; r++) d[16 * (4 * k + r) + i] = sum[r];
}
"""


@needs_amd
def test_a_compiled_product() -> None:
    a, b = small((16, 32), 1).astype(np.float32), small((16, 32), 2).astype(np.float32)
    for target in ("gfx90a", "gfx942"):
        code = gcn_runs.compiled(HIP, target, ["k"])["k"]
        assert any("mfma" in one.opcode for block in code.blocks for one in block.instructions)
        arrays = {"a": a.ravel(), "b": b.ravel(), "d": np.zeros(256, np.float32)}
        found = gcn_runs.executed(code, arrays, list(arrays))["d"]
        assert np.array_equal(found.reshape(16, 16), a @ b.T + 1)
