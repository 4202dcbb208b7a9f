// Kernels whose blocks run in clusters and reach each other's shared memory.
#include <cooperative_groups.h>

namespace cg = cooperative_groups;

__device__ unsigned local(const void *p) { return (unsigned)__cvta_generic_to_shared(p); }

__device__ unsigned of_block(unsigned at, unsigned rank)
{
  unsigned there;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(at), "r"(rank));
  return there;
}

__device__ unsigned special_rank()
{
  unsigned rank;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}

__device__ void meet()
{
  asm volatile("barrier.cluster.arrive;" ::: "memory");
  asm volatile("barrier.cluster.wait;" ::: "memory");
}

__device__ void prepare(unsigned barrier, int bytes)
{
  asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(barrier));
  asm volatile("fence.mbarrier_init.release.cluster;");
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes));
}

__device__ void wait(unsigned barrier)
{
  asm volatile("{ .reg .pred p; AGAIN: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], 0; @!p bra AGAIN; }" ::"r"(barrier) : "memory");
}

// Each block adds what the next one of its cluster has loaded.
__device__ void add_next(const float *x, float *y)
{
  __shared__ float tile[256];
  const auto cluster = cg::this_cluster();
  const int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
  tile[t] = x[i];
  cluster.sync();
  y[i] = tile[t] + cluster.map_shared_rank(tile, (cluster.block_rank() + 1) % cluster.num_blocks())[t];
  cluster.sync();
}

extern "C" __global__ void __cluster_dims__(2, 1, 1) pairs(const float *x, float *y) { add_next(x, y); }

extern "C" __global__ void as_launched(const float *x, float *y) { add_next(x, y); }

extern "C" __global__ void __cluster_dims__(4, 1, 1) histogram(const int *x, int *bins, int n)
{
  __shared__ int part[64];
  const auto cluster = cg::this_cluster();
  if (threadIdx.x < 64)
    part[threadIdx.x] = 0;
  cluster.sync();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
    atomicAdd(cluster.map_shared_rank(part, x[i] >> 6) + (x[i] & 63), 1);
  cluster.sync();
  if (threadIdx.x < 64)
    atomicAdd(&bins[cluster.block_rank() * 64 + threadIdx.x], part[threadIdx.x]);
}

// What a block is told of its cluster.
extern "C" __global__ void told(unsigned *out)
{
  unsigned v[8];
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(v[0]));
  asm("mov.u32 %0, %%cluster_nctarank;" : "=r"(v[1]));
  asm("mov.u32 %0, %%cluster_ctaid.x;" : "=r"(v[2]));
  asm("mov.u32 %0, %%cluster_ctaid.y;" : "=r"(v[3]));
  asm("mov.u32 %0, %%clusterid.x;" : "=r"(v[4]));
  asm("mov.u32 %0, %%clusterid.y;" : "=r"(v[5]));
  asm("mov.u32 %0, %%cluster_nctaid.x;" : "=r"(v[6]));
  asm("mov.u32 %0, %%cluster_nctaid.y;" : "=r"(v[7]));
  if (threadIdx.x == 0)
    for (int k = 0; k < 8; k++)
      out[8 * (blockIdx.y * gridDim.x + blockIdx.x) + k] = v[k];
}

// Each thread sends its number to the next block, whose barrier awaits the bytes; a block that is done tells the one before.
extern "C" __global__ void __cluster_dims__(2, 1, 1) sent(const float *x, float *y)
{
  __shared__ alignas(8) unsigned long long barriers[2];
  __shared__ alignas(16) float tile[128];
  const unsigned t = threadIdx.x, came = local(barriers), done = came + 8, other = special_rank() ^ 1;
  if (t == 0) {
    prepare(came, 512);
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 128;" ::"r"(done));
  }
  meet();
  const float value = x[blockIdx.x * 128 + t];
  asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.b32 [%0], %1, [%2];" ::"r"(of_block(local(tile + t), other)),
               "r"(__float_as_uint(value)), "r"(of_block(came, other)) : "memory");
  wait(came);
  y[blockIdx.x * 128 + t] = tile[t];
  asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(of_block(done, other)) : "memory");
  wait(done);
}

// Each block brings its 512 bytes to both blocks of the pair, and then sends what it has to the other one.
extern "C" __global__ void __cluster_dims__(2, 1, 1) brought(const float *x, float *y, float *z)
{
  __shared__ alignas(8) unsigned long long barriers[2];
  __shared__ alignas(128) float tile[256], far[256];
  const unsigned t = threadIdx.x, rank = special_rank(), came = local(barriers), passed = came + 8;
  if (t == 0) {
    prepare(came, 1024);
    prepare(passed, 1024);
  }
  meet();
  if (t == 0)
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1], 512, [%2], %3;" ::"r"(
                   local(tile) + rank * 512),
                 "l"(x + blockIdx.x * 128), "r"(came), "h"((unsigned short)3) : "memory");
  wait(came);
  y[blockIdx.x * 256 + t] = tile[t];
  if (t == 0)
    asm volatile("cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%0], [%1], 1024, [%2];" ::"r"(
                   of_block(local(far), rank ^ 1)),
                 "r"(local(tile)), "r"(of_block(passed, rank ^ 1)) : "memory");
  wait(passed);
  z[blockIdx.x * 256 + t] = far[t];
  meet();
}

// Each block loads a list and passes it on to the other one of its pair, which finds its numbers by it.
extern "C" __global__ void __cluster_dims__(2, 1, 1) passed_on(const int *list, const float *x, float *y)
{
  __shared__ alignas(8) unsigned long long barrier;
  __shared__ alignas(16) int own[64], given[64];
  const unsigned t = threadIdx.x, other = special_rank() ^ 1;
  own[t] = list[blockIdx.x * 64 + t];
  if (t == 0)
    prepare(local(&barrier), 256);
  asm volatile("fence.proxy.async;" ::: "memory");
  meet();
  if (t == 0)
    asm volatile("cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%0], [%1], 256, [%2];" ::"r"(of_block(local(given), other)),
                 "r"(local(own)), "r"(of_block(local(&barrier), other)) : "memory");
  wait(local(&barrier));
  y[blockIdx.x * 64 + t] = x[given[t] * 8];
  meet();
}

extern "C" __global__ void __cluster_dims__(2, 1, 1) beyond(float *y)
{
  __shared__ float tile[128];
  tile[threadIdx.x] = 0;
  const unsigned at = of_block(local(tile), special_rank() ^ 1) + 4 * threadIdx.x + 512;
  float value;
  asm volatile("ld.shared::cluster.f32 %0, [%1];" : "=f"(value) : "r"(at) : "memory");
  y[threadIdx.x] = value;
}

extern "C" __global__ void __cluster_dims__(2, 1, 1) waits(float *y)
{
  if (blockIdx.x == 1)
    asm volatile("bar.sync 1, 64;"); // a block has half of them
  meet();
  y[blockIdx.x] = 1;
}
