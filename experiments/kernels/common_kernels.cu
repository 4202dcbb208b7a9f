// Thirty-one ordinary kernels, each as somebody would write it in a first or second version. An H200 ran this text
// (experiments/data/h200_common_kernels.csv); experiments/kernels/common_kernels.py has the inputs and launches.

// c = a + b, four elements a thread.
__global__ void vadd4(const float4 *a, const float4 *b, float4 *c, int n4)
{
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n4) {
    float4 u = a[i], v = b[i];
    c[i] = make_float4(u.x + v.x, u.y + v.y, u.z + v.z, u.w + v.w);
  }
}

// c = a + b, one element a thread.
__global__ void vadd1(const float *a, const float *b, float *c, int n)
{
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n)
    c[i] = a[i] + b[i];
}

// y = alpha x + y; each thread has every element whose distance is a multiple of the number of threads.
__global__ void saxpy_loop(int n, float alpha, const float *__restrict__ x, float *__restrict__ y)
{
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
    y[i] = alpha * x[i] + y[i];
}

// One element of every `stride`.
__global__ void copy_stride8(const float *in, float *out, int n, int stride)
{
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n)
    out[(long long)i * stride] = in[(long long)i * stride];
}

// Loads along rows, stores along columns.
__global__ void transpose_naive(const float *in, float *out, int width, int height)
{
  int x = blockIdx.x * blockDim.x + threadIdx.x;
  int y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x < width && y < height)
    out[x * height + y] = in[y * width + x];
}

// Through a tile of shared memory, whose rows are padded against bank conflicts.
constexpr int TILE = 32;
__global__ void transpose_tiled(const float *in, float *out, int width, int height)
{
  __shared__ float tile[TILE][TILE + 1];
  int x = blockIdx.x * TILE + threadIdx.x;
  int y = blockIdx.y * TILE + threadIdx.y;
  for (int j = 0; j < TILE; j += blockDim.y)
    tile[threadIdx.y + j][threadIdx.x] = in[(y + j) * width + x];
  __syncthreads();
  x = blockIdx.y * TILE + threadIdx.x;
  y = blockIdx.x * TILE + threadIdx.y;
  for (int j = 0; j < TILE; j += blockDim.y)
    out[(y + j) * height + x] = tile[threadIdx.x][threadIdx.y + j];
}

// A partial sum of each block: in shared memory, half as many threads in every step.
__global__ void reduce_tree(const float *in, float *partial, int n)
{
  __shared__ float buffer[256];
  int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
  buffer[t] = i < n ? in[i] : 0.0f;
  __syncthreads();
  for (int half = blockDim.x / 2; half > 0; half /= 2) {
    if (t < half)
      buffer[t] += buffer[t + half];
    __syncthreads();
  }
  if (t == 0)
    partial[blockIdx.x] = buffer[0];
}

// The sum over the lanes of a warp, in its first lane.
__device__ float warp_sum(float v)
{
  for (int d = 16; d > 0; d /= 2)
    v += __shfl_down_sync(0xffffffffu, v, d);
  return v;
}

// The sum of all elements: each thread sums, then each warp by shuffles, then each block, then an atomic.
__global__ void reduce_shuffle(const float *in, float *total, int n)
{
  __shared__ float of_warp[32];
  float sum = 0.0f;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
    sum += in[i];
  sum = warp_sum(sum);
  int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  if (lane == 0)
    of_warp[warp] = sum;
  __syncthreads();
  if (warp == 0) {
    sum = lane < blockDim.x / 32 ? of_warp[lane] : 0.0f;
    sum = warp_sum(sum);
    if (lane == 0)
      atomicAdd(total, sum);
  }
}

// The largest value or the sum of a block, for all its threads.
__device__ float block_reduce(float v, bool is_max, float *scratch)
{
  for (int d = 16; d > 0; d /= 2) {
    float w = __shfl_xor_sync(0xffffffffu, v, d);
    v = is_max ? fmaxf(v, w) : v + w;
  }
  if (threadIdx.x % 32 == 0)
    scratch[threadIdx.x / 32] = v;
  __syncthreads();
  v = scratch[0];
  for (int k = 1; k < blockDim.x / 32; ++k)
    v = is_max ? fmaxf(v, scratch[k]) : v + scratch[k];
  __syncthreads();
  return v;
}

// A block computes the softmax of a row, which it reads three times.
__global__ void softmax_row(const float *in, float *out, int columns)
{
  __shared__ float scratch[32];
  const float *row = in + (size_t)blockIdx.x * columns;
  float *result = out + (size_t)blockIdx.x * columns;
  float largest = -1e30f;
  for (int c = threadIdx.x; c < columns; c += blockDim.x)
    largest = fmaxf(largest, row[c]);
  largest = block_reduce(largest, true, scratch);
  float sum = 0.0f;
  for (int c = threadIdx.x; c < columns; c += blockDim.x)
    sum += expf(row[c] - largest);
  sum = block_reduce(sum, false, scratch);
  float scale = 1.0f / sum;
  for (int c = threadIdx.x; c < columns; c += blockDim.x)
    result[c] = expf(row[c] - largest) * scale;
}

// A warp normalises a row: to mean zero and variance one, then scaled and shifted.
__global__ void layernorm_warp(const float *in, const float *gamma, const float *beta, float *out,
                                          int rows, int columns, float eps)
{
  int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
  if (row >= rows)
    return;
  const float *x = in + (size_t)row * columns;
  float sum = 0.0f, squares = 0.0f;
  for (int c = lane; c < columns; c += 32) {
    float v = x[c];
    sum += v;
    squares += v * v;
  }
  for (int d = 16; d > 0; d /= 2) {
    sum += __shfl_xor_sync(0xffffffffu, sum, d);
    squares += __shfl_xor_sync(0xffffffffu, squares, d);
  }
  float mean = sum / columns;
  float scale = rsqrtf(squares / columns - mean * mean + eps);
  float *y = out + (size_t)row * columns;
  for (int c = lane; c < columns; c += 32)
    y[c] = (x[c] - mean) * scale * gamma[c] + beta[c];
}

// The product of two vectors; every warp adds its sum to the one result.
__global__ void dot_atomic(const float *a, const float *b, float *result, int n)
{
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float v = i < n ? a[i] * b[i] : 0.0f;
  v = warp_sum(v);
  if (threadIdx.x % 32 == 0)
    atomicAdd(result, v);
}

// Counts of the four bytes of each word, in shared memory before in global memory.
__global__ void hist_shared(const unsigned *words, unsigned *bins, int n)
{
  __shared__ unsigned counts[256];
  for (int b = threadIdx.x; b < 256; b += blockDim.x)
    counts[b] = 0;
  __syncthreads();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
    unsigned w = words[i];
    atomicAdd(&counts[w & 255u], 1u);
    atomicAdd(&counts[(w >> 8) & 255u], 1u);
    atomicAdd(&counts[(w >> 16) & 255u], 1u);
    atomicAdd(&counts[w >> 24], 1u);
  }
  __syncthreads();
  for (int b = threadIdx.x; b < 256; b += blockDim.x)
    atomicAdd(&bins[b], counts[b]);
}

// A sparse matrix (CSR) times a vector, one thread a row.
__global__ void spmv_scalar(int rows, const int *start, const int *column, const float *value,
                                       const float *x, float *y)
{
  int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row < rows) {
    float sum = 0.0f;
    for (int k = start[row]; k < start[row + 1]; ++k)
      sum += value[k] * x[column[k]];
    y[row] = sum;
  }
}

// A sparse matrix (CSR) times a vector, one warp a row.
__global__ void spmv_warp(int rows, const int *start, const int *column, const float *value,
                                     const float *x, float *y)
{
  int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
  if (row < rows) {
    float sum = 0.0f;
    int end = start[row + 1];
    for (int k = start[row] + lane; k < end; k += 32)
      sum += value[k] * x[column[k]];
    sum = warp_sum(sum);
    if (lane == 0)
      y[row] = sum;
  }
}

// Elements of a table of 4 MB, at random.
__global__ void gather_small(const float *table, const int *index, float *out, int n)
{
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n)
    out[i] = table[index[i]];
}

// The same of a table of 512 MB.
__global__ void gather_large(const float *table, const int *index, float *out, int n)
{
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n)
    out[i] = table[index[i]];
}

// Atomic additions at random.
__global__ void scatter_add(const int *index, const float *value, float *bins, int n)
{
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n)
    atomicAdd(&bins[index[i]], value[i]);
}

// One step of a 7-point Jacobi iteration in three dimensions.
__global__ void jacobi7(const float *u, float *v, int nx, int ny, int nz, float c0, float c1)
{
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  int j = blockIdx.y * blockDim.y + threadIdx.y;
  int k = blockIdx.z * blockDim.z + threadIdx.z;
  if (i < 1 || j < 1 || k < 1 || i >= nx - 1 || j >= ny - 1 || k >= nz - 1)
    return;
  int layer = nx * ny, at = (k * ny + j) * nx + i;
  v[at] = c0 * u[at] + c1 * (u[at - 1] + u[at + 1] + u[at - nx] + u[at + nx] + u[at - layer] + u[at + layer]);
}

// A 9-point stencil in two dimensions, from a tile in shared memory with a border of one; the edges repeat.
constexpr int BX = 32, BY = 8;
__global__ void stencil9_tile(const float *in, float *out, int nx, int ny)
{
  __shared__ float tile[BY + 2][BX + 2];
  int x0 = blockIdx.x * BX, y0 = blockIdx.y * BY;
  for (int k = threadIdx.y * BX + threadIdx.x; k < (BX + 2) * (BY + 2); k += BX * BY) {
    int tx = k % (BX + 2), ty = k / (BX + 2);
    int x = min(max(x0 + tx - 1, 0), nx - 1), y = min(max(y0 + ty - 1, 0), ny - 1);
    tile[ty][tx] = in[y * nx + x];
  }
  __syncthreads();
  int tx = threadIdx.x + 1, ty = threadIdx.y + 1;
  float straight = tile[ty][tx - 1] + tile[ty][tx + 1] + tile[ty - 1][tx] + tile[ty + 1][tx];
  float slanted = tile[ty - 1][tx - 1] + tile[ty - 1][tx + 1] + tile[ty + 1][tx - 1] + tile[ty + 1][tx + 1];
  out[(y0 + threadIdx.y) * nx + x0 + threadIdx.x] = 0.5f * tile[ty][tx] + 0.1f * straight + 0.025f * slanted;
}

// Exclusive sums within blocks of 512 elements, by a tree that goes up and down again.
__global__ void scan_block(const int *in, int *out, int *sums)
{
  __shared__ int s[512];
  int t = threadIdx.x, n = 2 * blockDim.x, base = blockIdx.x * n, step = 1;
  s[2 * t] = in[base + 2 * t];
  s[2 * t + 1] = in[base + 2 * t + 1];
  for (int d = n / 2; d > 0; d /= 2) {
    __syncthreads();
    if (t < d)
      s[step * (2 * t + 2) - 1] += s[step * (2 * t + 1) - 1];
    step *= 2;
  }
  if (t == 0) {
    sums[blockIdx.x] = s[n - 1];
    s[n - 1] = 0;
  }
  for (int d = 1; d < n; d *= 2) {
    step /= 2;
    __syncthreads();
    if (t < d) {
      int left = step * (2 * t + 1) - 1, right = step * (2 * t + 2) - 1;
      int old = s[left];
      s[left] = s[right];
      s[right] += old;
    }
  }
  __syncthreads();
  out[base + 2 * t] = s[2 * t];
  out[base + 2 * t + 1] = s[2 * t + 1];
}

// Products of many 8 x 8 matrices, four to a block.
__global__ void bmm8(const float *a, const float *b, float *c, int batch)
{
  __shared__ float as[4][8][8], bs[4][8][8];
  int m = blockIdx.x * 4 + threadIdx.z, x = threadIdx.x, y = threadIdx.y, at = m * 64 + y * 8 + x;
  if (m < batch) {
    as[threadIdx.z][y][x] = a[at];
    bs[threadIdx.z][y][x] = b[at];
  }
  __syncthreads();
  if (m < batch) {
    float sum = 0.0f;
    for (int k = 0; k < 8; ++k)
      sum += as[threadIdx.z][y][k] * bs[threadIdx.z][k][x];
    c[at] = sum;
  }
}

// A dense matrix times a vector, one warp a row.
__global__ void gemv_warp(const float *matrix, const float *x, float *y, int rows, int columns)
{
  int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
  if (row >= rows)
    return;
  float sum = 0.0f;
  for (int c = lane; c < columns; c += 32)
    sum += matrix[(size_t)row * columns + c] * x[c];
  sum = warp_sum(sum);
  if (lane == 0)
    y[row] = sum;
}

// Brightness of pixels of three bytes.
__global__ void rgb_to_grey(const uchar3 *in, unsigned char *out, int width, int height)
{
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x < width && y < height) {
    uchar3 p = in[y * width + x];
    out[y * width + x] = (unsigned char)(0.299f * p.x + 0.587f * p.y + 0.114f * p.z);
  }
}

// Brightness of pixels of four bytes.
__global__ void rgba_to_grey(const uchar4 *in, unsigned char *out, int width, int height)
{
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x < width && y < height) {
    uchar4 p = in[y * width + x];
    out[y * width + x] = (unsigned char)(0.299f * p.x + 0.587f * p.y + 0.114f * p.z);
  }
}

// How many iterations a point stays near the origin.
__global__ void mandelbrot(int *out, int width, int height, float x0, float y0, float step, int limit)
{
  int px = blockIdx.x * blockDim.x + threadIdx.x, py = blockIdx.y * blockDim.y + threadIdx.y;
  if (px >= width || py >= height)
    return;
  float cx = x0 + px * step, cy = y0 + py * step, x = 0.0f, y = 0.0f;
  int n = 0;
  while (n < limit && x * x + y * y < 4.0f) {
    float t = x * x - y * y + cx;
    y = 2.0f * x * y + cy;
    x = t;
    ++n;
  }
  out[py * width + px] = n;
}

// Cumulative normal distribution (Abramowitz and Stegun 26.2.17).
__device__ double normal_cdf(double d)
{
  double k = 1.0 / (1.0 + 0.2316419 * fabs(d));
  double p = k * (0.31938153 + k * (-0.356563782 + k * (1.781477937 + k * (-1.821255978 + k * 1.330274429))));
  double tail = 0.3989422804014327 * exp(-0.5 * d * d) * p;
  return d > 0.0 ? 1.0 - tail : tail;
}

// Black-Scholes prices of call and put options.
__global__ void options_double(const double *spot, const double *strike, const double *years,
                                          double *call, double *put, double rate, double sigma, int n)
{
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n)
    return;
  double s = 5.0 + 25.0 * spot[i], x = 1.0 + 99.0 * strike[i], t = 0.25 + 9.75 * years[i];
  double root = sqrt(t);
  double d1 = (log(s / x) + (rate + 0.5 * sigma * sigma) * t) / (sigma * root), d2 = d1 - sigma * root;
  double n1 = normal_cdf(d1), n2 = normal_cdf(d2), now = x * exp(-rate * t);
  call[i] = s * n1 - now * n2;
  put[i] = now * (1.0 - n2) - s * (1.0 - n1);
}

// One step of a bitonic sort, in place.
__global__ void bitonic_step(int *data, int j, int k)
{
  unsigned i = blockIdx.x * blockDim.x + threadIdx.x, other = i ^ j;
  if (other > i) {
    int a = data[i], b = data[other];
    bool ascending = (i & k) == 0;
    if ((a > b) == ascending) {
      data[i] = b;
      data[other] = a;
    }
  }
}

// A convolution with 17 taps in constant memory.
constexpr int TAPS = 17;
__constant__ float taps[TAPS];
__global__ void conv1d(const float *in, float *out, int n)
{
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) {
    float sum = 0.0f;
    for (int k = 0; k < TAPS; ++k)
      sum += taps[k] * in[i + k];
    out[i] = sum;
  }
}

// Lattice Boltzmann, D2Q9: a site pulls nine populations from its neighbours, relaxes and stores them.
__global__ void lbm_d2q9(const float *f, float *g, int nx, int ny, float omega)
{
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y;
  int n = nx * ny;
  int w = x == 0 ? nx - 1 : x - 1, e = x == nx - 1 ? 0 : x + 1;
  int s = y == 0 ? ny - 1 : y - 1, u = y == ny - 1 ? 0 : y + 1;
  float f0 = f[y * nx + x];
  float f1 = f[n + y * nx + w], f2 = f[2 * n + s * nx + x], f3 = f[3 * n + y * nx + e], f4 = f[4 * n + u * nx + x];
  float f5 = f[5 * n + s * nx + w], f6 = f[6 * n + s * nx + e], f7 = f[7 * n + u * nx + e], f8 = f[8 * n + u * nx + w];
  float rho = f0 + f1 + f2 + f3 + f4 + f5 + f6 + f7 + f8;
  float vx = (f1 + f5 + f8 - f3 - f6 - f7) / rho, vy = (f2 + f5 + f6 - f4 - f7 - f8) / rho;
  float common = 1.0f - 1.5f * (vx * vx + vy * vy);
  float a = vx + vy, b = vy - vx;
  int at = y * nx + x;
  g[at] = f0 + omega * (rho * 4.0f / 9.0f * common - f0);
  g[n + at] = f1 + omega * (rho / 9.0f * (common + 3.0f * vx + 4.5f * vx * vx) - f1);
  g[2 * n + at] = f2 + omega * (rho / 9.0f * (common + 3.0f * vy + 4.5f * vy * vy) - f2);
  g[3 * n + at] = f3 + omega * (rho / 9.0f * (common - 3.0f * vx + 4.5f * vx * vx) - f3);
  g[4 * n + at] = f4 + omega * (rho / 9.0f * (common - 3.0f * vy + 4.5f * vy * vy) - f4);
  g[5 * n + at] = f5 + omega * (rho / 36.0f * (common + 3.0f * a + 4.5f * a * a) - f5);
  g[6 * n + at] = f6 + omega * (rho / 36.0f * (common + 3.0f * b + 4.5f * b * b) - f6);
  g[7 * n + at] = f7 + omega * (rho / 36.0f * (common - 3.0f * a + 4.5f * a * a) - f7);
  g[8 * n + at] = f8 + omega * (rho / 36.0f * (common - 3.0f * b + 4.5f * b * b) - f8);
}

// A row of a table for each token.
__global__ void embedding(const float4 *table, const int *token, float4 *out, int width)
{
  int t = blockIdx.x;
  for (int c = threadIdx.x; c < width; c += blockDim.x)
    out[t * width + c] = table[token[t] * width + c];
}

// Particles as an array of structures of seven words.
struct Particle { float x, y, z, vx, vy, vz, mass; };
__global__ void particles_aos(Particle *p, int n, float dt)
{
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) {
    p[i].x += dt * p[i].vx;
    p[i].y += dt * p[i].vy;
    p[i].z += dt * p[i].vz;
  }
}
