// Second derivatives of eighth order of float fields, by groups that march along z with what they still need in
// registers. The first inner point is element `origin`; rows are `row` floats apart, planes `plane`.
#include <hip/hip_runtime.h>

#define RADIUS 4
#define WIDTH 64 // lanes along x
#define HEIGHT 4 // and along y

#ifndef LANE_FLOATS
#define LANE_FLOATS 1
#endif
typedef float floats __attribute__((ext_vector_type(LANE_FLOATS)));

// Of the distances 0 to 4.
__device__ constexpr float WEIGHT[RADIUS + 1] = {-205.f / 72, 8.f / 5, -1.f / 5, 8.f / 315, -1.f / 560};

__device__ __forceinline__ float weight(int k)
{
  return WEIGHT[k < RADIUS ? RADIUS - k : k - RADIUS];
}

// Along z: a thread loads one point of each plane, and keeps nine.
extern "C" __global__ __launch_bounds__(WIDTH *HEIGHT) void march_z(
    float *to, const float *from, size_t origin, int row, int plane, int nx, int ny, int nz, int window)
{
  const int x = blockIdx.x * WIDTH + threadIdx.x, y = blockIdx.y * HEIGHT + threadIdx.y;
  if (x >= nx || y >= ny) return;
  const int first = blockIdx.z * window, last = min(first + window, nz);
  const size_t at = origin + x + (size_t)row * y + (size_t)plane * first;
  const float *ahead = from + at - (size_t)plane * RADIUS;
  to += at;

  float kept[2 * RADIUS + 1];
#pragma unroll
  for (int k = 0; k < 2 * RADIUS; ++k, ahead += plane) kept[k] = *ahead;
  for (int z = first; z < last; ++z, ahead += plane, to += plane)
  {
    kept[2 * RADIUS] = *ahead;
    float sum = 0;
#pragma unroll
    for (int k = 0; k <= 2 * RADIUS; ++k) sum += weight(k) * kept[k];
    *to = sum;
#pragma unroll
    for (int k = 0; k < 2 * RADIUS; ++k) kept[k] = kept[k + 1];
  }
}

// The derivatives along x and y of one plane, added. `column` is the thread's point in local memory.
__device__ __forceinline__ floats across(const floats *from, int row, floats *column, floats &centre)
{
  const int side = (RADIUS + LANE_FLOATS - 1) / LANE_FLOATS;
  union { floats whole[2 * side + 1]; float each[(2 * side + 1) * LANE_FLOATS]; } line;
#pragma unroll
  for (int k = 0; k <= 2 * side; ++k) line.whole[k] = from[k - side];
  centre = line.whole[side];
  __syncthreads();
  column[-RADIUS * WIDTH] = from[-RADIUS * (row / LANE_FLOATS)];
  column[0] = centre;
  column[HEIGHT * WIDTH] = from[HEIGHT * (row / LANE_FLOATS)];
  __syncthreads();
  floats sum = 0;
#pragma unroll
  for (int k = 0; k <= 2 * RADIUS; ++k)
  {
    sum += weight(k) * column[(k - RADIUS) * WIDTH];
#pragma unroll
    for (int i = 0; i < LANE_FLOATS; ++i)
      sum[i] += weight(k) * line.each[side * LANE_FLOATS - RADIUS + k + i];
  }
  return sum;
}

// Along all three axes: rows of the plane ahead lie in local memory, and sums of the last planes wait for their z.
extern "C" __global__ __launch_bounds__(WIDTH *HEIGHT) void march_xyz(
    float *to, const float *from, size_t origin, int row, int plane, int nx, int ny, int nz, int window)
{
  const int x = LANE_FLOATS * (blockIdx.x * WIDTH + threadIdx.x), y = blockIdx.y * HEIGHT + threadIdx.y;
  if (x >= nx) return;
  const int first = blockIdx.z * window, last = min(first + window, nz);
  const size_t at = origin + x + (size_t)row * y + (size_t)plane * first, step = plane / LANE_FLOATS;
  const floats *ahead = reinterpret_cast<const floats *>(from + at - (size_t)plane * RADIUS);
  floats *sums = reinterpret_cast<floats *>(to + at);
  __shared__ floats rows[WIDTH * (HEIGHT + 2 * RADIUS)];
  floats *column = rows + threadIdx.x + WIDTH * (RADIUS + threadIdx.y);

  floats kept[2 * RADIUS + 1], waiting[RADIUS + 1];
#pragma unroll
  for (int k = 0; k < RADIUS; ++k, ahead += step) kept[k] = *ahead;
#pragma unroll
  for (int k = RADIUS; k < 2 * RADIUS; ++k, ahead += step) waiting[k - RADIUS] = across(ahead, row, column, kept[k]);
  for (int z = first; z < last; ++z, ahead += step, sums += step)
  {
    waiting[RADIUS] = across(ahead, row, column, kept[2 * RADIUS]);
#pragma unroll
    for (int k = 0; k <= 2 * RADIUS; ++k) waiting[0] += weight(k) * kept[k];
    if (y < ny) __builtin_nontemporal_store(waiting[0], sums);
#pragma unroll
    for (int k = 0; k < 2 * RADIUS; ++k) kept[k] = kept[k + 1];
#pragma unroll
    for (int k = 0; k < RADIUS; ++k) waiting[k] = waiting[k + 1];
  }
}
