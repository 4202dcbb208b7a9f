"""Kernels as Triton's tutorials have them, and some more, written for these tests."""

import triton
import triton.language as tl


@triton.jit
def add(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    y = tl.load(y_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, x + y, mask=mask)


@triton.jit
def softmax(
    out_ptr, in_ptr, in_stride, out_stride, n_rows, n_columns, BLOCK: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    for row in tl.range(tl.program_id(0), n_rows, tl.num_programs(0), num_stages=STAGES):
        offsets = tl.arange(0, BLOCK)
        mask = offsets < n_columns
        x = tl.load(in_ptr + row * in_stride + offsets, mask=mask, other=-float("inf"))
        e = tl.exp(x - tl.max(x, axis=0))
        tl.store(out_ptr + row * out_stride + offsets, e / tl.sum(e, axis=0), mask=mask)


@triton.autotune(
    configs=[
        triton.Config({"BM": 64, "BN": 64, "BK": 32, "GROUP": 8}, num_stages=3, num_warps=4),
        triton.Config({"BM": 64, "BN": 32, "BK": 64, "GROUP": 8}, num_stages=4, num_warps=2),
    ],
    key=["M", "N", "K"],
)
@triton.jit
def matmul(
    a_ptr, b_ptr, c_ptr, M, N, K, stride_am, stride_ak, stride_bk, stride_bn, stride_cm, stride_cn,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    pid = tl.program_id(0)
    n_m, n_n = tl.cdiv(M, BM), tl.cdiv(N, BN)
    first = pid // (GROUP * n_n) * GROUP
    size = min(n_m - first, GROUP)
    m = first + (pid % (GROUP * n_n)) % size
    n = pid % (GROUP * n_n) // size
    rows = (m * BM + tl.arange(0, BM)) % M
    columns = (n * BN + tl.arange(0, BN)) % N
    inner = tl.arange(0, BK)
    a_ptrs = a_ptr + rows[:, None] * stride_am + inner[None, :] * stride_ak
    b_ptrs = b_ptr + inner[:, None] * stride_bk + columns[None, :] * stride_bn
    sums = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(tl.cdiv(K, BK)):
        a = tl.load(a_ptrs, mask=inner[None, :] < K - k * BK, other=0.0)
        b = tl.load(b_ptrs, mask=inner[:, None] < K - k * BK, other=0.0)
        sums = tl.dot(a, b, sums)
        a_ptrs += BK * stride_ak
        b_ptrs += BK * stride_bk
    rows = m * BM + tl.arange(0, BM)
    columns = n * BN + tl.arange(0, BN)
    c_ptrs = c_ptr + stride_cm * rows[:, None] + stride_cn * columns[None, :]
    mask = (rows[:, None] < M) & (columns[None, :] < N)
    tl.store(c_ptrs, sums.to(c_ptr.dtype.element_ty), mask=mask)


@triton.jit
def described(
    a_ptr, b_ptr, c_ptr, M, N, K, P: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    """A product by P persistent programs, whose tiles tensor descriptors describe."""
    a = tl.make_tensor_descriptor(a_ptr, [M, K], [K, 1], [BM, BK])
    b = tl.make_tensor_descriptor(b_ptr, [N, K], [K, 1], [BN, BK])
    c = tl.make_tensor_descriptor(c_ptr, [M, N], [N, 1], [BM, BN])
    across = tl.cdiv(N, BN)
    for tile in tl.range(tl.program_id(0), tl.cdiv(M, BM) * across, P, flatten=True):
        row, column = tile // across * BM, tile % across * BN
        sums = tl.zeros((BM, BN), tl.float32)
        for k in tl.range(0, K, BK, num_stages=3):
            sums = tl.dot(a.load([row, k]), b.load([column, k]).T, sums)
        c.store([row, column], sums.to(tl.float16))


@triton.heuristics({"EVEN": lambda arguments: arguments["n"] % arguments["BLOCK"] == 0})
@triton.jit
def dropout(x_ptr, out_ptr, n, p, seed, BLOCK: tl.constexpr, EVEN: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets) if EVEN else tl.load(x_ptr + offsets, mask=offsets < n)
    kept = tl.rand(seed, offsets) > p
    tl.store(out_ptr + offsets, tl.where(kept, x / (1 - p), 0.0), mask=offsets < n)


@triton.jit
def layer_norm(x_ptr, y_ptr, w_ptr, b_ptr, mean_ptr, rstd_ptr, stride, n, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    x_ptr += row * stride
    y_ptr += row * stride
    total = tl.zeros([BLOCK], dtype=tl.float32)
    for start in range(0, n, BLOCK):
        columns = start + tl.arange(0, BLOCK)
        total += tl.load(x_ptr + columns, mask=columns < n, other=0.0).to(tl.float32)
    mean = tl.sum(total, axis=0) / n
    squares = tl.zeros([BLOCK], dtype=tl.float32)
    for start in range(0, n, BLOCK):
        columns = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + columns, mask=columns < n, other=0.0).to(tl.float32)
        x = tl.where(columns < n, x - mean, 0.0)
        squares += x * x
    rstd = 1 / tl.sqrt(tl.sum(squares, axis=0) / n + eps)
    tl.store(mean_ptr + row, mean)
    tl.store(rstd_ptr + row, rstd)
    for start in range(0, n, BLOCK):
        columns = start + tl.arange(0, BLOCK)
        mask = columns < n
        w = tl.load(w_ptr + columns, mask=mask)
        b = tl.load(b_ptr + columns, mask=mask)
        x = tl.load(x_ptr + columns, mask=mask, other=0.0).to(tl.float32)
        tl.store(y_ptr + columns, (x - mean) * rstd * w + b, mask=mask)


@triton.jit
def attention(
    q_ptr, k_ptr, v_ptr, out_ptr, stride_z, stride_m, n, scale,
    BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr,
):  # fmt: skip
    base = tl.program_id(1) * stride_z
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns = tl.arange(0, BN)
    d = tl.arange(0, D)
    q = tl.load(q_ptr + base + rows[:, None] * stride_m + d[None, :])
    most = tl.full([BM], -float("inf"), tl.float32)
    total = tl.full([BM], 1.0, tl.float32)
    sums = tl.zeros([BM, D], dtype=tl.float32)
    scale *= 1.44269504
    for start in range(0, n, BN):
        k = tl.load(k_ptr + base + (start + columns)[None, :] * stride_m + d[:, None])
        scores = tl.dot(q, k)
        larger = tl.maximum(most, tl.max(scores, 1) * scale)
        p = tl.math.exp2(scores * scale - larger[:, None])
        shrink = tl.math.exp2(most - larger)
        total = total * shrink + tl.sum(p, 1)
        sums = sums * shrink[:, None]
        v = tl.load(v_ptr + base + (start + columns)[:, None] * stride_m + d[None, :])
        sums = tl.dot(p.to(v.dtype), v, sums)
        most = larger
    sums = sums / total[:, None]
    place = out_ptr + base + rows[:, None] * stride_m + d[None, :]
    tl.store(place, sums.to(out_ptr.dtype.element_ty))


@triton.jit
def gather(index_ptr, table_ptr, out_ptr, n, D: tl.constexpr, BLOCK: tl.constexpr):
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    columns = tl.arange(0, D)
    index = tl.load(index_ptr + rows, mask=rows < n, other=0)
    mask = (rows < n)[:, None]
    value = tl.load(table_ptr + index[:, None] * D + columns[None, :], mask=mask)
    tl.store(out_ptr + rows[:, None] * D + columns[None, :], value, mask=mask)


@triton.jit
def histogram(x_ptr, bins_ptr, BINS: tl.constexpr, BLOCK: tl.constexpr):
    x = tl.load(x_ptr + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK))
    tl.atomic_add(bins_ptr + tl.arange(0, BINS), tl.histogram(x, BINS))


@triton.jit
def transpose(x_ptr, y_ptr, M, N, BM: tl.constexpr, BN: tl.constexpr):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns = tl.program_id(1) * BN + tl.arange(0, BN)
    x = tl.load(x_ptr + rows[:, None] * N + columns[None, :])
    tl.store(y_ptr + columns[:, None] * M + rows[None, :], tl.trans(x))


@triton.jit
def running_sum(x_ptr, y_ptr, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + offsets, tl.cumsum(tl.load(x_ptr + offsets), 0))


@triton.jit
def eight(
    a_ptr, b_ptr, c_ptr, N, K,
    FORM: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    """A product of floats of 8 bits. The rows of both factors lie along the depth."""
    if FORM == "e4m3":
        number: tl.constexpr = tl.float8e4nv
    elif FORM == "e4m3fnuz":
        number: tl.constexpr = tl.float8e4b8
    else:
        number: tl.constexpr = tl.float8e5
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns = tl.program_id(1) * BN + tl.arange(0, BN)
    inner = tl.arange(0, BK)
    sums = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        a = tl.load(a_ptr + rows[:, None] * K + k + inner[None, :])
        b = tl.load(b_ptr + columns[None, :] * K + k + inner[:, None])
        sums = tl.dot(a.to(number, bitcast=True), b.to(number, bitcast=True), sums)
    tl.store(c_ptr + rows[:, None] * N + columns[None, :], sums)


@triton.jit
def scaled(
    a_ptr, a_scale_ptr, b_ptr, b_scale_ptr, c_ptr, N, K,
    FORM: tl.constexpr, PACK: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    """A product whose factors have PACK numbers in a byte, and a scale, a power of two, for each 32 numbers of a row."""
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns = tl.program_id(1) * BN + tl.arange(0, BN)
    inner, blocks = tl.arange(0, BK // PACK), tl.arange(0, BK // 32)
    sums = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        a = tl.load(a_ptr + rows[:, None] * (K // PACK) + k // PACK + inner[None, :])
        b = tl.load(b_ptr + columns[None, :] * (K // PACK) + k // PACK + inner[:, None])
        a_scale = tl.load(a_scale_ptr + rows[:, None] * (K // 32) + k // 32 + blocks[None, :])
        b_scale = tl.load(b_scale_ptr + columns[:, None] * (K // 32) + k // 32 + blocks[None, :])
        sums = tl.dot_scaled(a, a_scale, FORM, b, b_scale, FORM, sums)
    tl.store(c_ptr + rows[:, None] * N + columns[None, :], sums)


@triton.jit
def grouped(
    a_ptr, b_ptr, c_ptr, begins_ptr, sizes_ptr, count,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    """Products of several sizes, whose matrices lie one behind the other in three arrays. The programs take the tiles of all products in turn."""
    mine = tl.program_id(0)
    before = 0
    for product in range(count):
        m = tl.load(sizes_ptr + 3 * product)
        n = tl.load(sizes_ptr + 3 * product + 1)
        depth = tl.load(sizes_ptr + 3 * product + 2)
        a = a_ptr + tl.load(begins_ptr + 3 * product)
        b = b_ptr + tl.load(begins_ptr + 3 * product + 1)
        c = c_ptr + tl.load(begins_ptr + 3 * product + 2)
        across = tl.cdiv(n, BN)
        behind = before + tl.cdiv(m, BM) * across
        while mine < behind:
            rows = (mine - before) // across * BM + tl.arange(0, BM)
            columns = (mine - before) % across * BN + tl.arange(0, BN)
            in_m, in_n = rows[:, None] < m, columns[None, :] < n
            sums = tl.zeros((BM, BN), dtype=tl.float32)
            for k in range(0, depth, BK):
                inner = k + tl.arange(0, BK)
                a_mask, b_mask = in_m & (inner[None, :] < depth), (inner[:, None] < depth) & in_n
                x = tl.load(a + rows[:, None] * depth + inner[None, :], mask=a_mask, other=0.0)
                y = tl.load(b + inner[:, None] * n + columns[None, :], mask=b_mask, other=0.0)
                sums = tl.dot(x, y, sums)
            place = c + rows[:, None] * n + columns[None, :]
            tl.store(place, sums.to(c_ptr.dtype.element_ty), mask=in_m & in_n)
            mine += tl.num_programs(0)
        before = behind
