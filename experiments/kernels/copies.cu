// Copies to shared memory of which each waits for one before: by the threads of a block, and by the unit for bulk copies.
#include <cuda.h>
#include <cuda_pipeline.h>

// Each thread copies one T after another; STAGES - 1 of them are on their way while it waits.
template <typename T, int STAGES, int THREADS> __global__ void by_threads(const T *x, int n)
{
  __shared__ T slots[STAGES][THREADS];
  const int first = blockIdx.x * THREADS + threadIdx.x, across = gridDim.x * THREADS;
  int slot = 0;
  for (int i = first; i < n; i += across) {
    __pipeline_wait_prior(STAGES - 1);
    __pipeline_memcpy_async(&slots[slot][threadIdx.x], &x[i], sizeof(T));
    __pipeline_commit();
    slot = slot + 1 == STAGES ? 0 : slot + 1;
  }
  __pipeline_wait_prior(0);
}

__device__ __forceinline__ void wait(unsigned barrier, int phase)
{
  asm volatile("{ .reg .pred p; AGAIN: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1; @!p bra AGAIN; }" ::"r"(barrier), "r"(phase) : "memory");
}

// One warp has tiles of ROWS rows of 512 bytes copied; STAGES of them are on their way.
template <int ROWS, int STAGES> __global__ void of_tiles(const __grid_constant__ CUtensorMap x, int rows)
{
  extern __shared__ __align__(128) float slots[];
  __shared__ unsigned long long barriers[STAGES];
  const unsigned came = (unsigned)__cvta_generic_to_shared(barriers), to = (unsigned)__cvta_generic_to_shared(slots);
  if (threadIdx.x == 0) {
    for (int k = 0; k < STAGES; k++)
      asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(came + 8 * k));
    asm volatile("fence.mbarrier_init.release.cluster;");
  }
  __syncthreads();
  auto fetch = [&](int row, int slot) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(came + 8 * slot), "r"(ROWS * 512) : "memory");
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::"r"(to + slot * ROWS * 512),
                 "l"(&x), "r"(0), "r"(row), "r"(came + 8 * slot) : "memory");
  };
  const int across = gridDim.x * ROWS;
  int row = blockIdx.x * ROWS, slot = 0, phase = 0;
  for (int k = 0; k < STAGES; k++, row += across)
    if (threadIdx.x == 0)
      fetch(row, k);
  auto next = [&]() {
    if (++slot == STAGES) {
      slot = 0;
      phase ^= 1;
    }
  };
  for (; row < rows; row += across, next()) {
    wait(came + 8 * slot, phase);
    if (threadIdx.x == 0)
      fetch(row, slot);
  }
  for (int k = 0; k < STAGES; k++, next())
    wait(came + 8 * slot, phase);
}
