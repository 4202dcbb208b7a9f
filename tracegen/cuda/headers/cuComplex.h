// Complex numbers of cuFloatComplex and cuDoubleComplex.
#pragma once
#include "memsim/kernel.h"
#define MEMSIM_COMPLEX(C, T, V, f)                                                                   \
  typedef V C;                                                                                       \
  MEMSIM_BOTH C make_##C(T x, T y) { return make_##V(x, y); }                                        \
  MEMSIM_BOTH T cuCreal##f(C a) { return a.x; }                                                      \
  MEMSIM_BOTH T cuCimag##f(C a) { return a.y; }                                                      \
  MEMSIM_BOTH C cuConj##f(C a) { return {a.x, -a.y}; }                                               \
  MEMSIM_BOTH C cuCadd##f(C a, C b) { return {a.x + b.x, a.y + b.y}; }                               \
  MEMSIM_BOTH C cuCsub##f(C a, C b) { return {a.x - b.x, a.y - b.y}; }                               \
  MEMSIM_BOTH C cuCmul##f(C a, C b) { return {a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x}; }       \
  MEMSIM_BOTH C cuCfma##f(C a, C b, C c) { return cuCadd##f(cuCmul##f(a, b), c); }                   \
  MEMSIM_BOTH C cuCdiv##f(C a, C b) {                                                                \
    T n = b.x * b.x + b.y * b.y;                                                                     \
    return {(a.x * b.x + a.y * b.y) / n, (a.y * b.x - a.x * b.y) / n};                               \
  }                                                                                                  \
  MEMSIM_BOTH T cuCabs##f(C a) { return __builtin_sqrt##f(a.x * a.x + a.y * a.y); }
MEMSIM_COMPLEX(cuFloatComplex, float, float2, f)
MEMSIM_COMPLEX(cuDoubleComplex, double, double2, )
#undef MEMSIM_COMPLEX
typedef cuFloatComplex cuComplex;
MEMSIM_BOTH cuComplex make_cuComplex(float x, float y) { return make_float2(x, y); }
