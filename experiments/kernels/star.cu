// The fp64 star stencil that was measured on a V100 (Ernst et al., JPDC 2023), with the sums of the text that was
// measured: a quarter of each value, one after another, first along x, then along z, then along y. A thread
// computes POINTS points that follow one another along z. `first` is the element of the first point.
#ifndef RANGE
#define RANGE 4
#define POINTS 1
#define NX 32
#define NY 8
#define NZ 8
#define PITCH 40
#define PLANE 640
#endif

// A quarter of the value at a distance from the thread's first point.
#define QUARTER(dx, dy, dz) (0.25 * from[(dx) + (dy) * PITCH + (dz) * PLANE])

extern "C" __global__ void __launch_bounds__(1024)
    star(double *__restrict__ dst, const double *__restrict__ src, const long long first)
{
  const long long x = blockDim.x * blockIdx.x + threadIdx.x;
  const long long y = blockDim.y * blockIdx.y + threadIdx.y;
  const long long z = POINTS * (blockDim.z * blockIdx.z + threadIdx.z);
  if (x >= NX || y >= NY || z >= NZ)
    return;
  const double *__restrict__ from = src + first + PITCH * y + PLANE * z + x;
  double *__restrict__ to = dst + first + PITCH * y + PLANE * z + x;

#if POINTS == 2 && RANGE == 2
  // The order in which the notebook prints the sums of this variant.
  const double shared = QUARTER(0, 0, 2) + QUARTER(0, 0, 0) + QUARTER(0, 0, -1) + QUARTER(0, 0, 1);
  to[0] = QUARTER(-2, 0, 0) + QUARTER(-1, 0, 0) + QUARTER(0, 0, -2) + QUARTER(0, -1, 0)
      + QUARTER(0, 2, 0) + QUARTER(2, 0, 0) + QUARTER(0, 1, 0) + QUARTER(1, 0, 0)
      + QUARTER(0, -2, 0) + shared;
  to[PLANE] = QUARTER(0, 1, 1) + QUARTER(1, 0, 1) + QUARTER(0, 0, 3) + QUARTER(0, -1, 1)
      + QUARTER(-1, 0, 1) + QUARTER(2, 0, 1) + QUARTER(0, -2, 1) + QUARTER(0, 2, 1)
      + QUARTER(-2, 0, 1) + shared;
#else
#pragma unroll
  for (int p = 0; p < POINTS; ++p) {
    double sum = QUARTER(1, 0, p);
#pragma unroll
    for (int d = 2; d <= RANGE; ++d) sum += QUARTER(d, 0, p);
#pragma unroll
    for (int d = 1; d <= RANGE; ++d) sum += QUARTER(-d, 0, p);
    sum += QUARTER(0, 0, p);
#pragma unroll
    for (int d = 1; d <= RANGE; ++d) sum += QUARTER(0, 0, p + d);
#pragma unroll
    for (int d = 1; d <= RANGE; ++d) sum += QUARTER(0, 0, p - d);
#pragma unroll
    for (int d = 1; d <= RANGE; ++d) sum += QUARTER(0, d, p);
#pragma unroll
    for (int d = 1; d <= RANGE; ++d) sum += QUARTER(0, -d, p);
    to[p * PLANE] = sum;
  }
#endif
}
