"""Kernels of fourteen public code bases, as they are fetched: they compile without an edit, CUDA C++ by NVRTC, compute what
numpy or hashlib does, and request the bytes that a count by hand gives. Of fifteen that were tried, ccminer
(6ff4e50987e59a70056324a94ed8667cc0bf598d) does not: it needs its `configure`.

Of the three that came last, john compiled before anything was changed for it. FasterTransformer needed that values in braces of
host members, another kernel's missing library and Thrust's headers behind CUB's be understood; rocHPCG that kernels may stand
in a .cpp.

MEMSIM_SUITES names a folder that contains the checked-out repositories.
"""

from __future__ import annotations

import dataclasses
import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pytest

import tracegen
from memsim.machine import load_machine
from tests.support.cuda_kernels import needs_both, run
from tests.support.cuda_suites import SUITES
from tracegen import CudaWorkload, OpenCLWorkload
from tracegen.executed.launches import checked
from tracegen.options import TraceOptions

pytestmark = [pytest.mark.slow, *needs_both]
# fmt: off
rng = np.random.default_rng(0)

def singles(*shape: int) -> Any:
    return rng.uniform(0.5, 1.5, shape).astype(np.float32)

class Case(NamedTuple):
    """commit : that it was tried with;  sectors : array, direction -> requested sectors of 32 bytes, None where they depend
    on the compiler;  result : of the arguments -> what they are after the run"""

    repository: str
    commit: str
    file: str
    kernel: str
    arguments: Mapping[str, Any]
    grid: Any
    block: Any
    options: Sequence[str]
    sectors: Mapping[tuple[str, str], int]
    result: Callable[..., Mapping[str, Any]]
    shared_bytes: int = 0
    tolerance: float = 1e-5

_N = 64
_SQUARE = {"M": _N, "N": _N, "K": _N, "alpha": 1.5, "A": singles(_N, _N), "B": singles(_N, _N), "beta": 0.5, "C": singles(_N, _N)}
_IMAGE = {"n": 512, "data_im": singles(2, 16, 16), "height": 16, "width": 16, "ksize": 3, "pad": 1, "stride": 1, "height_col": 16, "width_col": 16, "data_col": singles(18, 16, 16)}
_HEADS = {"Q": singles(2, 64, 32) - 1, "K": singles(2, 64, 32) - 1, "V": singles(2, 64, 32), "N": 64, "d": 32, "Tc": 2, "Tr": 2, "Bc": 32, "Br": 32, "softmax_scale": 1 / math.sqrt(32), "l": np.zeros((2, 64), np.float32), "m": np.full((2, 64), -np.inf, np.float32), "O": np.zeros((2, 64, 32), np.float32)}
_HALVES = {"A": (singles(32, 64) / 8).astype(np.float16), "B": (singles(48, 64) / 8).astype(np.float16), "C": np.zeros((32, 48), np.float16), "M": 32, "N": 48, "K": 64}
_LINES = {"maxbits": 64, "scalars": np.cumsum(singles(1024)), "stream": np.zeros(256, np.uint64), "dim": 1024, "sx": 1, "padded_dim": 1024, "tot_blocks": 256}
_BYTES = {"code": singles(256), "A": rng.integers(0, 256, 2048).astype(np.uint8), "absmax": singles(8), "out": np.zeros(2048, np.float16), "blocksize": 256, "n": 2048}
def _attention(Q: Any, K: Any, V: Any, softmax_scale: float, **_: Any) -> Any:
    scores = np.exp(np.einsum("hid,hjd->hij", Q, K) * softmax_scale)
    return {"O": scores / scores.sum(-1, keepdims=True) @ V}

def _patches(data_im: Any, **_: Any) -> Any:
    padded = np.pad(data_im, ((0, 0), (1, 1), (1, 1)))
    rows = [padded[c, i : i + 16, j : j + 16] for c in range(2) for i in range(3) for j in range(3)]
    return {"data_col": np.stack(rows)}

def _patch_sectors() -> int:
    """A warp reads two rows of 16 elements: of each place of a patch those that the image has."""
    total = 0
    for first in range(0, 512, 32):
        c, y, x = np.unravel_index(np.arange(first, first + 32), (2, 16, 16))
        for i in (-1, 0, 1):
            for j in (-1, 0, 1):
                has = (y + i >= 0) & (y + i < 16) & (x + j >= 0) & (x + j < 16)
                total += len(set(((c * 16 + y + i) * 16 + x + j)[has] // 8))
    return total

def _faults(C: Any, iters: int, **_: Any) -> Any:
    return {"faultyElems": np.array([(abs(C[1:iters] - C[0]) > 0.001).sum()], np.int32)}

_ROUNDED = {"a": rng.integers(-2, 3, 512).astype(np.float16), "b": rng.integers(-2, 3, 512).astype(np.float16)}
def _scalar_products(a: Any, b: Any, **_: Any) -> Any:
    """Thread t of block k begins at pair t + 64 + k; the last of its 2 blocks of 64 ends at pair 256."""
    products = (a.astype(float) * b.astype(float)).reshape(-1, 2).sum(1)
    return {"results": [sum(products[t + 64 + k : 256 : 128].sum() for t in range(64)) for k in (0, 1)]}

_ROWS = {"input": singles(64, 768) - 1, "gamma": singles(768), "beta": singles(768), "normed_output": np.zeros((64, 768), np.float32), "layernorm_eps": 1e-6, "m": 64, "n": 768, "scale": None, "dynamic_scale": None, "int8_mode": 0}
_LOGITS = {"log_probs": singles(2, 3000), "tmp_log_probs": np.zeros((2, 3000), np.float32), "topk_tmp_id_buf": np.zeros((2, 8, 4), np.int32), "topk_tmp_val_buf": np.zeros((2, 8, 4), np.float32), "finished": None, "max_top_k": 4, "top_ks": None, "vocab_size": 3000, "end_ids": None, "skip_decode": None}
def _normed(input: Any, gamma: Any, beta: Any, **_: Any) -> Any:
    mean, spread = input.mean(1, keepdims=True), np.sqrt(input.var(1, keepdims=True) + 1e-6)
    return {"normed_output": (input - mean) / spread * gamma + beta}

def _largest(log_probs: Any, **_: Any) -> Any:
    """Of each row, block k of 8 has every eighth 128 elements."""
    found = np.zeros((2, 8, 4), np.int32)
    for row in range(2):
        for k in range(8):
            mine = np.flatnonzero(np.arange(3000) // 128 % 8 == k)
            found[row, k] = 3000 * row + mine[np.argsort(-log_probs[row, mine])[:4]]
    return {"topk_tmp_id_buf": found}

CASES = [
    Case("SGEMM_CUDA", "60cba6f9b20a198116c76f18de8047f44df8c8b8", "src/runner.cu", "sgemm_shared_mem_block<32>", _SQUARE,
         (2, 2), 1024, [], {("A", "load"): 1024, ("B", "load"): 1024, ("C", "load"): 512, ("C", "store"): 512},
         lambda A, B, C, **_: {"C": 1.5 * A @ B + 0.5 * C}),
    Case("mixbench", "236a0be007a5937e9ffb4a6c7eb1fafed6108e80", "mixbench-cuda/mix_kernels_cuda.cu",
         "benchmark_func<float, 256, 8, 4, 2, false>", {"seed": 1.0, "g_data": singles(32768)}, 4, 256, [],
         {("g_data", "load"): 4096}, lambda g_data, **_: {"g_data": g_data}),
    Case("darknet", "f6afaabcdf85f77e7aff2ec55c020c0e297c77f9", "src/im2col_kernels.cu", "im2col_gpu_kernel", _IMAGE, 1, 512,
         ["-DGPU", "-Iinclude"], {("data_im", "load"): _patch_sectors(), ("data_col", "store"): 576}, _patches),
    Case("gpu-burn", "3ead140434da9473582b68452f7115967a7a0581", "compare.cu", "compare",
         {"C": np.where(rng.random((3, 1024)) < 0.1, 2, 1).astype(np.float32), "faultyElems": np.zeros(1, np.int32), "iters": 3},
         (2, 2), (16, 16), [], {}, _faults),
    Case("flash-attention-minimal", "00f8f46712d493665c900c32fa3a261c8ef3e20c", "flash.cu", "forward_kernel", _HEADS, (1, 2), 32,
         [], {("K", "load"): 4096, ("V", "load"): 4096, ("Q", "load"): 8192, ("O", "store"): 8192}, _attention, 16384, 1e-4),
    Case("BabelStream", "57637d572532fc028b6c0964944f1afc27ff5436", "src/cuda/CUDAStream.cu", "dot_kernel<double>",
         {"a": rng.random(4096), "b": rng.random(4096), "sums": np.zeros(2), "array_size": 4096}, 2, 1024,
         ["-Isrc", "-DGRID_STRIDE"], {("a", "load"): 1024, ("b", "load"): 1024, ("sums", "store"): 2},
         lambda a, b, **_: {"sums": (a * b).reshape(2, 2, 1024).sum((0, 2))}),
    Case("cuda_hgemm", "0d26c2e4415ab0d0af5a6bfae301275c608d46b4", "src/wmma/wmma_naive.cu", "wmmaNaiveKernel", _HALVES, (3, 2), 32,
         ["-Isrc/common"], # 6 tiles, of 4 steps; an instruction reads 16 bytes of each of 8 rows, and 4 of them a fragment.
         {("A", "load"): 6 * 4 * 4 * 8, ("B", "load"): 6 * 4 * 4 * 8, ("C", "store"): 6 * 4 * 8},
         lambda A, B, **_: {"C": A.astype(float) @ B.astype(float).T}, 0, 2e-3),
    Case("zfp", "da9a8349ab200890b169b90ecde2b8a6a6fc6de8", "src/cuda_zfp/cuZFP.cu", "cuZFP::cudaEncode1<float>", _LINES, 2, 128,
         ["-Iinclude", "-Isrc"], {}, lambda **_: {}),
    Case("deepmd-kit", "bc902daf747d93c5d7314338d287fd2dd0a7e32c", "source/lib/src/gpu/gelu.cu", "gelu<float>",
         {"out": np.zeros(1000, np.float32), "xx": singles(1000), "size": 1000}, 4, 256, ["-Isource/lib/include"],
         {("xx", "load"): 125, ("out", "store"): 125},
         lambda xx, **_: {"out": xx / 2 * (1 + np.tanh(math.sqrt(2 / math.pi) * (xx + 0.044715 * xx**3)))}),
    Case("bitsandbytes", "95f9af309d4d5793847169c39288dcd3fcbdf564", "csrc/kernels.cu", "kDequantizeBlockwise<half, 512, 64, 8, 0>",
         _BYTES, 4, 64, ["-Icsrc"], {("A", "load"): 64, ("out", "store"): 128},
         lambda code, A, absmax, **_: {"out": code[A] * np.repeat(absmax, 256)}, 0, 1e-3),
    Case("cuda-samples", "c94ff366aed18c797b8a85dfaac7817b0228b420", "Samples/0_Introduction/fp16ScalarProduct/fp16ScalarProduct.cu",
         "scalarProductKernel_native", {**_ROUNDED, "results": np.zeros(2, np.float32), "size": 256}, 2, 64, ["-ICommon"], {}, _scalar_products),
    # A row of 768 numbers is read three times, gamma and beta once a row.
    Case("FasterTransformer", "df4a7534860137e060e18d2ebf019906120ea204", "src/fastertransformer/kernels/layernorm_kernels.cu",
         "fastertransformer::generalLayerNorm<float, false>", _ROWS, 64, 768, ["-I"],
         {("input", "load"): 3 * 64 * 96, ("gamma", "load"): 64 * 96, ("beta", "load"): 64 * 96, ("normed_output", "store"): 64 * 96},
         _normed, 0, 1e-4),
    Case("FasterTransformer", "df4a7534860137e060e18d2ebf019906120ea204", "src/fastertransformer/kernels/sampling_topk_kernels.cu",
         "fastertransformer::topk_stage1<float, 128, 8>", _LOGITS, 16, 128, ["-I"], {("log_probs", "load"): 750}, _largest),
]
def requested(trace: Any) -> dict[tuple[str, str], int]:
    """Array and direction -> sectors that its accesses request."""
    sectors = np.diff(trace.granule_offset)
    found: dict[tuple[str, str], int] = {}
    for number, site in enumerate(trace.sites):
        key = site.array, site.direction
        found[key] = found.get(key, 0) + int(sectors[trace.site == number].sum())
    return found

@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.repository} {case.kernel}")
def test_a_kernel(case: Case) -> None:
    root = SUITES / case.repository
    if not (root / case.file).is_file():
        pytest.skip(f"MEMSIM_SUITES has no {case.repository}")
    given = CudaWorkload(path=root / case.file, kernel=case.kernel, arguments=case.arguments, grid=case.grid, block=case.block, shared_bytes=case.shared_bytes, build_options=[o.replace("-I", f"-I{root}/") for o in case.options])
    out = run(given, compiler="nvrtc")
    for name, values in case.result(**case.arguments).items():
        np.testing.assert_allclose(out[name], values, rtol=case.tolerance, atol=case.tolerance)
    counted = requested(tracegen.trace(given, "a100", groups=10**6))
    assert {key: counted.get(key, 0) for key in case.sectors} == case.sectors
    if case.repository == "zfp":
        _check_zfp(given, out["stream"])

def _check_zfp(encoded: CudaWorkload, stream: Any) -> None:
    """What the decoder makes of 16 bits a number are the numbers, to 1 in 1,000. It reads a word behind them."""
    given = {"blocks": np.append(stream.view(np.uint64), np.zeros(2, np.uint64)), "out": np.zeros(1024, np.float32), "dim": 1024, "stride": 1, "padded_dim": 1024, "total_blocks": 256, "maxbits": 64}
    decoded = dataclasses.replace(encoded, kernel="cuZFP::cudaDecode1<float>", arguments=given)
    np.testing.assert_allclose(run(decoded, compiler="nvrtc")["out"], _LINES["scalars"], rtol=1e-3, atol=0.1)

@pytest.mark.parametrize("machine", ["mi250x", "a100"])
def test_hip_in_a_cpp_file(machine: str) -> None:
    """rocHPCG (a918f7f2c14cd9e6a6def5154499c150c66684f0): a matrix of 27 points a row, stored by columns."""
    file = SUITES / "rocHPCG" / "src" / "ComputeSPMV.cpp"
    if not file.is_file():
        pytest.skip("MEMSIM_SUITES has no rocHPCG")
    z, y, x = np.indices((16, 16, 16))
    columns = np.full((27, 16**3), -1, np.int32)
    for k, (dz, dy, dx) in enumerate(np.ndindex(3, 3, 3)):
        near = np.stack([z + dz - 1, y + dy - 1, x + dx - 1])
        inside = ((near >= 0) & (near < 16)).all(0)
        columns[k] = np.where(inside, near[0] * 256 + near[1] * 16 + near[2], -1).ravel()
    values, vector = rng.random((27, 16**3)), rng.random(16**3)
    arguments = {"m": 16**3, "rows_per_block": 16**3, "ell_col_ind": columns.ravel(), "ell_val": values.ravel(), "x": vector, "y": np.zeros(16**3)}
    given = CudaWorkload(path=file, kernel="kernel_spmv_ell<1024, 27>", arguments=arguments, grid=(1, 4), block=1024)
    expected = (values * np.where(columns >= 0, vector[columns], 0)).sum(0)
    np.testing.assert_allclose(run(given, machine)["y"], expected, rtol=1e-12)
    counted = requested(tracegen.trace(given, machine, groups=10**6))
    # Four doubles are a sector: those of which any is needed, and all of the columns, eight to a sector.
    needed = (columns >= 0).reshape(-1, 4).any(1).sum()
    found = [counted[key] for key in (("ell_col_ind", "load"), ("ell_val", "load"), ("y", "store"))]
    assert found == [27 * 16**3 // 8, needed, 16**3 // 4]

@pytest.mark.parametrize("machine", ["mi250x", "a100"])
def test_opencl_with_its_own_headers(machine: str) -> None:
    """john (3c2e19c0dbe0bb6172780018b1d5a6097250dad1): MD5 of salted passwords, eight times again."""
    folder = SUITES / "john" / "run" / "opencl"
    if not folder.is_dir():
        pytest.skip("MEMSIM_SUITES has no john")
    words = [b"password%04d" % k for k in range(512)]
    given = np.zeros(512, [("v", np.uint32, 10), ("length", np.uint32)])
    given["v"] = np.frombuffer(b"".join(word.ljust(40, b"\0") for word in words), np.uint32).reshape(512, 10)
    given["length"] = 12
    out: dict[str, Any] = {}
    made = OpenCLWorkload(
        path=folder / "phpass_kernel.cl",
        kernel="phpass",
        arguments={"data": given, "data_out": np.zeros(4 * 512, np.uint32), "salt": np.array([*np.frombuffer(b"saltsalt", np.uint32), 8], np.uint32)},
        global_size=512,
        local_size=64,
        build_options=f"-I{folder} -DV_WIDTH=1 -DPLAINTEXT_LENGTH=39 -DDEVICE_INFO=20 -DSIZEOF_SIZE_T=8 -DDEV_VER_MAJOR=0 -DDEV_VER_MINOR=0",
        check=out.update,
    )
    checked(made, load_machine(machine), TraceOptions())
    for word, found in zip(words, out["data_out"].reshape(512, 4), strict=True):
        digest = hashlib.md5(b"saltsalt" + word).digest()
        for _ in range(8):
            digest = hashlib.md5(digest + word).digest()
        assert found.tobytes() == digest
    counted = requested(tracegen.trace(made, machine, groups=10**6))
    # A work-item's 16 bytes in one store of 64 lanes; or, since words promise no more, in four of 32 lanes, 16 bytes apart.
    assert counted["data_out", "store"] == {"mi250x": 8 * 32, "a100": 16 * 4 * 16}[machine]
