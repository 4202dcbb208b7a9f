// Six products of square matrices, c = a b + beta c, from one value a thread to 64: what each step of the usual
// optimisation gains.
#include <cuda_runtime.h>

// A warp walks down a column of c: its loads of a lie n elements apart.
__global__ void naive(int n, int depth, const float* a, const float* b, float* c, float beta)
{
    const int row = blockIdx.x * blockDim.x + threadIdx.x;
    const int column = blockIdx.y * blockDim.y + threadIdx.y;
    if (row >= n || column >= n) return;
    float sum = 0.0f;
    for (int k = 0; k < depth; ++k) sum += a[row * n + k] * b[k * n + column];
    c[row * n + column] = sum + beta * c[row * n + column];
}

// A warp walks along a row of c: its loads of b are contiguous, and that of a is one word.
__global__ void coalesced(int n, int depth, const float* a, const float* b, float* c, float beta)
{
    const int row = blockIdx.x * 32 + threadIdx.x / 32;
    const int column = blockIdx.y * 32 + threadIdx.x % 32;
    if (row >= n || column >= n) return;
    float sum = 0.0f;
    for (int k = 0; k < depth; ++k) sum += a[row * n + k] * b[k * n + column];
    c[row * n + column] = sum + beta * c[row * n + column];
}

// Tiles of a and b in shared memory, one value of c a thread.
template <int TILE>
__global__ void tiled(int n, int depth, const float* a, const float* b, float* c, float beta)
{
    __shared__ float as[TILE * TILE], bs[TILE * TILE];
    const int x = threadIdx.x % TILE, y = threadIdx.x / TILE;
    const float* pa = a + blockIdx.x * TILE * n;
    const float* pb = b + blockIdx.y * TILE;
    float sum = 0.0f;
    for (int tile = 0; tile < depth; tile += TILE) {
        as[y * TILE + x] = pa[y * n + x];
        bs[y * TILE + x] = pb[y * n + x];
        __syncthreads();
        pa += TILE;
        pb += TILE * n;
        for (int k = 0; k < TILE; ++k) sum += as[y * TILE + k] * bs[k * TILE + x];
        __syncthreads();
    }
    const int at = (blockIdx.x * TILE + y) * n + blockIdx.y * TILE + x;
    c[at] = sum + beta * c[at];
}

// A thread has PER values of a column of c, for which it reads each value of b once.
template <int M, int N, int K, int PER>
__global__ void columns(int n, int depth, const float* a, const float* b, float* c, float beta)
{
    __shared__ float as[M * K], bs[K * N];
    const int x = threadIdx.x % N, y = threadIdx.x / N;
    const float* pa = a + blockIdx.y * M * n;
    const float* pb = b + blockIdx.x * N;
    float sum[PER] = {0.0f};
    for (int tile = 0; tile < depth; tile += K) {
        as[threadIdx.x] = pa[(threadIdx.x / K) * n + threadIdx.x % K];
        bs[threadIdx.x] = pb[y * n + x];
        __syncthreads();
        pa += K;
        pb += K * n;
        for (int k = 0; k < K; ++k) {
            const float right = bs[k * N + x];
            for (int i = 0; i < PER; ++i) sum[i] += as[(y * PER + i) * K + k] * right;
        }
        __syncthreads();
    }
    for (int i = 0; i < PER; ++i) {
        const int at = (blockIdx.y * M + y * PER + i) * n + blockIdx.x * N + x;
        c[at] = sum[i] + beta * c[at];
    }
}

// A thread has a block of PER x PER values of c.
template <int M, int N, int K, int PER>
__global__ void __launch_bounds__(M * N / (PER * PER), 1)
blocks(int n, int depth, const float* a, const float* b, float* c, float beta)
{
    __shared__ float as[M * K], bs[K * N];
    constexpr int THREADS = M * N / (PER * PER);
    const int row_a = threadIdx.x / K, column_a = threadIdx.x % K;
    const int row_b = threadIdx.x / N, column_b = threadIdx.x % N;
    const int x = threadIdx.x % (N / PER), y = threadIdx.x / (N / PER);
    const float* pa = a + blockIdx.y * M * n;
    const float* pb = b + blockIdx.x * N;
    float sum[PER * PER] = {0.0f}, left[PER], right[PER];
    for (int tile = 0; tile < depth; tile += K) {
        for (int i = 0; i < M; i += THREADS / K)
            as[(row_a + i) * K + column_a] = pa[(row_a + i) * n + column_a];
        for (int i = 0; i < K; i += THREADS / N)
            bs[(row_b + i) * N + column_b] = pb[(row_b + i) * n + column_b];
        __syncthreads();
        pa += K;
        pb += K * n;
        for (int k = 0; k < K; ++k) {
            for (int i = 0; i < PER; ++i) left[i] = as[(y * PER + i) * K + k];
            for (int j = 0; j < PER; ++j) right[j] = bs[k * N + x * PER + j];
            for (int i = 0; i < PER; ++i)
                for (int j = 0; j < PER; ++j) sum[i * PER + j] += left[i] * right[j];
        }
        __syncthreads();
    }
    for (int i = 0; i < PER; ++i)
        for (int j = 0; j < PER; ++j) {
            const int at = (blockIdx.y * M + y * PER + i) * n + blockIdx.x * N + x * PER + j;
            c[at] = sum[i * PER + j] + beta * c[at];
        }
}

// The same with loads of four words, and with the tile of a transposed.
template <int M, int N, int K, int PER>
__global__ void vectors(int n, int depth, float* a, float* b, float* c, float beta)
{
    __shared__ float as[M * K], bs[K * N];
    const int x = threadIdx.x % (N / PER), y = threadIdx.x / (N / PER);
    const int row_a = threadIdx.x / (K / 4), column_a = threadIdx.x % (K / 4) * 4;
    const int row_b = threadIdx.x / (N / 4), column_b = threadIdx.x % (N / 4) * 4;
    float* pa = a + blockIdx.y * M * n;
    float* pb = b + blockIdx.x * N;
    float sum[PER * PER] = {0.0f}, left[PER], right[PER];
    for (int tile = 0; tile < depth; tile += K) {
        const float4 four = *reinterpret_cast<float4*>(&pa[row_a * n + column_a]);
        as[(column_a + 0) * M + row_a] = four.x;
        as[(column_a + 1) * M + row_a] = four.y;
        as[(column_a + 2) * M + row_a] = four.z;
        as[(column_a + 3) * M + row_a] = four.w;
        *reinterpret_cast<float4*>(&bs[row_b * N + column_b]) =
            *reinterpret_cast<float4*>(&pb[row_b * n + column_b]);
        __syncthreads();
        pa += K;
        pb += K * n;
        for (int k = 0; k < K; ++k) {
            for (int i = 0; i < PER; ++i) left[i] = as[k * M + y * PER + i];
            for (int j = 0; j < PER; ++j) right[j] = bs[k * N + x * PER + j];
            for (int i = 0; i < PER; ++i)
                for (int j = 0; j < PER; ++j) sum[i * PER + j] += left[i] * right[j];
        }
        __syncthreads();
    }
    for (int i = 0; i < PER; ++i)
        for (int j = 0; j < PER; j += 4) {
            float4* at = reinterpret_cast<float4*>(
                &c[(blockIdx.y * M + y * PER + i) * n + blockIdx.x * N + x * PER + j]);
            float4 old = *at;
            old.x = sum[i * PER + j] + beta * old.x;
            old.y = sum[i * PER + j + 1] + beta * old.y;
            old.z = sum[i * PER + j + 2] + beta * old.z;
            old.w = sum[i * PER + j + 3] + beta * old.w;
            *at = old;
        }
}
