// Mathematics beyond <cmath>: min and max, reciprocals, fast and explicitly rounded forms, conversions.
// On this computer, results are those of its mathematical library, rounded to nearest.
#pragma once
#define MEMSIM_MIN_MAX(T)                                                                            \
  MEMSIM_BOTH T min(T a, T b) { return b < a ? b : a; }                                              \
  MEMSIM_BOTH T max(T a, T b) { return a < b ? b : a; }
#ifdef MEMSIM_CPU
MEMSIM_MIN_MAX(int)
#endif
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
#ifdef MEMSIM_CPU
MEMSIM_BOTH unsigned umin(unsigned a, unsigned b) { return min(a, b); }
MEMSIM_BOTH unsigned umax(unsigned a, unsigned b) { return max(a, b); }

MEMSIM_BOTH float rsqrtf(float v) { return 1.0f / __builtin_sqrtf(v); }
MEMSIM_BOTH double rsqrt(double v) { return 1.0 / __builtin_sqrt(v); }
MEMSIM_BOTH float rsqrt(float v) { return 1.0f / __builtin_sqrtf(v); }
MEMSIM_BOTH float rcbrtf(float v) { return 1.0f / cbrtf(v); }
MEMSIM_BOTH float sinpif(float v) { return (float)sin(3.14159265358979323846 * v); }
MEMSIM_BOTH float cospif(float v) { return (float)cos(3.14159265358979323846 * v); }
MEMSIM_BOTH double sinpi(double v) { return sin(3.14159265358979323846 * v); }
MEMSIM_BOTH double cospi(double v) { return cos(3.14159265358979323846 * v); }
MEMSIM_BOTH float normcdff(float v) { return 0.5f * erfcf(-v * 0.70710678118654752f); }
MEMSIM_BOTH double normcdf(double v) { return 0.5 * erfc(-v * 0.70710678118654752440); }
MEMSIM_BOTH void sincospi(double v, double *s, double *c) { *s = sinpi(v), *c = cospi(v); }
MEMSIM_BOTH double rcbrt(double v) { return 1.0 / cbrt(v); }
MEMSIM_BOTH double rhypot(double a, double b) { return 1.0 / hypot(a, b); }
MEMSIM_BOTH double norm3d(double a, double b, double c) { return __builtin_sqrt(a * a + b * b + c * c); }
MEMSIM_BOTH double norm4d(double a, double b, double c, double d) {
  return __builtin_sqrt(a * a + b * b + c * c + d * d);
}
MEMSIM_BOTH double rnorm3d(double a, double b, double c) { return 1.0 / norm3d(a, b, c); }
MEMSIM_BOTH double rnorm4d(double a, double b, double c, double d) { return 1.0 / norm4d(a, b, c, d); }
MEMSIM_BOTH float rhypotf(float a, float b) { return (float)rhypot(a, b); }
MEMSIM_BOTH float norm3df(float a, float b, float c) { return (float)norm3d(a, b, c); }
MEMSIM_BOTH float norm4df(float a, float b, float c, float d) { return (float)norm4d(a, b, c, d); }
MEMSIM_BOTH float rnorm3df(float a, float b, float c) { return (float)rnorm3d(a, b, c); }
MEMSIM_BOTH float rnorm4df(float a, float b, float c, float d) { return (float)rnorm4d(a, b, c, d); }
#define MEMSIM_HALF_ROOT_PI 0.88622692545275801365
// Newton's method, from the first term of the asymptotic series, or from the tangent at 0
MEMSIM_BOTH double erfcinv(double y) {
  if (!(y > 0 && y < 2))
    return y == 0 ? __builtin_inf() : y == 2 ? -__builtin_inf() : __builtin_nan("");
  double least = y < 1 ? y : 2 - y, w = -log(least);
  double x = least < 0.1 ? __builtin_sqrt(w - 0.5 * log(w * 3.14159265358979323846)) : MEMSIM_HALF_ROOT_PI * (1 - least);
  for (int k = 0; k < 8; ++k)
    x += (erfc(x) - least) * MEMSIM_HALF_ROOT_PI * exp(x * x);
  return y < 1 ? x : -x;
}
MEMSIM_BOTH double erfinv(double v) {
  if (!(v > -0.5 && v < 0.5))
    return v < 0 ? -erfcinv(1 + v) : erfcinv(1 - v);
  double x = MEMSIM_HALF_ROOT_PI * v;
  for (int k = 0; k < 5; ++k)
    x -= (erf(x) - v) * MEMSIM_HALF_ROOT_PI * exp(x * x);
  return x;
}
#undef MEMSIM_HALF_ROOT_PI
MEMSIM_BOTH double normcdfinv(double v) { return -1.41421356237309504880 * erfcinv(2 * v); }
MEMSIM_BOTH double erfcx(double v) {
  return v < 25 ? exp(v * v) * erfc(v) : (1 - (1 - 1.5 / (v * v)) / (2 * v * v)) / (v * 1.77245385090551602730);
}
// The power series: all its terms are positive. n : order, 0 or 1
MEMSIM_BOTH double memsim_bessel_i(int n, double v) {
  double term = n ? v / 2 : 1, sum = term;
  for (int k = 1; k < 2000 && __builtin_fabs(term) > 1e-17 * __builtin_fabs(sum); ++k)
    sum += term *= v * v / (4.0 * k * (k + n));
  return sum;
}
MEMSIM_BOTH double cyl_bessel_i0(double v) { return memsim_bessel_i(0, v); }
MEMSIM_BOTH double cyl_bessel_i1(double v) { return memsim_bessel_i(1, v); }
#define MEMSIM_SINGLE(name) MEMSIM_BOTH float name##f(float v) { return (float)name((double)v); }
MEMSIM_SINGLE(erfcinv)
MEMSIM_SINGLE(erfinv)
MEMSIM_SINGLE(normcdfinv)
MEMSIM_SINGLE(erfcx)
MEMSIM_SINGLE(cyl_bessel_i0)
MEMSIM_SINGLE(cyl_bessel_i1)
#undef MEMSIM_SINGLE
MEMSIM_BOTH void sincospif(float v, float *s, float *c) { *s = sinpif(v), *c = cospif(v); }
MEMSIM_BOTH float __saturatef(float v) { return v > 0 ? (v < 1 ? v : 1.0f) : 0.0f; }
MEMSIM_BOTH float __fdividef(float a, float b) { return a / b; }
MEMSIM_BOTH float fdividef(float a, float b) { return a / b; }
// glibc has functions with these names; kernels get those of CUDA.
MEMSIM_DEVICE float memsim_expf(float v) { return __builtin_expf(v); }
MEMSIM_DEVICE float memsim_logf(float v) { return __builtin_logf(v); }
MEMSIM_DEVICE float memsim_log2f(float v) { return __builtin_log2f(v); }
MEMSIM_DEVICE float memsim_log10f(float v) { return __builtin_log10f(v); }
MEMSIM_DEVICE void memsim_sincosf(float v, float *s, float *c) { *s = __builtin_sinf(v), *c = __builtin_cosf(v); }
MEMSIM_DEVICE float memsim_sinf(float v) { return __builtin_sinf(v); }
MEMSIM_DEVICE float memsim_cosf(float v) { return __builtin_cosf(v); }
MEMSIM_DEVICE float memsim_tanf(float v) { return __builtin_tanf(v); }
MEMSIM_DEVICE float memsim_exp10f(float v) { return __builtin_powf(10.0f, v); }
MEMSIM_DEVICE float memsim_powf(float a, float b) { return __builtin_powf(a, b); }
#define __sinf memsim_sinf
#define __cosf memsim_cosf
#define __tanf memsim_tanf
#define __exp10f memsim_exp10f
#define __powf memsim_powf
#define __expf memsim_expf
#define __logf memsim_logf
#define __log2f memsim_log2f
#define __log10f memsim_log10f
#define __sincosf memsim_sincosf

#define MEMSIM_ROUNDED(mode)                                                                         \
  MEMSIM_BOTH float __fadd_##mode(float a, float b) { return a + b; }                                \
  MEMSIM_BOTH float __fsub_##mode(float a, float b) { return a - b; }                                \
  MEMSIM_BOTH float __fmul_##mode(float a, float b) { return a * b; }                                \
  MEMSIM_BOTH float __fdiv_##mode(float a, float b) { return a / b; }                                \
  MEMSIM_BOTH float __frcp_##mode(float a) { return 1.0f / a; }                                      \
  MEMSIM_BOTH float __fsqrt_##mode(float a) { return __builtin_sqrtf(a); }                           \
  MEMSIM_BOTH float __fmaf_##mode(float a, float b, float c) { return __builtin_fmaf(a, b, c); }     \
  MEMSIM_BOTH double __dadd_##mode(double a, double b) { return a + b; }                             \
  MEMSIM_BOTH double __dsub_##mode(double a, double b) { return a - b; }                             \
  MEMSIM_BOTH double __dmul_##mode(double a, double b) { return a * b; }                             \
  MEMSIM_BOTH double __ddiv_##mode(double a, double b) { return a / b; }                             \
  MEMSIM_BOTH double __drcp_##mode(double a) { return 1.0 / a; }                                     \
  MEMSIM_BOTH double __dsqrt_##mode(double a) { return __builtin_sqrt(a); }                          \
  MEMSIM_BOTH double __fma_##mode(double a, double b, double c) { return __builtin_fma(a, b, c); }
MEMSIM_ROUNDED(rn)
MEMSIM_ROUNDED(rz)
MEMSIM_ROUNDED(ru)
MEMSIM_ROUNDED(rd)
#undef MEMSIM_ROUNDED
MEMSIM_BOTH float __frsqrt_rn(float a) { return 1.0f / __builtin_sqrtf(a); }
#endif
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
