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

// clang's headers declare these for float, and leave their definition to CUDA's own headers.
#define MEMSIM_SINGLE(Result, name)                                                                  \
  MEMSIM_DEVICE Result name(float v) { return name##f(v); }
MEMSIM_SINGLE(float, acosh)
MEMSIM_SINGLE(float, asinh)
MEMSIM_SINGLE(float, atanh)
MEMSIM_SINGLE(float, cbrt)
MEMSIM_SINGLE(float, erf)
MEMSIM_SINGLE(float, erfc)
MEMSIM_SINGLE(float, exp2)
MEMSIM_SINGLE(float, expm1)
MEMSIM_SINGLE(float, lgamma)
MEMSIM_SINGLE(float, log1p)
MEMSIM_SINGLE(float, log2)
MEMSIM_SINGLE(float, logb)
MEMSIM_SINGLE(float, nearbyint)
MEMSIM_SINGLE(float, rint)
MEMSIM_SINGLE(float, round)
MEMSIM_SINGLE(float, tgamma)
MEMSIM_SINGLE(float, trunc)
MEMSIM_SINGLE(int, ilogb)
MEMSIM_SINGLE(long, lrint)
MEMSIM_SINGLE(long, lround)
MEMSIM_SINGLE(long long, llrint)
MEMSIM_SINGLE(long long, llround)
#undef MEMSIM_SINGLE
#define MEMSIM_SINGLES(name)                                                                         \
  MEMSIM_DEVICE float name(float a, float b) { return name##f(a, b); }
MEMSIM_SINGLES(copysign)
MEMSIM_SINGLES(fdim)
MEMSIM_SINGLES(fmax)
MEMSIM_SINGLES(fmin)
MEMSIM_SINGLES(hypot)
MEMSIM_SINGLES(nextafter)
MEMSIM_SINGLES(remainder)
#undef MEMSIM_SINGLES
MEMSIM_DEVICE float fma(float a, float b, float c) { return fmaf(a, b, c); }
MEMSIM_DEVICE float scalbn(float v, int by) { return scalbnf(v, by); }
MEMSIM_DEVICE float scalbln(float v, long by) { return scalblnf(v, by); }

typedef unsigned memsim_mask;
#define MEMSIM_ALL ((memsim_mask)-1)


#if __CUDA_ARCH__ >= 700
template <class T> MEMSIM_DEVICE unsigned __match_any_sync(memsim_mask mask, T value) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8, "values of 4 or 8 bytes are matched");
  unsigned long long bits = 0;
  __builtin_memcpy(&bits, &value, sizeof(T));
  return sizeof(T) == 4 ? __match32_any_sync(mask, (unsigned)bits) : __match64_any_sync(mask, bits);
}
template <class T> MEMSIM_DEVICE unsigned __match_all_sync(memsim_mask mask, T value, int *all) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8, "values of 4 or 8 bytes are matched");
  unsigned long long bits = 0;
  __builtin_memcpy(&bits, &value, sizeof(T));
  return sizeof(T) == 4 ? __match32_all_sync(mask, (unsigned)bits, all) : __match64_all_sync(mask, bits, all);
}
MEMSIM_DEVICE void __nanosleep(unsigned ns) { asm volatile("nanosleep.u32 %0;" ::"r"(ns)); }
#endif
#if __CUDA_ARCH__ >= 610
MEMSIM_DEVICE int __dp4a(int a, int b, int c) {
  asm("dp4a.s32.s32 %0, %1, %2, %0;" : "+r"(c) : "r"(a), "r"(b));
  return c;
}
MEMSIM_DEVICE unsigned __dp4a(unsigned a, unsigned b, unsigned c) {
  asm("dp4a.u32.u32 %0, %1, %2, %0;" : "+r"(c) : "r"(a), "r"(b));
  return c;
}
#endif
#if __CUDA_ARCH__ >= 800
#define MEMSIM_REDUCTION(name, T, operation)                                                         \
  MEMSIM_DEVICE T __reduce_##name##_sync(memsim_mask mask, T value) {                                \
    T result;                                                                                        \
    asm volatile("redux.sync." operation " %0, %1, %2;" : "=r"(result) : "r"(value), "r"(mask));     \
    return result;                                                                                   \
  }
MEMSIM_REDUCTION(add, int, "add.s32")
MEMSIM_REDUCTION(min, int, "min.s32")
MEMSIM_REDUCTION(max, int, "max.s32")
MEMSIM_REDUCTION(add, unsigned, "add.u32")
MEMSIM_REDUCTION(min, unsigned, "min.u32")
MEMSIM_REDUCTION(max, unsigned, "max.u32")
MEMSIM_REDUCTION(and, unsigned, "and.b32")
MEMSIM_REDUCTION(or, unsigned, "or.b32")
MEMSIM_REDUCTION(xor, unsigned, "xor.b32")
#undef MEMSIM_REDUCTION
#endif
