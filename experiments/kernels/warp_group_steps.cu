// The usual steps by which a product of bfloat16 matrices is made fast with the products of warp groups on Hopper: c = a b', sums in single
// precision.
#include <cuda.h>
#include <cuda_bf16.h>

constexpr int GROUP = 128, DEPTH = 64, SWIZZLED = 1024;

__device__ __forceinline__ unsigned local(const void *p) { return (unsigned)__cvta_generic_to_shared(p); }

__device__ __forceinline__ void prepare(unsigned barrier, int count)
{
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(count));
}

__device__ __forceinline__ void arrive(unsigned barrier)
{
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

__device__ __forceinline__ void wait(unsigned barrier, int phase)
{
  asm volatile("{ .reg .pred p; AGAIN: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1; @!p bra AGAIN; }" ::"r"(barrier), "r"(phase) : "memory");
}

__device__ __forceinline__ void copy(unsigned to, const CUtensorMap *map, int x, int y, unsigned barrier)
{
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::"r"(to), "l"(map), "r"(x),
               "r"(y), "r"(barrier) : "memory");
}

// Rows of 128 bytes, eight of which lie together with their pieces exchanged.
__device__ __forceinline__ unsigned long long described(unsigned at)
{
  return at >> 4 & 0x3fff | 1ull << 16 | (unsigned long long)(SWIZZLED >> 4) << 32 | 1ull << 62;
}

#define TEN(a) "%" #a "0, %" #a "1, %" #a "2, %" #a "3, %" #a "4, %" #a "5, %" #a "6, %" #a "7, %" #a "8, %" #a "9, "
#define FIFTY TEN() TEN(1) TEN(2) TEN(3) TEN(4)
#define SUM(k) "+f"(sum[k])
#define SUMS(k) SUM(k), SUM(k + 1), SUM(k + 2), SUM(k + 3), SUM(k + 4), SUM(k + 5), SUM(k + 6), SUM(k + 7)
#define SUMS32(k) SUMS(k), SUMS(k + 8), SUMS(k + 16), SUMS(k + 24)
#define MULTIPLY(shape, sums, a_at, b_at, one) \
  "{ .reg .pred p; setp.ne.b32 p, " one ", 0; wgmma.mma_async.sync.aligned." shape ".f32.bf16.bf16 {" sums "}, " a_at ", " b_at ", p, 1, 1, 0, 0; }"

template <int COLUMNS> __device__ __forceinline__ void multiply(float *sum, unsigned long long a, unsigned long long b)
{
  if constexpr (COLUMNS == 64)
    asm volatile(MULTIPLY("m64n64k16", TEN() TEN(1) TEN(2) "%30, %31", "%32", "%33", "%34") : SUMS32(0) : "l"(a), "l"(b), "n"(1));
  else if constexpr (COLUMNS == 128)
    asm volatile(MULTIPLY("m64n128k16", FIFTY TEN(5) "%60, %61, %62, %63", "%64", "%65", "%66") : SUMS32(0), SUMS32(32) : "l"(a), "l"(b), "n"(1));
  else
    asm volatile(MULTIPLY("m64n256k16", FIFTY TEN(5) TEN(6) TEN(7) TEN(8) TEN(9) TEN(10) TEN(11) "%120, %121, %122, %123, %124, %125, %126, %127",
                          "%128", "%129", "%130")
                 : SUMS32(0), SUMS32(32), SUMS32(64), SUMS32(96) : "l"(a), "l"(b), "n"(1));
}

// Begins the product of one slab: PARTS times 64 rows of a, and COLUMNS columns.
template <int PARTS, int COLUMNS> __device__ __forceinline__ void multiply(float (*sums)[COLUMNS / 2], unsigned a, unsigned b)
{
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
  for (int part = 0; part < PARTS; part++)
#pragma unroll
    for (int k = 0; k < DEPTH * 2; k += 32)
      multiply<COLUMNS>(sums[part], described(a + part * 64 * DEPTH * 2 + k), described(b + k));
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

template <int LEFT> __device__ __forceinline__ void finish() { asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(LEFT) : "memory"); }

template <int PARTS, int COLUMNS> __device__ __forceinline__ void store(float (*sums)[COLUMNS / 2], __nv_bfloat16 *c, int n)
{
  const int thread = threadIdx.x % GROUP, row = thread / 32 * 16 + thread % 32 / 4, column = thread % 4 * 2;
#pragma unroll
  for (int part = 0; part < PARTS; part++)
#pragma unroll
    for (int k = 0; k < COLUMNS / 8; k++)
#pragma unroll
      for (int half = 0; half < 2; half++)
        *(__nv_bfloat162 *)&c[(size_t)(part * 64 + row + half * 8) * n + column + k * 8] =
            __floats2bfloat162_rn(sums[part][k * 4 + half * 2], sums[part][k * 4 + half * 2 + 1]);
}

// Four warps multiply by mma.sync what has been copied, slab by slab, a quarter of the tile each.
template <int ROWS, int COLUMNS>
__global__ void __launch_bounds__(GROUP)
    by_warps(const __grid_constant__ CUtensorMap a, const __grid_constant__ CUtensorMap b, __nv_bfloat16 *c, int n, int depth)
{
  constexpr int A = ROWS * DEPTH * 2, B = COLUMNS * DEPTH * 2, M = ROWS / 32, N = COLUMNS / 16;
  extern __shared__ __align__(1024) char tiles[];
  __shared__ unsigned long long barrier;
  const int row = blockIdx.x / (n / COLUMNS) * ROWS, column = blockIdx.x % (n / COLUMNS) * COLUMNS;
  const int lane = threadIdx.x % 32, down = threadIdx.x / 64 * (ROWS / 2), right = threadIdx.x / 32 % 2 * (COLUMNS / 2);
  const unsigned came = local(&barrier), of_a = local(tiles), of_b = of_a + A;
  if (threadIdx.x == 0) {
    prepare(came, 1);
    asm volatile("fence.mbarrier_init.release.cluster;");
  }
  __syncthreads();
  auto load = [](unsigned *to, unsigned from, int row, int k) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3]) : "r"(from + row * DEPTH * 2 + (k * 2 ^ row % 8 * 16)));
  };
  float sums[M][N][4] = {};
  for (int slab = 0; slab < depth / DEPTH; slab++) {
    if (threadIdx.x == 0) {
      asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(came), "r"(A + B) : "memory");
      copy(of_a, &a, slab * DEPTH, row, came);
      copy(of_b, &b, slab * DEPTH, column, came);
      wait(came, slab & 1);
    }
    __syncthreads();
#pragma unroll
    for (int k = 0; k < DEPTH; k += 16) {
      unsigned left[M][4], above[N / 2][4];
#pragma unroll
      for (int i = 0; i < M; i++)
        load(left[i], of_a, down + i * 16 + lane % 16, k + lane / 16 * 8);
#pragma unroll
      for (int j = 0; j < N / 2; j++)
        load(above[j], of_b, right + j * 16 + lane / 16 * 8 + lane % 8, k + lane / 8 % 2 * 8);
#pragma unroll
      for (int i = 0; i < M; i++)
#pragma unroll
        for (int j = 0; j < N; j++)
          asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                       : "+f"(sums[i][j][0]), "+f"(sums[i][j][1]), "+f"(sums[i][j][2]), "+f"(sums[i][j][3])
                       : "r"(left[i][0]), "r"(left[i][1]), "r"(left[i][2]), "r"(left[i][3]), "r"(above[j / 2][j % 2 * 2]), "r"(above[j / 2][j % 2 * 2 + 1]));
    }
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < M; i++)
#pragma unroll
    for (int j = 0; j < N; j++)
#pragma unroll
      for (int half = 0; half < 2; half++)
        *(__nv_bfloat162 *)&c[(size_t)(row + down + i * 16 + lane / 4 + half * 8) * n + column + right + j * 8 + lane % 4 * 2] =
            __floats2bfloat162_rn(sums[i][j][half * 2], sums[i][j][half * 2 + 1]);
}

// One warp group copies and multiplies; STAGES slabs are in local memory or on their way.
template <int ROWS, int COLUMNS, int STAGES>
__global__ void __launch_bounds__(GROUP)
    together(const __grid_constant__ CUtensorMap a, const __grid_constant__ CUtensorMap b, __nv_bfloat16 *c, int n, int depth)
{
  constexpr int A = ROWS * DEPTH * 2, B = COLUMNS * DEPTH * 2;
  extern __shared__ __align__(1024) char tiles[];
  __shared__ unsigned long long barriers[STAGES];
  const int row = blockIdx.x / (n / COLUMNS) * ROWS, column = blockIdx.x % (n / COLUMNS) * COLUMNS, slabs = depth / DEPTH;
  const unsigned came = local(barriers);
  auto fetch = [&](int slab) {
    const unsigned to = local(tiles) + slab % STAGES * (A + B), barrier = came + slab % STAGES * 8;
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(A + B) : "memory");
    copy(to, &a, slab * DEPTH, row, barrier);
    copy(to + A, &b, slab * DEPTH, column, barrier);
  };
  if (threadIdx.x == 0) {
    for (int k = 0; k < STAGES; k++)
      prepare(came + 8 * k, 1);
    asm volatile("fence.mbarrier_init.release.cluster;");
    for (int slab = 0; slab < STAGES; slab++)
      fetch(slab);
  }
  __syncthreads();
  float sums[ROWS / 64][COLUMNS / 2] = {};
  int phase = 0;
  for (int slab = 0; slab < slabs; slab++) {
    const unsigned from = local(tiles) + slab % STAGES * (A + B);
    wait(came + slab % STAGES * 8, phase);
    phase ^= slab % STAGES == STAGES - 1;
    multiply<ROWS / 64, COLUMNS>(sums, from, from + A);
    finish<0>();
    __syncthreads();
    if (threadIdx.x == 0 && slab + STAGES < slabs)
      fetch(slab + STAGES);
  }
  store<ROWS / 64, COLUMNS>(sums, c + (size_t)row * n + column, n);
}

// A warp group, or one warp, copies; CONSUMERS groups multiply. Where a block STAYS it computes one tile after another, in squares of TALL x
// WIDE tiles. LEFT products go on while the next begins. EACH thread of a group says that it is done with a slab, or one for all.
template <int ROWS, int COLUMNS, int STAGES, int CONSUMERS, int PRODUCERS, bool STAYS, int LEFT, bool EACH, int TALL, int WIDE>
__global__ void __launch_bounds__(CONSUMERS *GROUP + PRODUCERS)
    apart(const __grid_constant__ CUtensorMap a, const __grid_constant__ CUtensorMap b, __nv_bfloat16 *c, int n, int depth)
{
  constexpr int A = ROWS * DEPTH * 2, B = COLUMNS * DEPTH * 2, PARTS = ROWS / 64 / CONSUMERS;
  extern __shared__ __align__(1024) char tiles[];
  __shared__ unsigned long long barriers[2 * STAGES];
  const int slabs = depth / DEPTH, across = n / COLUMNS, blocks = n / ROWS * across, group = threadIdx.x / GROUP;
  const unsigned came = local(barriers), done = came + 8 * STAGES;
  if (threadIdx.x == 0) {
    for (int k = 0; k < STAGES; k++) {
      prepare(came + 8 * k, 1);
      prepare(done + 8 * k, EACH ? CONSUMERS * GROUP : CONSUMERS);
    }
    asm volatile("fence.mbarrier_init.release.cluster;");
  }
  __syncthreads();
  auto row_of = [&](int tile) { return (tile / (TALL * WIDE) / (across / WIDE) * TALL + tile % (TALL * WIDE) / WIDE) * ROWS; };
  auto column_of = [&](int tile) { return (tile / (TALL * WIDE) % (across / WIDE) * WIDE + tile % WIDE) * COLUMNS; };
  const int last = STAYS ? blocks : blockIdx.x + 1;
  int stage = 0, phase = 0;
  auto next = [&]() {
    if (++stage == STAGES) {
      stage = 0;
      phase ^= 1;
    }
  };
  if (group == CONSUMERS) {
    if constexpr (CONSUMERS > 1 && PRODUCERS == GROUP)
      asm volatile("setmaxnreg.dec.sync.aligned.u32 24;");
    if (threadIdx.x == CONSUMERS * GROUP)
      for (int tile = blockIdx.x; tile < last; tile += gridDim.x)
        for (int slab = 0; slab < slabs; slab++, next()) {
          const unsigned to = local(tiles) + stage * (A + B), barrier = came + stage * 8;
          wait(done + stage * 8, phase ^ 1);
          asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(A + B) : "memory");
          copy(to, &a, slab * DEPTH, row_of(tile), barrier);
          copy(to + A, &b, slab * DEPTH, column_of(tile), barrier);
        }
  } else {
    if constexpr (CONSUMERS > 1 && PRODUCERS == GROUP)
      asm volatile("setmaxnreg.inc.sync.aligned.u32 240;");
    auto release = [&](int which) {
      if (EACH || threadIdx.x % GROUP == 0)
        arrive(done + which * 8);
    };
    for (int tile = blockIdx.x; tile < last; tile += gridDim.x) {
      float sums[PARTS][COLUMNS / 2] = {};
      for (int slab = 0; slab < slabs; slab++, next()) {
        const unsigned from = local(tiles) + stage * (A + B);
        wait(came + stage * 8, phase);
        multiply<PARTS, COLUMNS>(sums, from + group * PARTS * 64 * DEPTH * 2, from + A);
        finish<LEFT>();
        if (LEFT == 0)
          release(stage);
        else if (slab)
          release((stage + STAGES - 1) % STAGES);
      }
      if (LEFT) {
        finish<0>();
        release((stage + STAGES - 1) % STAGES);
      }
      store<PARTS, COLUMNS>(sums, c + (size_t)(row_of(tile) + group * PARTS * 64) * n + column_of(tile), n);
    }
  }
}

__device__ __forceinline__ unsigned rank_in_pair()
{
  unsigned rank;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}

__device__ __forceinline__ void meet_pair()
{
  asm volatile("barrier.cluster.arrive.aligned;" ::: "memory");
  asm volatile("barrier.cluster.wait.aligned;" ::: "memory");
}

// As `apart` where blocks stay, but two blocks run as a pair: they compute tiles that have the same columns, which the first one copies for
// both, and each tile is stored as a whole by the copying unit, with its rows of c along the first axis.
template <int ROWS, int COLUMNS, int STAGES, int CONSUMERS, int TALL, int WIDE>
__global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(CONSUMERS *GROUP + GROUP)
    paired(const __grid_constant__ CUtensorMap a, const __grid_constant__ CUtensorMap b, const __grid_constant__ CUtensorMap c, int n, int depth)
{
  constexpr int A = ROWS * DEPTH * 2, B = COLUMNS * DEPTH * 2, PARTS = ROWS / 64 / CONSUMERS;
  extern __shared__ __align__(1024) char tiles[];
  __shared__ unsigned long long barriers[2 * STAGES];
  const int slabs = depth / DEPTH, across = n / COLUMNS, pairs = n / ROWS / 2 * across, group = threadIdx.x / GROUP, rank = rank_in_pair();
  const unsigned came = local(barriers), done = came + 8 * STAGES, out = local(tiles) + STAGES * (A + B);
  if (threadIdx.x == 0) {
    for (int k = 0; k < STAGES; k++) {
      prepare(came + 8 * k, 1);
      prepare(done + 8 * k, 2 * CONSUMERS);
    }
    asm volatile("fence.mbarrier_init.release.cluster;");
  }
  meet_pair();
  auto row_of = [&](int pair) { return ((pair / (TALL * WIDE) / (across / WIDE) * TALL + pair % (TALL * WIDE) / WIDE) * 2 + rank) * ROWS; };
  auto column_of = [&](int pair) { return (pair / (TALL * WIDE) % (across / WIDE) * WIDE + pair % WIDE) * COLUMNS; };
  int stage = 0, phase = 0;
  auto next = [&]() {
    if (++stage == STAGES) {
      stage = 0;
      phase ^= 1;
    }
  };
  if (group == CONSUMERS) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 24;");
    if (threadIdx.x == CONSUMERS * GROUP)
      for (int pair = blockIdx.x / 2; pair < pairs; pair += gridDim.x / 2)
        for (int slab = 0; slab < slabs; slab++, next()) {
          const unsigned to = local(tiles) + stage * (A + B), barrier = came + stage * 8;
          wait(done + stage * 8, phase ^ 1);
          asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(A + B) : "memory");
          copy(to, &a, slab * DEPTH, row_of(pair), barrier);
          if (rank == 0)
            asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, {%2, %3}], [%4], %5;" ::
                           "r"(to + A), "l"(&b), "r"(slab * DEPTH), "r"(column_of(pair)), "r"(barrier), "h"((unsigned short)3) : "memory");
        }
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 240;");
    for (int pair = blockIdx.x / 2; pair < pairs; pair += gridDim.x / 2) {
      float sums[PARTS][COLUMNS / 2] = {};
      for (int slab = 0; slab < slabs; slab++, next()) {
        const unsigned from = local(tiles) + stage * (A + B);
        wait(came + stage * 8, phase);
        multiply<PARTS, COLUMNS>(sums, from + group * PARTS * 64 * DEPTH * 2, from + A);
        finish<0>();
        if (threadIdx.x % GROUP < 2) {
          unsigned there;
          asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(done + stage * 8), "r"(threadIdx.x % GROUP));
          asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(there) : "memory");
        }
      }
      asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
      asm volatile("bar.sync 1, %0;" ::"n"(CONSUMERS * GROUP) : "memory");
      const int thread = threadIdx.x % GROUP, row = group * PARTS * 64 + thread / 32 * 16 + thread % 32 / 4, column = thread % 4 * 2;
#pragma unroll
      for (int part = 0; part < PARTS; part++)
#pragma unroll
        for (int k = 0; k < COLUMNS / 8; k++)
#pragma unroll
          for (int half = 0; half < 2; half++) {
            const unsigned at = out + (column + k * 8) * ROWS * 2 + (row + part * 64 + half * 8) * 2;
            asm volatile("st.shared.u16 [%0], %1;" ::"r"(at), "h"(__bfloat16_as_ushort(__float2bfloat16(sums[part][k * 4 + half * 2]))) : "memory");
            asm volatile("st.shared.u16 [%0], %1;" ::"r"(at + ROWS * 2), "h"(__bfloat16_as_ushort(__float2bfloat16(sums[part][k * 4 + half * 2 + 1]))) : "memory");
          }
      asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
      asm volatile("bar.sync 1, %0;" ::"n"(CONSUMERS * GROUP) : "memory");
      if (threadIdx.x == 0) {
        asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%1, %2}], [%3];" ::"l"(&c), "r"(row_of(pair)), "r"(column_of(pair)), "r"(out) : "memory");
        asm volatile("cp.async.bulk.commit_group;");
      }
    }
    asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
  }
  meet_pair();
}
