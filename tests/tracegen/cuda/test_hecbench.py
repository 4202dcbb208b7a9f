"""Kernels of HeCBench in CUDA C++ (A100) and HIP (MI250X), as they are fetched: what they compute, compared with numpy.

MEMSIM_SUITES names a folder that contains the checked-out repository HeCBench.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import ndimage

from tests.support.cuda_kernels import needs_clang
from tests.support.cuda_suites import SUITES, Arrays, Cases, check

SOURCES = SUITES / "HeCBench" / "src"

pytestmark = [
    pytest.mark.slow,
    needs_clang,
    pytest.mark.skipif(not SOURCES.is_dir(), reason="MEMSIM_SUITES has no HeCBench"),
]

CASES = Cases()
case = CASES.add
rng = np.random.default_rng(0)


def singles(*shape: int) -> Any:
    return rng.uniform(0.5, 1.5, shape).astype(np.float32)


_N = 40


@case("heat/heat", "initial_value", {"n": _N, "dx": 0.5, "length": 20.0, "u": np.zeros(_N * _N)}, 7, 256)  # fmt: skip
def _initial(n: int, dx: float, length: float, u: Any) -> Arrays:
    wave = np.sin(np.pi * dx * np.arange(1, n + 1) / length)
    return {"u": np.outer(wave, wave).ravel()}


_HEAT = {"alpha": 0.1, "dx": 0.5, "dt": 0.1, "r": 0.04, "r2": 0.84}


@case("heat/heat", "solve", {"n": _N, **_HEAT, "u": rng.random(_N * _N), "u_tmp": np.zeros(_N * _N)}, 7, 256)  # fmt: skip
def _solved(n: int, u: Any, r: float, r2: float, **_: Any) -> Arrays:
    around = np.array([[0, r, 0], [r, r2, r], [0, r, 0]])
    return {"u_tmp": ndimage.convolve(u.reshape(n, n), around, mode="constant").ravel()}


_PERIODS = {"x": np.sort(10 * singles(60)), "y": singles(60) - 1, "freqs": singles(100), "pgram": np.zeros(100, np.float32)}  # fmt: skip


@case("lombscargle/main", "lombscargle", {"x_shape": 60, "freqs_shape": 100, **_PERIODS, "y_dot": 2.0}, 1, 64)  # fmt: skip
def _periodogram(x: Any, y: Any, freqs: Any, y_dot: float, **_: Any) -> Arrays:
    x, y, w = x.astype(float), y.astype(float), freqs.astype(float)[:, None]
    tau = np.arctan2(np.sin(2 * w * x).sum(1), np.cos(2 * w * x).sum(1))[:, None] / (2 * w)
    c, s = np.cos(w * (x - tau)), np.sin(w * (x - tau))
    power = (c @ y) ** 2 / (c * c).sum(1) + (s @ y) ** 2 / (s * s).sum(1)
    return {"pgram": 0.5 * power * y_dot}


@case("matrix-rotate/main", "rotate_matrix_parallel", {"matrix": singles(50, 50), "n": 50}, 1, 32)
def _rotated(matrix: Any, **_: Any) -> Arrays:
    return {"matrix": np.rot90(matrix, -1)}


_IMAGES = {"odata": np.zeros((48, 64), np.float32), "idata": singles(64, 48), "width": 48, "height": 64}  # fmt: skip
for _kernel in ("transposeNaive", "transposeCoalesced", "transposeNoBankConflicts", "transposeDiagonal"):  # fmt: skip

    @case("matrixT/main", _kernel, _IMAGES, (3, 4), (16, 16))
    def _transposed(idata: Any, **_: Any) -> Arrays:
        return {"odata": idata.T}


_SAME = {**_IMAGES, "odata": np.zeros((48, 48), np.float32), "idata": singles(48, 48), "height": 48}


@case("matrixT/main", "copySharedMem", _SAME, (3, 3), (16, 16))
def _copied(idata: Any, **_: Any) -> Arrays:
    return {"odata": idata}


_DATA = {"data": rng.integers(0, 1 << 63, 300, dtype=np.uint64), "r": np.zeros(300, np.int32), "length": 300}  # fmt: skip
_LUT = np.array([k.bit_count() for k in range(256)], np.uint8)
for _k in range(1, 7):

    @case("popcount/main", f"pc{_k}", _DATA, 3, 128, **({"lut": _LUT} if _k == 5 else {}))
    def _bits(data: Any, **_: Any) -> Arrays:
        return {"r": [int(value).bit_count() for value in data]}


@case("reverse/main", "reverse", {"d": rng.integers(0, 99, 256, np.int32), "len": 256}, 1, 256)
def _reversed(d: Any, **_: Any) -> Arrays:
    return {"d": d[::-1]}


_AXIS = np.array([1, 2, 2], np.float32) / 3
_FLOAT3 = np.dtype([(name, np.float32) for name in "xyz"])
for _kernel, _width in (("rotate", 3), ("rotate2", 4)):

    @case(
        "rodrigues/main",
        _kernel,
        {"n": 200, "angle": 0.7, "w": np.array(tuple(_AXIS), _FLOAT3), "d": singles(200, _width)},
        2,
        128,
    )
    def _turned(d: Any, angle: float, **_: Any) -> Arrays:
        p, k = d[:, :3].astype(float), _AXIS.astype(float)
        along = (p @ k)[:, None] * k * (1 - np.cos(angle))
        turned = np.zeros(d.shape)
        turned[:, :3] = p * np.cos(angle) - np.cross(k, p) * np.sin(angle) + along
        return {"d": turned}


_dense = singles(50, 50) * (rng.random((50, 50)) < 0.2)
_rows, _columns = np.nonzero(_dense)
_starts = np.searchsorted(_rows, np.arange(51)).astype(np.uint64)
_CSR = {
    "num_rows": 50, "row_indices": _starts, "col_indices": _columns.astype(np.uint64),
    "values": _dense[_rows, _columns], "x": singles(50), "y": np.zeros(50, np.float32),
}  # fmt: skip


@case("simpleSpmv/kernels", "mv_csr", _CSR, 1, 64)
def _product(x: Any, **_: Any) -> Arrays:
    return {"y": _dense @ x}


@case("simpleSpmv/kernels", "mv_dense", {"num_rows": 50, "matrix": _dense, "x": _CSR["x"], "y": np.zeros(50, np.float32)}, 1, 64)  # fmt: skip
def _dense_product(x: Any, **_: Any) -> Arrays:
    return {"y": _dense @ x}


_LINE = {"in": rng.integers(0, 99, 1024 + 256, np.int32), "out": np.zeros(1024, np.int32)}


@case("stencil1d/stencil_1d", "stencil_1d", _LINE, 4, 256)
def _stencil(out: Any, **others: Any) -> Arrays:
    padded = np.pad(others["in"].astype(np.int64), (7, 0))
    return {"out": np.convolve(padded, np.ones(15, np.int64), "valid")[:1024]}


@case("bitonic-sort/main", "bitonic_sort", {"seq_len": 64, "two_power": 1, "a": rng.integers(0, 99, 256, np.int32)}, 1, 256)  # fmt: skip
def _swapped(a: Any, **_: Any) -> Arrays:
    first, second = a.reshape(4, 2, 32).transpose(1, 0, 2)
    low, high = np.minimum(first, second), np.maximum(first, second)
    rises = np.array([True, False, True, False])[:, None]
    pairs = np.stack([np.where(rises, low, high), np.where(rises, high, low)], axis=1)
    return {"a": pairs.ravel()}


def _entropies(d_val: Any) -> Any:
    counts = [ndimage.convolve((d_val == k).astype(int), np.ones((5, 5), int), mode="constant") for k in range(16)]  # fmt: skip
    p = np.array(counts) / np.sum(counts, axis=0)
    return {"d_entropy": -(p * np.log2(np.where(p > 0, p, 1))).sum(axis=0)}


_CELLS = {"d_entropy": np.zeros((30, 50), np.float32), "d_val": rng.integers(0, 16, (30, 50), np.int8)}  # fmt: skip
_TABLE = np.array([0, *(k * np.log2(k) for k in range(1, 26))], np.float32)


@case("entropy/main", "entropy_opt<16, 16>", {**_CELLS, "d_logTable": _TABLE, "height": 30, "width": 50}, (4, 2), (16, 16))  # fmt: skip
def _entropy(d_val: Any, **_: Any) -> Arrays:
    return _entropies(d_val)


_PLACES = rng.uniform(-80, 80, (200, 4))


@case("haversine/distance", "compute_haversine_distance", {"p": _PLACES, "distance": np.zeros(200), "n": 200}, 2, 128)  # fmt: skip
def _distances(p: Any, **_: Any) -> Arrays:
    ay, ax, by, bx = np.radians(p).T
    a = np.stack([np.cos(ay) * np.cos(ax), np.cos(ay) * np.sin(ax), np.sin(ay)])
    b = np.stack([np.cos(by) * np.cos(bx), np.cos(by) * np.sin(bx), np.sin(by)])
    return {"distance": 6371.0 * np.arccos(np.clip((a * b).sum(0), -1, 1))}


_POOL = {
    "i_img": singles(3, 16, 20), "o_img": np.zeros((3, 8, 10), np.float32), "Hstride": 2, "Vstride": 2,
    "pool_width": 2, "pool_height": 2, "i_img_count": 3, "i_img_width": 20, "i_img_height": 16,
    "o_img_width": 10, "o_img_height": 8,
}  # fmt: skip


@case("maxpool3d/main", "maxpool3d", _POOL, (2, 2, 3), (8, 8))
def _pooled(i_img: Any, **_: Any) -> Arrays:
    return {"o_img": i_img.reshape(3, 8, 2, 10, 2).max(axis=(2, 4))}


_NEURONS = {
    "numNeurons": 120, "neurons_per_item": 30, "dt": 0.1, "encode_result": singles(4),
    "voltage_array": singles(120), "reftime_array": 0.05 * singles(120), "tau_rc": 10.0, "tau_ref": 2.0,
    "bias": singles(30), "gain": 20 * singles(30), "spikes": np.zeros(120, np.float32),
}  # fmt: skip


@case("lif/main", "lif", _NEURONS, 1, 128)
def _fired(voltage_array: Any, reftime_array: Any, bias: Any, gain: Any, encode_result: Any, **_: Any) -> Arrays:  # fmt: skip
    change = -np.expm1(-0.01) * ((bias + gain * encode_result[:, None]).ravel() - voltage_array)
    voltage, reference = np.maximum(voltage_array + change, 0), reftime_array - 0.1
    voltage = voltage * np.clip(1 - reference / 0.1, 0, 1)
    fires = voltage > 1
    reference = np.where(fires, 2 + 0.1 * (1 - (voltage - 1) / change), reference)
    return {"voltage_array": np.where(fires, 0, voltage), "reftime_array": reference, "spikes": 10 * fires}  # fmt: skip


for _kernel in ("scan<int, 128>", "scan_bcao<int, 128>"):

    @case("scan/main", _kernel, {"nblocks": 5, "g_odata": np.zeros((5, 128), np.int32), "g_idata": rng.integers(0, 99, (5, 128), np.int32)}, 3, 64)  # fmt: skip
    def _scanned(g_idata: Any, **_: Any) -> Arrays:
        return {"g_odata": np.cumsum(g_idata, axis=1) - g_idata}


_FILTER = singles(17)
_PICTURE = {"dst": np.zeros((64, 256), np.float32), "src": singles(64, 256), "kernel": _FILTER, "imageW": 256, "imageH": 64, "pitch": 256}  # fmt: skip
for _kernel, _grid, _block, _axis in (("conv_rows", (2, 16), (16, 4), 1), ("conv_cols", (16, 1), (16, 8), 0)):  # fmt: skip

    @case("convolutionSeparable/conv", _kernel, _PICTURE, _grid, _block)
    def _filtered(src: Any, axis: int = _axis, **_: Any) -> Arrays:
        return {"dst": ndimage.convolve1d(src.astype(float), _FILTER, axis, mode="constant")}


@pytest.mark.parametrize("dialect", ["cuda", "hip"])
@pytest.mark.parametrize("name", CASES)
def test_a_kernel_of_hecbench(name: str, dialect: str) -> None:
    one = CASES[name]
    folder, _, file = one.program.partition("/")
    path = SOURCES / f"{folder}-{dialect}" / f"{file}.cu"
    if not path.is_file():
        pytest.skip("not in this dialect")
    headers = f"-I{SOURCES / folder}-cuda"  # those of the programs in HIP lie there
    if "__constant__" not in path.read_text():
        one = replace(one, symbols={})  # the port has them elsewhere
    check(one, one.workload(path, [headers]), "mi250x" if dialect == "hip" else "a100")
