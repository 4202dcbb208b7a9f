"""What the authors of ten more public code bases measured on their kernels, and what is predicted of the same kernels.

The ten, their findings and how each is judged were written down before the first of them was compiled. None is among those of
`test_public_code.py` and `test_public_findings.py`. MEMSIM_SUITES names a folder that contains the checked-out repositories.

| repository, commit | kind | what its authors say |
|---|---|---|
| simveit/effective_scan e21df5e0e268287966b2272f20d7d92353d83e0d | prefix sums of blocks | H100, 2^30 integers, GB/s: 824, 1289, 1617, 1976, 3057 |
| simveit/effective_transpose 994b2b5acaa67f80e411df3e8274b6ae13fd1949 | transposes by bulk copies (TMA) | H100, 32768^2, GB/s: naive 875, swizzled 1252, swizzled and eight elements a thread 2771 |
| R100001/Programming-Massively-Parallel-Processors a972fb50d5d8695844ab3d5621e3ec54c2388367 | convolutions | RTX 3080, 8192^2, masks of 3, 5, 7, 11, ms: global memory 1.57, 2.80, 4.72, 10.07; mask in constant memory 1.66, 2.52, 4.35, 9.38; tiles 1.76, 2.56, 4.49, 15.24; tiles of 2^26 numbers in blocks of 32, 64, 128, 512, 1024: 2.34, 1.25, 1.15, 1.25, 2.33 |
| ProjectPhysX/FluidX3D 8986874e626e0aebd317ab16c420b39e30dfa273 | lattice Boltzmann, OpenCL C | 256^3 cells, million a second in single (half) precision: A100 SXM4 80 GB 10228 (18448), V100 PCIe 5128 (10325), H100 SXM5 17602 (29561), MI210 6517 (9547), RX 7900 XTX 3665 (7644), T4 1356 (2869) |
| amd/HPCTrainingExamples aaaa72d4dca9a9c3587be883deaf2d0f109fcbfb | y A x, HIP | MI210, 32768^2 doubles: a thread a row 70 ms, of requests L1 has 0 % and L2 93.5 %; a thread a column 12.4 ms, L1 50 %; a block a row 7.7 ms; 64 KB of LDS a block 140 ms, 2 KB 50 ms |
| cihangirtezcan/CUDA_AES 74872788f29a881e35a0cf5f61df1d4d0df94bb8 | AES in counter mode | RTX 2070 Super (the chip of a T4, with as many cores): 878.6 Gbit/s, no bank conflicts |
| Liu-xiandong/How_to_optimize_in_GPU 5d2def3e082c4e1364c3ade54451b7b9d1d6f044 | matrix times vector, additions | V100: 16384 rows of 32, 128, 16 columns in 10.34, 14.28, 6.90 us; additions of 2^25 numbers 827, as float2 838, float4 844 GB/s |
| NVIDIA/ising-gpu 39ed987763d801d50fccceb27bd2f0efb8f016ad | Monte Carlo of spins, 4 bits each | flips a ns and GPU, on two: V100 383, A100 521, H100 900 |
| linkedin/Liger-Kernel ead96b618e5c67bddc6a6e9bcb99bfe6b5ab661c | norms, Triton | RTX 3090, softmax of 2048 rows of 1024, 2048, 4096 floats 21.5, 41.0, 79.9 us, of bfloat16 13.3, 22.5, 41.0; H100, layer norm of 4096 rows of 4096 floats 51.0, of 16384 184.8 us (some of an older version) |
| yencal/gpu-histogram-optimization b71f5c0444b70f7ce464e778a9cb7bd9f20e4118 | histograms of bytes | H100, 2^30 bytes, 256 bins: atomics in global memory 276 ms, in shared 1.53, 16 bytes a load 0.47 |

Judged so: times and rates within 30 % (additions 10 %, global atomics a factor of 1.5); where the authors say a sequence, its order,
too (of steps that differ by more than a tenth); hit rates within 4 points; bank conflicts by the notes of the trace. Sizes here may
be smaller where arrays remain many times larger than L2, which changes no rate. The RTX 2070 Super is a T4 at 1770 MHz.
"""

from __future__ import annotations

import functools
import math
import re
import sys
from typing import Any

import numpy as np
import pytest

import calib
import tracegen
from tests.support.cuda_kernels import needs_both, run
from tests.support.cuda_suites import SUITES
from tests.tracegen.cuda.test_public_code import requested
from tests.tracegen.cuda.test_public_findings import Counted, _within, made, predicted, singles
from tracegen import CudaWorkload, OpenCLWorkload, TritonWorkload

pytestmark = [pytest.mark.slow, *needs_both]
# fmt: off
rng = np.random.default_rng(0)
SCANS = {0: (512, 824), 1: (512, 1289), 2: (256, 1617), 3: (256, 1976), 4: (128, 3057)}
"""Threads of a block, GB/s; a thread of the last has four numbers."""


def scan(version: int, n: int = 1 << 26, shared_bytes: int = 128) -> CudaWorkload:
    """The last two read up to 32 words of an array in shared memory that has fewer: 128 bytes behind it make this valid."""
    threads, each = SCANS[version][0], 4 if version == 4 else 1
    given = f"kernel_{version}<{threads}, {n}{', 4' if each == 4 else ''}>"
    numbers = rng.integers(0, 100, n, dtype=np.int32)
    return made(f"effective_scan/kernel_{version}.cu", given, [numbers, np.zeros_like(numbers)], n // threads // each, threads, shared_bytes=shared_bytes, options=["--use_fast_math"])


BULK = {"naive": ("<32>", 875), "swizzle": ("<32, 5>", 1252), "swizzle_batched": ("<32, 5, 8, 3>", 2771)}


def bulk_transpose(version: str, n: int = 8192) -> CudaWorkload:
    x, swizzle = singles(n, n), None if version == "naive" else "128B"
    maps = {name: tracegen.tensor_map(array, (32, 32), swizzle=swizzle) for name, array in (("tensor_map", x), ("tensor_map_tr", np.zeros_like(x)))}
    return made(f"effective_transpose/transpose_{version}.cu", f"kernel{BULK[version][0]}", maps, (n // 32, n // 32), 128 if "batched" in version else 1024, options=["--use_fast_math"])


CONVOLUTIONS = {"basic": (1.568, 2.803, 4.720, 10.068), "constant_memory": (1.664, 2.515, 4.354, 9.380), "tiled": (1.762, 2.563, 4.492, 15.238)}
"""Milliseconds with masks of 3, 5, 7, 11."""
PMPP = "Programming-Massively-Parallel-Processors/Performance-Tests-NvBench/convolution/convolution_bench.cu"


def convolution(kind: str, mask: int, n: int = 8192, weights: Any = None, block: int = 16) -> CudaWorkload:
    weights = np.zeros((mask, mask), np.float32) if weights is None else weights
    constant = np.zeros(121, np.float32)
    constant[: mask * mask] = weights.ravel()
    arguments = {"N": singles(n, n), "M": weights, "P": np.zeros((n, n), np.float32), "mask_height": mask, "mask_width": mask, "height": n, "width": n, "channels": 1}
    if kind != "basic":
        del arguments["M"]
    tile = block - mask + 1 if kind == "tiled" else block
    return made(PMPP, f"convolution_2D_{kind}_kernel", arguments, (-(-n // tile),) * 2, (block, block), shared_bytes=4 * block**2 * (kind == "tiled"), symbols={"M": constant})


def tiles_of_a_line(block: int, n: int = 1 << 26) -> CudaWorkload:
    arguments = [singles(n), np.zeros(n, np.float32), 5, n]
    return made(PMPP, "convolution_1D_tiled_kernel", arguments, n // block, block, shared_bytes=4 * (block + 4), symbols={"M": np.ones(121, np.float32)})


CELLS = {"a100": (10228, 18448), "v100": (5128, 10325), "h100": (17602, 29561), "mi210": (6517, 9547), "rx7900xtx": (3665, 7644), "t4": (1356, 2869)}
_AXES = "+00 0+0 00+ ++0 +0+ 0++ +-0 +0- 0+-"


def lattice(half: bool = False, n: int = 256, fi: Any = None) -> OpenCLWorkload:
    """The text that the program puts together of its strings, with what it defines in front."""
    file = SUITES / "FluidX3D" / "src" / "kernel.cpp"
    if not file.is_file():
        pytest.skip("MEMSIM_SUITES has no FluidX3D")
    text = file.read_text().partition("return R(")[2].rpartition(");}")[0]
    text = re.sub(r'\)\+"([^"\n]*)"\+R\(', r"\n\1\n", text).replace(")+R(", "\n")
    number, load, store = ("half", "(vload_half(o,p)*3.0517578E-5f)", "vstore_half_rte((x)*32768.0f,o,p)") if half else ("float", "(p)[o]", "(p)[o]=(x)")
    sizes = {f"def_{a}{x}": f"{v}u" for a, v in (("N", n), ("GN", n), ("D", 1), ("A", n * n)) for x in "xyz"} | {f"def_O{x}": "0" for x in "xyz"}
    weights = {"def_w": f"{1 / 3.5}f", "def_w0": "(1.0f/3.0f)", "def_ws": "(1.0f/18.0f)", "def_we": "(1.0f/36.0f)", "def_c": "0.57735027f"}
    types = {f"TYPE_{k}": hex(v) for k, v in {"S": 1, "E": 2, "T": 4, "F": 8, "I": 16, "G": 32, "X": 64, "Y": 128, "MS": 3, "BO": 3, "IF": 24, "IG": 48, "GI": 56, "SU": 56, "XY": 192}.items()}
    names = {**sizes, **weights, **types, "def_N": f"{n**3}ul", "uxx": "uint", "D3Q19": "", "SRT": "", "def_velocity_set": "19u", "def_dimensions": "3u", "def_transfers": "5u", "fpxx": number, "fpxx_copy": "ushort" if half else "float", "load(p,o)": load, "store(p,o,x)": store, "cl_workgroup_size": "64u", "def_domain_offset_x": "0.0f", "def_domain_offset_y": "0.0f", "def_domain_offset_z": "0.0f"}  # fmt: skip
    source = "".join(f"#define {name} {value}\n" for name, value in names.items()) + text
    fi = np.zeros((19, n**3), np.float16 if half else np.float32) if fi is None else fi
    arguments = {"fi": fi, "rho": np.ones(n**3, np.float32), "u": np.zeros((3, n**3), np.float32), "flags": np.zeros(n**3, np.uint8), "t": 0, "fx": 0, "fy": 0, "fz": 0}
    return OpenCLWorkload(path=file, source=source, kernel="stream_collide", arguments=arguments, global_size=n**3, local_size=64, build_options="-cl-std=CL1.2 -cl-finite-math-only -cl-no-signed-zeros -cl-mad-enable")


YAX = {"rows": "4-StridedAccess/problem", "columns": "4-StridedAccess/solution/solution", "blocks": "5-AlgorithmicOptimizations/solution/solution", "64 KB": "2-LDSOccupancyLimit/problem", "2 KB": "2-LDSOccupancyLimit/solution/solution"}
YAX_MS = {"rows": 70, "columns": 12.4, "blocks": 7.7, "64 KB": 140, "2 KB": 50}


def yax(version: str, n: int = 32768, m: int = 0, groups: int = 2048, values: bool = False) -> CudaWorkload:
    m = m or n
    a, x, y = (rng.random(n * m), rng.random(m), np.ones(n)) if values else (np.zeros(n * m), np.zeros(m), np.zeros(n))
    arguments = {"y": y, "A": a, "x": x, "n": n, "m": m, "result": np.zeros(1)}
    return made(f"HPCTrainingExamples/rocprof-compute/{YAX[version]}.cpp", "yax", arguments, groups, 64)


def _aes_tables() -> tuple[Any, Any]:
    """The S-box, and of each of its bytes s the word (2s, s, s, 3s) in the field of AES."""
    powers = [1]
    for _ in range(254):
        powers.append(powers[-1] ^ (powers[-1] << 1) ^ (0x11B if powers[-1] & 0x80 else 0))
    inverse = {0: 0} | {p: powers[-k % 255] for k, p in enumerate(powers)}
    box = np.array([functools.reduce(int.__xor__, ((v << s | v >> 8 - s) & 255 for s in range(5)), 0x63) for v in (inverse[k] for k in range(256))], np.uint32)
    double = box << 1 & 255 ^ np.where(box & 128, 0x1B, 0).astype(np.uint32)
    return box, double << 24 | box << 16 | box << 8 | double ^ box


_BOX, _TABLE = _aes_tables()


def _round_keys() -> Any:
    words, constant = [0x2B7E1516, 0x28AED2A6, 0xABF71588, 0x09CF4F3C], 1
    for k in range(4, 44):
        last = words[-1]
        if k % 4 == 0:
            last = sum(int(_BOX[last >> s & 255]) << (s + 8) % 32 for s in (0, 8, 16, 24)) ^ constant << 24
            constant = constant << 1 ^ (0x11B if constant & 128 else 0)
        words.append(words[-4] ^ last)
    return np.array(words, np.uint32)


def _encrypted(counters: Any) -> Any:
    """(n, 4) words -> AES-128 of them."""
    keys, state = _round_keys(), counters ^ _round_keys()[:4]
    for k in range(4, 44, 4):
        byte = [_BOX[np.roll(state, -j, 1) >> 24 - 8 * j & 255] for j in range(4)]
        double = [b << 1 & 255 ^ np.where(b & 128, 0x1B, 0).astype(np.uint32) for b in byte]
        if k < 40:
            byte = [double[j] ^ double[(j + 1) % 4] ^ byte[(j + 1) % 4] ^ byte[(j + 2) % 4] ^ byte[(j + 3) % 4] for j in range(4)]
        state = (byte[0] << 24 | byte[1] << 16 | byte[2] << 8 | byte[3]) ^ keys[k : k + 4]
    return state.astype(np.uint32)


_PLAIN = np.array([0x3243F6A8, 0x885A308D, 0x313198A2, 0], np.uint32)
_FILE = "fileEncryption128counterWithOneTableExtendedSharedMemoryBytePermPartlyExtendedSBox"
_COUNTER = "counterWithOneTableExtendedSharedMemoryBytePermPartlyExtendedSBoxCihangir"


def counter_mode(kernel: str, each: int = 32768, blocks: int = 1024) -> CudaWorkload:
    """_COUNTER : writes nothing, `each` encryptions a thread;  _FILE : one a thread"""
    n = blocks * 1024
    arguments: dict[str, Any] = {"pt": _PLAIN, "rk": _round_keys(), "t0G": _TABLE, "t4G": _BOX * np.uint32(0x01010101)}
    more = {"range": np.array([each], np.uint64), "SAES": _BOX.astype(np.uint8)}
    if kernel == _FILE:
        more = {"ct": np.zeros((n, 4), np.uint32), "encryptionCountG": np.array([n], np.uint32), "threadCountG": np.array([n], np.uint32)}
    return made("CUDA_AES/AES_final.cu", kernel, arguments | more, blocks, 1024)


ROWS = {32: ("Sgemv_v0", 4, 10.341), 128: ("Sgemv_v1", 4, 14.284), 16: ("Sgemv_v2<2>", 8, 6.903)}
"""Columns -> kernel, rows of a block, us."""
ADDITIONS = {"add": (1, 827), "vec2_add": (2, 838), "vec4_add": (4, 844)}


def times_vector(columns: int, rows: int = 16384) -> CudaWorkload:
    kernel, of_block, _ = ROWS[columns]
    arguments = {"A": singles(rows, columns), "x": singles(columns), "y": np.zeros(rows, np.float32), "M": rows, "N": columns}
    return made(f"How_to_optimize_in_GPU/sgemv/{kernel[:8]}.cu", kernel, arguments, rows // of_block, (32, 4))


def addition(kernel: str, n: int = 1 << 25) -> CudaWorkload:
    return made("How_to_optimize_in_GPU/elementwise/elementwise_add.cu", kernel, [singles(n), singles(n), np.zeros(n, np.float32)], n // 256 // ADDITIONS[kernel][0], 256)


FLIPS = {"v100": 766.26 / 2, "a100": 1041.37 / 2, "h100": 1800.81 / 2}


def spins(columns: int = 65536, rows: int = 2048, chance: Any = None) -> CudaWorkload:
    """One step of the black spins, a quarter of a byte each; of a run at 1.5, the chance that spin s flips with k of 4 neighbours up."""
    if chance is None:
        chance = [[math.exp(-2 * s * (4 - 2 * k) / 1.5) for k in range(5)] for s in (-1, 1)]
    words = columns // 2 // 16
    black, white = (rng.integers(0, 1 << 62, (rows, words), dtype=np.uint64) & np.uint64(0x1111111111111111) for _ in range(2))
    arguments = {"devid": 0, "seed": 463463564571, "it": 1, "slX": words // 2, "slY": rows, "begY": 0, "dimX": words // 2, "vExp": np.array(chance, np.float32), "jDst": None, "vSrc": white, "vDst": black}
    return made("ising-gpu/optimized/main.cu", "spinUpdateV_2D_k<16, 16, 2, 1, 4, 0, unsigned long long, ulonglong2>", arguments, (words // 64, rows // 16), (16, 16), options=["--use_fast_math"])


NORMS = {("softmax", "float32", 1024): 21.5, ("softmax", "float32", 2048): 40.95, ("softmax", "float32", 4096): 79.87, ("softmax", "bfloat16", 1024): 13.31, ("softmax", "bfloat16", 2048): 22.52, ("softmax", "bfloat16", 4096): 40.95, ("layer_norm", "float32", 4096): 51.04, ("layer_norm", "float32", 16384): 184.76}  # fmt: skip
"""What, type, columns -> us, on an RTX 3090 and an H100."""


def norm(what: str, dtype: str, columns: int, rows: int = 0) -> TritonWorkload:
    file = SUITES / "Liger-Kernel" / "src" / "liger_kernel" / "ops" / f"{what}.py"
    if not file.is_file():
        pytest.skip("MEMSIM_SUITES has no Liger-Kernel")
    pytest.importorskip("triton")
    sys.path.insert(0, str(SUITES / "Liger-Kernel" / "src"))
    return tracegen.load_kernel(f"{file}:_{what}_{'single_block_' * (what == 'softmax')}forward_kernel", {"what": what, "dtype": dtype, "columns": str(columns), "rows": str(rows)}, args=f"{__file__}:_norm")  # fmt: skip


def _norm(what: str, dtype: str, columns: int, rows: int) -> TritonWorkload:
    rows = rows or (2048 if what == "softmax" else 4096)
    x = singles(rows, columns) if dtype == "float32" else np.full((rows, columns), 0x3F80, np.uint16)
    arguments: list[Any] = [np.zeros_like(x), columns, x, columns]
    if what == "layer_norm":
        arguments += [singles(columns), 1, singles(columns), 1, np.zeros(rows, np.float32), 1, np.zeros(rows, np.float32), 1]
    arguments += [columns, *([1e-6] if what == "layer_norm" else [])]
    settings = {"BLOCK_SIZE": columns, "num_warps": 16 if columns >= 8192 else 8 if columns >= 2048 else 4}
    return TritonWorkload(arguments=arguments, grid=(rows,), settings=settings)


HISTOGRAMS = {"GlobalAtomic": 276.13, "SharedAtomic": 1.53, "SharedAtomicVec": 0.47}


def byte_histogram(kind: str, n: int = 1 << 30, groups: int = 132 * 32) -> CudaWorkload:
    arguments = {"data": rng.integers(0, 256, n, dtype=np.uint8), "num_elements": n, "histogram": np.zeros(256, np.int32)}
    return made("gpu-histogram-optimization/src/main.cu", f"Histogram{kind}<256>", arguments, groups, 512)
