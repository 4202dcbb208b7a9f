"""`memsim profile`, `trace`, `compile` and `predict` on kernels in CUDA C++ and HIP, from their files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import tracegen
from memsim.errors import KernelError
from memsim.trace.file import read_trace
from tests.support.command_line import RunMemsim
from tests.support.compilers import needs_amd, needs_nvidia
from tests.support.cuda_kernels import needs_clang

pytestmark = needs_clang

KERNEL = """\
namespace n {
template <typename T, int by>
__global__ void scaled(const T *__restrict__ x, T *__restrict__ y)
{
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  y[i] = by * x[i];
}
}
"""
ARGS = """\
import numpy as np
import tracegen


def scaled(n: int = 1024) -> tracegen.CudaWorkload:
    x = np.ones(n, np.float32)
    return tracegen.CudaWorkload(arguments=[x, np.zeros_like(x)], grid=n // 64, block=64)


def opencl():
    return tracegen.OpenCLWorkload()
"""
NAME = "n::scaled<float, 3>"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "k.cu").write_text(KERNEL)
    (tmp_path / "k.hip").write_text("#include <hip/hip_runtime.h>\n" + KERNEL)
    (tmp_path / "args.py").write_text(ARGS)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("file", ["k.cu", "k.hip"])
@pytest.mark.parametrize("machine", ["v100", pytest.param("mi250x", marks=needs_amd)])
def test_a_trace_is_written(machine: str, file: str, folder: Path, run_memsim: RunMemsim) -> None:
    given = [f"{file}:{NAME}", "--args", "args.py:scaled", "--set", "n=2048", "-m", machine]
    run_memsim("trace", *given, "-o", "k.trace")
    trace = read_trace(folder / "k.trace")
    assert trace.launch.kernel == NAME
    assert trace.n_groups == 32
    assert set(trace.lanes) == {64 if machine == "mi250x" else 32}
    assert [site.name for site in trace.sites] == ["x[i]", "store y[i]"]
    line = 6 if file == "k.cu" else 7
    assert {site.source.user_line for site in trace.sites} == {line}
    assert trace.user_source == (folder / file).read_text()
    compiler = trace.provenance["compiler"]
    assert compiler["target"] == {"v100": "sm_70", "mi250x": "gfx90a"}[machine]
    assert trace.launch.registers_per_item == compiler["registers_per_item"] < 16
    code, load = ("k.s", "global_load_dword") if machine == "mi250x" else ("k.sass", "LDG")
    run_memsim("compile", *given, "-o", code)
    assert load in (folder / code).read_text()


def test_names_of_files_that_are_no_words(folder: Path, run_memsim: RunMemsim) -> None:
    name = "a\nb \udcff\udcfe q\"u'o`te back\\ $(touch x); a:b.cu"
    (folder / "k.cu").rename(folder / name)
    words = ["trace", f"./{name}:{NAME}", "--args", "args.py:scaled", "-m", "v100"]
    run_memsim(*words, "-o", "out.trace")
    assert {s.source.user_line for s in read_trace(folder / "out.trace").sites} == {6}
    assert not (folder / "x").exists()


@needs_amd
def test_amd_s_machine_code_has_large_functions_inlined(
    folder: Path, run_memsim: RunMemsim
) -> None:
    lines = "".join(f"  x = x * {k}.5f + y[i + {k}] * (x > {k} ? x : 0.25f);\n" for k in range(200))
    (folder / "k.hip").write_text(
        f"__device__ float f(const float *y, int i, float x)\n{{\n{lines}  return x;\n}}\n"
        "__global__ void k(const float *y, float *x)\n"
        "{ int i = threadIdx.x; x[i] = f(y, i, 1) + f(y, 2 * i, 2) + f(y, 3 * i, 3); }\n"
    )
    given = ["compile", "k.hip:k", "--args", "args.py:scaled", "-m", "mi250x", "-o", "k.s"]
    run_memsim(*given)
    text = (folder / "k.s").read_text()
    assert "swappc" not in text
    assert text.count("global_load") >= 3 * 50


@needs_nvidia
def test_a_profile_shows_the_users_file_with_its_machine_code(
    folder: Path, run_memsim: RunMemsim
) -> None:
    given = ["profile", f"k.cu:{NAME}", "--args", "args.py:scaled", "-m", "v100", "--trials", "16"]
    run_memsim(*given, "--html", "k.html", "--json", "k.json")
    page = (folder / "k.html").read_text()
    assert page.count("k.cu") >= 1
    assert "LDG" in page
    assert "Generated OpenCL" not in page
    report = json.loads((folder / "k.json").read_text())
    assert {site["site"] for site in report["sites"]} == {"x[i]", "store y[i]"}


@needs_nvidia
def test_a_kernel_is_compiled_and_its_time_predicted(folder: Path, run_memsim: RunMemsim) -> None:
    given = [f"k.cu:{NAME}", "--args", "args.py:scaled", "-m", "v100"]
    (kernel,) = json.loads(run_memsim("compile", *given, "--json", "-").out)["kernels"]
    assert kernel["kernel"] == NAME
    assert kernel["target"] == "sm_70"
    assert 4 < kernel["registers_per_item"] < 20
    assert f"{NAME} on v100" in run_memsim("predict", *given, "--trials", "16").out


@pytest.mark.parametrize(
    ("spec", "arguments", "message"),
    [
        (f"k.cu:{NAME}", None, "--args FILE.py:NAME names a callable that returns a tracegen.Cuda"),
        (f"k.cu:{NAME}", "args.py:opencl", "must return a tracegen.CudaWorkload, got a OpenCLWork"),
        (f"nowhere.cu:{NAME}", "args.py:scaled", "no such kernel file: nowhere.cu"),
    ],
)
def test_errors_are_one_line(
    spec: str, arguments: str | None, message: str, folder: Path, run_memsim: RunMemsim
) -> None:
    args = [] if arguments is None else ["--args", arguments]
    assert message in run_memsim.refused("trace", spec, *args, "-m", "v100", "-o", "k.trace")


def test_a_name_may_contain_colons_and_may_be_left_out(folder: Path) -> None:
    assert tracegen.load_kernel(f"k.cu:{NAME}", args="args.py:scaled").kernel == NAME
    assert tracegen.load_kernel("k.cu", args="args.py:scaled").kernel is None
    (folder / "other.py").write_text(ARGS.replace("CudaWorkload(", "CudaWorkload(kernel='a',"))
    with pytest.raises(KernelError, match="is for kernel a, not for b"):
        tracegen.load_kernel("k.cu:b", args="other.py:scaled")


@pytest.mark.parametrize("name", ["n::scaled", "n::scaled<float,3>", NAME])
def test_the_function_of_the_arguments_may_choose_a_template_s_arguments(
    name: str, folder: Path
) -> None:
    text = ARGS.replace("n: int = 1024", "by: int = 2, n: int = 1024")
    text = text.replace("CudaWorkload(", 'CudaWorkload(kernel=f"n::scaled<float, {by}>",')
    (folder / "instances.py").write_text(text)
    made = tracegen.load_kernel(f"k.cu:{name}", {"by": "3"}, "instances.py:scaled")
    assert made.kernel == NAME
    with pytest.raises(KernelError, match=r"is for kernel n::scaled<float, 3>, not for n::scale$"):
        tracegen.load_kernel("k.cu:n::scale", {"by": "3"}, "instances.py:scaled")
