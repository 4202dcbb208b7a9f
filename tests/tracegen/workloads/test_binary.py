"""Compiled kernels as files: what our own compilers wrote is traced as the CUDA C++ that it was made from."""

import re
import shutil
import struct
import subprocess
from pathlib import Path

import numpy as np
import pytest

import memsim
import tracegen
from memsim.errors import KernelError
from tracegen.executed.launches import checked
from tracegen.machine_code.binding import bind
from tracegen.options import TraceOptions
from tracegen.tools import amd_tools

TEXT = """\
extern __shared__ float part[];
__constant__ float factor = 3;
__device__ float total[1];
struct Pair { float scale; short step; };

__global__ void scaled(const float *x, float *out, int n, Pair pair, double offset)
{
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  part[threadIdx.x] = i < n ? x[i * pair.step] : 0;
  __syncthreads();
  if (i < n)
    out[i] = factor * pair.scale * part[threadIdx.x] + (float)offset;
  if (i == 0)
    atomicAdd(total, out[0]);
}
"""
N, STEP = 500, 2
PAIR = np.array((0.5, STEP), np.dtype([("scale", np.float32), ("step", np.int16)], align=True))
X = np.arange(N * STEP, dtype=np.float32)
ARGUMENTS = {"x": X, "out": np.zeros(N, np.float32), "n": N, "pair": PAIR, "offset": -4.0}
LAUNCH = {"grid": 4, "block": 128, "shared_bytes": 512}
SUFFIXES = {"ptx": "a100", "cubin": "a100", "amdgcn": "mi250x"}


def _right(outputs):
    np.testing.assert_allclose(outputs["out"], 1.5 * X[::STEP] - 4, rtol=1e-6)


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> Path:
    """The kernel as PTX, as a cubin, and in AMD's assembly."""
    folder = tmp_path_factory.mktemp("binary")
    (folder / "kernel.cu").write_text(TEXT)
    workload = tracegen.CudaWorkload(source=TEXT, arguments=ARGUMENTS, **LAUNCH)
    code = next(bind(workload, "sm_80")).code
    (folder / "k.ptx").write_text(code.intermediate)
    (folder / "k.cubin").write_bytes(code.binary)
    (folder / "k.amdgcn").write_text(next(bind(workload, "gfx90a")).code.listing)
    return folder


def _workload(path: Path, **changes) -> tracegen.BinaryWorkload:
    given = {"arguments": ARGUMENTS, **LAUNCH, "check": _right, **changes}
    return tracegen.BinaryWorkload(path=path, **given)


@pytest.mark.parametrize(("suffix", "machine"), SUFFIXES.items())
def test_values_and_accesses_are_those_of_the_source(files, suffix, machine):
    workload = _workload(files / f"k.{suffix}")
    on = memsim.load_machine(machine)
    assert "own check" in checked(workload, on, TraceOptions())
    source = tracegen.CudaWorkload(source=TEXT, arguments=ARGUMENTS, **LAUNCH)
    ours, theirs = tracegen.trace(workload, on), tracegen.trace(source, on)
    for name in ("granule", "byte_mask", "lanes", "subgroup_offset", "waits"):
        np.testing.assert_array_equal(getattr(ours, name), getattr(theirs, name))
    code, expected = ours.provenance["compiler"], theirs.provenance["compiler"]
    assert code["registers_per_item"] == expected["registers_per_item"]


def test_lines_are_those_of_the_source_beside_the_file_else_of_the_ptx(files, tmp_path):
    beside = {
        site.source.user_line for site in tracegen.trace(_workload(files / "k.ptx"), "a100").sites
    }
    (tmp_path / "k.ptx").write_bytes((files / "k.ptx").read_bytes())
    alone = tracegen.trace(_workload(tmp_path / "k.ptx"), "a100").sites
    assert beside <= {9, 12, 14}
    lines = (tmp_path / "k.ptx").read_text().splitlines()
    assert all(".global" in lines[site.source.user_line - 1] for site in alone)
    shown = tracegen.trace(_workload(files / "k.cubin"), "a100").sites
    assert any(re.fullmatch(r"load of x, LDG\S* at 0x[0-9a-f]+", site.name) for site in shown)


def test_command_line_names_file_and_kernel(files):
    (files / "launch.py").write_text(
        "import numpy as np, tracegen\n"
        "def make(n: int = 500):\n"
        "    pair = np.array((0.5, 2), np.dtype([('s', np.float32), ('t', np.int16)], align=True))\n"
        "    values = [np.zeros(2 * n, np.float32), np.zeros(n, np.float32), n, pair, 1.0]\n"
        "    return tracegen.BinaryWorkload(arguments=values, grid=4, block=128, shared_bytes=512)\n"
    )
    (name,) = re.findall(r"entry (\w+)", (files / "k.ptx").read_text())
    args = f"{files}/launch.py:make"
    for suffix in ("ptx", "cubin"):
        loaded = tracegen.load_kernel(f"{files}/k.{suffix}:{name}", {"n": "400"}, args=args)
        assert tracegen.trace(loaded, "a100").sites[0].array == "argument 0"
    with pytest.raises(KernelError, match=f"has no kernel other; it has {name}"):
        tracegen.trace(tracegen.load_kernel(f"{files}/k.cubin:other", {}, args=args), "a100")
    with pytest.raises(KernelError, match=r"--args FILE\.py:NAME names"):
        tracegen.load_kernel(f"{files}/k.cubin:{name}")


@pytest.mark.parametrize(
    ("suffix", "machine", "changes", "message"),
    [
        ("cubin", "v100", {}, "code for sm_80, which sm_70 does not run"),
        ("cubin", "h100", {}, "code for sm_80, which sm_90 does not run"),
        ("ptx", "v100", {}, "PTX is for sm_80 and later, not for sm_70"),
        ("amdgcn", "mi300x", {}, "code for gfx90a, which gfx942 does not run"),
        ("cubin", "a100", {"arguments": [X]}, "takes 5 arguments, got 1"),
        ("cubin", "a100", {"arguments": [1, X, N, PAIR, 1.0]}, "0x1 lies in no array"),
        ("cubin", "a100", {"arguments": [X, X, X, PAIR, 1.0]}, "argument 2 .* has 4 bytes .* an array of float32"),
        ("cubin", "a100", {"arguments": [X, X, "n", PAIR, 1.0]}, "argument 2 .* got 'n'"),
        ("cubin", "a100", {"arguments": [X, X, 1 << 40, PAIR, 1.0]}, "takes an integer from 0 to 4294967295"),
        ("cubin", "a100", {"arguments": [X[:9], X, N, PAIR, 1.0]}, "out of bounds"),
        ("cubin", "a100", {"block": 4096}, "1024 threads"),
        ("cubin", "a100", {"arguments": [X[::2], X, N, PAIR, 1.0]}, "^argument 0 .* without gaps"),
        ("cubin", "a100", {"arguments": [np.ma.masked_array(X), X, N, PAIR, 1.0]}, "without a mask"),
        ("ptx", "mi250x", {}, "is PTX, for NVIDIA's GPUs, not for gfx90a"),
        ("ptx", "a100", {"arguments": [X, X, N + 0.5, PAIR, 1.0]}, "^argument 2 .* takes an integer, got 500.5"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_one_line(files, suffix, machine, changes, message):
    with pytest.raises(KernelError, match=message) as error:
        tracegen.trace(_workload(files / f"k.{suffix}", **changes), machine)
    assert "\n" not in str(error.value)


def test_numbers_have_the_types_that_ptx_says(files):
    """A whole number is a float where the parameter is one, and the other way round; machine code alone does not say."""
    on = memsim.load_machine("a100")
    for n, offset in ((N, -4), (float(N), -4.0), (np.int64(N), np.float32(-4))):
        workload = _workload(files / "k.ptx", arguments=ARGUMENTS | {"n": n, "offset": offset})
        assert "own check" in checked(workload, on, TraceOptions())


def test_damaged_files_are_one_line(files, tmp_path):
    """Every cut, and random bytes in the headers: an error in one line, or the same trace as before."""
    whole = (files / "k.cubin").read_bytes()
    rng = np.random.default_rng(0)
    path = tmp_path / "k.cubin"
    (start,) = struct.unpack_from("<Q", whole, 40)
    damaged = [whole[:n] for n in (0, 10, 64, 1000, len(whole) // 2, len(whole) - 8)]
    for _ in range(12):
        data = bytearray(whole)
        at = int(rng.integers(start, len(whole)))
        data[at : at + 4] = rng.bytes(4)
        damaged.append(bytes(data))
    said = []
    for data in damaged:
        path.write_bytes(data)
        try:
            tracegen.trace(_workload(path), "a100", groups=1)
        except KernelError as error:
            said.append(str(error))
    assert len(said) >= 6
    assert not any("\n" in one for one in said)


def test_a_code_object_of_amds_is_run_as_its_assembly(tmp_path):
    """As clang's own assembler makes it; one with variables is refused."""
    if not all(map(shutil.which, ("llvm-objdump", "llvm-readobj"))):
        pytest.skip("LLVM's llvm-objdump is not installed")
    plain = re.sub(
        r"^__constant__.*\n|^__device__.*\n|^  if \(i == 0\).*\n.*\n", "", TEXT, flags=re.M
    )
    plain = plain.replace("factor", "3")
    on = memsim.load_machine("mi250x")
    for text, name in ((plain, "plain"), (TEXT, "variables")):
        workload = tracegen.CudaWorkload(source=text, arguments=ARGUMENTS, **LAUNCH)
        (tmp_path / "k.s").write_text(next(bind(workload, "gfx90a")).code.listing)
        options = ["--target=amdgcn-amd-amdhsa", "-mcpu=gfx90a", "-c", "k.s", "-o"]
        command = [amd_tools().clang.path, *options, f"{name}.hsaco"]
        subprocess.run(command, cwd=tmp_path, check=True)
    ours = _workload(tmp_path / "plain.hsaco")
    assert "own check" in checked(ours, on, TraceOptions())
    source = tracegen.CudaWorkload(source=plain, arguments=ARGUMENTS, **LAUNCH)
    for name in ("granule", "byte_mask", "lanes", "subgroup_offset", "waits"):
        found, expected = (getattr(tracegen.trace(one, on), name) for one in (ours, source))
        np.testing.assert_array_equal(found, expected)
    with pytest.raises(KernelError, match="with variables or functions are not run"):
        tracegen.trace(_workload(tmp_path / "variables.hsaco"), on)
    (tmp_path / "cut.hsaco").write_bytes((tmp_path / "plain.hsaco").read_bytes()[:5])
    with pytest.raises(KernelError, match="is no ELF file"):
        tracegen.trace(_workload(tmp_path / "cut.hsaco"), on)
