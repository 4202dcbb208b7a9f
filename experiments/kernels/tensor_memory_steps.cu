// The usual steps by which a product of bfloat16 matrices with sums in tensor memory is made fast: c = a b', sums in single precision.
#include <cuda.h>
#include <cuda_bf16.h>

constexpr int ROWS = 128;

__device__ __forceinline__ unsigned local(const void *p) { return (unsigned)__cvta_generic_to_shared(p); }

__device__ __forceinline__ bool is_chosen()
{
  unsigned chosen;
  asm volatile("{ .reg .pred p; elect.sync _|p, 0xffffffff; selp.u32 %0, 1, 0, p; }" : "=r"(chosen));
  return chosen;
}

__device__ __forceinline__ void wait(unsigned barrier, int phase)
{
  asm volatile("{ .reg .pred p; AGAIN: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1; @!p bra AGAIN; }" ::"r"(barrier), "r"(phase) : "memory");
}

__device__ __forceinline__ void copy(unsigned to, const CUtensorMap *map, int x, int y, unsigned barrier)
{
  asm volatile("cp.async.bulk.tensor.2d.shared::cta.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::"r"(to), "l"(map), "r"(x),
               "r"(y), "r"(barrier) : "memory");
}

__device__ __forceinline__ void copy(unsigned to, const CUtensorMap *map, int x, int y, int z, unsigned barrier)
{
  asm volatile("cp.async.bulk.tensor.3d.shared::cta.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4}], [%5];" ::"r"(to), "l"(map),
               "r"(x), "r"(y), "r"(z), "r"(barrier) : "memory");
}

__device__ __forceinline__ void commit(unsigned barrier)
{
  asm volatile("tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%0];" ::"r"(barrier) : "memory");
}

// Where a tile of `rows` rows lies, whose parts have rows of 128 bytes, with pieces exchanged, or of 16 bytes.
template <bool WIDE> __device__ __forceinline__ unsigned long long described(unsigned at, int rows)
{
  const unsigned long long low = at >> 4 | (WIDE ? 0 : rows << 16);
  return low | (WIDE ? 64ull : 8ull) << 32 | 1ull << 46 | (WIDE ? 2ull << 61 : 0);
}

// A block of four warps computes ROWS x COLUMNS of c, DEPTH of the sum at a time, of which STAGES slabs are on their way. A tile is brought
// as a WHOLE, or part by part; where its parts are WIDE, they have 64 columns, else 8. Where warps work APART, one of them only
// copies and another one only multiplies.
template <int COLUMNS, int DEPTH, int STAGES, bool WIDE, bool WHOLE, bool APART>
__global__ void __launch_bounds__(128)
    product(const __grid_constant__ CUtensorMap a, const __grid_constant__ CUtensorMap b, __nv_bfloat16 *c, int n, int depth)
{
  constexpr int PART = WIDE ? 64 : 8, A = ROWS * DEPTH * 2, B = COLUMNS * DEPTH * 2;
  constexpr unsigned KIND = 1 << 4 | 1 << 7 | 1 << 10 | COLUMNS / 8 << 17 | ROWS / 16 << 24;
  extern __shared__ __align__(1024) char tiles[];
  __shared__ unsigned long long barriers[2 * STAGES + 1];
  __shared__ unsigned columns;
  const int warp = threadIdx.x / 32, across = n / COLUMNS;
  const int row = blockIdx.x / across * ROWS, column = blockIdx.x % across * COLUMNS;
  const unsigned came = local(barriers), done = came + 8 * STAGES, end = done + 8 * STAGES;
  if (warp == 0 && is_chosen()) {
    for (int k = 0; k < 2 * STAGES + 1; k++)
      asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(came + 8 * k));
    asm volatile("fence.mbarrier_init.release.cluster;");
  } else if (warp == 1)
    asm volatile("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%0], %1;" ::"r"(local(&columns)), "r"(COLUMNS));
  __syncthreads();
  const unsigned sums = columns;
  const int slabs = depth / DEPTH;

  auto fetch = [&](int slab) {
    const unsigned barrier = came + slab % STAGES * 8, to = local(tiles) + slab % STAGES * (A + B);
    if (WHOLE) {
      copy(to, &a, 0, row, slab * DEPTH / PART, barrier);
      copy(to + A, &b, 0, column, slab * DEPTH / PART, barrier);
    } else
      for (int k = 0; k < DEPTH; k += PART) {
        copy(to + k * ROWS * 2, &a, slab * DEPTH + k, row, barrier);
        copy(to + A + k * COLUMNS * 2, &b, slab * DEPTH + k, column, barrier);
      }
    asm volatile("mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(A + B) : "memory");
  };
  auto multiply = [&](int slab) {
    const unsigned from = local(tiles) + slab % STAGES * (A + B);
#pragma unroll
    for (int k = 0; k < DEPTH; k += 16) {
      const int part = k / PART * PART, within = WIDE ? k % PART * 2 : 0;
      asm volatile("{ .reg .pred p; setp.ne.b32 p, %4, 0; tcgen05.mma.cta_group::1.kind::f16 [%0], %1, %2, %3, p; }" ::"r"(sums),
                   "l"(described<WIDE>(from + part * ROWS * 2 + within, ROWS)),
                   "l"(described<WIDE>(from + A + part * COLUMNS * 2 + within, COLUMNS)), "r"(KIND), "r"(slab + k));
    }
  };

  if (APART) {
    int phase = 0;
    if (warp == 0 && is_chosen())
      for (int slab = 0; slab < slabs; slab++) {
        wait(done + slab % STAGES * 8, phase ^ 1);
        phase ^= slab % STAGES == STAGES - 1;
        fetch(slab);
      }
    else if (warp == 1 && is_chosen()) {
      for (int slab = 0; slab < slabs; slab++) {
        wait(came + slab % STAGES * 8, phase);
        phase ^= slab % STAGES == STAGES - 1;
        asm volatile("tcgen05.fence::after_thread_sync;");
        multiply(slab);
        commit(done + slab % STAGES * 8);
      }
      commit(end);
    }
    __syncthreads();
    wait(end, 0);
  } else {
    for (int slab = 0; slab < STAGES - 1; slab++)
      if (warp == 0 && is_chosen())
        fetch(slab);
    int phase = 0, multiplied = 0;
    for (int slab = 0; slab < slabs; slab++) {
      if (slab + STAGES - 1 < slabs && warp == 0 && is_chosen())
        fetch(slab + STAGES - 1);
      wait(came + slab % STAGES * 8, phase);
      phase ^= slab % STAGES == STAGES - 1;
      asm volatile("tcgen05.fence::after_thread_sync;");
      if (warp == 0 && is_chosen()) {
        multiply(slab);
        commit(done);
      }
      wait(done, multiplied);
      multiplied ^= 1;
    }
  }
  asm volatile("tcgen05.fence::after_thread_sync;");
  for (int k = 0; k < COLUMNS; k += 8) {
    float sum[8];
    __nv_bfloat162 pairs[4];
    asm volatile("tcgen05.ld.sync.aligned.32x32b.x8.b32 {%0, %1, %2, %3, %4, %5, %6, %7}, [%8];"
                 : "=f"(sum[0]), "=f"(sum[1]), "=f"(sum[2]), "=f"(sum[3]), "=f"(sum[4]), "=f"(sum[5]), "=f"(sum[6]), "=f"(sum[7])
                 : "r"(sums + (warp * 32 << 16) + k));
    asm volatile("tcgen05.wait::ld.sync.aligned;");
    for (int i = 0; i < 4; i++)
      pairs[i] = __floats2bfloat162_rn(sum[2 * i], sum[2 * i + 1]);
    *(int4 *)&c[(size_t)(row + threadIdx.x) * n + column + k] = *(int4 *)pairs;
  }
  __syncthreads();
  if (warp == 0)
    asm volatile("tcgen05.dealloc.cta_group::1.sync.aligned.b32 %0, %1;" ::"r"(sums), "r"(COLUMNS));
}
