"""Kernels compiled for GPUs of both vendors."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest

from memsim.errors import KernelError
from tests.support.compiled_code import instructions_of
from tests.support.compilers import needs_amd, needs_nvidia, needs_nvvm
from tracegen.compiled import MachineCode, compile_kernel
from tracegen.compiled.amd import back_end as amd
from tracegen.compiled.model import Instruction, MemoryOperation
from tracegen.compiled.nvidia import back_end as nvidia
from tracegen.tools import CompilerMissing
from tracegen.tools.process import run

pytestmark = pytest.mark.weekly(2)  # each of these tests takes one of the vendors each week
BOTH = [pytest.param("sm_80", marks=needs_nvidia), pytest.param("gfx90a", marks=needs_amd)]

SUMS = """\
__kernel void sums(__global double const *restrict in, __global double *restrict out, int n)
{
  int i = get_global_id(0);
  double sum = 0;
  for (int k = 0; k < 3; ++k)
    sum += in[i + k * n];
  out[i] = sum;
}
"""

TILE = """\
__kernel __attribute__((reqd_work_group_size(64, 4, 1)))
void tile(__global float *data, __local float *scratch, __constant float *weights)
{
  __local float shared[64 * 4];
  int l = get_local_id(0) + get_local_size(0) * get_local_id(1);
  shared[l] = data[l] * weights[l];
  scratch[l] = data[l + 256];
  barrier(CLK_LOCAL_MEM_FENCE);
  data[l] = shared[255 - l] + scratch[255 - l];
}
"""


def instructions(code: MachineCode) -> list[Instruction]:
    return instructions_of(code.blocks)


def accesses(code: MachineCode, space: str = "global") -> list[MemoryOperation]:
    return [one.memory for one in instructions(code) if one.memory and one.memory.space == space]


@pytest.mark.parametrize("target", BOTH)
def test_loads_and_stores_have_positions(target: str) -> None:
    code = compile_kernel(SUMS, "sums", target)
    result = accesses(code)
    assert [(one.direction, one.bytes_per_item) for one in result] == [
        *[("load", 8)] * 3,
        ("store", 8),
    ]
    lines = [
        one.location.line for one in instructions(code) if one.memory in result and one.location
    ]
    assert lines == [6, 6, 6, 7]
    assert (code.kernel, code.target) == ("sums", target)
    assert 6 <= code.registers_per_item <= 32
    assert (code.spill_store_bytes, code.private_bytes, code.local_memory_bytes) == (0, 0, 0)
    assert "clang" in code.tools
    assert code.notes == ()
    plain = compile_kernel(SUMS, "sums", target, build_options="-cl-opt-disable")
    assert len(instructions(plain)) > len(instructions(code))


@pytest.mark.parametrize("target", BOTH)
def test_a_kernel_of_a_program_is_compiled_as_alone(target: str) -> None:
    """A tile, with its shape, local memory and barrier; the other kernel has none of them."""
    alone, beside = (
        compile_kernel(text, "tile", target, group_shape=(64, 4)) for text in (TILE, SUMS + TILE)
    )
    assert beside.registers_per_item == alone.registers_per_item
    assert [one.text for one in instructions(beside)] == [one.text for one in instructions(alone)]
    assert beside.intermediate.count(".reqntid 64, 4, 1\n") == (target == "sm_80")
    assert alone.local_memory_bytes == 1024
    assert "load" in [one.direction for one in accesses(alone, "local")]
    assert [one.pipe for one in instructions(alone)].count("barrier") == 1


@needs_nvidia
def test_an_old_target_takes_its_registers_from_itself_and_its_order_from_a_newer_one() -> None:
    code = compile_kernel(SUMS, "sums", "sm_70")
    assert code.stand_ins == (
        "The registers are those of sm_70; the instructions are those of sm_75 with as many"
        " registers, because nvdisasm does not read sm_70.",
    )
    assert len(accesses(code)) == 4
    assert set(code.tools) - {"libnvvm"} == {"clang", "ptxas", "nvdisasm"}


@pytest.mark.parametrize(
    ("target", "by_default", "given"),
    [
        pytest.param("sm_80", "", ".reqntid 128, 1, 1\n", marks=needs_nvidia),
        pytest.param(
            *("gfx90a", ".max_flat_workgroup_size: 256", ".max_flat_workgroup_size: 128"),
            marks=needs_amd,
        ),
    ],
)
def test_the_group_shape_reaches_the_compiler(target: str, by_default: str, given: str) -> None:
    free, shaped = (
        compile_kernel(SUMS, "sums", target, group_shape=shape) for shape in (None, (128,))
    )
    assert given in shaped.intermediate + shaped.listing
    assert given not in free.intermediate + free.listing
    assert by_default in free.listing


SUMMANDS = 48
MANY = f"""\
__kernel void many(__global float *x, int n)
{{
  x += 1024 * get_global_id(0);
  float {", ".join(f"v{k} = x[{k}]" for k in range(SUMMANDS))};
  for (int i = 1; i < n; i++) {{
{"".join(f"    v{k} = v{k} * x[i + {k}] + v{(k + 7) % SUMMANDS};" for k in range(SUMMANDS))}
  }}
{"".join(f"  x[{k}] = v{k};" for k in range(SUMMANDS))}
}}
"""


@pytest.mark.parametrize(
    ("target", "limit"),
    [
        pytest.param("sm_80", {"build_options": "-cl-nv-maxrregcount=40"}, marks=needs_nvidia),
        pytest.param("gfx803", {"registers_limit": 40}, marks=needs_amd),
    ],
)
def test_a_limit_of_registers_spills(target: str, limit: Any) -> None:
    free = compile_kernel(MANY, "many", target)
    assert free.registers_per_item > SUMMANDS
    assert free.spill_store_bytes == free.spill_load_bytes == free.private_bytes == 0
    few = compile_kernel(MANY, "many", target, **limit)
    assert few.registers_per_item <= 40
    assert few.spill_store_bytes > 0
    assert few.private_bytes > 0
    assert few.notes[-1] == (
        f"Registers are spilled to private memory: the code stores {few.spill_store_bytes} bytes and"
        f" loads {few.spill_load_bytes}."
    )
    assert any(one.spill for one in accesses(few, "private"))


@needs_amd
def test_accumulation_registers_take_what_exceeds_the_limit() -> None:
    code = compile_kernel(MANY, "many", "gfx90a", registers_limit=40)
    assert code.registers_per_item > 40
    assert code.notes[:1] == (
        f"The limit of 40 registers holds for ordinary vector registers; {code.registers_per_item}"
        " are used, accumulation registers included.",
    )


ARITHMETIC = """\
__kernel void f(__global float *x, __global double *y)
{
  int i = get_global_id(0);
  x[i] = sqrt(x[i]) / x[i + 1];
  y[i] = sqrt(y[i]) / y[i + 1];
  x[i + 2] = x[i + 2] * x[i + 3];
  x[i + 4] = sin(x[i + 4]);
}
"""


@needs_nvidia
def test_arithmetic_has_the_precision_that_opencl_and_the_options_require() -> None:
    plain, exact = (
        compile_kernel(ARITHMETIC, "f", "sm_80", build_options=options).intermediate
        for options in ("", "-cl-fp32-correctly-rounded-divide-sqrt -cl-denorms-are-zero")
    )
    assert all(one in plain for one in ("sqrt.approx.f32", "div.full.f32", "div.rn.f64", "mul.f32"))
    assert not any(one in plain for one in ("sin.approx", ".ftz.", "debug"))
    assert all(one in exact for one in ("sqrt.rn.f32", "div.rn.ftz.f32", "mul.ftz.f32"))


@needs_nvidia
@pytest.mark.parametrize(
    ("by", "division"),
    [("clang", "div.approx.f32"), pytest.param("nvvm", "div.full.f32", marks=needs_nvvm)],
)
def test_relaxed_mathematics_is_approximate(by: Any, division: str) -> None:
    """libNVVM divides as without it."""
    relaxed = "-cl-fast-relaxed-math"
    code = compile_kernel(ARITHMETIC, "f", "sm_80", build_options=relaxed, by=by).intermediate
    assert "sin.approx" in code
    assert division in code


@needs_nvidia
def test_products_and_sums_are_contracted_unless_the_program_forbids_it() -> None:
    text = """__kernel void f(__global float *x) {
    int i = get_global_id(0); float p = x[i] * x[i + 1]; x[i] = p + native_sin(x[i + 2]); }"""
    code = compile_kernel(text, "f", "sm_80").intermediate
    assert "fma.rn.f32" in code
    assert "sin.approx" in code
    text = f"#pragma OPENCL FP_CONTRACT OFF\n{text}"
    assert "fma.rn.f32" not in compile_kernel(text, "f", "sm_80").intermediate


SUMS_OF_WINDOWS = """\
__kernel void windows(__global float const *in, __global float *out, __constant float *w, int n)
{
  __local float tile[160];
  int l = get_local_id(0), i = get_global_id(0);
  tile[l] = in[i];
  tile[l + 64] = in[i + 64];
  barrier(CLK_LOCAL_MEM_FENCE);
  float first = 0, second = 0;
  #pragma unroll
  for (int k = 0; k < 64; ++k) {
    first += tile[l + k] * w[k];
    second += tile[l + k + 32] * w[k];
  }
  if (i < n) out[i] = first;
  if (i + 32 < n) out[i + 32] = second;
}
"""


@needs_nvidia
def test_arithmetic_stays_before_the_branch_that_uses_it() -> None:
    """As in NVIDIA's compilers; moved behind it, the operands of both sums would be in registers at once."""
    conditional = compile_kernel(SUMS_OF_WINDOWS, "windows", "sm_80")
    text = SUMS_OF_WINDOWS.replace("if (i < n)", "").replace("if (i + 32 < n)", "")
    always = compile_kernel(text, "windows", "sm_80")
    assert conditional.registers_per_item <= always.registers_per_item + 8


BUILTINS = """\
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
struct pair { int first; float second[3]; };
typedef struct pair pair;
float helper(float x) { return exp(x) + pow(x, 2.5f) + erf(x) + tanh(x) + fmin(x, 3.0f); }
__kernel void all(__global float *f, __global float4 *v, __global double *d, __global int *a,
                  __global uchar *c, __global half *h, pair p, float4 q)
{
  int i = get_global_id(0) + get_global_offset(1) + get_num_groups(2) * get_group_id(1);
  f[i] = helper(f[i]) + rsqrt(f[i]) + native_exp(f[i]) + mad(f[i], 2.0f, p.second[p.first]);
  v[i] = clamp(vload4(i, f), 0.0f, 1.0f) + convert_float4(as_int4(v[i])) * mix(v[i], q, 0.5f);
  v[i + 1] = (float4)(dot(v[i], q), length(v[i].xyz), select(f[i], f[i + 1], isless(f[i], 1.0f)),
                      any(v[i] < q)) + cross(v[i], q) + normalize(v[i]);
  vstore3(shuffle(v[i], (uint4)(3, 2, 1, 0)).xyz, i, f);
  double fraction;
  d[i] = log(d[i]) + sin(d[i]) + floor(d[i]) + fma(d[i], 2.0, fabs(d[i])) + modf(d[i], &fraction);
  d[i + 1] = fraction + rootn(d[i], 3) + sincos(d[i], &d[i + 2]);
  a[i] = mad24(a[i], 3, mul24(a[i], 5)) + popcount(a[i]) + clz(a[i]) + rotate(a[i], 3)
         + mul_hi(a[i], 7) + abs_diff(a[i], 9) + add_sat(a[i], 1) + convert_int_rte(f[i]);
  c[i] = convert_uchar_sat(a[i]) + hadd(c[i], c[i + 1]);
  vstore_half(vload_half(i, h) * 2, i, h);
  prefetch(f, 4);
  mem_fence(CLK_GLOBAL_MEM_FENCE);
}
"""


@pytest.mark.parametrize("target", BOTH)
def test_builtin_functions(target: str) -> None:
    code = compile_kernel(BUILTINS, "all", target)
    assert {one.direction for one in accesses(code)} >= {"load", "store"}


LARGE = "".join(f"  x = x * {k}.5f + y[i + {k}] * (x > {k} ? x : 0.25f);\n" for k in range(200))


@pytest.mark.parametrize("target", BOTH)
def test_large_functions_that_are_called_several_times_are_inlined(target: str) -> None:
    """As the vendors' compilers do; C's `inline` alone would not even define the second one."""
    text = "".join(
        f"{inline} float f{k}(__global const float *y, int i, float x)\n{{\n{LARGE}  return x;\n}}\n"
        for k, inline in enumerate(("static", "inline"))
    )
    text += """\
__kernel void k(__global float *x, __global const float *y)
{
  int i = get_global_id(0);
  x[i] = f0(y, i, 1) + f0(y, 2 * i, 2) + f1(y, 3 * i, 3) + f1(y, 4 * i, 4);
}
"""
    code = compile_kernel(text, "k", target)
    assert len(accesses(code)) >= 1 + 4 * 50  # four loads at once at most
    assert "swappc" not in code.listing


@pytest.mark.parametrize(
    ("target", "kernel", "error", "message"),
    [
        pytest.param("gfx90a", "g", KernelError, "no kernel g; it has sums", marks=needs_amd),
        pytest.param("sm_80", "g", KernelError, "no kernel g; it has sums", marks=needs_nvidia),
        pytest.param(
            *("sm_35", "sums", CompilerMissing, r"ptxas [\d.]+ compiles for sm_50 to"),
            marks=needs_nvidia,
        ),
        pytest.param(
            *("sm_20", "sums", CompilerMissing, "not for sm_20; registers and the order"),
            marks=needs_nvidia,
        ),
        pytest.param(
            *("gfx000", "sums", CompilerMissing, "does not compile for gfx000"), marks=needs_amd
        ),
        ("pvc", "sums", KernelError, "compiled for sm_ and gfx targets, got 'pvc'"),
    ],
)
def test_unknown_kernels_and_targets(target: str, kernel: str, error: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        compile_kernel(SUMS, kernel, target)


@pytest.mark.parametrize("target", BOTH)
def test_kept_output_is_read_and_damaged_output_is_made_again(
    target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compile_kernel(SUMS, "sums", target)  # with the built-in functions, which take longest
    shared = Path(os.environ["MEMSIM_CACHE_DIR"])
    shutil.copytree(shared, tmp_path / "cache", ignore=shutil.ignore_patterns("*.json"))
    monkeypatch.setenv("MEMSIM_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    first = compile_kernel(SUMS, "sums", target)
    assert [path.name for path in tmp_path.iterdir()] == ["cache"]  # nothing else is left
    entries = {path: path.read_bytes() for path in (tmp_path / "cache").rglob("*.json")}

    def never(*_: object) -> None:
        raise AssertionError("compiled again")

    with monkeypatch.context() as patch:
        for module in (nvidia, amd):
            patch.setattr(module, "run", never)
        assert compile_kernel(SUMS, "sums", target) == first
        with pytest.raises(AssertionError, match="compiled again"):
            compile_kernel(f"{SUMS}\n", "sums", target)
    for path, data in entries.items():
        path.write_bytes(data[: len(data) // 2])
    assert compile_kernel(SUMS, "sums", target) == first


@pytest.mark.parametrize("target", BOTH)
def test_a_changed_header_is_compiled_again(target: str, tmp_path: Path) -> None:
    text = '#include "value.h"\n__kernel void f(__global float *x) { x[0] = VALUE; }'
    listings = []
    for value in ("1.0f", "1.0f", "3.14159f"):
        (tmp_path / "value.h").write_text(f"#define VALUE {value}\n")
        code = compile_kernel(text, "f", target, build_options=["-I", str(tmp_path)])
        listings.append(code.listing)
    assert listings[0] == listings[1] != listings[2]


@pytest.mark.filterwarnings("ignore:.* results are not kept:UserWarning")
@pytest.mark.parametrize("target", BOTH)
@pytest.mark.parametrize("folder", ["", "file"])
def test_no_cache_is_needed(
    target: str, folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """None, and one that cannot be written."""
    (tmp_path / "file").touch()
    monkeypatch.setenv("MEMSIM_CACHE_DIR", folder and str(tmp_path / folder))
    assert compile_kernel(SUMS, "sums", target).blocks


@needs_nvidia
def test_the_programs_are_bounded_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvidia, "run", lambda command, folder: run(command, folder, seconds=0.0))
    with pytest.raises(KernelError, match="ptxas did not finish in 0 seconds"):
        compile_kernel(f"{SUMS} ", "sums", "sm_80")
