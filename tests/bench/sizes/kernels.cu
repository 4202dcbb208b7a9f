// Kernels of ordinary sizes and larger ones, for the benchmark of seconds over size.

__global__ void naive(const float *a, const float *b, float *c, int n)
{
  int row = blockIdx.x * blockDim.x + threadIdx.x, column = blockIdx.y * blockDim.y + threadIdx.y;
  float sum = 0;
  for (int k = 0; k < n; k++)
    sum += a[(size_t)row * n + k] * b[(size_t)k * n + column];
  c[(size_t)row * n + column] = sum;
}

__global__ void coalesced(const float *a, const float *b, float *c, int n)
{
  int column = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y * blockDim.y + threadIdx.y;
  float sum = 0;
  for (int k = 0; k < n; k++)
    sum += a[(size_t)row * n + k] * b[(size_t)k * n + column];
  c[(size_t)row * n + column] = sum;
}

__global__ void tiled(const float *a, const float *b, float *c, int n)
{
  __shared__ float of_a[32][32], of_b[32][32];
  int x = threadIdx.x, y = threadIdx.y, column = blockIdx.x * 32 + x, row = blockIdx.y * 32 + y;
  float sum = 0;
  for (int first = 0; first < n; first += 32) {
    of_a[y][x] = a[(size_t)row * n + first + x];
    of_b[y][x] = b[(size_t)(first + y) * n + column];
    __syncthreads();
    for (int k = 0; k < 32; k++)
      sum += of_a[y][k] * of_b[k][x];
    __syncthreads();
  }
  c[(size_t)row * n + column] = sum;
}

// A thread computes 8 elements of a column of c.
__global__ void tiles_1d(const float *a, const float *b, float *c, int n)
{
  __shared__ float of_a[64][8], of_b[8][64];
  int t = threadIdx.x, x = t % 64, y = t / 64, row = blockIdx.y * 64, column = blockIdx.x * 64;
  float sums[8] = {0};
  for (int first = 0; first < n; first += 8) {
    of_a[t / 8][t % 8] = a[(size_t)(row + t / 8) * n + first + t % 8];
    of_b[y][x] = b[(size_t)(first + y) * n + column + x];
    __syncthreads();
    for (int k = 0; k < 8; k++)
      for (int i = 0; i < 8; i++)
        sums[i] += of_a[8 * y + i][k] * of_b[k][x];
    __syncthreads();
  }
  for (int i = 0; i < 8; i++)
    c[(size_t)(row + 8 * y + i) * n + column + x] = sums[i];
}

// A thread computes 8 x 8 elements of c.
__global__ void tiles_2d(const float *a, const float *b, float *c, int n)
{
  __shared__ float of_a[128][8], of_b[8][128];
  int t = threadIdx.x, x = t % 16, y = t / 16, row = blockIdx.y * 128, column = blockIdx.x * 128;
  float sums[8][8] = {0};
  for (int first = 0; first < n; first += 8) {
    for (int i = 0; i < 128; i += 32)
      of_a[i + t / 8][t % 8] = a[(size_t)(row + i + t / 8) * n + first + t % 8];
    for (int i = 0; i < 8; i += 2)
      of_b[i + t / 128][t % 128] = b[(size_t)(first + i + t / 128) * n + column + t % 128];
    __syncthreads();
    for (int k = 0; k < 8; k++)
      for (int i = 0; i < 8; i++)
        for (int j = 0; j < 8; j++)
          sums[i][j] += of_a[8 * y + i][k] * of_b[k][8 * x + j];
    __syncthreads();
  }
  for (int i = 0; i < 8; i++)
    for (int j = 0; j < 8; j++)
      c[(size_t)(row + 8 * y + i) * n + column + 8 * x + j] = sums[i][j];
}

__global__ void addition(const float *a, const float *b, float *c)
{
  size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
  c[i] = a[i] + b[i];
}

__global__ void layer_norm(const float *x, const float *scale, const float *shift, float *y, int columns)
{
  __shared__ float part[2][8];
  const float *row = x + (size_t)blockIdx.x * columns;
  float sum = 0, squares = 0;
  for (int k = threadIdx.x; k < columns; k += blockDim.x) {
    sum += row[k];
    squares += row[k] * row[k];
  }
  for (int half = 16; half > 0; half /= 2) {
    sum += __shfl_xor_sync(0xffffffff, sum, half);
    squares += __shfl_xor_sync(0xffffffff, squares, half);
  }
  if (threadIdx.x % 32 == 0) {
    part[0][threadIdx.x / 32] = sum;
    part[1][threadIdx.x / 32] = squares;
  }
  __syncthreads();
  sum = squares = 0;
  for (int k = 0; k < 8; k++) {
    sum += part[0][k];
    squares += part[1][k];
  }
  float mean = sum / columns, inverse = rsqrtf(squares / columns - mean * mean + 1e-5f);
  for (int k = threadIdx.x; k < columns; k += blockDim.x)
    y[(size_t)blockIdx.x * columns + k] = (row[k] - mean) * inverse * scale[k] + shift[k];
}

__global__ void bodies(const float4 *at, float4 *force, int n)
{
  __shared__ float4 tile[256];
  int i = blockIdx.x * 256 + threadIdx.x;
  float4 own = at[i], sum = {0, 0, 0, 0};
  for (int first = 0; first < n; first += 256) {
    tile[threadIdx.x] = at[first + threadIdx.x];
    __syncthreads();
    for (int k = 0; k < 256; k++) {
      float x = tile[k].x - own.x, y = tile[k].y - own.y, z = tile[k].z - own.z;
      float inverse = rsqrtf(x * x + y * y + z * z + 1e-6f), by = tile[k].w * inverse * inverse * inverse;
      sum.x += by * x;
      sum.y += by * y;
      sum.z += by * z;
    }
    __syncthreads();
  }
  force[i] = sum;
}

__global__ void stencil(const float *a, float *b, int n)
{
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y, z = blockIdx.z;
  if (x < 1 || y < 1 || z < 1 || x >= n - 1 || y >= n - 1 || z >= n - 1)
    return;
  size_t plane = (size_t)n * n, i = z * plane + (size_t)y * n + x;
  b[i] = a[i - 1] + a[i + 1] + a[i - n] + a[i + n] + a[i - plane] + a[i + plane] - 6 * a[i];
}

// A sub-group computes a row.
__global__ void spmv(const int *begin, const int *column, const float *value, const float *x, float *y, int rows)
{
  int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
  if (row >= rows)
    return;
  float sum = 0;
  for (int k = begin[row] + lane; k < begin[row + 1]; k += 32)
    sum += value[k] * x[column[k]];
  for (int half = 16; half > 0; half /= 2)
    sum += __shfl_xor_sync(0xffffffff, sum, half);
  if (lane == 0)
    y[row] = sum;
}
