"""What a straight line of instructions does not show: exchanges between lanes, atomics, barriers, calls, jumps, windows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.support.compilers import needs_nvidia
from tests.support.sass_runs import TARGETS, compiled, executed, ptx_of
from tracegen.compiled.model import MachineCode
from tracegen.execution import operations as o
from tracegen.execution.code import INSTRUCTION_BITS, NO_SLOT
from tracegen.machine_code.sass_lower import lower

pytestmark = [
    needs_nvidia,
    pytest.mark.weekly(2),
]  # each of these tests takes half of its targets each week

T = "unsigned t = threadIdx.x;"
KERNELS = {
    "lanes": """
        unsigned a = in[t], m = __activemask(); int all;
        out[t] = __shfl_sync(~0u, a, t ^ 5, 8);
        out[t + 32] = __match_any_sync(~0u, a & 3);
        out[t + 64] = __match_all_sync(~0u, a & 0, &all) + all;
        if (a & 1) out[t + 96] = __ballot_sync(m & __ballot_sync(__activemask(), 1), a & 2);
        else out[t + 96] = __popc(__activemask());
        __syncwarp();
        out[t + 128] = __any_sync(~0u, a == 0) + 2 * __all_sync(~0u, a != 0);""",
    "atomics": """
        __shared__ unsigned s[64]; s[t] = s[t + 32] = 0; __syncthreads();
        out[t] = atomicAdd(&s[in[t] & 7], 3u);
        atomicMax(&s[8], in[t]); atomicMin((int *)&s[9], -(int)t);
        out[t + 32] = atomicCAS(&s[10], 0u, t + 1); out[t + 64] = atomicInc(&s[11], 5u);
        atomicAdd((float *)&s[12], 1.5f); atomicAdd((double *)&s[14], 0.5);
        atomicAdd((unsigned long long *)&s[16], (unsigned long long)t << 31);
        __syncthreads(); out[t + 96] = s[t];
        out[t + 128] = atomicAdd(out + 200, 2u); atomicAdd((float *)out + 201, 0.5f);
        atomicMax((long long *)(out + 202), (long long)t << 40); atomicExch(out + 204, 7u);""",
    "barriers": """
        out[t] = __syncthreads_count(in[t] & 1); out[t + 64] = __syncthreads_and(in[t] | 1);
        out[t + 128] = __syncthreads_or(in[t] == 1u << 31); __shared__ unsigned s[64];
        if (t < 32) { s[t] = in[t]; asm volatile("bar.arrive 2, 64;"); out[t + 192] = 0; }
        else { asm volatile("bar.sync 2, 64;"); out[t + 192] = s[t - 32]; }""",
    "table": """
        unsigned r = in[t];
        switch (in[t + 32] & 7) {
          case 0: r += 1; break;  case 1: r *= 3; break;  case 2: r ^= 77; break;  case 3: r = r / 7; break;
          case 4: r = __popc(r); break;  case 5: r = r << 3; break;  case 6: r -= 9; break;  default: r = ~r; }
        out[t] = r;
        while (true) { if (r & 1) break; if (r == 0) return; r >>= 1; if ((r & 255) == 64) { out[t + 32] = 7; return; } }
        out[t + 32] = r;""",
    "recursion": "out[t] = fibonacci(in[t] & 7);",
    "windows": """
        __shared__ unsigned s[32]; unsigned own[4]; s[t] = in[t];
        for (int k = 0; k < 4; k++) own[k] = in[t] + k;
        __syncthreads();
        const unsigned *p = in[t] & 1 ? s + (in[t] >> 8 & 31) : in[t] & 2 ? own + (in[t] >> 8 & 3) : in + (in[t] >> 8 & 31);
        out[t] = *p;
        unsigned *q = in[t] & 4 ? s + t : out + 32 + t; *q = 5; out[t + 64] = atomicAdd(q, 3u); out[t + 96] = *q;""",
    "narrow": """
        ((unsigned short *)out)[t] = ((const unsigned short *)in)[t] + 1;
        ((short *)(out + 32))[t] = ((const short *)in)[t] / 3;
        ((signed char *)(out + 64))[t] = ((const signed char *)in)[t] / 3;
        ((uint4 *)(out + 96))[t] = ((const uint4 *)in)[t]; ((uint2 *)(out + 224))[t] = ((const uint2 *)in)[t];""",
    "variables": "out[t] = table[in[t] & 3] + fixed[in[t] >> 2 & 3] + fixed[2]; table[in[t] & 3] = 9;",
    "copies": """
        __shared__ __align__(16) unsigned s[256];
        unsigned d = (unsigned)__cvta_generic_to_shared(s + 4 * t), r[6];
        for (int k = 0; k < 2; k++) {
          asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"(d + 512 * k), "l"(in + 128 * k + 4 * t));
          asm volatile("cp.async.commit_group;");
        }
        asm volatile("cp.async.wait_group 1;"); asm volatile("cp.async.wait_group 0;"); __syncthreads();
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
          : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(d));
        asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0,%1}, [%2];" : "=r"(r[4]), "=r"(r[5]) : "r"(d + 512));
        for (int k = 0; k < 6; k++) out[32 * k + t] = r[k];
        asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" :: "r"(d), "l"(in + t), "r"(t & 1 ? 4 : 0));
        asm volatile("cp.async.wait_all;"); out[192 + t] = s[4 * t];""",
    "stored": """
        __shared__ __align__(16) unsigned s[128];
        unsigned d = (unsigned)__cvta_generic_to_shared(s + 4 * (t & 15));
        asm volatile("stmatrix.sync.aligned.m8n8.x2.shared.b16 [%0], {%1, %2};" :: "r"(d), "r"(in[t]), "r"(in[t + 32]));
        asm volatile("stmatrix.sync.aligned.m8n8.x2.trans.shared.b16 [%0], {%1, %2};" :: "r"(d + 256), "r"(in[t]), "r"(in[t + 32]));
        __syncthreads(); for (int k = 0; k < 4; k++) out[32 * k + t] = s[32 * k + t];""",
    "wide": """
        asm volatile("{.reg .b32 a<8>; ld.global.v8.b32 {a0,a1,a2,a3,a4,a5,a6,a7}, [%0];"
          "st.global.v8.b32 [%1], {a7,a6,a5,a4,a3,a2,a1,a0};}" :: "l"(in + 8 * t), "l"(out + 8 * t));""",
}
SINCE = {"copies": 80, "stored": 90, "wide": 100}
"""The first targets that have what some of these use."""
DECLARED = """
__device__ unsigned table[4] = {3, 5, 7, 9}; __constant__ unsigned fixed[4] = {1, 20, 300, 4000};
__device__ __noinline__ unsigned fibonacci(unsigned n) { return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2); }
"""


def sources() -> Any:
    values = np.random.default_rng(3).integers(0, 1 << 32, 256, dtype=np.uint32)
    values[:32:5] &= 15
    return values


@pytest.fixture(scope="module", params=TARGETS)
def codes(request: pytest.FixtureRequest) -> dict[str, MachineCode]:
    target = request.param
    names = [name for name in KERNELS if SINCE.get(name, 0) <= int(target[3:])]
    text = DECLARED + "".join(
        f'extern "C" __global__ void k_{name}(const unsigned *in, unsigned *out) {{ {T} {KERNELS[name]} }}\n'
        for name in names
    )
    ptx = ptx_of(text, oldest=f"compute_{target[3:]}")
    return compiled(ptx, target, [f"k_{name}" for name in names])


def run(codes: dict[str, MachineCode], name: str, block: int = 32) -> Any:
    arrays = {"in": sources(), "out": np.zeros(512, np.uint32)}
    return executed(codes[f"k_{name}"], arrays, ["in", "out"], block=block)["out"]


def bits(chosen: Any) -> int:
    return sum(1 << int(k) for k in np.flatnonzero(chosen))


def test_kernels(codes: dict[str, MachineCode]) -> None:
    a, lane = sources()[:32], np.arange(32)
    lanes = run(codes, "lanes")
    assert np.array_equal(lanes[:32], a[lane & ~7 | (lane ^ 5) & 7])
    assert [int(x) for x in lanes[32:64]] == [bits(a & 3 == one & 3) for one in a]
    assert set(lanes[64:96].tolist()) == {0}  # all lanes, 2^32 - 1, and 1
    odd = a & 1 == 1
    wanted = np.where(odd, bits(odd & (a & 2 == 2)), np.sum(~odd))
    assert np.array_equal(lanes[96:128], wanted)
    assert set(lanes[128:160].tolist()) == {int((a == 0).any()) + 2 * int((a != 0).all())}

    whole = sources()
    narrow = run(codes, "narrow")
    assert np.array_equal(narrow.view(np.uint16)[:32], whole.view(np.uint16)[:32] + 1)
    thirds = np.trunc(whole.view(np.int16)[:32] / 3).astype(np.int16)
    assert np.array_equal(narrow[32:].view(np.int16)[:32], thirds)
    thirds = np.trunc(whole.view(np.int8)[:32] / 3).astype(np.int8)
    assert np.array_equal(narrow[64:].view(np.int8)[:32], thirds)
    assert np.array_equal(narrow[96:224], whole[:128])
    assert np.array_equal(narrow[224:288], whole[:64])

    variables = run(codes, "variables")
    table, fixed = np.array([3, 5, 7, 9]), np.array([1, 20, 300, 4000])
    assert np.array_equal(variables[:32], table[a & 3] + fixed[a >> 2 & 3] + 300)
    fibonacci = np.array([0, 1, 1, 2, 3, 5, 8, 13])
    assert np.array_equal(run(codes, "recursion")[:32], fibonacci[a & 7])


def test_atomics(codes: dict[str, MachineCode]) -> None:
    """Lanes may come in any order, but as if one after another."""
    a, out = sources()[:32], run(codes, "atomics")
    for bin_ in range(8):
        olds = np.sort(out[:32][a & 7 == bin_])
        assert np.array_equal(olds, 3 * np.arange(len(olds)))
        assert out[96 + bin_] == 3 * len(olds)
    assert out[96 + 8] == a.max()
    assert out[96 + 9].view(np.int32) == -31
    first = np.flatnonzero(out[32:64] == 0)
    assert len(first) == 1
    assert out[96 + 10] == first[0] + 1
    assert np.array_equal(np.sort(out[64:96]), np.sort(np.arange(32) % 6))
    assert out[96 + 12 : 96 + 13].view(np.float32)[0] == 48.0
    assert out[96 + 14 : 96 + 16].view(np.float64)[0] == 16.0
    assert out[96 + 16 : 96 + 18].view(np.uint64)[0] == sum(range(32)) << 31
    assert np.array_equal(np.sort(out[128:160]), 2 * np.arange(32))
    assert out[201:202].view(np.float32)[0] == 16.0
    assert out[202:204].view(np.uint64)[0] == 31 << 40
    assert out[204] == 7


def test_barriers_and_jumps(codes: dict[str, MachineCode]) -> None:
    whole = sources()
    out = run(codes, "barriers", 64)
    assert set(out[:64].tolist()) == {int(np.sum(whole[:64] & 1))}
    assert set(out[64:128].tolist()) == {1}
    assert set(out[128:192].tolist()) == {int((whole[:64] == 1 << 31).any())}
    assert np.array_equal(out[224:256], whole[:32])

    out = run(codes, "table")
    for lane in range(32):
        r = int(whole[lane])
        r = (*(r + 1, r * 3, r ^ 77, r // 7, r.bit_count(), r << 3, r - 9, ~r),)[
            whole[lane + 32] & 7
        ] & 0xFFFFFFFF
        assert out[lane] == r
        while r and not r & 1:
            r >>= 1
            if r & 255 == 64:
                r = 7
        assert out[lane + 32] == r


def test_windows(codes: dict[str, MachineCode]) -> None:
    """Generic addresses of shared, private and global memory in one instruction."""
    a, out = sources()[:32], run(codes, "windows")
    for lane in range(32):
        x = int(a[lane])
        at = x >> 8
        wanted = a[at & 31] if x & 1 or not x & 2 else (x + (at & 3)) & 0xFFFFFFFF
        assert out[lane] == wanted
    assert set(out[64:96].tolist()) == {5}
    assert set(out[96:128].tolist()) == {8}


@pytest.mark.parametrize("codes", ["sm_80", "sm_90", "sm_120"], indirect=True)
def test_copies_and_matrices(codes: dict[str, MachineCode]) -> None:
    """Lane l gets elements 2 (l modulo 4) and the next of row l / 4 of each matrix of 8 x 8 halves, or of its column."""
    out, a = run(codes, "copies"), sources().view(np.uint16)
    for k in range(4):
        rows = a[64 * k : 64 * (k + 1)]
        assert np.array_equal(out[32 * k : 32 * (k + 1)].view(np.uint16), rows)
    for k in range(2):
        matrix = a[256 + 64 * k : 256 + 64 * (k + 1)].reshape(8, 8)
        wanted = np.ascontiguousarray(matrix.T).ravel()
        assert np.array_equal(out[32 * (k + 4) : 32 * (k + 5)].view(np.uint16), wanted)
    lane = np.arange(32)
    assert np.array_equal(out[192:224], np.where(lane % 2, sources()[:32], 0))


@pytest.mark.parametrize("codes", ["sm_90", "sm_120"], indirect=True)
def test_stored_matrices(codes: dict[str, MachineCode]) -> None:
    out, a = run(codes, "stored"), sources()[:64]
    assert np.array_equal(out[:64], a)
    transposed = a.view(np.uint16).reshape(2, 8, 8).transpose(0, 2, 1)
    assert np.array_equal(out[64:128].view(np.uint16), transposed.ravel())


@pytest.mark.parametrize("codes", ["sm_100"], indirect=True)
def test_loads_of_32_bytes(codes: dict[str, MachineCode]) -> None:
    out = run(codes, "wide")
    assert np.array_equal(out[:256].reshape(32, 8), sources().reshape(32, 8)[:, ::-1])


def test_results_are_waited_for(codes: dict[str, MachineCode]) -> None:
    """Each load of global memory names a scoreboard, and what needs its result waits for it."""
    code = lower(codes["k_variables"])
    names = list(o.OPERATIONS)
    pending: dict[int, int] = {}
    used = 0
    for row in code.table.tolist():
        one = o.MicroOperation(*row)
        name, slot = names[one.op], one.z >> INSTRUCTION_BITS
        if name == "WAIT_SLOTS":
            pending = {d: s for d, s in pending.items() if not one.y >> s & 1}
        read = {getattr(one, field) for field in o.OPERATIONS[name].rows_read}
        assert not read & pending.keys(), (name, one)
        if name == "LOAD" and one.x & 7 == o.GLOBAL:
            assert slot != NO_SLOT
            pending[one.d] = slot
            used += 1
    assert used >= 2
