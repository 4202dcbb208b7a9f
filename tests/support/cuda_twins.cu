// Kernels of experiments/kernels in CUDA C++. Their traces are compared with those of the originals, access by
// access; see tests/support/cuda_twins.py. Parameters are in the originals' order, for arrays lie in
// memory in that order.

__global__ void stream_triad(const float *__restrict__ b, const float *__restrict__ c, float *__restrict__ a)
{
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  a[i] = b[i] + 0.5f * c[i];
}

__global__ void transpose_naive(int n, const float *__restrict__ a, float *__restrict__ b)
{
  int row = 16 * blockIdx.y + threadIdx.x;
  int column = 16 * blockIdx.x + threadIdx.y;
  b[n * column + row] = a[n * row + column];
}

template <typename T, int tile>
__global__ void transpose_tiled(int n, const T *__restrict__ a, T *__restrict__ b)
{
  __shared__ T a_tile[tile][tile + 1];
  int x = threadIdx.x, y = threadIdx.y;
  a_tile[y][x] = a[n * (tile * blockIdx.y + y) + tile * blockIdx.x + x];
  __syncthreads();
  b[n * (tile * blockIdx.x + y) + tile * blockIdx.y + x] = a_tile[x][y];
}

__global__ void histogram(int n, const int *__restrict__ samples, int *__restrict__ counts)
{
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n)
    atomicAdd(&counts[samples[i]], 1);
}

__global__ void bfs_level(int n, int level, const int *__restrict__ row_start, const int *__restrict__ indices,
                          const int *__restrict__ distance, int *__restrict__ reached)
{
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n || distance[i] != level)
    return;
  int row_begin = row_start[i];
  int row_end = row_start[i + 1];
  for (int j = row_begin; j < row_end; ++j) {
    int neighbour = indices[j];
    if (distance[neighbour] < 0)
      reached[neighbour] = 1;
  }
}

namespace csr {
// One thread for each row.
__global__ void spmv(int n_rows, const int *__restrict__ row_start, const int *__restrict__ indices,
                     const float *__restrict__ values, const float *__restrict__ x, float *__restrict__ y)
{
  int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= n_rows)
    return;
  int begin = row_start[row];
  int end = row_start[row + 1];
  float sum = 0;
  for (int j = begin; j < end; ++j)
    sum += values[j] * x[indices[j]];
  y[row] = sum;
}

// Four entries a load, from a multiple of 16 bytes on; the first and the last ones one by one.
__global__ void spmv_vectorised(int n_rows, const int *row_start, const int *indices, const float *values,
                                const float *x, float *y)
{
  float t = 0;
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n_rows) {
    int lb = row_start[i];
    int ub = row_start[i + 1];
    int new_lb = min((lb + 3) / 4 * 4, ub);
    int new_ub = max(ub / 4 * 4, new_lb);
    for (int j = lb; j < new_lb; j++)
      t += values[j] * x[indices[j]];
    for (int j = new_lb; j < new_ub; j += 4) {
      int4 ind = reinterpret_cast<const int4 *>(indices)[j / 4];
      float4 value = reinterpret_cast<const float4 *>(values)[j / 4];
      t += value.x * x[ind.x];
      t += value.y * x[ind.y];
      t += value.z * x[ind.z];
      t += value.w * x[ind.w];
    }
    for (int j = new_ub; j < ub; j++)
      t += values[j] * x[indices[j]];
    y[i] = t;
  }
}
}

__global__ void matmul_tiled(int n, const float *__restrict__ a, const float *__restrict__ b,
                             float *__restrict__ c)
{
  __shared__ float a_tile[16][16], b_tile[16][16];
  int x = threadIdx.x, y = threadIdx.y;
  int row = 16 * blockIdx.y + y, column = 16 * blockIdx.x + x;
  float sum = 0;
  for (int k = 0; k < n; k += 16) {
    __syncthreads();
    a_tile[y][x] = a[n * row + k + x];
    b_tile[y][x] = b[n * (k + y) + column];
    __syncthreads();
    for (int inner = 0; inner < 16; ++inner)
      sum += a_tile[y][inner] * b_tile[inner][x];
  }
  c[n * row + column] = sum;
}

__global__ void gesummv(int n, const float *__restrict__ a, const float *__restrict__ b,
                        const float *__restrict__ x, float *__restrict__ y)
{
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n)
    return;
  float tmp = 0, other = 0;
  for (int j = 0; j < n; ++j) {
    tmp += a[n * i + j] * x[j];
    other += b[n * i + j] * x[j];
  }
  y[i] = 1.5f * tmp + 0.75f * other;
}

__global__ void black_scholes(int n, float rate, float volatility, const float *__restrict__ price,
                              const float *__restrict__ strike, const float *__restrict__ years,
                              float *__restrict__ call, float *__restrict__ put)
{
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
    float s = price[i];
    float k = strike[i];
    float t = years[i];
    float root = sqrtf(t);
    float d1 = (logf(s / k) + (rate + 0.5f * volatility * volatility) * t) / (volatility * root);
    float d2 = d1 - volatility * root;
    float below1 = normcdff(d1);
    float below2 = normcdff(d2);
    float discounted = k * expf(-rate * t);
    call[i] = s * below1 - discounted * below2;
    put[i] = discounted * (1 - below2) - s * (1 - below1);
  }
}

// Each thread writes `per_item` keys of the merged runs; see merge_sort.cl.
__global__ void merge_global(int n, int width, int per_item, const unsigned *__restrict__ source,
                             unsigned *__restrict__ target)
{
  int first = (blockIdx.x * blockDim.x + threadIdx.x) * per_item;
  if (first >= n)
    return;
  int begin = first / (2 * width) * (2 * width);
  int middle = min(begin + width, n);
  int end = min(begin + 2 * width, n);
  int diagonal = first - begin;
  int low = max(0, diagonal - (end - middle));
  int high = min(diagonal, middle - begin);
  while (low < high) {
    int half_way = (low + high) / 2;
    unsigned left = source[begin + half_way];
    unsigned right = source[middle + diagonal - 1 - half_way];
    if (left <= right)
      low = half_way + 1;
    else
      high = half_way;
  }
  int i = begin + low;
  int j = middle + diagonal - low;
  int stop = min(first + per_item, end);
  unsigned left = 0, right = 0;
  if (i < middle)
    left = source[i];
  if (j < end)
    right = source[j];
  for (int k = first; k < stop; k++) {
    if (j >= end || (i < middle && left <= right)) {
      target[k] = left;
      i++;
      if (i < middle)
        left = source[i];
    } else {
      target[k] = right;
      j++;
      if (j < end)
        right = source[j];
    }
  }
}

// The 7-point Laplacian of u, one point a thread.
__global__ void laplacian(double *f, const double *u, const int nx, const int ny, const int nz,
                          const double along_x, const double along_y, const double along_z,
                          const double centre)
{
  const int i = threadIdx.x + blockIdx.x * blockDim.x;
  const int j = threadIdx.y + blockIdx.y * blockDim.y;
  const int k = threadIdx.z + blockIdx.z * blockDim.z;
  if (i == 0 || i >= nx - 1 || k == 0 || k >= nz - 1)
    return;
  if (j == 0 || j >= ny - 1)
    return;
  const int plane = nx * ny;
  const unsigned long at = i + nx * j + plane * k;
  f[at] = u[at] * centre + (u[at - 1] + u[at + 1]) * along_x
        + (u[at - nx] + u[at + nx]) * along_y + (u[at - plane] + u[at + plane]) * along_z;
}
