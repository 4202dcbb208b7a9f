"""Kernels of Rodinia, as they are fetched: what they compute, compared with numpy; and what is refused.

MEMSIM_SUITES names a folder that contains the checked-out repository gpu-rodinia (Rodinia 3.1).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import tracegen
from memsim.errors import KernelError
from tests.support.cuda_kernels import needs_clang, run
from tests.support.cuda_suites import SUITES, Arrays, Cases, check
from tracegen import CudaWorkload
from tracegen.compiled.cuda_signature import described
from tracegen.cuda import read_program

# fmt: off
PROGRAMS = SUITES / "gpu-rodinia" / "cuda"

pytestmark = [pytest.mark.slow, needs_clang, pytest.mark.skipif(not PROGRAMS.is_dir(), reason="MEMSIM_SUITES has no gpu-rodinia")]

CASES = Cases()
case = CASES.add
rng = np.random.default_rng(0)

def singles(*shape: int) -> Any:
    return rng.uniform(0.5, 1.5, shape).astype(np.float32)

def integers(most: int, *shape: int) -> Any:
    return rng.integers(0, most, shape, np.int32)

def empty(dtype: Any, *shape: int) -> Any:
    return np.zeros(shape, dtype)

_WALL = {"iteration": 5, "gpuWall": integers(10, 8, 1000), "gpuSrc": integers(10, 1000), "gpuResults": empty(np.int32, 1000), "cols": 1000, "rows": 9, "startStep": 2, "border": 5}
@case("pathfinder/pathfinder", "dynproc_kernel", _WALL, 5, 256)
def _shortest(gpuWall: Any, gpuSrc: Any, **_: Any) -> Arrays:
    paths = gpuSrc
    for row in gpuWall[2:7]:
        padded = np.pad(paths, 1, mode="edge")
        paths = np.minimum(np.minimum(padded[:-2], padded[1:-1]), padded[2:]) + row
    return {"gpuResults": paths}

def _aligned(matrix: Any, reference: Any, corners: list[tuple[int, int]]) -> Any:
    """The matrix of Needleman and Wunsch after blocks of 16 x 16. corners : above and left of them"""
    matrix = matrix.copy()
    for top, left in corners:
        for i in range(top + 1, top + 17):
            for j in range(left + 1, left + 17):
                matched = matrix[i - 1, j - 1] + reference[i, j]
                matrix[i, j] = max(matched, matrix[i, j - 1] - 10, matrix[i - 1, j] - 10)
    return matrix

_NW = {"referrence": integers(20, 49, 49), "matrix_cuda": integers(20, 49, 49), "cols": 49, "penalty": 10, "i": 2, "block_width": 3}
for _kernel, _corners in (
    ("needle_cuda_shared_1", [(16, 0), (0, 16)]),
    ("needle_cuda_shared_2", [(32, 16), (16, 32)]),
):

    case("nw/needle", _kernel, _NW, 2, 16)(
        lambda referrence, matrix_cuda, corners=_corners, **_: {"matrix_cuda": _aligned(matrix_cuda, referrence, corners)})

_PLACES = {"d_locations": singles(200, 2), "d_distances": empty(np.float32, 200), "numRecords": 200, "lat": 0.5, "lng": 1.25}
case("nn/nn_cuda", "euclid", _PLACES, 1, 256)(lambda d_locations, **_: {"d_distances": np.hypot(*(d_locations - np.array([0.5, 1.25])).T)})

_LU = {"m": singles(64, 64) + 16 * np.eye(64, dtype=np.float32), "matrix_dim": 64, "offset": 16}
_HERE, _BEYOND = slice(16, 32), slice(32, 64)
@case("lud/cuda/lud_kernel", "lud_diagonal", _LU, 1, 16)
def _diagonal(m: Any, **_: Any) -> Arrays:
    m = m.astype(float)
    block = m[_HERE, _HERE]
    for i in range(15):
        block[i + 1 :, i] /= block[i, i]
        block[i + 1 :, i + 1 :] -= np.outer(block[i + 1 :, i], block[i, i + 1 :])
    return {"m": m}

@case("lud/cuda/lud_kernel", "lud_perimeter", _LU, 2, 32)
def _perimeter(m: Any, **_: Any) -> Arrays:
    m = m.astype(float)
    lower, upper = np.tril(m[_HERE, _HERE], -1) + np.eye(16), np.triu(m[_HERE, _HERE])
    m[_HERE, _BEYOND] = np.linalg.solve(lower, m[_HERE, _BEYOND])
    m[_BEYOND, _HERE] = m[_BEYOND, _HERE] @ np.linalg.inv(upper)
    return {"m": m}

@case("lud/cuda/lud_kernel", "lud_internal", _LU, (2, 2), (16, 16))
def _internal(m: Any, **_: Any) -> Arrays:
    m = m.astype(float)
    m[_BEYOND, _BEYOND] -= m[_BEYOND, _HERE] @ m[_HERE, _BEYOND]
    return {"m": m}

case("kmeans/kmeans_cuda", "invert_mapping", {"input": singles(100, 7), "output": empty(np.float32, 7, 100), "npoints": 100, "nfeatures": 7}, 1, 128)(
    lambda input, **_: {"output": input.T})

_GAUSS = {"m_cuda": singles(30, 30), "a_cuda": singles(30, 30), "b_cuda": singles(30), "Size": 30}
@case("gaussian/gaussian", "Fan1", {**{k: _GAUSS[k] for k in ("m_cuda", "a_cuda", "Size")}, "t": 3}, 1, 32)
def _fan1(m_cuda: Any, a_cuda: Any, **_: Any) -> Arrays:
    m_cuda = m_cuda.copy()
    m_cuda[4:, 3] = a_cuda[4:, 3] / a_cuda[3, 3]
    return {"m_cuda": m_cuda}

@case("gaussian/gaussian", "Fan2", {**_GAUSS, "j1": 27, "t": 3}, (8, 8), (4, 4))
def _fan2(m_cuda: Any, a_cuda: Any, b_cuda: Any, **_: Any) -> Arrays:
    a_cuda, b_cuda = a_cuda.copy(), b_cuda.copy()
    a_cuda[4:, 3:] -= np.outer(m_cuda[4:, 3], a_cuda[3, 3:])
    b_cuda[4:] -= m_cuda[4:, 3] * b_cuda[3]
    return {"a_cuda": a_cuda, "b_cuda": b_cuda}

_KNODE = np.dtype([("location", np.int32), ("indices", np.int32, 257), ("keys", np.int32, 257), ("is_leaf", np.bool_), ("num_keys", np.int32)], align=True)

def _tree() -> Any:
    """A root and its 256 leaves of 256 keys, which are even: key 2 k is in record k."""
    nodes = np.zeros(257, _KNODE)
    nodes["keys"] = np.iinfo(np.int32).max
    nodes["keys"][0, :256] = 512 * np.arange(256)
    nodes["indices"][0, :256] = 1 + np.arange(256)
    nodes["keys"][1:, :256] = 2 * np.arange(256 * 256).reshape(256, 256)
    nodes["indices"][1:, :256] = np.arange(256 * 256).reshape(256, 256)
    return nodes

_VALUES, _FOUND = integers(1000, 256 * 256), 2 * integers(256 * 256 - 300, 5)
_QUERY = {"height": 1, "knodesD": _tree(), "knodes_elem": 257}
_FIND = {**_QUERY, "recordsD": _VALUES, "currKnodeD": empty(np.int64, 5), "offsetD": empty(np.int64, 5), "keysD": _FOUND, "ansD": empty(np.int32, 5)}
case("b+tree/kernel/kernel_gpu_cuda_wrapper", "findK", _FIND, 5, 256)(
    lambda recordsD, keysD, **_: {"ansD": recordsD[keysD // 2], "currKnodeD": 1 + keysD // 512})

_RANGE = {
    **_QUERY,
    **{name: empty(np.int64, 5) for name in ("currKnodeD", "offsetD", "lastKnodeD", "offset_2D")},
    "startD": _FOUND, "endD": _FOUND + 2 * np.arange(5, dtype=np.int32) ** 3,
    "RecstartD": empty(np.int32, 5), "ReclenD": empty(np.int32, 5),
}
case("b+tree/kernel/kernel_gpu_cuda_wrapper_2", "findRangeK", _RANGE, 5, 256)(
    lambda startD, endD, **_: {"RecstartD": startD // 2, "ReclenD": (endD - startD) // 2 + 1})

case("huffman/hist", "histo_kernel", {"buffer": rng.integers(0, 256, 5000, np.uint8), "size": 5000, "histo": empty(np.uint32, 256)}, 4, 256)(
    lambda buffer, **_: {"histo": np.bincount(buffer, minlength=256)})

_SCAN = {"g_odata": empty(np.uint32, 3, 256), "g_idata": rng.integers(0, 99, (3, 256), np.uint32), "g_blockSums": empty(np.uint32, 3), "n": 256, "blockIndex": 0, "baseIndex": 0}
@case("huffman/scan", "prescan<true, false>", _SCAN, 3, 128, shared_bytes=4 * (256 + 16))
def _scanned(g_idata: Any, **_: Any) -> Arrays:
    sums = np.cumsum(g_idata, axis=1)
    return {"g_odata": sums - g_idata, "g_blockSums": sums[:, -1]}

case("huffman/scan", "uniformAdd", {"g_data": _SCAN["g_idata"], "uniforms": np.array([3, 5, 7, 9], np.uint32), "n": 256, "blockOffset": 1, "baseIndex": 0}, 3, 128)(
    lambda g_data, uniforms, **_: {"g_data": g_data + uniforms[1:, None]})

_FACTORS = {"ce": 0.1, "cw": 0.2, "cn": 0.15, "cs": 0.05, "ct": 0.07, "cb": 0.08, "cc": 0.3}
_HEAT = {"p": singles(6, 16, 64), "tIn": singles(6, 16, 64), "tOut": empty(np.float32, 6, 16, 64), "sdc": 0.25, "nx": 64, "ny": 16, "nz": 6, **_FACTORS}
@case("hotspot3D/3D", "hotspotOpt1", _HEAT, (1, 4), (64, 4))
def _hot_3d(p: Any, tIn: Any, ce: Any, cw: Any, cn: Any, cs: Any, ct: Any, cb: Any, cc: Any, **_: Any) -> Arrays:
    at = np.pad(tIn.astype(float), 1, mode="edge")
    middle = slice(1, -1)
    along_x = cw * at[middle, middle, :-2] + ce * at[middle, middle, 2:]
    along_y = cn * at[middle, :-2, middle] + cs * at[middle, 2:, middle]
    along_z = cb * at[:-2, middle, middle] + ct * at[2:, middle, middle]
    return {"tOut": cc * tIn + along_x + along_y + along_z + 0.25 * p + ct * 80}

_HOTSPOT = {
    "iteration": 2, "power": singles(50, 40), "temp_src": singles(50, 40), "temp_dst": empty(np.float32, 50, 40),
    "grid_cols": 40, "grid_rows": 50, "border_cols": 2, "border_rows": 2,
    "Cap": 0.5, "Rx": 4.0, "Ry": 5.0, "Rz": 6.0, "step": 0.1, "time_elapsed": 0.001,
}
@case("hotspot/hotspot", "calculate_temp", _HOTSPOT, (4, 5), (16, 16))
def _hot(power: Any, temp_src: Any, **_: Any) -> Arrays:
    now = temp_src.astype(float)
    for _step in range(2):
        at = np.pad(now, 1, mode="edge")
        rows = (at[:-2, 1:-1] + at[2:, 1:-1] - 2 * now) / 5
        columns = (at[1:-1, :-2] + at[1:-1, 2:] - 2 * now) / 4
        now = now + 0.1 / 0.5 * (power + rows + columns + (80 - now) / 6)
    return {"temp_dst": now}

_POINT = np.dtype([("weight", np.float32), ("coord", np.uint64), ("assign", np.int64), ("cost", np.float32)], align=True)

def _points(n: int, n_center: int) -> Any:
    points = np.zeros(n, _POINT)
    points["weight"], points["cost"] = singles(n), 2 * singles(n)
    points["assign"] = rng.integers(0, n_center, n)
    return points

_CLUSTERS = {
    "num": 300, "dim": 6, "x": 17, "p": _points(300, 4), "K": 4, "stride": 5, "coord_d": singles(6, 300),
    "work_mem_d": empty(np.float32, 300, 5), "center_table_d": np.arange(300, dtype=np.int32) % 4,
    "switch_membership_d": empty(np.bool_, 300),
}
@case("streamcluster/streamcluster_cuda", "kernel_compute_cost", _CLUSTERS, 1, 512)
def _costs(p: Any, coord_d: Any, work_mem_d: Any, center_table_d: Any, **_: Any) -> Arrays:
    cost = ((coord_d - coord_d[:, 17:18]) ** 2).sum(axis=0) * p["weight"]
    nearer = cost < p["cost"]
    work = work_mem_d.copy()
    work[nearer, 4] = (cost - p["cost"])[nearer]
    work[~nearer, center_table_d[p["assign"][~nearer]]] = (p["cost"] - cost)[~nearer]
    return {"work_mem_d": work, "switch_membership_d": nearer}

def _flow(variables: Any) -> Any:
    """Pressure, speed, speed of sound, and fluxes of momentum and energy (4, 3, ...) of Euler's equations."""
    density, momentum, energy = variables[0], variables[1:4], variables[4]
    velocity = momentum / density
    squared = (velocity**2).sum(axis=0)
    pressure = 0.4 * (energy - 0.5 * density * squared)
    unit = np.eye(3).reshape(3, 3, *[1] * density.ndim)
    fluxes = velocity[:, None] * momentum[None, :] + unit * pressure
    of_energy = velocity * (energy + pressure)
    sound = np.sqrt(1.4 * pressure / density)
    return pressure, np.sqrt(squared), sound, np.concatenate([fluxes, of_energy[None]])

_FAR = np.array([1.4, 1.2, 0.1, 0.2, 4.0])

def _euler(nelr: int, dtype: Any) -> Arrays:
    variables = rng.uniform(0.5, 1.0, (5, nelr)).astype(dtype)
    variables[4] += 3
    return {"variables": variables, "areas": rng.uniform(1, 2, nelr).astype(dtype), "neighbours": rng.integers(-2, nelr, (4, nelr), np.int32), "normals": rng.uniform(-1, 1, (3, 4, nelr)).astype(dtype)}

for _program, _kind in (("cfd/euler3d", np.float32), ("cfd/euler3d_double", np.float64)):
    _E = _euler(384, _kind)
    _far_fluxes = _flow(_FAR)[3].astype(_kind)
    _names = (*(f"momentum_{axis}" for axis in "xyz"), "density_energy")
    _constants = {f"ff_flux_contribution_{name}": _far_fluxes[k] for k, name in enumerate(_names)}
    _constants["ff_variable"] = _FAR.astype(_kind)

    case(_program, "cuda_initialize_variables", {"nelr": 384, "variables": empty(_kind, 5, 384)}, 2, 192, ff_variable=_constants["ff_variable"])(
        lambda **_: {"variables": np.repeat(_FAR[:, None], 384, axis=1)})

    @case(_program, "cuda_compute_step_factor", {"nelr": 384, "variables": _E["variables"], "areas": _E["areas"], "step_factors": empty(_kind, 384)}, 2, 192)
    def _steps(variables: Any, areas: Any, **_: Any) -> Arrays:
        _, speed, sound, _ = _flow(variables)
        return {"step_factors": 0.5 / (np.sqrt(areas) * (speed + sound))}

    @case(_program, "cuda_compute_flux", {"nelr": 384, "elements_surrounding_elements": _E["neighbours"], "normals": _E["normals"], "variables": _E["variables"], "fluxes": empty(_kind, 5, 384)}, 2, 192, **_constants)
    def _fluxes(elements_surrounding_elements: Any, normals: Any, variables: Any, **_: Any) -> Arrays:
        own, near, normals = variables.astype(float), elements_surrounding_elements, normals.astype(float)
        pressure, speed, sound, own_flux = _flow(own)
        total = np.zeros((5, own.shape[1]))
        for k in range(4):
            normal, other = normals[:, k], own[:, near[k]]
            _, other_speed, other_sound, other_flux = _flow(other)
            factor = -np.sqrt((normal**2).sum(0)) * 0.1 * (speed + other_speed + sound + other_sound)
            inner = factor * (own - other)
            inner[0] += (0.5 * normal * (own[1:4] + other[1:4])).sum(0)
            inner[1:] += (0.5 * normal * (own_flux + other_flux)).sum(1)
            wing = np.zeros_like(total)
            wing[1:4] = normal * pressure
            far = np.zeros_like(total)
            far[0] = (0.5 * normal * (_FAR[1:4, None] + own[1:4])).sum(0)
            far[1:] = (0.5 * normal * (_flow(_FAR)[3][..., None] + own_flux)).sum(1)
            total += np.where(near[k] >= 0, inner, np.where(near[k] == -1, wing, far))
        return {"fluxes": total}

    case(_program, "cuda_time_step", {"j": 1, "nelr": 384, "old_variables": _E["variables"], "variables": empty(_kind, 5, 384), "step_factors": _E["areas"], "fluxes": _E["normals"].reshape(12, 384)[:5].copy()}, 2, 192)(
        lambda old_variables, step_factors, fluxes, **_: {"variables": old_variables + step_factors / 3 * fluxes})

_NEI = [(name, np.int32) for name in ("x", "y", "z", "number")] + [("offset", np.int64)]
_BOX = np.dtype([*_NEI, ("nn", np.int32), ("nei", np.dtype(_NEI, align=True), 26)], align=True)
_DIM = np.dtype([(name, np.int32) for name in ("cur_arg", "arch_arg", "cores_arg", "boxes1d_arg")] + [(name, np.int64) for name in ("number_boxes", "box_mem", "space_elem", "space_mem", "space_mem2")], align=True)

def _boxes() -> Any:
    """Three boxes in a row; those in the middle have two neighbours."""
    boxes = np.zeros(3, _BOX)
    boxes["offset"], boxes["nn"] = 100 * np.arange(3), [1, 2, 1]
    boxes["nei"]["number"][:, :2] = [[1, 0], [0, 2], [1, 0]]
    return boxes

_MD = {
    "d_par_gpu": np.array((0.5,), np.dtype([("alpha", np.float64)])),
    "d_dim_gpu": np.array((0, 0, 0, 3, 3, 0, 300, 0, 0), _DIM), "d_box_gpu": _boxes(),
    "d_rv_gpu": rng.random((300, 4)), "d_qv_gpu": rng.random(300), "d_fv_gpu": empty(np.float64, 300, 4),
}
@case("lavaMD/kernel/kernel_gpu_cuda_wrapper", "kernel_gpu_cuda", _MD, 3, 128)
def _forces(d_rv_gpu: Any, d_qv_gpu: Any, **_: Any) -> Arrays:
    rv = d_rv_gpu
    r2 = rv[:, None, 0] + rv[None, :, 0] - rv[:, 1:] @ rv[:, 1:].T
    box = np.arange(300) // 100
    v = np.exp(-0.5 * r2) * (abs(box[:, None] - box) <= 1) * d_qv_gpu
    between = rv[:, None, 1:] - rv[None, :, 1:]
    along = (2 * v[..., None] * between).sum(axis=1)
    return {"d_fv_gpu": np.concatenate([v.sum(axis=1)[:, None], along], axis=1)}

_N = 700
_cdf = np.cumsum(rng.random(_N))
_PARTICLES = {"arrayX": rng.random(_N), "arrayY": rng.random(_N), "CDF": _cdf / _cdf[-1], "u": rng.random(_N), "xj": empty(np.float64, _N), "yj": empty(np.float64, _N), "weights": rng.random(_N), "Nparticles": _N}
_FILTER = "particlefilter/ex_particle_CUDA_float_seq"
_naive = {k: v for k, v in _PARTICLES.items() if k != "weights"}
@case("particlefilter/ex_particle_CUDA_naive_seq", "kernel", _naive, 6, 128)
@case(_FILTER, "find_index_kernel", _PARTICLES, 2, 512)
def _resampled(arrayX: Any, arrayY: Any, CDF: Any, u: Any, **_: Any) -> Arrays:
    index = np.searchsorted(CDF, u)
    return {"xj": arrayX[index], "yj": arrayY[index]}

def _random(seed: Any) -> tuple[Any, Any]:
    """The next seed of each particle, as C computes it, and its number from 0 to 1."""
    product = (1103515245 * seed.astype(np.int64) + 12345).astype(np.int32).astype(np.int64)
    following = np.fmod(product, 2**31 - 1)
    return following, np.abs(following / (2**31 - 1))

_NORMAL = {"weights": rng.random(_N), "Nparticles": _N, "partial_sums": np.array([350.0]), "CDF": empty(np.float64, _N), "u": empty(np.float64, _N), "seed": integers(1 << 30, _N)}
@case(_FILTER, "normalize_weights_kernel", {**_NORMAL, "weights": rng.random(_N)[:512], "Nparticles": 512}, 1, 512)
def _normalised(weights: Any, seed: Any, **_: Any) -> Arrays:
    first = _random(seed)[1][0] / 512
    return {"weights": weights / 350, "CDF": np.pad(np.cumsum(weights / 350), (0, _N - 512)), "u": np.pad(first + np.arange(512) / 512, (0, _N - 512))}

case(_FILTER, "sum_kernel", {"partial_sums": np.arange(1.0, 4.0), "Nparticles": 1100}, 3, 512)(lambda **_: {"partial_sums": [6.0, 2.0, 3.0]})

_ONES = 9
_LIKELY = {
    "arrayX": empty(np.float64, _N), "arrayY": empty(np.float64, _N), "xj": 40 + 9 * rng.random(_N), "yj": 40 + 9 * rng.random(_N),
    "CDF": empty(np.float64, _N), "ind": empty(np.int32, _N, _ONES), "objxy": integers(9, _ONES, 2),
    "likelihood": empty(np.float64, _N), "I": rng.integers(0, 256, 64 * 64 * 4, np.uint8), "u": empty(np.float64, _N),
    "weights": empty(np.float64, _N), "Nparticles": _N, "countOnes": _ONES, "max_size": 64 * 64 * 4, "k": 2, "IszY": 64,
    "Nfr": 4, "seed": integers(1 << 30, _N), "partial_sums": empty(np.float64, 2),
}
@case(_FILTER, "likelihood_kernel", _LIKELY, 2, 512)
def _likelihood(xj: Any, yj: Any, objxy: Any, I: Any, seed: Any, **_: Any) -> Arrays:  # noqa: E741
    numbers, now = [], seed
    for _draw in range(4):
        now, number = _random(now)
        numbers.append(number)
    first, second = (np.sqrt(-2 * np.log(a)) * np.cos(2 * np.pi * b) for a, b in (numbers[:2], numbers[2:]))
    x, y = xj + 1 + 5 * first, yj - 2 + 2 * second
    at_x = x.astype(int)[:, None] + objxy[:, 1]
    at_y = y.astype(int)[:, None] + objxy[:, 0]
    index = np.abs(at_x * 64 * 4 + at_y * 4 + 2)
    index = np.where(index >= 64 * 64 * 4, 0, index)
    light = I[index].astype(float)
    likelihood = (((light - 100) ** 2 - (light - 228) ** 2) / 50).sum(axis=1) / _ONES
    weights = np.exp(likelihood) / _N
    sums = [weights[:512].sum(), weights[512:].sum()]
    return {"seed": now, "arrayX": x, "arrayY": y, "ind": index, "likelihood": likelihood, "weights": weights, "partial_sums": sums}

_ROWS, _COLUMNS = 40, 30
_CELLS = _ROWS * _COLUMNS
_SRAD = "srad/srad_v1/main"

def _cells() -> Any:
    return singles(_COLUMNS, _ROWS)  # column by column

_INDEX = {
    "d_iN": np.maximum(np.arange(_ROWS) - 1, 0).astype(np.int32), "d_iS": np.minimum(np.arange(_ROWS) + 1, _ROWS - 1).astype(np.int32),
    "d_jE": np.minimum(np.arange(_COLUMNS) + 1, _COLUMNS - 1).astype(np.int32), "d_jW": np.maximum(np.arange(_COLUMNS) - 1, 0).astype(np.int32),
}
_SIDES = {name: _cells() for name in ("d_dN", "d_dS", "d_dE", "d_dW")}
_SHAPE = {"d_lambda": 0.5, "d_Nr": _ROWS, "d_Nc": _COLUMNS, "d_Ne": _CELLS}
case(_SRAD, "extract", {"d_Ne": _CELLS, "d_I": 255 * _cells()}, 3, 512)(lambda d_I, **_: {"d_I": np.exp(d_I / 255)})
case(_SRAD, "compress", {"d_Ne": _CELLS, "d_I": _cells()}, 3, 512)(lambda d_I, **_: {"d_I": 255 * np.log(d_I)})

case(_SRAD, "prepare", {"d_Ne": _CELLS, "d_I": _cells(), "d_sums": empty(np.float32, _CELLS), "d_sums2": empty(np.float32, _CELLS)}, 3, 512)(
    lambda d_I, **_: {"d_sums": d_I.ravel(), "d_sums2": d_I.ravel() ** 2})

@case(_SRAD, "reduce", {"d_Ne": _CELLS, "d_no": _CELLS, "d_mul": 1, "d_sums": singles(_CELLS), "d_sums2": singles(_CELLS)}, 3, 512)
def _reduced(d_sums: Any, d_sums2: Any, **_: Any) -> Arrays:
    starts = np.array([0, 512, 1024])
    made = {}
    for name, values in (("d_sums", d_sums), ("d_sums2", d_sums2)):
        made[name] = values.copy()
        made[name][starts] = np.add.reduceat(values, starts)
    return made

@case(_SRAD, "srad", {**_SHAPE, **_INDEX, **_SIDES, "d_q0sqr": 0.05, "d_c": _cells(), "d_I": _cells()}, 3, 512)
def _diffusion(d_I: Any, **_: Any) -> Arrays:
    image = d_I.astype(float)
    at = np.pad(image, 1, mode="edge")
    north, south = at[1:-1, :-2] - image, at[1:-1, 2:] - image
    west, east = at[:-2, 1:-1] - image, at[2:, 1:-1] - image
    g2 = (north**2 + south**2 + west**2 + east**2) / image**2
    laplacian = (north + south + west + east) / image
    q = (0.5 * g2 - laplacian**2 / 16) / (1 + 0.25 * laplacian) ** 2
    c = np.clip(1 / (1 + (q - 0.05) / (0.05 * 1.05)), 0, 1)
    return {"d_dN": north, "d_dS": south, "d_dW": west, "d_dE": east, "d_c": c}

@case(_SRAD, "srad2", {**_SHAPE, **_INDEX, **_SIDES, "d_c": _cells(), "d_I": _cells()}, 3, 512)
def _updated(d_c: Any, d_I: Any, d_dN: Any, d_dS: Any, d_dE: Any, d_dW: Any, **_: Any) -> Arrays:
    south = np.pad(d_c, ((0, 0), (0, 1)), mode="edge")[:, 1:]
    east = np.pad(d_c, ((0, 1), (0, 0)), mode="edge")[1:]
    return {"d_I": d_I + 0.125 * (d_c * d_dN + south * d_dS + d_c * d_dW + east * d_dE)}

_STEPS = {**{f"{side}_C": singles(48, 64) for side in "EWNS"}, "J_cuda": singles(48, 64)}
# `srad_cuda_2` reads one row below the image.
_STEP_2 = {**_STEPS, "C_cuda": singles(49, 64), "cols": 64, "rows": 48, "lambda": 0.5, "q0sqr": 0.1}
@case("srad/srad_v2/srad", "srad_cuda_2", _STEP_2, (4, 3), (16, 16))
def _updated_2(E_C: Any, W_C: Any, N_C: Any, S_C: Any, J_cuda: Any, C_cuda: Any, **_: Any) -> Arrays:
    c = C_cuda[:48]
    at = np.pad(c, ((0, 1), (0, 1)), mode="edge")
    return {"J_cuda": J_cuda + 0.125 * (c * N_C + at[1:, :-1] * S_C + c * W_C + at[:-1, 1:] * E_C)}

_DIVISIONS = 1024
@case("hybridsort/bucketsort", "histogram1024Kernel", {"d_Result": empty(np.uint32, 1024), "d_Data": singles(900), "minimum": 0.5, "maximum": 1.5, "dataN": 900}, 4, 96)
def _histogram_1024(d_Data: Any, **_: Any) -> Arrays:
    places = ((d_Data - np.float32(0.5)) / np.float32(1) * 1024).astype(int) & 1023
    return {"d_Result": np.bincount(places, minlength=1024)}

@case("hybridsort/bucketsort", "bucketprefixoffset", {"d_prefixoffsets": rng.integers(0, 9, (3, _DIVISIONS), np.uint32), "d_offsets": empty(np.uint32, _DIVISIONS), "blocks": 3}, 8, 128)
def _prefix(d_prefixoffsets: Any, **_: Any) -> Arrays:
    sums = np.cumsum(d_prefixoffsets, axis=0)
    return {"d_prefixoffsets": sums - d_prefixoffsets, "d_offsets": sums[-1]}

_ORDER = rng.permutation(_DIVISIONS).astype(np.int32)
@case("hybridsort/bucketsort", "bucketsort", {"input": singles(_DIVISIONS), "indice": _ORDER, "output": empty(np.float32, _DIVISIONS), "size": _DIVISIONS, "d_prefixoffsets": empty(np.uint32, 2, _DIVISIONS), "l_offsets": np.arange(_DIVISIONS, dtype=np.uint32)}, 2, 32)
def _in_buckets(input: Any, indice: Any, **_: Any) -> Arrays:
    output = np.zeros_like(input)
    output[indice] = input
    return {"output": output}

_STARTS = np.minimum(np.arange(_DIVISIONS + 1, dtype=np.int32), 4) * 8
case("hybridsort/mergesort", "mergepack", {"orig": singles(200), "result": empty(np.float32, 32)}, (1, 4), 32, constStartAddr=_STARTS // 4 * 2, finalStartAddr=_STARTS, nullElems=np.arange(_DIVISIONS, dtype=np.int32) % 3)(
    lambda orig, **_: {"result": np.concatenate([orig[16 * k + k % 3 :][:8] for k in range(4)])})

_dense = rng.random((600, 600)) < 0.01
_first, _second = np.nonzero(_dense)
_nodes = np.zeros(600, [("starting", np.int32), ("no_of_edges", np.int32)])
_nodes["no_of_edges"] = _dense.sum(axis=1)
_nodes["starting"] = np.cumsum(_nodes["no_of_edges"]) - _nodes["no_of_edges"]
_visited = rng.random(600) < 0.3
_mask = _visited & (rng.random(600) < 0.2)
_GRAPH = {
    "g_graph_nodes": _nodes, "g_graph_edges": _second.astype(np.int32), "g_graph_mask": _mask,
    "g_updating_graph_mask": empty(np.bool_, 600), "g_graph_visited": _visited,
    "g_cost": np.where(_mask, 4, 0).astype(np.int32), "no_of_nodes": 600,
}
@case("bfs/bfs", "Kernel", _GRAPH, 2, 512)
def _visits(g_graph_mask: Any, g_graph_visited: Any, g_cost: Any, **_: Any) -> Arrays:
    reached = _dense[g_graph_mask].any(axis=0) & ~g_graph_visited
    cost = np.where(reached, 5, g_cost)
    return {"g_updating_graph_mask": reached, "g_cost": cost, "g_graph_mask": np.zeros(600, bool)}

_NEXT = {"g_graph_mask": empty(np.bool_, 600), "g_updating_graph_mask": _mask, "g_graph_visited": _visited & ~_mask, "g_over": empty(np.bool_, 1), "no_of_nodes": 600}
@case("bfs/bfs", "Kernel2", _NEXT, 2, 512)
def _next_front(g_graph_visited: Any, g_updating_graph_mask: Any, **_: Any) -> Arrays:
    mask = g_updating_graph_mask
    return {"g_graph_mask": mask, "g_graph_visited": g_graph_visited | mask, "g_over": [True], "g_updating_graph_mask": np.zeros(600, bool)}

_LAYER = {"input_cuda": singles(65), "output_hidden_cuda": singles(17), "input_hidden_cuda": singles(65, 17), "hidden_partial_sum": empty(np.float32, 4, 16), "in": 64, "hid": 16}
@case("backprop/backprop_cuda", "bpnn_layerforward_CUDA", _LAYER, (1, 4), (16, 16))
def _forward(input_cuda: Any, input_hidden_cuda: Any, **_: Any) -> Arrays:
    products = input_cuda[1:, None] * input_hidden_cuda[1:, 1:]
    return {"hidden_partial_sum": products.reshape(4, 16, 16).sum(axis=1)}

_WEIGHTS = {"delta": singles(17), "hid": 16, "ly": singles(65), "in": 64, "w": singles(65, 17), "oldw": singles(65, 17)}
@case("backprop/backprop_cuda", "bpnn_adjust_weights_cuda", _WEIGHTS, (1, 4), (16, 16))
def _adjusted(delta: Any, ly: Any, w: Any, oldw: Any, **_: Any) -> Arrays:
    change = 0.3 * delta * ly[:, None] + 0.3 * oldw
    change[0] = 0.3 * delta + 0.3 * oldw[0]
    inside = np.ones(w.shape, bool)
    inside[:, 0] = False
    return {"w": np.where(inside, w + change, w), "oldw": np.where(inside, change, oldw)}

_BYTES = rng.integers(0, 256, 1500, np.uint8)
case("dwt2d/components", "c_CopySrcToComponent<int>", {"d_c": empty(np.int32, 500), "d_src": _BYTES[:512], "pixels": 500}, 2, 256)(
    lambda d_src, **_: {"d_c": d_src[:500].astype(int) - 128})

_COLOURS = {**{f"d_{c}": empty(np.float32, 500) for c in "rgb"}, "d_src": np.resize(_BYTES, 1536), "pixels": 500}
@case("dwt2d/components", "c_CopySrcToComponents<float>", _COLOURS, 2, 256)
def _components(d_src: Any, **_: Any) -> Arrays:
    colours = d_src[:1500].reshape(500, 3) / 255 - 0.5
    return {f"d_{c}": colours[:, k] for k, c in enumerate("rgb")}

def _pointers(arrays: list[Any]) -> Any:
    made = np.empty(len(arrays), object)
    made[:] = arrays
    return made

def test_pointers_in_memory_of_leukocyte() -> None:
    """Copies through shared memory; the turns in between have a data race."""
    path = PROGRAMS / "leukocyte" / "CUDA" / "track_ellipse_kernel.cu"
    fields, images = ([singles(12, 15), singles(41, 81)] for _ in range(2))
    sizes = np.array([[12, 41], [15, 81]], np.int32)
    made = CudaWorkload(path=path, kernel="IMGVF_kernel", arguments=[_pointers(fields), _pointers(images), *sizes, 1.0, 0.5, 2.0, 0, 0.0], grid=2, block=320, build_options=[f"-I{path.parents[1] / 'meschach_lib'}"])
    out = run(made)
    for k, field in enumerate(fields):
        np.testing.assert_array_equal(out[f"IMGVF_array[{k}]"], field)
    arrays = {site.array for site in tracegen.trace(made, "a100").sites}
    assert {"IMGVF_array[0]", "IMGVF_array[1]", "IMGVF_array"} <= arrays

REFUSED = {
    ("kmeans/kmeans_cuda", "kmeansPoint"): "a texture cannot be traced",
    ("hybridsort/bucketsort", "bucketcount"): "a texture cannot be traced",
    ("hybridsort/mergesort", "mergeSortFirst"): "a texture cannot be traced",
    ("hybridsort/mergesort", "mergeSortPass"): "a texture cannot be traced",
    ("mummergpu/src/mummergpu", "mummergpuKernel"): "a texture cannot be traced",
    ("leukocyte/CUDA/find_ellipse_kernel", "dilate_kernel"): "a texture cannot be traced",
    ("leukocyte/CUDA/find_ellipse_kernel", "GICOV_kernel"): "a texture cannot be traced",
}

@pytest.mark.parametrize(("program", "kernel"), REFUSED)
def test_refused_by_line(program: str, kernel: str) -> None:
    path = PROGRAMS / f"{program}.cu"
    folders = [path.parent, path.parents[1], path.parents[1] / "meschach_lib"]
    options = [f"-I{folder}" for folder in folders]
    made = CudaWorkload(path=path, kernel=kernel, grid=1, block=32, build_options=options)
    parameters = described(read_program(made), "sm_80").parameters
    arguments: list[Any] = [1] * len(parameters)
    for k, one in enumerate(parameters):
        if one.kind == "p":
            is_number = one.element in "fiu"
            dtype = f"{one.element}{one.element_bytes}" if is_number else np.int8
            arguments[k] = np.zeros(64, dtype)
    with pytest.raises(KernelError, match=rf"\.cu: {REFUSED[program, kernel]}$"):
        tracegen.trace(replace(made, arguments=arguments), "a100")

def test_srad_reads_above_its_image() -> None:
    """`srad_cuda_1` loads the row above the first one before it decides that there is none."""
    made = CudaWorkload(path=PROGRAMS / "srad" / "srad_v2" / "srad.cu", kernel="srad_cuda_1", arguments=[*_STEPS.values(), singles(48, 64), 64, 48, 0.5], grid=(4, 3), block=(16, 16))
    with pytest.raises(KernelError, match=r"out of bounds: index -64"):
        run(made)

@pytest.mark.parametrize("name", CASES)
def test_a_kernel_of_rodinia(name: str) -> None:
    one = CASES[name]
    path = PROGRAMS / f"{one.program}.cu"
    check(one, one.workload(path, [f"-I{path.parents[1]}"]))
