// threadIdx, blockIdx, blockDim, gridDim, warpSize: read-only objects whose members call a function.
#pragma once
#ifdef MEMSIM_CPU
extern "C" {
#define MEMSIM_INDEX(which)                                                                          \
  __device__ __attribute__((const)) unsigned memsim_##which##_x();                                   \
  __device__ __attribute__((const)) unsigned memsim_##which##_y();                                   \
  __device__ __attribute__((const)) unsigned memsim_##which##_z();
MEMSIM_INDEX(thread)
MEMSIM_INDEX(block)
MEMSIM_INDEX(block_size)
MEMSIM_INDEX(grid_size)
#undef MEMSIM_INDEX
}
#define MEMSIM_INDEX(type, name, which)                                                              \
  struct memsim_##type {                                                                             \
    __declspec(property(get = get_x)) unsigned x;                                                    \
    __declspec(property(get = get_y)) unsigned y;                                                    \
    __declspec(property(get = get_z)) unsigned z;                                                    \
    MEMSIM_DEVICE unsigned get_x() { return memsim_##which##_x(); }                                  \
    MEMSIM_DEVICE unsigned get_y() { return memsim_##which##_y(); }                                  \
    MEMSIM_DEVICE unsigned get_z() { return memsim_##which##_z(); }                                  \
    __device__ operator uint3() const { return {x, y, z}; }                                          \
    __device__ operator dim3() const { return dim3(x, y, z); }                                       \
  };                                                                                                 \
  extern const __device__ memsim_##type name;
MEMSIM_INDEX(thread_index, threadIdx, thread)
MEMSIM_INDEX(block_index, blockIdx, block)
MEMSIM_INDEX(block_dim, blockDim, block_size)
MEMSIM_INDEX(grid_dim, gridDim, grid_size)
#undef MEMSIM_INDEX
static constexpr int warpSize = MEMSIM_WARP;
#endif
