// What Oclgrind's plugin headers need of CL/cl.h: two bit fields and two structures that the plugin
// only ever sees by reference. With this, building it needs no OpenCL headers.
#pragma once

#include <cstddef>
#include <cstdint>

typedef uint64_t cl_mem_flags;
typedef uint64_t cl_map_flags;

struct cl_image_format
{
  uint32_t order, data_type;
};

struct cl_image_desc
{
  uint32_t type;
  size_t width, height, depth, array_size, row_pitch, slice_pitch;
  uint32_t n_mip_level, n_sample;
  void *memory;
};
