"""Launches of the kernels beside this file, with what numpy makes of them."""

import numpy as np

import tracegen


def _close(**expected):
    """A check of outputs; the tolerance is that of the type, with room for sums in another order."""

    def check(outputs):
        for name, wanted in expected.items():
            parts = {2: 4e-3, 4: 3e-6}
            rtol = parts[outputs[name].itemsize] if outputs[name].dtype.kind == "f" else 0
            largest = np.abs(wanted).max()
            found = outputs[name].astype(np.float64)
            np.testing.assert_allclose(found, wanted, rtol=rtol, atol=rtol * largest, err_msg=name)

    return check


def _launch(arguments, grid, settings, **expected):
    """expected : the outputs"""
    return tracegen.TritonWorkload(
        arguments=arguments, grid=grid, settings=settings, check=_close(**expected)
    )


def add(n: int = 1000, block: int = 256) -> tracegen.TritonWorkload:
    rng = np.random.default_rng(0)
    x, y = rng.random(n, np.float32), rng.random(n, np.float32)
    return _launch([x, y, np.zeros_like(x), n], lambda meta: (-(-n // meta["BLOCK"]),), {"BLOCK": block}, out_ptr=x + y)  # fmt: skip


def softmax(rows: int = 20, columns: int = 781) -> tracegen.TritonWorkload:
    x = np.random.default_rng(0).normal(size=(rows, columns)).astype(np.float32)
    e = np.exp(x.astype(np.float64) - x.max(1, keepdims=True))
    return _launch([np.zeros_like(x), x, columns, columns, rows, columns], 8, {"BLOCK": 1024, "STAGES": 4, "num_warps": 8}, out_ptr=e / e.sum(1, keepdims=True))  # fmt: skip


def matmul(
    m: int = 128, n: int = 96, k: int = 192, dtype: str = "float16"
) -> tracegen.TritonWorkload:
    rng = np.random.default_rng(0)
    a, b = (rng.normal(size=shape).astype(dtype) for shape in ((m, k), (k, n)))
    exact = a.astype(np.float64) @ b.astype(np.float64)
    return _launch([a, b, np.zeros((m, n), dtype), m, n, k, k, 1, n, 1, n, 1], lambda meta: (-(-m // meta["BM"]) * -(-n // meta["BN"]),), {}, c_ptr=exact)  # fmt: skip


def described(m: int = 128, n: int = 192, k: int = 256) -> tracegen.TritonWorkload:
    rng = np.random.default_rng(4)
    a, b = (rng.integers(-3, 4, shape).astype(np.float16) for shape in ((m, k), (n, k)))
    return _launch([a, b, np.zeros((m, n), np.float16), m, n, k], (4,), {"P": 4, "BM": 64, "BN": 64, "BK": 64}, c_ptr=a.astype(np.float64) @ b.astype(np.float64).T)  # fmt: skip


def philox(seed: int, counters: np.ndarray, rounds: int = 10) -> np.ndarray:
    """The first word of Philox4x32-10 (Salmon et al., Parallel Random Numbers: As Easy as 1, 2, 3, SC 2011)."""
    zero = np.zeros_like(counters, np.uint64)
    c0, c1, c2, c3 = counters.astype(np.uint64), zero, zero, zero
    k0, k1 = seed & 0xFFFFFFFF, seed >> 32
    low = np.uint64(0xFFFFFFFF)
    for _ in range(rounds):
        a, b = c0 * np.uint64(0xD2511F53), c2 * np.uint64(0xCD9E8D57)
        c0, c1, c2, c3 = (
            b >> np.uint64(32) ^ c1 ^ np.uint64(k0), b & low,
            a >> np.uint64(32) ^ c3 ^ np.uint64(k1), a & low,
        )  # fmt: skip
        k0, k1 = k0 + 0x9E3779B9 & 0xFFFFFFFF, k1 + 0xBB67AE85 & 0xFFFFFFFF
    return c0.astype(np.uint32)


def dropout(n: int = 1024, p: float = 0.25, seed: int = 123) -> tracegen.TritonWorkload:
    x = np.random.default_rng(0).normal(size=n).astype(np.float32)
    word = philox(seed, np.arange(n)).view(np.int32)
    uniform = np.where(word < 0, -1 - word, word) * np.float32(4.6566127342e-10)
    return _launch({"x_ptr": x, "out_ptr": np.zeros_like(x), "n": n, "p": p, "seed": seed}, (-(-n // 256),), {"BLOCK": 256}, out_ptr=np.where(uniform > p, x / np.float32(1 - p), 0))  # fmt: skip


def layer_norm(rows: int = 6, columns: int = 1500) -> tracegen.TritonWorkload:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(rows, columns)).astype(np.float16)
    w, b = rng.random(columns).astype(np.float16), rng.random(columns).astype(np.float16)
    mean, std = x.mean(1, np.float64), np.sqrt(x.var(1, np.float64) + 1e-5)
    y = (x - mean[:, None]) / std[:, None] * w + b
    out, means, rstds = np.zeros_like(x), np.zeros(rows, np.float32), np.zeros(rows, np.float32)
    return _launch([x, out, w, b, means, rstds, columns, columns, 1e-5], (rows,), {"BLOCK": 1024}, y_ptr=y, mean_ptr=mean, rstd_ptr=1 / std)  # fmt: skip


def attention(n: int = 128, heads: int = 2, d: int = 64) -> tracegen.TritonWorkload:
    rng = np.random.default_rng(0)
    q, k, v = (rng.normal(size=(heads, n, d)).astype(np.float16) for _ in range(3))
    scores = np.einsum("hmd,hnd->hmn", q.astype(np.float64), k.astype(np.float64)) / 8
    p = np.exp(scores - scores.max(2, keepdims=True))
    p /= p.sum(2, keepdims=True)
    return _launch([q, k, v, np.zeros_like(q), n * d, d, n, 0.125], (n // 64, heads), {"BM": 64, "BN": 32, "D": d, "num_stages": 3}, out_ptr=np.einsum("hmn,hnd->hmd", p, v.astype(np.float64)))  # fmt: skip


def gather(n: int = 100, d: int = 64) -> tracegen.TritonWorkload:
    rng = np.random.default_rng(0)
    index, table = rng.integers(0, 500, n, dtype=np.int32), rng.random((500, d), np.float32)
    return _launch([index, table, np.zeros((n, d), np.float32), n], (-(-n // 32),), {"D": d, "BLOCK": 32}, out_ptr=table[index])  # fmt: skip


def histogram(n: int = 4096) -> tracegen.TritonWorkload:
    x = np.random.default_rng(0).integers(0, 256, n, dtype=np.int32)
    return _launch([x, np.zeros(256, np.int32)], (n // 1024,), {"BINS": 256, "BLOCK": 1024}, bins_ptr=np.bincount(x, minlength=256))  # fmt: skip


def transpose(m: int = 128, n: int = 64) -> tracegen.TritonWorkload:
    x = np.random.default_rng(0).random((m, n), np.float32)
    return _launch([x, np.zeros((n, m), np.float32), m, n], (m // 64, n // 64), {"BM": 64, "BN": 64}, y_ptr=x.T)  # fmt: skip


def running_sum(n: int = 2048) -> tracegen.TritonWorkload:
    x = np.random.default_rng(0).integers(0, 9, n).astype(np.float32)
    return _launch([x, np.zeros_like(x)], (n // 1024,), {"BLOCK": 1024}, y_ptr=x.reshape(-1, 1024).cumsum(1).reshape(-1))  # fmt: skip


def _numbers(form: str, codes: np.ndarray) -> np.ndarray:
    """What codes of floats mean: the highest bit is the sign, the lowest ones are the fraction."""
    exponent_bits, fraction_bits = int(form[1]), int(form[3])
    codes = codes.astype(np.int64)
    exponent = (codes >> fraction_bits) % (1 << exponent_bits)
    fraction = codes % (1 << fraction_bits) / (1 << fraction_bits)
    normal = np.where(exponent > 0, 1 + fraction, 2 * fraction)
    bias = (1 << exponent_bits - 1) - 1 + form.endswith("fnuz")
    size = normal * np.exp2(exponent - float(bias))
    return np.where(codes >> exponent_bits + fraction_bits, -size, size)


def _codes(
    rng: np.random.Generator, form: str, shape: tuple[int, int]
) -> tuple[np.ndarray, np.ndarray]:
    """Codes of numbers of at most 6, and what they mean."""
    largest, sign = {"e4m3": (0x4C, 0x80), "e5m2": (0x46, 0x80), "e2m1": (0x7, 0x8)}[form[:4]]
    codes = rng.integers(0, largest + 1, shape)
    codes += sign * rng.integers(0, 2, shape) * (codes > 0)
    return codes.astype(np.uint8), _numbers(form, codes)


def eight(form: str = "e4m3", m: int = 128, n: int = 64, k: int = 128) -> tracegen.TritonWorkload:
    rng = np.random.default_rng(5)
    (a, x), (b, y) = (_codes(rng, form, (rows, k)) for rows in (m, n))
    return _launch([a, b, np.zeros((m, n), np.float32), n, k], (m // 64, n // 64), {"FORM": form, "BM": 64, "BN": 64, "BK": 64}, c_ptr=x @ y.T)  # fmt: skip


def scaled(form: str = "e4m3", m: int = 128, n: int = 64, k: int = 256) -> tracegen.TritonWorkload:
    rng, pack = np.random.default_rng(5), 2 if form == "e2m1" else 1
    (a, x), (b, y) = (_codes(rng, form, (rows, k)) for rows in (m, n))
    if pack == 2:
        a, b = (codes[:, ::2] | codes[:, 1::2] << 4 for codes in (a, b))
    a_scale, b_scale = (rng.integers(125, 130, (rows, k // 32)).astype(np.uint8) for rows in (m, n))
    x, y = (
        numbers * np.repeat(np.exp2(scales - 127.0), 32, axis=1)
        for numbers, scales in ((x, a_scale), (y, b_scale))
    )
    return _launch([a, a_scale, b, b_scale, np.zeros((m, n), np.float32), n, k], (m // 128, n // 64), {"FORM": form, "PACK": pack, "BM": 128, "BN": 64, "BK": 128}, c_ptr=x @ y.T)  # fmt: skip


def grouped(programs: int = 4) -> tracegen.TritonWorkload:
    rng = np.random.default_rng(6)
    sizes = np.array([(64, 96, 64), (40, 33, 72), (128, 64, 32)], np.int32)
    factors = [
        [rng.integers(-3, 4, shape).astype(np.float16) for shape in ((m, k), (k, n))]
        for m, n, k in sizes
    ]
    results = [a.astype(np.float64) @ b for a, b in factors]
    lists = [*zip(*factors, strict=True), results]
    lengths = np.array([[each.size for each in one] for one in lists], np.int64)
    begins = np.ascontiguousarray((lengths.cumsum(1) - lengths).T)
    a, b, c = (np.concatenate([each.reshape(-1) for each in one]) for one in lists)
    return _launch([a, b, np.zeros_like(c, np.float16), begins, sizes, len(sizes)], (programs,), {"BM": 64, "BN": 32, "BK": 32}, c_ptr=c)  # fmt: skip
