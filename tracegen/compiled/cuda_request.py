"""A kernel in CUDA C++ or HIP that is to be compiled for a GPU."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tracegen.compiled.request import PRINTF, Request
from tracegen.cuda import COMPILED, FIRST, CudaProgram
from tracegen.cuda.host_code import on_device
from tracegen.cuda.includes import originals
from tracegen.tools.headers import DEPENDENCIES, run_with_header
from tracegen.tools.process import Finished
from tracegen.tools.toolchain import Tool

_INSTANTIATED = "static void *memsim_kernel = (void *)({});"
_LIMITED = "__attribute__((global, amdgpu_num_vgpr({})))"
_FAST = ("-ffast-math", "-fcuda-approx-transcendentals")


@dataclass(frozen=True, kw_only=True)
class CudaRequest(Request):
    """A kernel of a program, and how it is to be compiled; `kernel` is its symbol.

    ptx : NVRTC's, where it translates the program
    """

    program: CudaProgram
    ptx: str = ""

    @property
    def file(self) -> str:
        return COMPILED

    @property
    def lines_before(self) -> Mapping[str, int]:
        return self.program.lines_before

    @property
    def source(self) -> str:
        return self.program.compiled_text(_INSTANTIATED.format(self.program.pointer))

    @property
    def notes(self) -> list[str]:
        ignored = self.program.options.ignored
        notes = [f"Build option {option} is ignored." for option in ignored]
        prints = any(on_device(text, PRINTF) for text in self.program.texts.values())
        return [*notes, *["printf is left out."] * prints]

    @property
    def default_registers_limit(self) -> int | None:
        """nvcc's -maxrregcount, which does not hold for kernels with __launch_bounds__."""
        return self.program.options.registers_limit

    @property
    def dependencies(self) -> list[str]:
        program = self.program
        return [
            *super().dependencies,
            *program.dialect,
            *program.content,
            *program.options.given,
            *program.options.arithmetic,
            self.ptx,
            str(self.default_registers_limit),
        ]

    @property
    def searched(self) -> list[str]:
        return self.program.searched

    def nvidia_language(self, target: str) -> list[str]:
        """clang's arguments for NVIDIA's targets."""
        division = 2 if self.program.options.divides_exactly else 0
        return [
            *("-x", "cuda", "--cuda-device-only", f"--cuda-gpu-arch={target}"),
            *("-nocudainc", "-nocudalib", "-Wno-unknown-cuda-version", "-gline-directives-only"),
            *("-mllvm", f"-nvptx-prec-divf32={division}", "-DMEMSIM_NVIDIA", "-DMEMSIM_WARP=32"),
            *("-D__CUDACC__", "-D__NVCC__", *self._shared),
        ]

    def amd_language(self, warp: int) -> list[str]:
        """clang's arguments for AMD's targets. warp : lanes of a wavefront"""
        limit = self.registers_limit
        return [
            *("-x", "hip", "--cuda-device-only", f"--offload-arch={self.target}"),
            *("-nogpuinc", "-nogpulib", "-munsafe-fp-atomics", "-gline-tables-only"),
            *("-DMEMSIM_AMD", f"-DMEMSIM_WARP={warp}"),
            *([f"-D__global__={_LIMITED.format(limit)}"] if limit is not None else []),
            *self._shared,
        ]

    @property
    def _shared(self) -> Iterator[str]:
        """What all targets share."""
        options = self.program.options
        yield from ("-O3", "-S", f"-ffp-contract={'fast' if options.fuses else 'off'}")
        yield from _FAST if options.is_fast else ()
        yield from ["-fgpu-flush-denormals-to-zero"] if options.flushes else ()
        yield from self.program.dialect


def run_clang(
    program: CudaProgram, clang: Tool, language: Sequence[str], output: str, folder: Path
) -> Finished:
    """Runs clang on the program's file in a folder. language : see `nvidia_language` and `amd_language`"""
    given = program.write_headers(folder)
    rest = [*given, "-MMD", "-MF", DEPENDENCIES, COMPILED, "-o", output]
    finished = run_with_header(clang, FIRST, language, rest, folder)
    return replace(finished, errors=originals(finished.errors, folder))
