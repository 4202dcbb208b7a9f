"""Kernels of HeCBench in CUDA C++ (A100) and HIP (MI250X), as they are fetched: what they compute, compared with numpy.

MEMSIM_SUITES names a folder that contains the checked-out repository HeCBench.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import fft, ndimage, signal, stats

from memsim.errors import KernelError
from tests.support.cuda_kernels import needs_clang
from tests.support.cuda_suites import SUITES, Arrays, Cases, check

# fmt: off
SOURCES = SUITES / "HeCBench" / "src"

pytestmark = [pytest.mark.slow, needs_clang, pytest.mark.skipif(not SOURCES.is_dir(), reason="MEMSIM_SUITES has no HeCBench")]

CASES = Cases()
case = CASES.add
rng = np.random.default_rng(0)

def singles(*shape: int) -> Any:
    return rng.uniform(0.5, 1.5, shape).astype(np.float32)

_N = 40
@case("heat/heat", "initial_value", {"n": _N, "dx": 0.5, "length": 20.0, "u": np.zeros(_N * _N)}, 7, 256)
def _initial(n: int, dx: float, length: float, u: Any) -> Arrays:
    wave = np.sin(np.pi * dx * np.arange(1, n + 1) / length)
    return {"u": np.outer(wave, wave).ravel()}

_HEAT = {"alpha": 0.1, "dx": 0.5, "dt": 0.1, "r": 0.04, "r2": 0.84}
@case("heat/heat", "solve", {"n": _N, **_HEAT, "u": rng.random(_N * _N), "u_tmp": np.zeros(_N * _N)}, 7, 256)
def _solved(n: int, u: Any, r: float, r2: float, **_: Any) -> Arrays:
    around = np.array([[0, r, 0], [r, r2, r], [0, r, 0]])
    return {"u_tmp": ndimage.convolve(u.reshape(n, n), around, mode="constant").ravel()}

_PERIODS = {"x": np.sort(10 * singles(60)), "y": singles(60) - 1, "freqs": singles(100), "pgram": np.zeros(100, np.float32)}
@case("lombscargle/main", "lombscargle", {"x_shape": 60, "freqs_shape": 100, **_PERIODS, "y_dot": 2.0}, 1, 64)
def _periodogram(x: Any, y: Any, freqs: Any, y_dot: float, **_: Any) -> Arrays:
    x, y, w = x.astype(float), y.astype(float), freqs.astype(float)[:, None]
    tau = np.arctan2(np.sin(2 * w * x).sum(1), np.cos(2 * w * x).sum(1))[:, None] / (2 * w)
    c, s = np.cos(w * (x - tau)), np.sin(w * (x - tau))
    power = (c @ y) ** 2 / (c * c).sum(1) + (s @ y) ** 2 / (s * s).sum(1)
    return {"pgram": 0.5 * power * y_dot}

case("matrix-rotate/main", "rotate_matrix_parallel", {"matrix": singles(50, 50), "n": 50}, 1, 32)(
    lambda matrix, **_: {"matrix": np.rot90(matrix, -1)})

_IMAGES = {"odata": np.zeros((48, 64), np.float32), "idata": singles(64, 48), "width": 48, "height": 64}
for _kernel in ("transposeNaive", "transposeCoalesced", "transposeNoBankConflicts", "transposeDiagonal"):
    case("matrixT/main", _kernel, _IMAGES, (3, 4), (16, 16))(lambda idata, **_: {"odata": idata.T})

_SAME = {**_IMAGES, "odata": np.zeros((48, 48), np.float32), "idata": singles(48, 48), "height": 48}
case("matrixT/main", "copySharedMem", _SAME, (3, 3), (16, 16))(lambda idata, **_: {"odata": idata})

_DATA = {"data": rng.integers(0, 1 << 63, 300, dtype=np.uint64), "r": np.zeros(300, np.int32), "length": 300}
_LUT = np.array([k.bit_count() for k in range(256)], np.uint8)
for _k in range(1, 7):
    case("popcount/main", f"pc{_k}", _DATA, 3, 128, **({"lut": _LUT} if _k == 5 else {}))(
        lambda data, **_: {"r": [int(value).bit_count() for value in data]})

case("reverse/main", "reverse", {"d": rng.integers(0, 99, 256, np.int32), "len": 256}, 1, 256)(lambda d, **_: {"d": d[::-1]})

_AXIS = np.array([1, 2, 2], np.float32) / 3
_FLOAT3 = np.dtype([(name, np.float32) for name in "xyz"])
for _kernel, _width in (("rotate", 3), ("rotate2", 4)):
    @case("rodrigues/main", _kernel, {"n": 200, "angle": 0.7, "w": np.array(tuple(_AXIS), _FLOAT3), "d": singles(200, _width)}, 2, 128)
    def _turned(d: Any, angle: float, **_: Any) -> Arrays:
        p, k = d[:, :3].astype(float), _AXIS.astype(float)
        along = (p @ k)[:, None] * k * (1 - np.cos(angle))
        turned = np.zeros(d.shape)
        turned[:, :3] = p * np.cos(angle) - np.cross(k, p) * np.sin(angle) + along
        return {"d": turned}

_dense = singles(50, 50) * (rng.random((50, 50)) < 0.2)
_rows, _columns = np.nonzero(_dense)
_starts = np.searchsorted(_rows, np.arange(51)).astype(np.uint64)
_CSR = {"num_rows": 50, "row_indices": _starts, "col_indices": _columns.astype(np.uint64), "values": _dense[_rows, _columns], "x": singles(50), "y": np.zeros(50, np.float32)}
case("simpleSpmv/kernels", "mv_csr", _CSR, 1, 64)(lambda x, **_: {"y": _dense @ x})
case("simpleSpmv/kernels", "mv_dense", {"num_rows": 50, "matrix": _dense, "x": _CSR["x"], "y": np.zeros(50, np.float32)}, 1, 64)(
    lambda x, **_: {"y": _dense @ x})

_LINE = {"in": rng.integers(0, 99, 1024 + 256, np.int32), "out": np.zeros(1024, np.int32)}
@case("stencil1d/stencil_1d", "stencil_1d", _LINE, 4, 256)
def _stencil(out: Any, **others: Any) -> Arrays:
    padded = np.pad(others["in"].astype(np.int64), (7, 0))
    return {"out": np.convolve(padded, np.ones(15, np.int64), "valid")[:1024]}

@case("bitonic-sort/main", "bitonic_sort", {"seq_len": 64, "two_power": 1, "a": rng.integers(0, 99, 256, np.int32)}, 1, 256)
def _swapped(a: Any, **_: Any) -> Arrays:
    first, second = a.reshape(4, 2, 32).transpose(1, 0, 2)
    low, high = np.minimum(first, second), np.maximum(first, second)
    rises = np.array([True, False, True, False])[:, None]
    pairs = np.stack([np.where(rises, low, high), np.where(rises, high, low)], axis=1)
    return {"a": pairs.ravel()}

def _entropies(d_val: Any) -> Any:
    counts = [ndimage.convolve((d_val == k).astype(int), np.ones((5, 5), int), mode="constant") for k in range(16)]
    p = np.array(counts) / np.sum(counts, axis=0)
    return {"d_entropy": -(p * np.log2(np.where(p > 0, p, 1))).sum(axis=0)}

_CELLS = {"d_entropy": np.zeros((30, 50), np.float32), "d_val": rng.integers(0, 16, (30, 50), np.int8)}
_TABLE = np.array([0, *(k * np.log2(k) for k in range(1, 26))], np.float32)
case("entropy/main", "entropy_opt<16, 16>", {**_CELLS, "d_logTable": _TABLE, "height": 30, "width": 50}, (4, 2), (16, 16))(
    lambda d_val, **_: _entropies(d_val))

_PLACES = rng.uniform(-80, 80, (200, 4))
@case("haversine/distance", "compute_haversine_distance", {"p": _PLACES, "distance": np.zeros(200), "n": 200}, 2, 128)
def _distances(p: Any, **_: Any) -> Arrays:
    ay, ax, by, bx = np.radians(p).T
    a = np.stack([np.cos(ay) * np.cos(ax), np.cos(ay) * np.sin(ax), np.sin(ay)])
    b = np.stack([np.cos(by) * np.cos(bx), np.cos(by) * np.sin(bx), np.sin(by)])
    return {"distance": 6371.0 * np.arccos(np.clip((a * b).sum(0), -1, 1))}

_POOL = {"i_img": singles(3, 16, 20), "o_img": np.zeros((3, 8, 10), np.float32), "Hstride": 2, "Vstride": 2, "pool_width": 2, "pool_height": 2, "i_img_count": 3, "i_img_width": 20, "i_img_height": 16, "o_img_width": 10, "o_img_height": 8}
case("maxpool3d/main", "maxpool3d", _POOL, (2, 2, 3), (8, 8))(lambda i_img, **_: {"o_img": i_img.reshape(3, 8, 2, 10, 2).max(axis=(2, 4))})

_NEURONS = {
    "numNeurons": 120, "neurons_per_item": 30, "dt": 0.1, "encode_result": singles(4),
    "voltage_array": singles(120), "reftime_array": 0.05 * singles(120), "tau_rc": 10.0, "tau_ref": 2.0,
    "bias": singles(30), "gain": 20 * singles(30), "spikes": np.zeros(120, np.float32),
}
@case("lif/main", "lif", _NEURONS, 1, 128)
def _fired(voltage_array: Any, reftime_array: Any, bias: Any, gain: Any, encode_result: Any, **_: Any) -> Arrays:
    change = -np.expm1(-0.01) * ((bias + gain * encode_result[:, None]).ravel() - voltage_array)
    voltage, reference = np.maximum(voltage_array + change, 0), reftime_array - 0.1
    voltage = voltage * np.clip(1 - reference / 0.1, 0, 1)
    fires = voltage > 1
    reference = np.where(fires, 2 + 0.1 * (1 - (voltage - 1) / change), reference)
    return {"voltage_array": np.where(fires, 0, voltage), "reftime_array": reference, "spikes": 10 * fires}

for _kernel in ("scan<int, 128>", "scan_bcao<int, 128>"):
    case("scan/main", _kernel, {"nblocks": 5, "g_odata": np.zeros((5, 128), np.int32), "g_idata": rng.integers(0, 99, (5, 128), np.int32)}, 3, 64)(
        lambda g_idata, **_: {"g_odata": np.cumsum(g_idata, axis=1) - g_idata})

_FILTER = singles(17)
_PICTURE = {"dst": np.zeros((64, 256), np.float32), "src": singles(64, 256), "kernel": _FILTER, "imageW": 256, "imageH": 64, "pitch": 256}
for _kernel, _grid, _block, _axis in (("conv_rows", (2, 16), (16, 4), 1), ("conv_cols", (16, 1), (16, 8), 0)):
    case("convolutionSeparable/conv", _kernel, _PICTURE, _grid, _block)(
        lambda src, axis=_axis, **_: {"dst": ndimage.convolve1d(src.astype(float), _FILTER, axis, mode="constant")})

# The cases below were written down, with their results, before any of them had been run.

def _wrapped(value: int, bits: int = 32) -> int:
    return value & ((1 << bits) - 1)

def _rotated_left(value: int, k: int, bits: int = 32) -> int:
    return _wrapped(value << k | value >> (bits - k), bits)

def _murmur_128(data: bytes, seed: int) -> tuple[int, int]:
    c = 0x87C37B91114253D5, 0x4CF5AD432745937F
    h = [seed, seed]

    def mixed(block: bytes, k: int) -> int:
        word = _wrapped(int.from_bytes(block, "little") * c[k], 64)
        return h[k] ^ _wrapped(_rotated_left(word, 31 + 2 * k, 64) * c[1 - k], 64)

    whole = len(data) // 16 * 16
    for first in range(0, whole, 16):
        for k, turn, added in ((0, 27, 0x52DCE729), (1, 31, 0x38495AB5)):
            h[k] = mixed(data[first + 8 * k : first + 8 * k + 8], k)
            h[k] = _wrapped((_rotated_left(h[k], turn, 64) + h[1 - k]) * 5 + added, 64)
    h = [mixed(data[whole:][8 * k : 8 * k + 8], k) ^ len(data) for k in (0, 1)]
    h[0] += h[1]
    h[1] += h[0]
    for k in (0, 1):
        value = _wrapped(h[k], 64)
        for factor in (0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53):
            value = _wrapped((value ^ value >> 33) * factor, 64)
        h[k] = value ^ value >> 33
    first = _wrapped(h[0] + h[1], 64)
    return first, _wrapped(h[1] + first, 64)

_KEY_BYTES = rng.integers(0, 41, 40, np.uint32)
_KEYS = {"d_keys": rng.integers(0, 256, int(_KEY_BYTES.sum()), np.uint8), "d_length": (np.cumsum(_KEY_BYTES) - _KEY_BYTES).astype(np.uint32), "length": _KEY_BYTES, "d_out": np.zeros((40, 2), np.uint64), "numKeys": 40}
@case("murmurhash3/murmurhash3", "MurmurHash3_x64_128_kernel", _KEYS, 2, 32)
def _murmured(d_keys: Any, d_length: Any, length: Any, **_: Any) -> Arrays:
    found = [_murmur_128(bytes(d_keys[d_length[i] :][: length[i]]), i) for i in range(40)]
    return {"d_out": np.array(found, np.uint64)}

_JENKINS = {"lengths": rng.integers(0, 60, 200, np.uint32), "initvals": rng.integers(0, 1 << 32, 200, np.uint32), "keys": rng.integers(0, 1 << 32, (200, 16), np.uint32), "out": np.zeros(200, np.uint32), "N": 200}

def _lookup3(key: bytes, initial: int) -> int:
    a = b = c = _wrapped(0xDEADBEEF + len(key) + initial)
    rot = _rotated_left
    while len(key) > 12:
        a, b, c = (_wrapped(h + int.from_bytes(key[k : k + 4], "little")) for h, k in ((a, 0), (b, 4), (c, 8)))
        for k in (4, 6, 8, 16, 19, 4):
            a, b, c = b, _wrapped(c + b), _wrapped(a - c) ^ rot(c, k)
        key = key[12:]
    if not key:
        return c
    a, b, c = (_wrapped(h + int.from_bytes(key[k : k + 4], "little")) for h, k in ((a, 0), (b, 4), (c, 8)))
    for k in (14, 11, 25, 16, 4, 14, 24):
        c, a, b = a, b, _wrapped((c ^ b) - rot(b, k))
    return b

@case("jenkins-hash/main", "jk3_hash_kernel", _JENKINS, 2, 128)
def _jenkins(lengths: Any, initvals: Any, keys: Any, **_: Any) -> Arrays:
    found = [_lookup3(keys[i].tobytes()[: lengths[i]], int(initvals[i])) for i in range(200)]
    return {"out": np.array(found, np.uint32)}

def _text(word: str) -> Any:
    return np.frombuffer(word.encode(), np.int8)

_DIGITS = np.zeros(256, np.uint8)
for _k, _letter in enumerate("0123456789abcdef"):
    _DIGITS[ord(_letter)] = _k
_SECRET, _NONCE, _PLAIN = rng.bytes(32), rng.bytes(8), rng.bytes(150)
_CHACHA = {"text_key": _text(_SECRET.hex()), "text_nonce": _text(_NONCE.hex()), "text_keystream": _text(_PLAIN.hex()), "char_to_uint": _DIGITS, "raw_key": np.zeros(32, np.uint8), "raw_nonce": np.zeros(8, np.uint8), "raw_keystream": np.zeros(150, np.uint8), "result": rng.integers(0, 256, 150, np.uint8), "text_key_size": 64, "text_nonce_size": 16, "text_keystream_size": 300}

def _chacha_block(counter: int) -> bytes:
    start = np.frombuffer(b"expand 32-byte k" + _SECRET + counter.to_bytes(8, "little") + _NONCE, "<u4")
    x = start.copy()
    for k in range(20):
        for i in range(4):
            a, b, c, d = (4 * r + (i + (r if k % 2 else 0)) % 4 for r in range(4))
            for to, by, turned, places in ((a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)):
                x[to] = _wrapped(int(x[to]) + int(x[by]))
                x[turned] = _rotated_left(int(x[turned] ^ x[to]), places)
    return np.add(x, start).tobytes()

@case("chacha20/main", "test_keystreams", _CHACHA, 1, 64)
def _encrypted(result: Any, **_: Any) -> Arrays:
    stream = np.frombuffer(b"".join(_chacha_block(k) for k in range(3)), np.uint8)[:150]
    return {"result": result ^ stream, "raw_keystream": np.frombuffer(_PLAIN, np.uint8)}

_FOUND = [*b"\x01\x01\x07\x04", 0, 0, 0, 0]
_DIGEST = np.frombuffer(hashlib.md5(bytes(_FOUND[:4])).digest(), np.uint32)
_MD5 = {"foundIndex": np.zeros(1, np.int32), "foundKey": np.zeros(8, np.uint8), "foundDigest": np.zeros(4, np.uint32), "keyspace": 10000, "byteLength": 4, "valsPerByte": 10, **{f"searchDigest{k}": int(_DIGEST[k]) for k in range(4)}}
case("md5hash/MD5Hash", "md5hash_kernel", _MD5, 4, 256)(
    lambda **_: {"foundIndex": np.array([4711]), "foundKey": np.array(_FOUND), "foundDigest": _DIGEST})

_BYTES = np.append(rng.integers(0, 256, 299, np.uint8), np.uint8(0))
case("base64e/main", "base64_enc", {"input": _BYTES, "output": np.zeros(400, np.uint8), "padCount": 2, "numBlock": 100, "offset": 0}, 1, 128)(
    lambda **others: {"output": np.frombuffer(base64.b64encode(others["input"][:299].tobytes()), np.uint8)})

_LONGS = {"out": np.zeros(4096, np.int64), "in": rng.integers(-(1 << 62), 1 << 62, 4096), "lg_domain_size": 12}
case("bitpermute/main", "bit_rev_permutation_z", _LONGS, 2, 64, shared_bytes=64 * 32 * 8)(
    lambda **others: {"out": others["in"][[int(f"{k:012b}"[::-1], 2) for k in range(4096)]]})

_OPTION = np.dtype([("type", np.int32), *((name, np.float32) for name in ("strike", "spot", "q", "r", "t", "vol", "value", "tol"))])
_OPTIONS = np.zeros(150, _OPTION)
_OPTIONS["type"] = rng.integers(0, 2, 150)
for _name, _scale in (("strike", 40), ("spot", 40), ("q", 0.04), ("r", 0.06), ("t", 1), ("vol", 0.3)):
    _OPTIONS[_name] = _scale * singles(150)
@case("black-scholes/blackScholesAnalyticEngine", "getOutValOption", {"options": _OPTIONS, "outputVals": np.zeros(150, np.float32), "numVals": 150}, 1, 256)
def _priced(options: Any, **_: Any) -> Arrays:
    strike, spot, q, r, t, vol = (options[k].astype(float) for k in _OPTION.names[1:7])
    spread, forward = vol * np.sqrt(t), spot * np.exp((r - q) * t)
    d1 = np.log(forward / strike) / spread + spread / 2
    sign = 1 - 2 * options["type"]
    price = forward * stats.norm.cdf(sign * d1) - strike * stats.norm.cdf(sign * (d1 - spread))
    return {"outputVals": np.exp(-r * t) * sign * price}

_TREE = np.array([(30, 28, 0.008, 0.5005, 0.4993), (20, 25, 0.009, 0.499, 0.5008)], np.dtype([(k, np.float32) for k in ("S", "X", "vDt", "puByDf", "pdByDf")]))
@case("binomial/kernel", "binomialOptionsKernel", {"d_OptionData": _TREE, "d_CallValue": np.zeros(2, np.float32)}, 2, 128)
def _calls(d_OptionData: Any, **_: Any) -> Arrays:
    values = []
    for s, x, step, up, down in d_OptionData.astype([(k, float) for k in _TREE.dtype.names]):
        call = np.maximum(s * np.exp(step * (2 * np.arange(2049.0) - 2048)) - x, 0)
        for _k in range(2048):
            call = up * call[1:] + down * call[:-1]
        values.append(call[0])
    return {"d_CallValue": values}

_ADAM = {**{k: singles(300) for k in "pmvg"}, "b1": 0.9, "b2": 0.999, "eps": 1e-8, "grad_scale": 256.0, "step_size": 0.01, "time_step": 3, "vector_size": 300, "mode": 1, "decay": 0.5}
@case("adam/main", "adam<float, float>", _ADAM, 2, 128)
def _adapted(p: Any, m: Any, v: Any, g: Any, **_: Any) -> Arrays:
    p, m, v, g = (x.astype(float) for x in (p, m, v, g / 256))
    for t in (1, 2, 3):
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
        p = p - 0.01 * (m / (1 - 0.9**t) / (np.sqrt(v / (1 - 0.999**t)) + 1e-8) + 0.5 * p)
    return {"p": p, "m": m, "v": v}

_GELU = {"src": (singles(2, 20, 64) - 1).astype(np.float16), "bias": singles(64).astype(np.float16), "width": 64, "height": 20}
@case("gelu/main", "gelu_bias_loop", _GELU, (20, 2), 32)
def _activated(src: Any, bias: Any, **_: Any) -> Arrays:
    x = (src + bias).astype(float)
    y = 0.5 * x * (1 + np.tanh(0.79788456 * (x + 0.044715 * x**3)))
    return {"src": y.astype(np.float16).astype(float)}

def _softmax(x: Any) -> Any:
    powers = np.exp(x.astype(float) - x.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)

case("softmax/main", "softMax2", {"numSlice": 20, "sliceSize": 50, "src": 9 * singles(20, 50), "dest": np.zeros((20, 50), np.float32)}, 5, 256)(
    lambda src, **_: {"dest": _softmax(src)})

def _halves(*shape: int) -> Any:
    return singles(*shape).astype(np.float16)

_LOSS = {"log_softmax": _halves(81, 8732) - np.float16(3), "grad_output": _halves(8732), "grad_output_neg": _halves(8732), "target": rng.integers(0, 81, 8732), "weight": _halves(8732), "mask": rng.integers(0, 2, 8732), "grad_predict": np.zeros((81, 8732), np.float16)}
@case("crossEntropy/main", "loss_bwd<__half, __half>", _LOSS, (3, 1), 64)
def _propagated(log_softmax: Any, grad_output: Any, grad_output_neg: Any, target: Any, weight: Any, mask: Any, **_: Any) -> Arrays:
    grad = -np.where(mask, grad_output + grad_output_neg, grad_output) * weight
    total = (grad * log_softmax[target, np.arange(8732)]).astype(np.float32)
    found = -np.exp(log_softmax.astype(float)).astype(np.float16).astype(np.float32) * total
    found += np.where(np.arange(81)[:, None] == target, grad.astype(np.float32), 0)
    found[:, 192:] = 0
    return {"grad_predict": found.astype(np.float16).astype(float)}

_PATHS = rng.integers(1, 99, (32, 32)).astype(np.uint32) * (1 - np.eye(32, dtype=np.uint32))
@case("floydwarshall/main", "floydWarshallPass", {"pathDistanceBuffer": _PATHS, "pathBuffer": np.zeros((32, 32), np.uint32), "numNodes": 32, "pass": 5}, (2, 2), (16, 16))
def _shortened(pathDistanceBuffer: Any, **_: Any) -> Arrays:
    d = pathDistanceBuffer
    over = d[:, 5:6] + d[5]
    return {"pathDistanceBuffer": np.minimum(d, over), "pathBuffer": np.where(over < d, 5, 0)}

_graph = np.triu(rng.random((200, 200)) < 0.03, 1)
_graph |= _graph.T
_MIS = {"nodes": 200, "nidx": np.append(0, _graph.sum(1).cumsum()).astype(np.int32), "nlist": np.nonzero(_graph)[1].astype(np.int32), "nstat": (2 * rng.integers(1, 60, 200) + 1).astype(np.uint8)}
@case("mis/main", "findmins", _MIS, 1, 256)
def _independent(nstat: Any, **_: Any) -> Arrays:
    found = np.full(200, 1)
    for k in sorted(range(200), key=lambda k: (nstat[k], k), reverse=True):
        if found[k]:
            found[k] = 0xFE
            found[_graph[k]] = 0
    return {"nstat": found}

_SPINS = rng.choice(np.array([-1, 1], np.int8), (2, 30, 20))
_ISING = {"lattice": _SPINS[0], "op_lattice": _SPINS[1], "randvals": singles(30, 20) - 0.5, "inv_temp": 0.4, "nx": 30, "ny": 20}
@case("ising/main", "update_lattice<true>", _ISING, 5, 128)
def _flipped(lattice: Any, op_lattice: Any, randvals: Any, **_: Any) -> Arrays:
    around = sum(np.roll(op_lattice, k, 0) for k in (-1, 0, 1)).astype(int)
    odd = np.arange(30)[:, None] % 2 == 1
    around += np.where(odd, np.roll(op_lattice, -1, 1), np.roll(op_lattice, 1, 1))
    flips = randvals < np.exp(-0.8 * around * lattice)
    return {"lattice": np.where(flips, -lattice, lattice)}

case("bincount/main", "bincount<int, float, int, DeviceMemoryType::SHARED>", {"output": np.zeros(20, np.int32), "input": singles(1000), "nbins": 20, "minvalue": 0.5, "maxvalue": 1.5, "input_size": 1000, "output_size": 20}, 3, 256, shared_bytes=80)(
    lambda **others: {"output": np.histogram(others["input"], 20, (0.5, 1.5))[0]})

_INT8 = {"a": rng.integers(-128, 128, (12000, 4), np.int8), "b": rng.integers(-128, 128, (12000, 4), np.int8)}
@case("dp4a/main", "dot_product2<int, 4>", {**{k: v.view(np.int32) for k, v in _INT8.items()}, "d": np.zeros(2, np.int32), "n": 3000}, 2, 1024)
def _dotted(**_: Any) -> Arrays:
    products = 4 * (_INT8["a"].astype(int) * _INT8["b"]).reshape(3000, 16).sum(1)
    second = np.arange(3000) // 1024 % 2 == 1
    return {"d": np.array([products[~second].sum(), products[second].sum()])}

_PAIRS = {"a": _halves(300, 2), "b": _halves(300, 2), "r": np.zeros((300, 2), np.float16), "size": 300}
case("f16max/main", "hmax<half2>", _PAIRS, 2, 128)(lambda a, b, **_: {"r": np.maximum(a, b).astype(float)})

_CAST = (10.0 ** rng.uniform(-4, 3, 500) * rng.choice([-1, 1], 500)).astype(np.float32)
@case("f8cast/main", "fp32_cvt_e4m3<unsigned char, float>", {"dst": np.zeros(500, np.uint8), "src": _CAST, "nelems": 500}, 2, 256)
def _cast(src: Any, **_: Any) -> Arrays:
    codes = np.arange(127)
    exponent, fraction = codes >> 3, codes & 7
    values = np.ldexp(np.where(exponent, 8 + fraction, fraction), np.maximum(exponent, 1) - 10)
    gaps = abs(abs(src.astype(float))[:, None] - values)
    nearest = np.argmin(gaps + (codes & 1) * 1e-12, axis=1)  # of two that are equally near, the even
    return {"dst": nearest + 128 * (src < 0)}

_SYSTEMS = {"L": singles(20, 50), "D": 3 + singles(20, 50), "U": singles(20, 50), "RHS": singles(20, 50)}
@case("thomas/cuThomasBatch", "cuThomasBatch", {**{k: v.astype(float) for k, v in _SYSTEMS.items()}, "M": 20, "BATCHCOUNT": 50}, 1, 64)
def _solutions(L: Any, D: Any, U: Any, RHS: Any, **_: Any) -> Arrays:
    full = [np.diag(D[:, k]) + np.diag(L[1:, k], -1) + np.diag(U[:-1, k], 1) for k in range(50)]
    return {"RHS": np.linalg.solve(full, RHS.T[..., None])[..., 0].T}

_MANDEL = np.array([(40, 50, 16)], np.dtype([(k, np.int32) for k in ("rows", "columns", "most")]))
@case("mandelbrot/main", "mandel", {"b": np.zeros((40, 50), np.int32), "p": _MANDEL, "rows": 40, "cols": 50}, (3, 4), (16, 16))
def _escapes(**_: Any) -> Arrays:
    c = (np.arange(40)[:, None] / 20 - 1.5) + 1j * (np.arange(50) / 25 - 1)
    z, count = np.zeros_like(c), np.zeros(c.shape, int)
    for _k in range(16):
        stays = abs(z) < 2
        z, count = np.where(stays, z * z + c, z), count + stays
    return {"b": count}

_LANES = rng.permutation(np.repeat(np.arange(26, dtype=np.int32), [3, 2, 4] + [1] * 23))
@case("collision/main", "checkDuplicateMask", {"num": 32, "v": _LANES}, 1, 32)
def _collisions(v: Any, **_: Any) -> Arrays:
    again = [v[k] in v[:k] for k in range(32)]
    mask = np.array([sum(1 << k for k in range(32) if again[k])], np.uint32)
    return {"duplicateMask": mask.view(np.uint8)}

@case("dct8x8/kernels", "DCT8x8_kernel", {"d_Dst": np.zeros((32, 64), np.float32), "d_Src": singles(32, 64), "stride": 64, "imageH": 32, "imageW": 64}, (2, 2), (32, 2))
def _frequencies(d_Src: Any, **_: Any) -> Arrays:
    blocks = d_Src.reshape(4, 8, 8, 8).astype(float)
    return {"d_Dst": fft.dctn(blocks, axes=(1, 3), norm="ortho").reshape(32, 64)}

_NODES = np.linspace(-1, 1, 7)
_PLACE = np.linspace(-1, 1, 150)
@case("lebesgue/kernels", "kernel", {"lmax": np.zeros(1), "linterp": np.zeros((7, 150)), "xfun": _PLACE, "x": _NODES, "n": 7, "nfun": 150}, 2, 128)
def _lagrange(xfun: Any, x: Any, **_: Any) -> Arrays:
    others = [np.delete(x, k) for k in range(7)]
    basis = [((xfun[:, None] - o) / (x[k] - o)).prod(1) for k, o in enumerate(others)]
    return {"linterp": np.array(basis), "lmax": [abs(np.array(basis)).sum(0).max()]}

_SETS = {"Apoints": singles(150, 2), "Bpoints": singles(90, 2), "distance": np.zeros(1, np.float32), "numA": 150, "numB": 90}
@case("hausdorff/main", "computeDistance", _SETS, 2, 128)
def _apart(Apoints: Any, Bpoints: Any, **_: Any) -> Arrays:
    gaps = ((Apoints[:, None].astype(float) - Bpoints) ** 2).sum(2)
    return {"distance": [gaps.min(1).max()]}

_TURN = np.linspace(0, 2 * np.pi, 600, endpoint=False)
_STAR = (singles(600)[:, None] * np.stack([np.cos(_TURN), np.sin(_TURN)], 1)).astype(np.float32)
@case("pnpoly/main", "pnpoly_opt<4>", {"bitmap": np.zeros(2000, np.int32), "point": 3 * singles(2000, 2) - 3, "vertex": _STAR, "n": 2000}, 2, 256)
def _inside(point: Any, vertex: Any, **_: Any) -> Arrays:
    x, y = point.T[:, :, None].astype(float)
    (x0, y0), (x1, y1) = vertex.T.astype(float), np.roll(vertex, 1, 0).T.astype(float)
    crosses = ((y0 > y) != (y1 > y)) & (x < (x1 - x0) / (y1 - y0) * (y - y0) + x0)
    return {"bitmap": crosses.sum(1) % 2}

_SORTED = np.sort(rng.random(1000))
case("bsearch/main", "kernel_BS2<double>", {"acc_a": _SORTED, "acc_z": rng.uniform(_SORTED[0], 1, 300), "acc_r": np.zeros(300, np.uint64), "zSize": 300, "n": 1000}, 2, 256)(
    lambda acc_a, acc_z, **_: {"acc_r": np.searchsorted(acc_a, acc_z, "right") - 1})

_HAAR = {"inSignal": singles(512), "coefsSignal": np.zeros(512, np.float32), "AverageSignal": np.zeros(4, np.float32), "tLevels": 9, "signalLength": 512, "levelsDone": 0, "mLevels": 7}
@case("hwt1d/kernel", "dwtHaar1D", _HAAR, 4, 64, shared_bytes=512)
def _wavelets(inSignal: Any, **_: Any) -> Arrays:
    low, coefficients = inSignal / np.sqrt(512.0), np.zeros(512)
    for _k in range(7):
        low, high = 0.7071 * np.array([[1, 1], [1, -1]]) @ low.reshape(-1, 2).T
        coefficients[len(high) : 2 * len(high)] = high
    return {"coefsSignal": coefficients, "AverageSignal": low}

def _placed(board: list[int]) -> tuple[int, int]:
    """Solutions of 8 queens and legal boards that begin with a board, itself left out."""
    solutions, boards = 0, 0
    for column in range(8):
        if all(c != column and abs(c - column) != len(board) - r for r, c in enumerate(board)):
            if len(board) == 7:
                solutions, boards = solutions + 1, boards + 1
            else:
                more = _placed([*board, column])
                solutions, boards = solutions + more[0], boards + more[1] + 1
    return solutions, boards

_ROOTS = [[a, b] for a in range(8) for b in range(8) if abs(a - b) > 1]
_QUEENS = np.zeros(len(_ROOTS), np.dtype([("control", np.uint32), ("board", np.int8, 12)]))
for _k, _root in enumerate(_ROOTS):
    _QUEENS[_k] = sum(1 << c for c in _root), [*_root, *[0] * 10]
@case("nqueen/main", "BP_queens_root_dfs", {"N": 8, "nPreFixos": len(_ROOTS), "depthPreFixos": 2, "root_prefixes": _QUEENS, "vector_of_tree_size": np.zeros(len(_ROOTS), np.uint64), "sols": np.zeros(len(_ROOTS), np.uint64)}, 1, 64)
def _queens(**_: Any) -> Arrays:
    found = np.array([_placed(root) for root in _ROOTS])
    return {"sols": found[:, 0], "vector_of_tree_size": found[:, 1]}

_SOS = signal.butter(16, 0.3, output="sos")
_FILTERS = {"n_signals": 3, "n_samples": 64, "n_sections": 8, "zi_width": 2, "sos": _SOS, "zi": np.zeros((3, 8, 2)), "x_in": rng.random((3, 64))}
case("sosfil/main", "sosfilt<double>", _FILTERS, 3, 8, shared_bytes=8 * 9 * 8)(lambda x_in, **_: {"x_in": signal.sosfilt(_SOS, x_in)})

_WORDS = rng.choice(np.frombuffer(b"abAB", np.uint8), 2000)
_SEARCH = {"text": _WORDS, "textLength": 2000, "pattern": np.frombuffer(b"aBa", np.uint8), "patternLength": 3, "resultBuffer": np.zeros(2000, np.uint32), "resultCountPerWG": np.zeros(5, np.uint32), "maxSearchLength": 400}
@case("ss/main", "StringSearchNaive", _SEARCH, 5, 256, shared_bytes=3)
def _matches(text: Any, **_: Any) -> Arrays:
    lower = text.tobytes().lower()
    found = [sum(lower.startswith(b"aba", k) for k in range(b, min(b + 400, 1998))) for b in range(0, 2000, 400)]
    return {"resultCountPerWG": np.array(found)}

case("fft/main", "fft1D_512", {"work": rng.random((2, 512, 2))}, 2, 64)(
    lambda work: {"work": np.fft.fft(work.view(complex)[..., 0])[..., None].view(float)})

@case("randomAccess/main", "update", {"Table": np.arange(1024, dtype=np.uint64), "TableSize": 1024}, 1, 128)
def _updated(Table: Any, **_: Any) -> Arrays:
    found, value = [int(k) for k in Table], 1
    for _k in range(4096):
        value = _wrapped(value << 1, 64) ^ (7 if value >> 63 else 0)
        found[value % 1024] ^= value
    return {"Table": np.array(found, np.uint64)}

def _kiss(seed: int, n: int) -> list[int]:
    def hashed(x: int) -> int:
        for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
            x = _wrapped((x ^ x >> shift) * factor)
        return x ^ x >> 16

    x = y = z = 0
    w = hashed(seed)
    for _k in range(8):
        x = hashed(w)
        y = hashed(x)
        z = hashed(y)
        w = hashed(z)
    found = []
    for _k in range(n):
        x = _wrapped(69069 * x + 12345)
        y ^= _wrapped(y << 13)
        y ^= y >> 17
        y ^= _wrapped(y << 5)
        w, z = divmod(698769069 * z + w, 1 << 32)
        found.append(_wrapped(x + y + z))
    return found

case("kiss/main", "kernel<std::uint32_t, kiss::Kiss<std::uint32_t>>", {"out": np.zeros((5, 128), np.uint32), "n": 640, "seed": 42}, 2, 64)(
    lambda **_: {"out": np.array([_kiss(42 + k, 5) for k in range(128)], np.uint32).T})

_MERGED = {"A": np.sort(singles(1000)), "A_length": 1000, "B": np.sort(singles(900)), "B_length": 900, "diagonal_path_intersections": np.zeros((2, 9), np.uint32)}
@case("merge/main", "workloadDiagonals<float>", _MERGED, 8, 32)
def _diagonals(A: Any, B: Any, **_: Any) -> Arrays:
    order = np.argsort(np.concatenate([A, B]), kind="stable") < 1000
    shares = np.arange(9) * 1900 // 8
    first = np.array([order[:k].sum() for k in shares])
    return {"diagonal_path_intersections": np.array([first, shares - first])}

_BODIES = singles(100, 10)
@case("nbody/GSimulation", "accelerate_particles", {"p": _BODIES, "n": 100, "kSofteningSquared": 0.001, "kG": 0.5}, 1, 128)
def _accelerated(p: Any, **_: Any) -> Arrays:
    gaps = p[None, :, :3].astype(float) - p[:, None, :3]
    strength = 0.5 * p[:, 9] * ((gaps**2).sum(2) + 0.001) ** -1.5
    moved = p.astype(float)
    moved[:, 6:9] += (gaps * strength[..., None]).sum(1)
    return {"p": moved}

_CELL = np.array([5, 7, -3, 40, -1, 0, 9, 3, 100], np.int32)
@case("atomicIntrinsics/main", "testKernel<int>", {"g_odata": _CELL, "len": 31}, 1, 32)
def _combined(g_odata: Any, **_: Any) -> Arrays:
    t = np.arange(31)
    wraps = (3 + 31) % 18
    return {"g_odata": np.array([315, -303, 30, 0, np.bitwise_and.reduce(2 * t + 7), (1 << 31) - 1, 9 ^ np.bitwise_xor.reduce(t), wraps, 69])}

case("shuffle/main", "bcast_shfl_xor_sg16", {"out": np.zeros(256, np.int32)}, 2, 128)(lambda **_: {"out": np.full(256, 120)})

REFUSED = {("dp4a/main dot_product2<int, 4>", "hip"): r"code of hipcub cannot be traced"}

@pytest.mark.parametrize("dialect", ["cuda", "hip"])
@pytest.mark.parametrize("name", CASES)
def test_a_kernel_of_hecbench(name: str, dialect: str) -> None:
    one = CASES[name]
    folder, _, file = one.program.partition("/")
    path = SOURCES / f"{folder}-{dialect}" / f"{file}.cu"
    if not path.is_file():
        pytest.skip("not in this dialect")
    headers = f"-I{SOURCES / folder}-cuda"  # those of the programs in HIP lie there
    if "__constant__" not in path.read_text(errors="replace"):
        one = replace(one, symbols={})  # the port has them elsewhere
    refused = REFUSED.get((name, dialect))
    with pytest.raises(KernelError, match=refused) if refused else contextlib.nullcontext():
        check(one, one.workload(path, [headers]), "mi250x" if dialect == "hip" else "a100")
