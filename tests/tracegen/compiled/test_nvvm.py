"""OpenCL C that clang and NVIDIA's libNVVM translate, as NVIDIA's driver does."""

from __future__ import annotations

import re

import pytest

from memsim.errors import KernelError
from memsim.trace import Trace
from tests.support.compilers import needs_nvidia, needs_nvvm
from tests.support.cuda_kernels import compiler_of, needs_clang, needs_nvrtc, traced
from tests.support.cuda_twins import TWINS, twin
from tracegen import CudaWorkload
from tracegen.compiled import compile_kernel
from tracegen.compiled.compile import compile_cuda
from tracegen.compiled.cuda_signature import described
from tracegen.compiled.nvidia import nvidia_ptx
from tracegen.compiled.nvidia.nvvm_ir import as_nvvm
from tracegen.cuda import read_program
from tracegen.tools import toolchain
from tracegen.tools.toolchain import find_clang, find_typed_clang, versions_for

TEXT = "__kernel void k(__global float *x)\n{ int i = get_global_id(0); x[i] = 2 * x[i + 1]; }"


@pytest.mark.parametrize(
    ("new", "old"),
    [
        ("  %s = fneg float %x", "  %s = fsub float -0.0, %x"),
        ("  %s = fneg fast <2 x float> %x", "  %s = fsub fast <2 x float> <float -0.0, float -0.0>, %x"),
        ("  %s = select fast i1 %c, float %x, float %y", "  %s = select i1 %c, float %x, float %y"),
        ("  %s = atomicrmw add i32* %p, i32 1 seq_cst, align 4", "  %s = atomicrmw add i32* %p, i32 1 seq_cst"),
        ("  store <2 x i32> poison, <2 x i32>* %p", "  store <2 x i32> undef, <2 x i32>* %p"),
        ("declare !dbg !7 float @f(float noundef) #1", "declare float @f(float) #1"),
        ('attributes #0 = { convergent mustprogress nounwind "a"="b" }', "attributes #0 = { convergent nounwind }"),
        ("call void @f(%struct* byval(%struct) %p)", "call void @f(%struct* byval %p)"),
        ('@s = constant [3 x i8] c"%7\\00"', '@s = constant [3 x i8] c"%7\\00"'),
    ],
)  # fmt: skip
def test_what_has_changed_since_llvm_7(new: str, old: str) -> None:
    assert as_nvvm(new).splitlines()[0] == old


def test_numbers_become_names() -> None:
    """The first block has the number after those of the parameters, but no label."""
    text = "define float @f(float %0) {\n  br label %2\n\n2:\n  %3 = phi float [ %0, %1 ]\n  ret float %3\n}"
    lines = as_nvvm(text).splitlines()
    assert lines[:3] == ["define float @f(float %$.0) {", "$.1:", "  br label %$.2"]
    assert lines[4:6] == ["$.2:", "  %$.3 = phi float [ %$.0, %$.1 ]"]


def test_the_version_is_a_new_node() -> None:
    assert as_nvvm("!0 = !{}\n!12 = !{!0}").splitlines()[-2:] == [
        "!nvvmir.version = !{!13}",
        "!13 = !{i32 2, i32 0, i32 3, i32 2}",
    ]


@needs_nvidia
@needs_nvvm
class TestInstalled:
    def test_it_is_the_default(self) -> None:
        named = TEXT.replace("k(", "poison(")  # which is a word of LLVM
        assert compile_kernel(named, "poison", "sm_80").tools.keys() >= {"clang", "libnvvm"}
        assert "libnvvm" not in compile_kernel(TEXT, "k", "sm_80", by="clang").tools
        assert "libnvvm" not in compile_kernel(TEXT, "k", "sm_120").tools

    @pytest.mark.weekly(3)
    @needs_clang
    @needs_nvrtc
    @pytest.mark.parametrize("name", ["stream_triad", "bfs_level", "spmv"])
    def test_registers_and_waits_are_those_of_the_same_kernel_in_cuda(self, name: str) -> None:
        """NVRTC shares nothing with it but the optimiser. clang alone gives `spmv` other registers."""
        original = TWINS[name].original()
        opencl = traced(original, "nvvm", "a100")
        cuda = traced(TWINS[name].in_cuda(original, opencl.launch), "nvrtc", "a100")

        def code(trace: Trace) -> tuple[int, int, int]:
            registers = compiler_of(trace)["registers_per_item"]
            return registers, trace.n_access, int(trace.starts_sequence.sum())

        assert code(cuda) == code(opencl)
        if name == "spmv":
            assert code(traced(original, "clang", "a100"))[0] < code(cuda)[0]

    @needs_clang
    @needs_nvrtc
    def test_the_measured_stencil_has_its_loads_in_the_same_order(self) -> None:
        """NVRTC keeps the order of the sums."""
        sums = " + ".join(
            f"0.25 * from[{'-' if sign < 0 else ''}{distance * step}]"
            for step in (1, 40 * 16, 40)
            for sign in (1, -1)
            for distance in range(1, 5)
        )
        text = (
            "__kernel void k(__global const double *restrict src, __global double *restrict dst)\n"
            "{ long i = get_global_id(0) + 40 * get_global_id(1) + 640 * get_global_id(2);\n"
            f"  __global const double *from = src + i; dst[i] = {sums}; }}"
        )
        cuda = (
            re.sub(r"__global |__kernel", "", text.replace("__kernel void", "__global__ void"))
            .replace("restrict", "__restrict__")
            .replace("get_global_id(0)", "(long) (blockIdx.x * blockDim.x + threadIdx.x)")
            .replace("get_global_id(1)", "(long) (blockIdx.y * blockDim.y + threadIdx.y)")
            .replace("get_global_id(2)", "(long) (blockIdx.z * blockDim.z + threadIdx.z)")
        )
        assert cuda.startswith("__global__")
        nothing = CudaWorkload(source=cuda, kernel="k", arguments={}, grid=1, block=1)
        found = described(read_program(nothing), "sm_70")
        codes = [
            compile_cuda(found, "sm_70").intermediate,
            compile_kernel(text, "k", "sm_70", by="nvvm").intermediate,
        ]
        expected = re.findall(r"from\[(-?\d+)\]", text)
        orders = [
            [
                str(int(offset) // 8)
                for offset in re.findall(r"ld\.global\S* [^;]*\+(-?\d+)\]", code)
            ]
            for code in codes
        ]
        assert orders[0] == orders[1] == expected

    def test_clang_compiles_what_it_refuses(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(nvidia_ptx, "as_nvvm", lambda ir: "nonsense")
        text = f"{TEXT}\n"  # of which nothing is kept
        code = compile_kernel(text, "k", "sm_80")
        assert "libnvvm" not in code.tools
        (note,) = (one for one in code.stand_ins if "libNVVM" in one)
        assert re.match(r"clang compiled it, for libNVVM refuses it: kernel k: .*\(libnvvm [\d.]+ for sm_80\)$", note)  # fmt: skip
        with pytest.raises(KernelError, match=r"\(libnvvm [\d.]+ for sm_80\)$") as refused:
            compile_kernel(text, "k", "sm_80", by="nvvm")
        assert "\n" not in str(refused.value)

    def test_clang_alone_compiles_where_it_is_missing(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("tracegen.compiled.compile.find_typed_clang", lambda: None)
        assert "libnvvm" not in compile_kernel(TEXT, "k", "sm_80").tools
        monkeypatch.setattr(toolchain, "find_typed_clang", lambda: None)
        with pytest.raises(
            KernelError, match=r"^clang 15, .* is missing \(apt-get install clang-15\)"
        ):
            compile_kernel(TEXT, "k", "sm_80", by="nvvm")

    def test_errors_have_the_line_of_the_text(self) -> None:
        with pytest.raises(KernelError, match=r"^line 2: .*undeclared.* \(clang 1[45]\.\d"):
            compile_kernel(TEXT.replace("2 *", "two *"), "k", "sm_80", by="nvvm")

    def test_what_compiles_is_a_part_of_the_versions(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Times that were predicted with other compilers are not used again."""
        assert versions_for("sm_80").keys() >= {"libnvvm", "clang for libnvvm"}
        monkeypatch.setattr(toolchain, "find_typed_clang", lambda: None)
        assert "clang for libnvvm" not in versions_for("sm_80")

    def test_a_clang_of_the_users_choice_is_the_only_one(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        typed = find_typed_clang()
        monkeypatch.setenv("MEMSIM_CLANG", str(typed.path))
        assert find_typed_clang() == typed
        monkeypatch.delenv("MEMSIM_CLANG")
        newer = find_clang("nvptx64")
        if newer is None or toolchain.major(newer) in toolchain.TYPED_CLANG:
            pytest.skip("no other version of clang is installed")
        monkeypatch.setenv("MEMSIM_CLANG", str(newer.path))
        assert find_typed_clang() is None


def test_what_it_does_not_compile_is_refused() -> None:
    with pytest.raises(KernelError, match=r"^libNVVM compiles for sm_50 to sm_90, not for gfx90a$"):
        compile_kernel(TEXT, "k", "gfx90a", by="nvvm")
    with pytest.raises(KernelError, match=r"not for sm_100$"):
        compile_kernel(TEXT, "k", "sm_100", by="nvvm")


@needs_clang
def test_cuda_is_not_its_language() -> None:
    with pytest.raises(KernelError, match=r"^libNVVM compiles OpenCL C .*, not this kernel's language$"):  # fmt: skip
        traced(twin("stream_triad"), "nvvm", "v100")
