// Mathematics beyond <cmath>: min and max of mixed types, conversions.
#pragma once
#define MEMSIM_MIN_MAX(T)                                                                            \
  MEMSIM_BOTH T min(T a, T b) { return b < a ? b : a; }                                              \
  MEMSIM_BOTH T max(T a, T b) { return a < b ? b : a; }
MEMSIM_MIN_MAX(unsigned)
MEMSIM_MIN_MAX(long)
MEMSIM_MIN_MAX(unsigned long)
MEMSIM_MIN_MAX(long long)
MEMSIM_MIN_MAX(unsigned long long)
#undef MEMSIM_MIN_MAX
#ifndef MEMSIM_AMD
MEMSIM_BOTH float min(float a, float b) { return __builtin_fminf(a, b); }
MEMSIM_BOTH float max(float a, float b) { return __builtin_fmaxf(a, b); }
MEMSIM_BOTH double min(double a, double b) { return __builtin_fmin(a, b); }
MEMSIM_BOTH double max(double a, double b) { return __builtin_fmax(a, b); }
#endif
MEMSIM_BOTH double min(float a, double b) { return __builtin_fmin(a, b); }
MEMSIM_BOTH double max(float a, double b) { return __builtin_fmax(a, b); }
MEMSIM_BOTH double min(double a, float b) { return __builtin_fmin(a, b); }
MEMSIM_BOTH double max(double a, float b) { return __builtin_fmax(a, b); }
MEMSIM_BOTH unsigned min(int a, unsigned b) { return min((unsigned)a, b); }
MEMSIM_BOTH unsigned max(int a, unsigned b) { return max((unsigned)a, b); }
MEMSIM_BOTH unsigned min(unsigned a, int b) { return min(a, (unsigned)b); }
MEMSIM_BOTH unsigned max(unsigned a, int b) { return max(a, (unsigned)b); }
#ifndef MEMSIM_NVIDIA // whose headers declare these
#define MEMSIM_CONVERTED(mode)                                                                       \
  MEMSIM_BOTH float __int2float_##mode(int v) { return (float)v; }                                   \
  MEMSIM_BOTH float __uint2float_##mode(unsigned v) { return (float)v; }                             \
  MEMSIM_BOTH float __ll2float_##mode(long long v) { return (float)v; }                              \
  MEMSIM_BOTH float __ull2float_##mode(unsigned long long v) { return (float)v; }                    \
  MEMSIM_BOTH double __ll2double_##mode(long long v) { return (double)v; }                           \
  MEMSIM_BOTH double __ull2double_##mode(unsigned long long v) { return (double)v; }                 \
  MEMSIM_BOTH float __double2float_##mode(double v) { return (float)v; }
MEMSIM_CONVERTED(rn)
MEMSIM_CONVERTED(rz)
MEMSIM_CONVERTED(ru)
MEMSIM_CONVERTED(rd)
#undef MEMSIM_CONVERTED
MEMSIM_BOTH double __int2double_rn(int v) { return v; }
MEMSIM_BOTH double __uint2double_rn(unsigned v) { return v; }
#define MEMSIM_TO_INTEGER(mode, rounded)                                                             \
  MEMSIM_BOTH int __float2int_##mode(float v) { return (int)__builtin_##rounded(v); }                \
  MEMSIM_BOTH unsigned __float2uint_##mode(float v) { return (unsigned)__builtin_##rounded(v); }     \
  MEMSIM_BOTH long long __float2ll_##mode(float v) { return (long long)__builtin_##rounded(v); }     \
  MEMSIM_BOTH unsigned long long __float2ull_##mode(float v) {                                       \
    return (unsigned long long)__builtin_##rounded(v);                                               \
  }                                                                                                  \
  MEMSIM_BOTH unsigned long long __double2ull_##mode(double v) {                                     \
    return (unsigned long long)__builtin_##rounded(v);                                               \
  }                                                                                                  \
  MEMSIM_BOTH int __double2int_##mode(double v) { return (int)__builtin_##rounded(v); }              \
  MEMSIM_BOTH unsigned __double2uint_##mode(double v) { return (unsigned)__builtin_##rounded(v); }   \
  MEMSIM_BOTH long long __double2ll_##mode(double v) { return (long long)__builtin_##rounded(v); }
MEMSIM_TO_INTEGER(rn, rint)
MEMSIM_TO_INTEGER(rz, trunc)
MEMSIM_TO_INTEGER(ru, ceil)
MEMSIM_TO_INTEGER(rd, floor)
#undef MEMSIM_TO_INTEGER
#endif
