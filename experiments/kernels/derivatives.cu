// Second derivatives along x, y or z of a grid of floats with halos, as far as `radius` points to either side. Each thread
// computes `lanes` neighbours along x, which it loads and stores as one vector; in `march` it goes on along z, with what it has
// loaded in registers. The sizes, groups and loads are those of kernels that AMD measured on an MI250X, not their text.
template <int lanes> struct Floats {
  typedef float type __attribute__((ext_vector_type(lanes)));
};

__constant__ float weights[9];

template <int axis, int radius, int lanes>
__global__ void derivative(float *__restrict__ result, const float *__restrict__ values, int row, int plane, int first_x,
                           int first, int end_x, int end_y, int end_z)
{
  typedef typename Floats<lanes>::type Vector;
  const int x = first_x + lanes * (threadIdx.x + blockIdx.x * blockDim.x);
  const int y = first + threadIdx.y + blockIdx.y * blockDim.y;
  const int z = first + threadIdx.z + blockIdx.z * blockDim.z;
  if (x >= end_x || y >= end_y || z >= end_z)
    return;
  const size_t at = x + row * y + plane * z;
  Vector sum = 0.0f;
  if (axis == 0) {
    const int reach = (radius + lanes - 1) / lanes;
    float near[(2 * reach + 1) * lanes];
#pragma unroll
    for (int k = 0; k <= 2 * reach; ++k)
      ((Vector *)near)[k] = ((const Vector *)(values + at))[k - reach];
#pragma unroll
    for (int k = 0; k <= 2 * radius; ++k)
#pragma unroll
      for (int lane = 0; lane < lanes; ++lane)
        sum[lane] += near[reach * lanes - radius + k + lane] * weights[k];
  } else {
    const int step = axis == 1 ? row : plane;
    values += at - (size_t)(radius * step);
#pragma unroll
    for (int k = 0; k <= 2 * radius; ++k, values += step)
      sum += *(const Vector *)values * weights[k];
  }
  *(Vector *)(result + at) = sum;
}

template <int radius>
__global__ void march(float *result, const float *values, int row, int plane, int first_x, int first, int end_x, int end_y,
                      int end_z, int depth)
{
  const int x = first_x + threadIdx.x + blockIdx.x * blockDim.x;
  const int y = first + threadIdx.y + blockIdx.y * blockDim.y;
  if (x >= end_x || y >= end_y)
    return;
  const int begin = first + blockIdx.z * depth, end = min(begin + depth, end_z);
  const size_t at = x + row * y + plane * begin;
  values += at - (size_t)(radius * plane);
  result += at;
  float window[2 * radius + 1];
#pragma unroll
  for (int k = 0; k < 2 * radius; ++k, values += plane)
    window[k] = *values;
  for (int z = begin; z < end; ++z, values += plane, result += plane) {
    window[2 * radius] = *values;
    float sum = 0.0f;
#pragma unroll
    for (int k = 0; k <= 2 * radius; ++k)
      sum += window[k] * weights[k];
    *result = sum;
#pragma unroll
    for (int k = 0; k < 2 * radius; ++k)
      window[k] = window[k + 1];
  }
}
