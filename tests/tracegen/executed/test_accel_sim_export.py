"""Traces of instructions for Accel-Sim: by hand, and read by the slow reader of tests/support against traces of accesses."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any

import loopy as lp
import numpy as np
import pytest

import tracegen
from experiments.kernels import common_kernels
from memsim.errors import KernelError
from memsim.machine import load_machine
from memsim.trace import Trace
from memsim.trace.launches import lane_instructions
from tests.support.accel_sim_twin import read
from tests.support.command_line import RunMemsim
from tests.support.compilers import needs_nvidia
from tests.support.loopy_kernels import groups_of, make
from tracegen.executed.accel_sim import LIST, Written, write
from tracegen.options import TraceOptions

Warp = list[list[str]]
"""The words of a warp's lines."""
VECTOR_ADD = """
__global__ void add(const float *a, const float *b, float *c, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}"""


def vector_add(n: int = 200, block: int = 128) -> tracegen.CudaWorkload:
    arrays = {name: np.ones(n, np.float32) for name in "abc"}
    return tracegen.CudaWorkload(
        source=VECTOR_ADD, arguments={**arrays, "n": n}, grid=-(-n // block), block=block
    )


def exported(workload: Any, folder: Path, machine: str = "a100", **options: Any) -> list[Written]:
    folder.mkdir()
    groups = options.pop("groups", None)
    return write(workload, load_machine(machine), TraceOptions(**options), folder, groups)


def warps_of(text: str) -> list[Warp]:
    """Of each warp its lines; their number is what the file says."""
    made = []
    for piece in re.split(r"^warp = \d+$", text, flags=re.MULTILINE)[1:]:
        lines = [one.split() for one in piece.splitlines() if re.match(r"[0-9a-f]+ ", one)]
        assert f"\ninsts = {len(lines)}\n" in piece
        made.append(lines)
    return made


def opcode(words: list[str]) -> str:
    return words[3 + int(words[2])].split(".")[0]


def only(warp: Warp, name: str) -> list[str]:
    """The line of the one instruction of this name."""
    (found,) = (words for words in warp if opcode(words) == name)
    return found


@needs_nvidia
def test_a_vector_addition_by_hand(tmp_path: Path) -> None:
    """200 elements in two blocks of four warps: 8 lanes of the third warp of the second block work, none of the fourth."""
    (done,) = exported(vector_add(), tmp_path / "out")
    assert (done.written, done.n_groups) == (2, 2)
    assert {path.name for path in (tmp_path / "out").iterdir()} == {LIST, "kernel-1.traceg"}
    *copies, file = (tmp_path / "out" / LIST).read_text().splitlines()
    assert file == "kernel-1.traceg"
    bases = [int(one.split(",")[1], 16) for one in copies]
    assert [one.split(",")[2] for one in copies] == ["800"] * 3
    text = (tmp_path / "out" / file).read_text()
    assert "-grid dim = (2,1,1)\n-block dim = (128,1,1)\n-shmem = 0\n" in text
    assert "-binary version = 80\n" in text
    warps = warps_of(text)
    assert len(warps) == 8
    assert done.instructions == sum(map(len, warps))
    counts = Counter(opcode(words) for warp in warps for words in warp)
    # Every warp comes to the EXIT of lanes beyond the array, and all but the last one to the second EXIT.
    assert [counts[name] for name in ("LDG", "FADD", "STG", "EXIT")] == [14, 7, 7, 15]
    for number, warp in enumerate(warps):
        lanes = (0x0,) * 6 + (0xFFFFFF00, 0xFFFFFFFF)
        early, *late = (int(words[1], 16) for words in warp if opcode(words) == "EXIT")
        assert early == lanes[number]
        rest = 0xFFFFFFFF & ~lanes[number]
        assert late == [rest] * (number < 7)
        found = {}
        for words in warp:
            if opcode(words) in ("LDG", "STG"):
                assert int(words[1], 16) == rest
                width, mode, base, stride, immediate = words[-5:]
                assert (width, mode, stride, immediate) == ("4", "1", "4", "0")
                found[int(base, 16) - 128 * number] = words
        assert sorted(found) == (bases if number < 7 else [])
        if found:  # the sum's operands are what the loads have written
            total = only(warp, "FADD")
            assert {found[base][3] for base in bases[:2]} == set(total[6:8])
            assert total[3] in found[bases[2]]


TILE = """
__global__ void turned(const int *in, int *out, int *count) {
    __shared__ int tile[64];
    int scratch[8];
    int i = threadIdx.x;
    for (int k = 0; k < 8; ++k) scratch[(k + in[i]) & 7] = k;
    tile[63 - i] = in[i] + scratch[in[i + 64] & 7];
    __syncthreads();
    if (i % 4 < 2) out[in[i]] = tile[i];
    else if (i % 4 == 2) atomicAdd(count, 1);
}"""
COPIED = """
#include <cuda_pipeline.h>
__global__ void copied(const float4 *in, float4 *out) {
    __shared__ float4 tile[2][64];
    int i = threadIdx.x;
    for (int k = 0; k < 2; ++k) {
        __pipeline_memcpy_async(&tile[k][i], &in[64 * k + i], 16);
        __pipeline_commit();
    }
    __pipeline_wait_prior(1);
    __syncthreads();
    out[i] = tile[0][63 - i];
    __pipeline_wait_prior(0);
    __syncthreads();
    out[64 + i] = tile[1][63 - i];
}"""


def turned() -> tracegen.CudaWorkload:
    values = np.random.default_rng(1).permutation(128).astype(np.int32)
    arguments = {"in": values, "out": np.zeros(128, np.int32), "count": np.zeros(1, np.int32)}
    return tracegen.CudaWorkload(source=TILE, arguments=arguments, grid=1, block=64)


def copied() -> tracegen.CudaWorkload:
    values = np.arange(512, dtype=np.float32)
    arguments = {"in": values, "out": np.zeros_like(values)}
    return tracegen.CudaWorkload(source=COPIED, arguments=arguments, grid=1, block=64)


KERNELS = {
    "turned": turned,
    "copied": copied,
    "reduce_tree": lambda: common_kernels.KERNELS["reduce_tree"](n=1 << 12),
    "spmv_scalar": lambda: common_kernels.KERNELS["spmv_scalar"](rows=256),
    "mandelbrot": lambda: common_kernels.KERNELS["mandelbrot"](),
}


def accesses(trace: Trace, subgroup: int) -> list[Any]:
    """Lanes and bytes of each access to global memory; None for a barrier."""
    made: list[Any] = []
    for k in range(*trace.subgroup_offset[subgroup : subgroup + 2].tolist()):
        if trace.site[k] < 0:
            made.append(None)
        elif trace.sites[trace.site[k]].array != "private memory":
            part = slice(*trace.granule_offset[k : k + 2].tolist())
            masks = zip(trace.granule[part].tolist(), trace.byte_mask[part].tolist(), strict=True)
            made.append((int(trace.lanes[k]), tuple(sorted(masks))))
    return made


@pytest.mark.weekly(2)
@needs_nvidia
@pytest.mark.parametrize("name", KERNELS)
def test_a_slow_reader_finds_what_a_trace_has(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same accesses of every warp in order, and as many instructions as a trace counts; the same where a log is read often."""
    workload = KERNELS[name]()
    (done,) = exported(workload, tmp_path / "out", groups=2)
    trace = tracegen.trace(workload, "a100", groups=list(range(done.written)), earlier=False)
    text = (tmp_path / "out" / "kernel-1.traceg").read_text()
    seen = read(text)
    assert len(seen) == trace.n_subgroup
    for subgroup, own in enumerate(seen.values()):
        found = [None if one is None else (one.lanes, one.masks) for one in own]
        assert found == accesses(trace, subgroup)
    assert done.instructions == round((lane_instructions(trace) - 1) / 32)
    if name == "spmv_scalar":
        monkeypatch.setattr("tracegen.machine_code.sass_log._BYTES", 1)
        monkeypatch.setattr("tracegen.executed.accel_sim._SPOOLED_BYTES", 1 << 10)
        exported(workload, tmp_path / "often", groups=2)
        assert (tmp_path / "often" / "kernel-1.traceg").read_text() == text


@needs_nvidia
def test_places_in_local_and_private_memory(tmp_path: Path) -> None:
    """tile[63 - i] is stored downwards, and read by two lanes of each four; an array of a work-item begins at its own address."""
    exported(turned(), tmp_path / "out")
    first, second = warps_of((tmp_path / "out" / "kernel-1.traceg").read_text())
    assert only(first, "STS")[-5:] == ["4", "1", hex(4 * 63), "-4", "0"]
    load = only(second, "LDS")
    assert int(load[1], 16) == 0x33333333
    at = load.index("0", 6) + 1
    assert [int(one, 16) for one in load[at:-1]] == [4 * i for i in range(32, 64) if i % 4 < 2]
    private = [words for words in first if opcode(words) in ("LDL", "STL")]
    assert private
    places = [int(one, 16) for words in private for one in words if one.startswith("0x")]
    assert max(places) < 64


@needs_nvidia
def test_a_copy_to_local_memory_has_the_addresses_that_it_loads_from(tmp_path: Path) -> None:
    exported(copied(), tmp_path / "out")
    copies = (tmp_path / "out" / LIST).read_text().splitlines()
    (warp, _) = warps_of((tmp_path / "out" / "kernel-1.traceg").read_text())
    base = int(copies[0].split(",")[1], 16)
    loads = [words for words in warp if opcode(words) == "LDGSTS"]
    assert [words[-5:] for words in loads] == [
        ["16", "1", hex(base + 1024 * k), "16", "0"] for k in range(2)
    ]
    assert [words[-1] for words in warp if opcode(words) == "DEPBAR"] == ["1", "0"]


def two_launches(n: int = 64) -> tracegen.Workload:
    """What the first group of the second launch stores to, the last group of the first one has written."""
    kernel = make(
        "{[i, j]: 0 <= i < n and 0 <= j < n}",
        """
        link[i] = n - 1 - i {id=first}
        ... gbarrier {id=meet, dep=first}
        out[link[n - 1 - j]] = 1 {dep=meet}
        """,
        [lp.GlobalArg("link, out", np.int32, shape="n"), lp.ValueArg("n", np.int32)],
    )
    kernel = groups_of(groups_of(kernel, 32), 32, "j")
    return tracegen.Workload(kernel, {"link": np.zeros(n, np.int32), "out": np.zeros(n, np.int32)})


@needs_nvidia
def test_later_launches_find_what_whole_earlier_ones_have_written(tmp_path: Path) -> None:
    first, second = exported(two_launches(), tmp_path / "out", groups=1)
    assert (first.file, second.file) == ("kernel-1.traceg", "kernel-2.traceg")
    assert (first.written, first.n_groups, second.written) == (1, 2, 1)
    files = (tmp_path / "out" / LIST).read_text().split()
    assert files[2:] == ["kernel-1.traceg", "kernel-2.traceg"]
    base = int(files[1].split(",")[1], 16)
    exported(two_launches(), tmp_path / "one", launch=1, groups=1)
    for file in (tmp_path / "out" / "kernel-2.traceg", tmp_path / "one" / "kernel-1.traceg"):
        (warp,) = warps_of(file.read_text())
        assert only(warp, "STG")[-5:] == ["4", "1", hex(base), "4", "0"]


@needs_nvidia
def test_the_first_blocks_are_a_grid_of_their_own(tmp_path: Path) -> None:
    (done,) = exported(vector_add(1 << 12), tmp_path / "out", groups=3)
    assert (done.written, done.n_groups) == (3, 32)
    text = (tmp_path / "out" / "kernel-1.traceg").read_text()
    assert "-grid dim = (3,1,1)\n" in text
    assert text.count("#END_TB") == 3
    assert re.findall(r"^thread block = (.*)$", text, re.MULTILINE) == ["0,0,0", "1,0,0", "2,0,0"]


@needs_nvidia
@pytest.mark.parametrize(
    ("machine", "why"), [("rx7900xtx", "is AMD's"), ("max1550", "warps have 32 lanes")]
)
def test_machines_that_accel_sim_does_not_simulate(machine: str, why: str, tmp_path: Path) -> None:
    with pytest.raises(KernelError, match=why):
        exported(vector_add(), tmp_path / "out", machine)


@needs_nvidia
def test_the_command(run_memsim: RunMemsim, tmp_path: Path) -> None:
    (tmp_path / "k.cu").write_text(VECTOR_ADD)
    (tmp_path / "args.py").write_text(
        "import numpy as np, tracegen\n"
        "def make(n=200):\n"
        "    arrays = {name: np.ones(n, np.float32) for name in 'abc'}\n"
        "    return tracegen.CudaWorkload(arguments={**arrays, 'n': n}, grid=2, block=128)\n"
    )
    kernel = (f"{tmp_path / 'k.cu'}:add", "--args", f"{tmp_path / 'args.py'}:make")
    out = str(tmp_path / "out")
    ended = run_memsim("export", *kernel, "-m", "a100", "--groups", "1", "-o", out)
    said = f"wrote {out}/kernel-1.traceg: 1 of 2 thread blocks, 64 instructions of warps\n"
    assert (ended.out, ended.err) == ("", said)
    run_memsim("replay", out, "-m", "a100", "--trials", "2", "--jobs", "1")
    for words, said in {
        (*kernel, "-m", "a100", "-o", out): "must be a new or an empty folder",
        (*kernel, "-o", f"{out}2"): "name the machine with --machine",
        (*kernel, "-m", "a100", "--launch", "1", "-o", f"{out}2"): "has no launch 1",
        ("k.nc", "--format", "csv", "-m", "a100", "-o", f"{out}2"): "takes a saved replay",
    }.items():
        assert said in run_memsim.refused("export", *words)
