"""Kernels compiled for GPUs of both vendors."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from memsim.errors import KernelError
from tests.support.compiled_code import instructions_of
from tests.support.compilers import needs_amd, needs_nvidia
from tracegen.compiled import CompileError, MachineCode, compile_kernel
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


def ptx(body: str, options: str = "", parameters: str = "__global float *x") -> str:
    text = f"__kernel void f({parameters})\n{{ int i = get_global_id(0); {body} }}"
    return compile_kernel(text, "f", "sm_80", build_options=options).intermediate


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


@pytest.mark.parametrize("target", BOTH)
def test_local_and_constant_memory_and_barriers(target: str) -> None:
    code = compile_kernel(TILE, "tile", target)
    assert code.local_memory_bytes == 1024
    assert [one.direction for one in accesses(code, "local")].count("load") >= 1
    assert len([one for one in instructions(code) if one.pipe == "barrier"]) == 1


@needs_nvidia
def test_an_old_target_takes_its_registers_from_itself_and_its_order_from_a_newer_one() -> None:
    code = compile_kernel(SUMS, "sums", "sm_70")
    assert code.stand_ins == (
        "The registers are those of sm_70; the instructions are those of sm_75 with as many"
        " registers, because nvdisasm does not read sm_70.",
    )
    assert len(accesses(code)) == 4
    assert set(code.tools) - {"libnvvm"} == {"clang", "ptxas", "nvdisasm"}


@needs_nvidia
def test_the_group_shape_reaches_ptxas() -> None:
    given = compile_kernel(TILE, "tile", "sm_80", group_shape=(64, 4))
    assert ".reqntid 64, 4, 1\n" in given.intermediate
    assert ".reqntid" not in compile_kernel(SUMS, "sums", "sm_80").intermediate
    given = compile_kernel(SUMS, "sums", "sm_80", group_shape=(128,))
    assert ".reqntid 128, 1, 1\n" in given.intermediate


@needs_amd
def test_the_group_shape_reaches_amd() -> None:
    assert ".max_flat_workgroup_size: 256" in compile_kernel(SUMS, "sums", "gfx90a").listing
    given = compile_kernel(SUMS, "sums", "gfx90a", group_shape=(128,))
    assert ".max_flat_workgroup_size: 128" in given.listing


SUMMANDS = 64
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
    "target", [pytest.param("sm_80", marks=needs_nvidia), pytest.param("gfx803", marks=needs_amd)]
)
def test_a_limit_of_registers_spills(target: str) -> None:
    free = compile_kernel(MANY, "many", target)
    assert free.registers_per_item > SUMMANDS
    assert free.spill_store_bytes == free.spill_load_bytes == free.private_bytes == 0
    few = compile_kernel(MANY, "many", target, registers_limit=40)
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


@needs_nvidia
def test_the_option_of_nvidias_own_compiler_limits_registers() -> None:
    code = compile_kernel(MANY, "many", "sm_80", build_options="-cl-nv-maxrregcount=40")
    assert code.registers_per_item <= 40


@needs_nvidia
def test_division_and_root_have_the_precision_that_opencl_requires() -> None:
    body = "x[i] = sqrt(x[i]) / x[i + 1];"
    assert "sqrt.approx.f32" in ptx(body)
    assert "div.full.f32" in ptx(body)
    exact = ptx(body, "-cl-fp32-correctly-rounded-divide-sqrt")
    assert "sqrt.rn.f32" in exact
    assert "div.rn.f32" in exact
    text = f"__kernel void f(__global float *x) {{ int i = get_global_id(0); {body} }}"
    relaxed = compile_kernel(text, "f", "sm_80", build_options="-cl-fast-relaxed-math", by="clang")
    assert "div.approx.f32" in relaxed.intermediate
    assert "div.rn.f64" in ptx("x[i] = sqrt(x[i]) / x[i + 1];", parameters="__global double *x")


@needs_nvidia
def test_denormal_numbers_are_flushed_to_zero_by_option() -> None:
    body = "x[i] = x[i] * x[i + 1];"
    assert "mul.f32" in ptx(body)
    assert "mul.ftz.f32" in ptx(body, "-cl-denorms-are-zero")
    assert "debug" not in ptx(body)


@pytest.mark.parametrize("target", BOTH)
def test_without_optimisation_the_code_is_longer(target: str) -> None:
    plain, fast = (
        compile_kernel(SUMS, "sums", target, build_options=options)
        for options in ("-cl-opt-disable", "")
    )
    assert len(instructions(plain)) > len(instructions(fast))


@needs_nvidia
def test_products_and_sums_are_contracted_unless_the_program_forbids_it() -> None:
    body = "float p = x[i] * x[i + 1]; x[i] = p + x[i + 2];"
    assert "fma.rn.f32" in ptx(body)
    text = "#pragma OPENCL FP_CONTRACT OFF\n"
    text += f"__kernel void f(__global float *x) {{ int i = get_global_id(0); {body} }}"
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


@needs_nvidia
def test_fast_mathematics() -> None:
    body = "x[i] = sin(x[i]);"
    assert "sin.approx" not in ptx(body)
    assert "sin.approx" in ptx(body, "-cl-fast-relaxed-math")
    assert "sin.approx" in ptx("x[i] = native_sin(x[i]);")


ATOMICS = """\
__kernel void count(__global int *a, __global ulong *b, __local uint *c, __global float *d)
{
  atomic_add(a, 3);
  d[1] = atom_cmpxchg(b, 4UL, 5UL);
  atomic_max(c + get_local_id(0), 7u);
  d[2] = atomic_xchg(d, 1.0f) + atomic_inc(c);
}
"""


@pytest.mark.parametrize("target", BOTH)
def test_atomics(target: str) -> None:
    code = compile_kernel(ATOMICS, "count", target)
    inside = [one for one in accesses(code) if one.direction == "atomic"]
    assert sorted(one.bytes_per_item for one in inside) == [4, 4, 8]
    assert len([one for one in accesses(code, "local") if one.direction == "atomic"]) == 2


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


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        ("__kernel void f(__global int *x)\n{ x[0] = y; }", 2, "undeclared identifier 'y'"),
        ('__kernel void f(int n)\n{\n  __asm__("exit;");\n}', 3, "inline assembly is disabled"),
        ("__kernel void f(int n) {\n  ;", 2, "expected '}'"),
        ('#include "none.h"\n__kernel void f(int n) { }', 1, "'none.h' file not found"),
    ],
)
@pytest.mark.parametrize("target", BOTH)
def test_errors_have_the_line_and_one_line(target: str, text: str, line: int, reason: str) -> None:
    with pytest.raises(CompileError) as caught:
        compile_kernel(text, "f", target)
    assert caught.value.line == line
    assert reason in caught.value.reason
    assert f"for {target})" in caught.value.reason
    assert str(caught.value) == f"line {line}: {caught.value.reason}"
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("target", BOTH)
def test_one_kernel_of_a_program(target: str) -> None:
    both = f"{SUMS}\n{TILE}"
    for text, kernel, shape in ((SUMS, "sums", None), (TILE, "tile", (64, 4, 1))):
        alone, beside = (
            compile_kernel(one, kernel, target, group_shape=shape) for one in (text, both)
        )
        assert beside.registers_per_item == alone.registers_per_item
        texts = [[one.text for one in instructions(code)] for code in (beside, alone)]
        assert texts[0] == texts[1]
        assert beside.intermediate.count(".reqntid") == (shape is not None and target == "sm_80")


@needs_nvidia
def test_a_builtin_function_that_is_not_available() -> None:
    text = "__kernel void f(__global float *x)\n{\n  int q;\n  x[0] = remquo(x[1], x[2], &q);\n}"
    with pytest.raises(CompileError, match="line 4: function remquo is not available for sm_80"):
        compile_kernel(text, "f", "sm_80")


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


@pytest.mark.parametrize("target", BOTH)
def test_an_undefined_function(target: str) -> None:
    text = "int g(int);\n__kernel void f(__global int *x) { x[0] = g(x[1]); }"
    with pytest.raises(KernelError, match=r"\bg\b"):
        compile_kernel(text, "f", target)


@pytest.mark.parametrize("target", BOTH)
def test_an_unknown_kernel(target: str) -> None:
    with pytest.raises(KernelError, match="no kernel g; it has sums"):
        compile_kernel(SUMS, "g", target)


@pytest.mark.parametrize(
    ("target", "message"),
    [
        pytest.param("sm_35", r"ptxas [\d.]+ compiles for sm_50 to", marks=needs_nvidia),
        pytest.param("sm_20", "not for sm_20; registers and the order", marks=needs_nvidia),
        pytest.param("gfx000", "does not compile for gfx000", marks=needs_amd),
    ],
)
def test_a_target_that_no_compiler_knows(target: str, message: str) -> None:
    with pytest.raises(CompilerMissing, match=message):
        compile_kernel(SUMS, "sums", target)


def test_other_vendors() -> None:
    with pytest.raises(KernelError, match="compiled for sm_ and gfx targets, got 'pvc'"):
        compile_kernel(SUMS, "sums", "pvc")


@needs_nvidia
def test_too_much_local_memory() -> None:
    text = "__kernel void f(__global int *x) { __local int a[99999]; a[x[0]] = 1; x[1] = a[x[2]]; }"
    with pytest.raises(
        CompileError, match=r"kernel f: a group declares 399996 bytes .* at most 49152"
    ):
        compile_kernel(text, "f", "sm_80")


@pytest.mark.parametrize("target", BOTH)
def test_what_is_left_out_is_noted(target: str) -> None:
    text = '__kernel void f(__global int *x)\n{ x[0] = 1; printf("%d", x[0]); }'
    code = compile_kernel(text, "f", target, build_options="-cl-unheard-of")
    assert code.notes[:2] == ("Build option -cl-unheard-of is ignored.", "printf is left out.")


@pytest.mark.parametrize("target", BOTH)
def test_macros_of_the_build_options(target: str) -> None:
    text = "__kernel void f(__global float *x) { x[0] = VALUE; }"
    assert compile_kernel(text, "f", target, build_options="-DVALUE=3")
    with pytest.raises(CompileError, match="VALUE"):
        compile_kernel(text, "f", target)


@pytest.mark.parametrize("target", BOTH)
def test_kept_output_is_read_and_damaged_output_is_made_again(
    target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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
    header, text = tmp_path / "value.h", '#include "value.h"\n'
    text += "__kernel void f(__global float *x) { x[0] = VALUE; }"
    header.write_text("#define VALUE 1.0f\n")
    first = compile_kernel(text, "f", target, build_options=["-I", str(tmp_path)])
    assert compile_kernel(text, "f", target, build_options=["-I", str(tmp_path)]) == first
    header.write_text("#define VALUE 3.14159f\n")
    second = compile_kernel(text, "f", target, build_options=["-I", str(tmp_path)])
    assert second.listing != first.listing


@pytest.mark.filterwarnings("ignore:.* results are not kept:UserWarning")
@pytest.mark.parametrize("target", BOTH)
def test_no_cache_is_needed(target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    for folder in ("", str(tmp_path / "file")):  # none, and one that cannot be written
        monkeypatch.setenv("MEMSIM_CACHE_DIR", folder)
        assert compile_kernel(SUMS, "sums", target).blocks


@needs_nvidia
def test_the_programs_are_bounded_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvidia, "run", lambda command, folder: run(command, folder, seconds=0.0))
    with pytest.raises(KernelError, match="ptxas did not finish in 0 seconds"):
        compile_kernel(f"{SUMS} ", "sums", "sm_80")
