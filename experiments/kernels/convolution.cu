// A two-dimensional convolution with a filter in constant memory. A group copies the part of the image that
// it needs into shared memory; each thread computes tile_size_x by tile_size_y points, which lie a group's
// width and height apart. The parameters, macros of this text, are those of the convolution in the
// AutoTuning Association's benchmark_hub (MIT), which was measured on six GPUs.
#ifndef block_size_x
#define block_size_x 32
#define block_size_y 4
#define tile_size_x 1
#define tile_size_y 1
#define read_only 0
#define use_padding 0
#define image_size 256
#define filter_size 15
#endif

#define WIDTH (block_size_x * tile_size_x)
#define HEIGHT (block_size_y * tile_size_y)
#define BORDER (filter_size / 2 * 2)
#define PITCH (image_size + BORDER)
#define DIVIDES (image_size % WIDTH == 0 && image_size % HEIGHT == 0)

// Padded rows begin block_size_x banks of 32 apart.
#if use_padding && block_size_x % 32 != 0 && (WIDTH + BORDER - block_size_x) % 32 != 0
#define ROW (WIDTH + BORDER + ((32 - (WIDTH + BORDER - block_size_x)) & 31))
#else
#define ROW (WIDTH + BORDER)
#endif

__constant__ float weights[filter_size * filter_size];

__device__ float pixel(float *image, int at)
{
#if read_only
  return __ldg(image + at);
#else
  return image[at];
#endif
}

__global__ void convolution(float *result, float *image)
{
  __shared__ float part[HEIGHT + BORDER][ROW];
  const int column = threadIdx.x, row = threadIdx.y;
  const int left = blockIdx.x * WIDTH, top = blockIdx.y * HEIGHT;

#pragma unroll
  for (int y = row; y < HEIGHT + BORDER; y += block_size_y) {
#pragma unroll
    for (int x = column; x < WIDTH + BORDER; x += block_size_x) {
      if (DIVIDES || (top + y < PITCH && left + x < PITCH))
        part[y][x] = pixel(image, (top + y) * PITCH + left + x);
    }
  }
  __syncthreads();

  float sum[tile_size_y][tile_size_x] = {};
#pragma unroll
  for (int i = 0; i < filter_size; ++i) {
#pragma unroll
    for (int j = 0; j < filter_size; ++j) {
#pragma unroll
      for (int v = 0; v < tile_size_y; ++v) {
#pragma unroll
        for (int u = 0; u < tile_size_x; ++u)
          sum[v][u] += part[row + v * block_size_y + i][column + u * block_size_x + j]
                       * weights[i * filter_size + j];
      }
    }
  }

#pragma unroll
  for (int v = 0; v < tile_size_y; ++v) {
#pragma unroll
    for (int u = 0; u < tile_size_x; ++u) {
      const int y = top + row + v * block_size_y, x = left + column + u * block_size_x;
      if (DIVIDES || (y < image_size && x < image_size))
        result[y * image_size + x] = sum[v][u];
    }
  }
}
