// NVIDIA's targets: clang's own headers declare most, and its builtins do the rest.
#pragma once
#define CUDA_VERSION 10020
#define __DEVICE_FUNCTIONS_DECL__
#include <__clang_cuda_builtin_vars.h>
MEMSIM_INLINE __cuda_builtin_threadIdx_t::operator dim3() const { return dim3(x, y, z); }
MEMSIM_INLINE __cuda_builtin_threadIdx_t::operator uint3() const { return {x, y, z}; }
MEMSIM_INLINE __cuda_builtin_blockIdx_t::operator dim3() const { return dim3(x, y, z); }
MEMSIM_INLINE __cuda_builtin_blockIdx_t::operator uint3() const { return {x, y, z}; }
MEMSIM_INLINE __cuda_builtin_blockDim_t::operator dim3() const { return dim3(x, y, z); }
MEMSIM_INLINE __cuda_builtin_blockDim_t::operator uint3() const { return {x, y, z}; }
MEMSIM_INLINE __cuda_builtin_gridDim_t::operator dim3() const { return dim3(x, y, z); }
MEMSIM_INLINE __cuda_builtin_gridDim_t::operator uint3() const { return {x, y, z}; }
#define __CUDA__ 1
#include <__clang_cuda_libdevice_declares.h>
#include <__clang_cuda_device_functions.h>
#include <__clang_cuda_math.h>
#include <__clang_cuda_cmath.h>
#include <__clang_cuda_intrinsics.h>

typedef unsigned memsim_mask;
#define MEMSIM_ALL ((memsim_mask)-1)

// What is printed is left out.
template <class... Any> MEMSIM_DEVICE int printf(const char *, Any...) { return 0; }
