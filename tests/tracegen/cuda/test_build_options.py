"""nvcc's build options: what is understood, what is refused, and that it changes the machine code."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from memsim.errors import KernelError
from tests.support.compilers import needs_nvidia
from tests.support.cuda_kernels import workload
from tracegen.compiled.compile import compile_cuda
from tracegen.compiled.cuda_signature import described
from tracegen.cuda import read_program
from tracegen.cuda.options import BuildOptions, read_options
from tracegen.tools.toolchain import find_library

SOURCE = """
__global__ void f(float* a, const float* b) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    a[i] = sqrtf(b[i]) / (b[i + 32] * a[i] + b[i + 64]);
}
"""
MANY = """
__global__ void f(float* a, const float* b) {
    float s[64];
    for (int k = 0; k < 64; ++k) s[k] = b[threadIdx.x + k];
    for (int n = 0; n < 10; ++n)
        for (int k = 0; k < 64; ++k) s[k] = s[k] * s[(k + 7) % 64] + s[(k * 5) % 64];
    for (int k = 0; k < 64; ++k) a[threadIdx.x + 32 * k] = s[k];
}
"""


def test_options_of_arithmetic_are_read_in_both_spellings() -> None:
    assert read_options("-ftz=true --prec-div false -fmad 0 -maxrregcount=40") == BuildOptions(
        flushes=True, divides_exactly=False, fuses=False, registers_limit=40
    )
    fast = read_options("--use_fast_math -prec-div=true")
    assert fast.is_fast
    assert fast.flushes
    assert fast.divides_exactly
    assert not fast.roots_exactly
    assert read_options("-fmad=false -use_fast_math").fuses
    assert read_options("-O3 -lineinfo").ignored == ("-O3", "-lineinfo")
    assert read_options("--std c++14").standard == "-std=c++14"


@pytest.mark.parametrize(
    "given", ["-ftz", "-ftz=perhaps", "-maxrregcount=no", "-maxrregcount", "-maxrregcount=0", "-D"]
)
def test_values_that_an_option_does_not_take_are_refused(given: str) -> None:
    with pytest.raises(KernelError, match=given.partition("=")[0].lstrip("-")):
        read_options(given)


def compiled(options: str, by: str = "auto", text: str = SOURCE) -> tuple[Counter[str], int]:
    """How often each opcode occurs, and the registers."""
    arrays = np.zeros(4096, np.float32), np.ones(4096, np.float32)
    program = read_program(workload(text, *arrays, build_options=options))
    code = compile_cuda(described(program, "sm_80", by), "sm_80")  # type: ignore[arg-type]
    assert code.registers_per_item is not None
    names = (i.opcode.partition(".")[0] for block in code.blocks for i in block.instructions)
    return Counter(names), code.registers_per_item


@pytest.mark.weekly(2)
@needs_nvidia
@pytest.mark.parametrize("by", ["nvrtc", "clang"])
def test_they_change_the_machine_code(by: str) -> None:
    if by == "nvrtc" and find_library("nvrtc") is None:
        pytest.skip("NVRTC is not installed")
    plain, _ = compiled("", by)
    assert plain["FFMA"] > 0
    assert plain["MUFU"] > 0
    apart, _ = compiled("-fmad=false", by)
    assert apart["FADD"] > plain["FADD"]
    # Exact roots and divisions take a way of their own for numbers that are not normal.
    short = {
        option: sum(compiled(option, by)[0].values())
        for option in ("-ftz=true", "-prec-div=false", "-prec-sqrt=false", "-use_fast_math")
        if by == "nvrtc" or option != "-prec-sqrt=false"  # clang's roots are approximations
    }
    assert all(size < sum(plain.values()) for size in short.values())
    assert short["-use_fast_math"] == min(short.values())


@needs_nvidia
@pytest.mark.parametrize("by", ["nvrtc", "clang"])
def test_names_of_macros_may_be_names_in_headers(by: str) -> None:
    """Also where a type of the host's, which is declared nowhere, is declared before them."""
    text = SOURCE.replace("b[i + 32]", "b[i + N] * T(U)")
    text = f"#include <mpi.h>\nstruct Host {{ MPI_Comm all; }};\n{text}"
    assert compiled("-DN=32 -DT=float -D U", by, text)[0]["FFMA"] > 0


@needs_nvidia
def test_a_limit_on_registers_is_kept_unless_the_kernel_bounds_its_launch() -> None:
    assert compiled("-maxrregcount=32", text=MANY)[1] <= 32
    bounded = MANY.replace("__global__ void", "__global__ void __launch_bounds__(32)")
    assert compiled("-maxrregcount=32", text=bounded)[1] > 32
