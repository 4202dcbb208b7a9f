// Products and copies of pairs of blocks (tcgen05 with cta_group::2).
#include <cuda.h>

__device__ unsigned at(const void *p) { return (unsigned)__cvta_generic_to_shared(p); }

__device__ void meet()
{
  asm volatile("barrier.cluster.arrive.aligned;" ::: "memory");
  asm volatile("barrier.cluster.wait.aligned;" ::: "memory");
}

__device__ void wait(unsigned barrier)
{
  asm volatile("{ .reg .pred p; AGAIN: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], 0; @!p bra AGAIN; }" ::"r"(barrier) : "memory");
}

// Each block of a pair has half of the rows of a, half of the columns of b, and 128 rows of the sums, to which the second product adds.
extern "C" __global__ void __cluster_dims__(2, 1, 1)
    product(const int4 *a, const int4 *b, unsigned *d, unsigned long long high_a, unsigned long long high_b, unsigned kind, int columns, int n_a, int n_b)
{
  __shared__ __align__(1024) int4 tile_a[1024], tile_b[1024];
  __shared__ unsigned long long barrier;
  __shared__ unsigned place;
  for (int i = threadIdx.x; i < 1024; i += 128) {
    if (i < n_a)
      tile_a[i] = a[blockIdx.x * n_a + i];
    if (i < n_b)
      tile_b[i] = b[blockIdx.x * n_b + i];
  }
  if (threadIdx.x < 32) {
    asm volatile("tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [%0], 256;" ::"r"(at(&place)));
    asm volatile("tcgen05.relinquish_alloc_permit.cta_group::2.sync.aligned;");
  }
  if (threadIdx.x == 0)
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(at(&barrier)));
  __syncthreads();
  meet();
  if (blockIdx.x % 2 == 0 && threadIdx.x == 0) {
    const unsigned long long from_a = high_a | at(tile_a) >> 4 & 0x3fff, from_b = high_b | at(tile_b) >> 4 & 0x3fff;
    for (int adds = 0; adds < 2; adds++)
      asm volatile("{ .reg .pred p; setp.ne.b32 p, %4, 0; tcgen05.mma.cta_group::2.kind::f16 [%0], %1, %2, %3, p; }" ::"r"(place), "l"(from_a),
                   "l"(from_b), "r"(kind), "r"(adds));
    asm volatile("tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [%0], %1;" ::"r"(at(&barrier)),
                 "h"((unsigned short)3));
  }
  wait(at(&barrier));
  for (int j = 0; j < columns; j += 4) {
    unsigned x[4];
    asm volatile("tcgen05.ld.sync.aligned.32x32b.x4.b32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3]) : "r"(place + (threadIdx.x / 32 * 32 << 16) + j));
    asm volatile("tcgen05.wait::ld.sync.aligned;");
    for (int k = 0; k < 4; k++)
      d[(blockIdx.x * 128 + threadIdx.x) * columns + j + k] = x[k];
  }
  __syncthreads();
  meet();
  if (threadIdx.x < 32)
    asm volatile("tcgen05.dealloc.cta_group::2.sync.aligned.b32 %0, 256;" ::"r"(place));
}

// Each block brings its own tile, and the first one of the pair another one to both; the first one's barrier awaits all bytes.
extern "C" __global__ void __cluster_dims__(2, 1, 1) brought(const __grid_constant__ CUtensorMap x, float *y)
{
  __shared__ __align__(1024) float tiles[2][1024];
  __shared__ unsigned long long barrier;
  const unsigned awaited = at(&barrier) & 0xfeffffff, rank = blockIdx.x % 2;
  if (threadIdx.x == 0 && rank == 0) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(at(&barrier)));
    asm volatile("fence.mbarrier_init.release.cluster;");
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(at(&barrier)), "r"(4 * 4096));
  }
  meet();
  if (threadIdx.x == 0) {
    asm volatile("cp.async.bulk.tensor.2d.cta_group::2.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::"r"(
                   at(tiles[0])), "l"(&x), "r"(0), "r"(32 * blockIdx.x), "r"(awaited) : "memory");
    if (rank == 0)
      asm volatile("cp.async.bulk.tensor.2d.cta_group::2.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, {%2, %3}], "
                   "[%4], %5;" ::"r"(at(tiles[1])), "l"(&x), "r"(0), "r"(128), "r"(awaited), "h"((unsigned short)3) : "memory");
  }
  if (rank == 0)
    wait(at(&barrier));
  meet();
  for (int i = threadIdx.x; i < 2048; i += 128)
    y[blockIdx.x * 2048 + i] = tiles[0][i];
}
