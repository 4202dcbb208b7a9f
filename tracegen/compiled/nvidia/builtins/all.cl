// OpenCL C 1.2's built-in functions for NVIDIA's targets, on top of libdevice.
#pragma OPENCL EXTENSION cl_khr_fp16 : enable
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#include "lift.h"

#include "work_items.cl"

#include "math.cl"

#include "integers.cl"

#include "common.cl"

#include "memory.cl"

#include "conversions.cl"
