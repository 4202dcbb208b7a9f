// Complex numbers by the names of HIP.
#pragma once
#include "../cuComplex.h"
#define MEMSIM_COMPLEX(C, T, V, f)                                                                   \
  typedef V C;                                                                                       \
  MEMSIM_BOTH C make_##C(T x, T y) { return make_##V(x, y); }                                        \
  MEMSIM_BOTH T hipCreal##f(C a) { return a.x; }                                                     \
  MEMSIM_BOTH T hipCimag##f(C a) { return a.y; }                                                     \
  MEMSIM_BOTH C hipConj##f(C a) { return cuConj##f(a); }                                             \
  MEMSIM_BOTH C hipCadd##f(C a, C b) { return cuCadd##f(a, b); }                                     \
  MEMSIM_BOTH C hipCsub##f(C a, C b) { return cuCsub##f(a, b); }                                     \
  MEMSIM_BOTH C hipCmul##f(C a, C b) { return cuCmul##f(a, b); }                                     \
  MEMSIM_BOTH C hipCdiv##f(C a, C b) { return cuCdiv##f(a, b); }                                     \
  MEMSIM_BOTH T hipCabs##f(C a) { return cuCabs##f(a); }
MEMSIM_COMPLEX(hipFloatComplex, float, float2, f)
MEMSIM_COMPLEX(hipDoubleComplex, double, double2, )
#undef MEMSIM_COMPLEX
typedef hipFloatComplex hipComplex;
