"""The built-in functions for NVIDIA's targets give what an OpenCL platform's own give."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pyopencl as cl
import pytest

import tracegen.compiled
from tracegen.devices import choose

FOLDER = Path(tracegen.compiled.__file__).parent / "nvidia" / "builtins"
TYPES = ("char", "uchar", "short", "ushort", "int", "uint", "long", "ulong")
NUMPY = dict(zip(TYPES, ("i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8"), strict=True))
# What libdevice provides, from the platform's own functions.
LIBDEVICE = "\n".join(
    f"{kind} __nv_{name}({kind} x, {kind} y) {{ return {own}(x, y); }}"
    for kind, name, own in (
        *(("int", "mul24", "mul24"), ("uint", "umul24", "mul24")),
        *(("int", "mulhi", "mul_hi"), ("uint", "umulhi", "mul_hi")),
        *(("long", "mul64hi", "mul_hi"), ("ulong", "umul64hi", "mul_hi")),
    )
)
ONE = ("abs", "clz", "popcount")
TWO = ("abs_diff", "add_sat", "sub_sat", "hadd", "rhadd", "max", "min", "mul_hi", "rotate")
THREE = ("clamp", "mad_hi", "mad_sat")


def own_functions(*files: str) -> str:
    """The text of files with the functions they define, whose names begin with `own_`."""
    text = "".join((FOLDER / name).read_text() for name in ("lift.h", *files))
    names = {*ONE, *TWO, *THREE, "mul24", "mad24", "upsample"}
    names |= set(re.findall(r"DEFINE_\d\((\w+),", text)) - {"F", "convert_"}
    text = re.sub(r" (?:MACRO\(|CONVERT\(D, )half\)", "", text)  # which the platform may lack
    text = re.sub(rf"\b({'|'.join(sorted(names))})\b", r"own_\1", text)
    return text.replace(" convert_##", " own_convert_##").replace(
        "= convert_##", "= own_convert_##"
    )


def edges(kind: str, n: int, seed: int) -> np.ndarray:
    """The ends of a type's range, zero, and random numbers of all sizes."""
    limits = np.iinfo(NUMPY[kind])
    rng = np.random.default_rng(seed)
    ends = [limits.min, limits.min + 1, limits.max, limits.max - 1, 0, 1, 2, limits.max // 2]
    wide = rng.integers(limits.min, limits.max, n // 2, NUMPY[kind], endpoint=True)
    narrow = wide >> rng.integers(0, limits.bits, len(wide)).astype(NUMPY[kind])
    every = np.concatenate([np.array(ends, NUMPY[kind]), wide, narrow.astype(NUMPY[kind])])
    return rng.choice(every, n)


def compare(head: str, kind: str, calls: list[tuple[str, str]]) -> None:
    """Pairs of calls with arguments of one type, as scalars and in vectors of four.

    calls : `{n}` is the width of the vectors, and `{x}`, `{y}`, `{z}` are the arguments
    """
    n = 4096
    context = choose()
    queue = cl.CommandQueue(context)
    inputs = [edges(kind, n, seed) for seed in range(3)]
    scalars = {"n": "", "x": "p[i]", "y": f"p[i + {n}]", "z": f"p[i + {2 * n}]"}
    vectors = {"n": "4"} | {name: f"vload4(0, &{scalars[name]} - i % 4)" for name in "xyz"}
    lines = [
        f"a[i + {k * n}] = {own.format(**scalars)}; b[i + {k * n}] = {theirs.format(**scalars)};"
        f" c[i + {k * n}] = {own.format(**vectors)}[i % 4];"
        for k, (own, theirs) in enumerate(calls)
    ]
    parameters = (
        f"__global {kind} const *p, __global ulong *a, __global ulong *b, __global ulong *c"
    )
    body = "\n".join(lines)
    text = (
        f"{head}\n__kernel void all_of_them({parameters})\n{{ int i = get_global_id(0);\n{body} }}"
    )
    kernel = cl.Program(context, text).build("-w").all_of_them
    flags = cl.mem_flags.COPY_HOST_PTR
    outputs = [np.zeros((len(calls), n), np.uint64) for _ in range(3)]
    buffers = [cl.Buffer(context, flags, hostbuf=array) for array in outputs]
    kernel(queue, (n,), (64,), cl.Buffer(context, flags, hostbuf=np.concatenate(inputs)), *buffers)
    for array, buffer in zip(outputs, buffers, strict=True):
        cl.enqueue_copy(queue, array, buffer)
    for (own, _), scalar, expected, vector in zip(calls, *outputs, strict=True):
        np.testing.assert_array_equal(scalar, expected, own)
        np.testing.assert_array_equal(vector, expected, f"{own} in vectors")


def both(name: str, n_arguments: int) -> tuple[str, str]:
    listed = ", ".join(f"{{{argument}}}" for argument in "xyz"[:n_arguments])
    return f"own_{name}({listed})", f"{name}({listed})"


@pytest.fixture(scope="module")
def integers() -> str:
    return f"{LIBDEVICE}\n{own_functions('integers.cl')}"


@pytest.mark.weekly(2)
@pytest.mark.parametrize("kind", ["char", "ushort", "int", "long", "ulong"])
def test_integer_functions(kind: str, integers: str) -> None:
    calls = [both(name, 1) for name in ONE] + [both(name, 2) for name in TWO]
    calls += [both(name, 3) for name in ("mad_hi", "mad_sat")]
    least, most = "min({y}, {z})", "max({y}, {z})"  # clamp's limits are in order
    calls.append((f"own_clamp({{x}}, {least}, {most})", f"clamp({{x}}, {least}, {most})"))
    compare(integers, kind, calls)


@pytest.mark.parametrize("kind", ["int", "uint"])
def test_products_of_24_bits(kind: str, integers: str) -> None:
    products = [both("mul24", 2), both("mad24", 3)]  # of integers so small that nothing overflows
    narrow = {"x": "{x} >> 17", "y": "{y} >> 17", "z": "{z} >> 2"}
    compare(integers, kind, [(a.format(**narrow), b.format(**narrow)) for a, b in products])


@pytest.mark.weekly(2)
@pytest.mark.parametrize("source", ["short", "uint", "long", "ulong"])
def test_saturated_conversions(source: str) -> None:
    text = own_functions("integers.cl", "conversions.cl")
    head = LIBDEVICE + text[: text.index("// From floating-point types")]
    names = [f"convert_{result}{{n}}_sat({{x}})" for result in TYPES]
    compare(head, source, [(f"own_{name}", name) for name in names])
