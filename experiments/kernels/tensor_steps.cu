// The usual steps by which a product of half matrices on tensor cores is made fast: c = a b, sums in single precision.
#include <cuda_fp16.h>
#include <mma.h>

// Where a number of a tile lies whose rows have PIECES pieces of 16 bytes: in order, or with pieces exchanged so that eight
// rows of one column of pieces lie in all banks.
template <int PIECES, bool EXCHANGED>
__device__ __forceinline__ int place(int row, int column)
{
  int piece = column / 8;
  if (EXCHANGED)
    piece ^= PIECES < 8 ? row * PIECES / 8 % PIECES : row % 8;
  return (row * PIECES + piece) * 8 + column % 8;
}

__device__ __forceinline__ void copy(half *to, const half *from)
{
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"((unsigned)__cvta_generic_to_shared(to)), "l"(from));
}

// Nothing is copied beyond the edge of a matrix, as in the kernels that were measured, though no edge is met here.
__device__ __forceinline__ void copy_if(bool is_inside, half *to, const half *from)
{
  if (is_inside)
    copy(to, from);
  else
    *(float4 *)to = make_float4(0, 0, 0, 0);
}

__device__ __forceinline__ void load(unsigned *to, const half *from)
{
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"((unsigned)__cvta_generic_to_shared(from)));
}

__device__ __forceinline__ void load_transposed(unsigned *to, const half *from)
{
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"((unsigned)__cvta_generic_to_shared(from)));
}

__device__ __forceinline__ void multiply(float *sum, const unsigned *a, const unsigned *b)
{
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
               "{%0, %1, %2, %3};"
               : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// A block computes ROWS x COLUMNS of c, DEPTH of the sum at a time, and a warp of it HIGH x WIDE. STAGES slabs are on their
// way, with asynchronous COPIES; else threads load one number after another.
template <int ROWS, int COLUMNS, int DEPTH, int HIGH, int WIDE, int STAGES, bool COPIES, bool EXCHANGED>
__global__ void __launch_bounds__(ROWS / HIGH * (COLUMNS / WIDE) * 32, 2)
    matrices(int n, int depth, const half *__restrict__ a, const half *__restrict__ b, float *__restrict__ c)
{
  constexpr int THREADS = ROWS / HIGH * (COLUMNS / WIDE) * 32, A = ROWS * DEPTH, B = DEPTH * COLUMNS;
  constexpr int OF_A = DEPTH / 8, OF_B = COLUMNS / 8;
  extern __shared__ half tiles[];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int row = warp / (COLUMNS / WIDE) * HIGH, column = warp % (COLUMNS / WIDE) * WIDE;
  const half *from_a = a + (size_t)blockIdx.y * ROWS * n, *from_b = b + blockIdx.x * COLUMNS;
  float sums[HIGH / 16][WIDE / 8][4] = {};
  half *tiles_a[STAGES], *tiles_b[STAGES]; // in private memory, for which is meant is known at run time only
#pragma unroll
  for (int stage = 0; stage < STAGES; stage++) {
    tiles_a[stage] = tiles + stage * (A + B);
    tiles_b[stage] = tiles_a[stage] + A;
  }

  auto fetch = [&](int slab) {
    half *to_a = tiles_a[slab % STAGES], *to_b = tiles_b[slab % STAGES];
    const int first = slab * DEPTH;
    if (COPIES) {
#pragma unroll
      for (int k = threadIdx.x; k < A / 8; k += THREADS)
        copy_if(blockIdx.y * ROWS + k / OF_A < n, to_a + place<OF_A, EXCHANGED>(k / OF_A, k % OF_A * 8),
                from_a + (size_t)(k / OF_A) * n + first + k % OF_A * 8);
#pragma unroll
      for (int k = threadIdx.x; k < B / 8; k += THREADS)
        copy_if(blockIdx.x * COLUMNS + k % OF_B * 8 < n, to_b + place<OF_B, EXCHANGED>(k / OF_B, k % OF_B * 8),
                from_b + (size_t)(first + k / OF_B) * n + k % OF_B * 8);
      asm volatile("cp.async.commit_group;");
    } else {
#pragma unroll 1
      for (int k = threadIdx.x; k < A; k += THREADS)
        to_a[place<OF_A, EXCHANGED>(k / DEPTH, k % DEPTH)] = from_a[(size_t)(k / DEPTH) * n + first + k % DEPTH];
#pragma unroll 1
      for (int k = threadIdx.x; k < B; k += THREADS)
        to_b[place<OF_B, EXCHANGED>(k / COLUMNS, k % COLUMNS)] = from_b[(size_t)(first + k / COLUMNS) * n + k % COLUMNS];
    }
  };

  const int slabs = depth / DEPTH;
#pragma unroll
  for (int slab = 0; slab < STAGES - 1; slab++)
    fetch(slab);
  for (int slab = 0; slab < slabs; slab++) {
    if (slab + STAGES - 1 < slabs)
      fetch(slab + STAGES - 1);
    else if (COPIES)
      asm volatile("cp.async.commit_group;");
    if (COPIES)
      asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 1));
    __syncthreads();
    const half *tile_a = tiles_a[slab % STAGES], *tile_b = tiles_b[slab % STAGES];
#pragma unroll
    for (int k = 0; k < DEPTH; k += 16) {
      unsigned left[HIGH / 16][4], right[WIDE / 8][2];
#pragma unroll
      for (int i = 0; i < HIGH / 16; i++)
        load(left[i], tile_a + place<OF_A, EXCHANGED>(row + 16 * i + lane % 16, k + lane / 16 * 8));
#pragma unroll
      for (int j = 0; j < WIDE / 8; j += 2)
        load_transposed(right[j], tile_b + place<OF_B, EXCHANGED>(k + lane % 16, column + 8 * j + lane / 16 * 8));
#pragma unroll
      for (int i = 0; i < HIGH / 16; i++)
#pragma unroll
        for (int j = 0; j < WIDE / 8; j++)
          multiply(sums[i][j], left[i], right[j]);
    }
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < HIGH / 16; i++)
#pragma unroll
    for (int j = 0; j < WIDE / 8; j++) {
      const size_t at = (size_t)(blockIdx.y * ROWS + row + 16 * i + lane / 4) * n + blockIdx.x * COLUMNS + column + 8 * j + lane % 4 * 2;
      *(float2 *)&c[at] = make_float2(sums[i][j][0], sums[i][j][1]);
      *(float2 *)&c[at + 8 * (size_t)n] = make_float2(sums[i][j][2], sums[i][j][3]);
    }
}

// The same with the fragments of nvcuda::wmma, 16 warps a block, and no exchanged pieces.
template <int EDGE, int STAGES>
__global__ void __launch_bounds__(512, 2) fragments(int n, int depth, const half *__restrict__ a, const half *__restrict__ b, float *__restrict__ c)
{
  using namespace nvcuda::wmma;
  constexpr int DEPTH = 32, EACH = EDGE / 64, TILE = EDGE * DEPTH;
  extern __shared__ half tiles[];
  const int warp = threadIdx.x / 32, row = warp / 4 * EACH * 16, column = warp % 4 * EACH * 16;
  fragment<accumulator, 16, 16, 16, float> sums[EACH][EACH];
#pragma unroll
  for (int i = 0; i < EACH; i++)
#pragma unroll
    for (int j = 0; j < EACH; j++)
      fill_fragment(sums[i][j], 0.0f);
  half *tiles_a[STAGES], *tiles_b[STAGES];
#pragma unroll
  for (int stage = 0; stage < STAGES; stage++) {
    tiles_a[stage] = tiles + stage * 2 * TILE;
    tiles_b[stage] = tiles_a[stage] + TILE;
  }

  auto fetch = [&](int slab) {
    half *to_a = tiles_a[slab % STAGES], *to_b = tiles_b[slab % STAGES];
#pragma unroll
    for (int k = threadIdx.x * 8; k < TILE; k += 512 * 8) {
      copy_if(blockIdx.y * EDGE + k / DEPTH < n, to_a + k, a + (size_t)(blockIdx.y * EDGE + k / DEPTH) * n + slab * DEPTH + k % DEPTH);
      copy_if(blockIdx.x * EDGE + k % EDGE < n, to_b + k, b + (size_t)(slab * DEPTH + k / EDGE) * n + blockIdx.x * EDGE + k % EDGE);
    }
    asm volatile("cp.async.commit_group;");
  };

  const int slabs = depth / DEPTH;
#pragma unroll
  for (int slab = 0; slab < STAGES - 1; slab++)
    fetch(slab);
  for (int slab = 0; slab < slabs; slab++) {
    if (slab + STAGES - 1 < slabs)
      fetch(slab + STAGES - 1);
    else
      asm volatile("cp.async.commit_group;");
    asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 1));
    __syncthreads();
    const half *tile_a = tiles_a[slab % STAGES], *tile_b = tiles_b[slab % STAGES];
#pragma unroll
    for (int k = 0; k < DEPTH; k += 16) {
      fragment<matrix_a, 16, 16, 16, half, row_major> left[EACH];
      fragment<matrix_b, 16, 16, 16, half, row_major> right[EACH];
#pragma unroll
      for (int i = 0; i < EACH; i++) {
        load_matrix_sync(left[i], tile_a + (row + 16 * i) * DEPTH + k, DEPTH);
        load_matrix_sync(right[i], tile_b + k * EDGE + column + 16 * i, EDGE);
      }
#pragma unroll
      for (int i = 0; i < EACH; i++)
#pragma unroll
        for (int j = 0; j < EACH; j++)
          mma_sync(sums[i][j], left[i], right[j], sums[i][j]);
    }
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < EACH; i++)
#pragma unroll
    for (int j = 0; j < EACH; j++)
      store_matrix_sync(c + (size_t)(blockIdx.y * EDGE + row + 16 * i) * n + blockIdx.x * EDGE + column + 16 * j, sums[i][j], n, mem_row_major);
}
