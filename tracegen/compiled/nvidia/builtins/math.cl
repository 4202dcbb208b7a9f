// Mathematical functions, from NVIDIA's libdevice. Those of half precision go through float.
#define NV_1(F) float __nv_##F##f(float); double __nv_##F(double);
#define NV_2(F) float __nv_##F##f(float, float); double __nv_##F(double, double);
#define NV_3(F) float __nv_##F##f(float, float, float); double __nv_##F(double, double, double);

#define OF_FLOAT_1(F)                                                                              \
  DEFINE_1(F, double, double, __nv_##F(x))                                                         \
  DEFINE_1(F, half, half, __nv_##F##f(x))
#define OF_FLOAT_2(F)                                                                              \
  DEFINE_2(F, double, double, double, __nv_##F(x, y))                                              \
  DEFINE_2(F, half, half, half, __nv_##F##f(x, y))
#define MATH_1(F) NV_1(F) OF_FLOAT_1(F) DEFINE_1(F, float, float, __nv_##F##f(x))
#define MATH_2(F) NV_2(F) OF_FLOAT_2(F) DEFINE_2(F, float, float, float, __nv_##F##f(x, y))
#define MATH_3(F)                                                                                  \
  NV_3(F)                                                                                          \
  DEFINE_3(F, float, float, float, float, __nv_##F##f(x, y, z))                                    \
  DEFINE_3(F, double, double, double, double, __nv_##F(x, y, z))                                   \
  DEFINE_3(F, half, half, half, half, __nv_##F##f(x, y, z))

MATH_1(acos) MATH_1(acosh) MATH_1(asin) MATH_1(asinh) MATH_1(atan) MATH_1(atanh) MATH_1(cbrt)
MATH_1(ceil) MATH_1(cosh) MATH_1(cospi) MATH_1(erf) MATH_1(erfc) MATH_1(exp2) MATH_1(expm1)
MATH_1(fabs) MATH_1(floor) MATH_1(lgamma) MATH_1(log1p) MATH_1(logb) MATH_1(rint) MATH_1(round)
MATH_1(rsqrt) MATH_1(sinh) MATH_1(sinpi) MATH_1(tanh) MATH_1(tgamma) MATH_1(trunc)
MATH_2(atan2) MATH_2(copysign) MATH_2(fdim) MATH_2(fmax) MATH_2(fmin) MATH_2(fmod) MATH_2(hypot)
MATH_2(nextafter) MATH_2(remainder)
MATH_3(fma)

// Functions that -cl-fast-relaxed-math replaces by the hardware's approximations.
#ifdef __FAST_RELAXED_MATH__
#define QUICK(F, X) __nv_fast_##F##f(X)
#else
#define QUICK(F, X) __nv_##F##f(X)
#endif
#define QUICK_1(F)                                                                                 \
  NV_1(F) float __nv_fast_##F##f(float);                                                           \
  OF_FLOAT_1(F)                                                                                    \
  DEFINE_1(F, float, float, QUICK(F, x))
QUICK_1(cos) QUICK_1(exp) QUICK_1(exp10) QUICK_1(log) QUICK_1(log10) QUICK_1(log2) QUICK_1(sin)
QUICK_1(tan)
NV_2(pow)
float __nv_fast_powf(float, float);
OF_FLOAT_2(pow)
#ifdef __FAST_RELAXED_MATH__
DEFINE_2(pow, float, float, float, __nv_fast_powf(x, y))
#else
DEFINE_2(pow, float, float, float, __nv_powf(x, y))
#endif

#ifdef DIVIDES_EXACTLY
DEFINE_1(sqrt, float, float, __nvvm_sqrt_rn_f(x))
#else
DEFINE_1(sqrt, float, float, __nvvm_sqrt_approx_f(x))
#endif
DEFINE_1(sqrt, double, double, __builtin_sqrt(x))
DEFINE_1(sqrt, half, half, __nvvm_sqrt_approx_f(x))

float __nv_ldexpf(float, int);
double __nv_ldexp(double, int);
float __nv_powif(float, int);
double __nv_powi(double, int);
int __nv_ilogbf(float);
int __nv_ilogb(double);
DEFINE_2(ldexp, float, float, int, __nv_ldexpf(x, y))
DEFINE_2(ldexp, double, double, int, __nv_ldexp(x, y))
EACH_WIDTH(LIFT_2_SCALAR, ldexp, float, float, int)
EACH_WIDTH(LIFT_2_SCALAR, ldexp, double, double, int)
DEFINE_2(pown, float, float, int, __nv_powif(x, y))
DEFINE_2(pown, double, double, int, __nv_powi(x, y))
DEFINE_1(ilogb, int, float, __nv_ilogbf(x))
DEFINE_1(ilogb, int, double, __nv_ilogb(x))
DEFINE_1(nan, float, uint, as_float(0x7fc00000 | x))
DEFINE_1(nan, double, ulong, as_double(0x7ff8000000000000 | x))

#define OF_TYPE(T)                                                                                 \
  DEFINE_1(acospi, T, T, acos(x) * (T)M_1_PI)                                                      \
  DEFINE_1(asinpi, T, T, asin(x) * (T)M_1_PI)                                                      \
  DEFINE_1(atanpi, T, T, atan(x) * (T)M_1_PI)                                                      \
  DEFINE_1(tanpi, T, T, sinpi(x) / cospi(x))                                                       \
  DEFINE_2(atan2pi, T, T, T, atan2(x, y) * (T)M_1_PI)                                              \
  DEFINE_2(maxmag, T, T, T, fabs(x) > fabs(y) ? x : fabs(y) > fabs(x) ? y : fmax(x, y))            \
  DEFINE_2(minmag, T, T, T, fabs(x) < fabs(y) ? x : fabs(y) < fabs(x) ? y : fmin(x, y))            \
  DEFINE_2(powr, T, T, T, pow(x, y))                                                               \
  DEFINE_2(rootn, T, T, int, pow(x, (T)1 / (T)y))                                                  \
  DEFINE_3(mad, T, T, T, T, fma(x, y, z))                                                          \
  EACH_WIDTH(LIFT_2_SCALAR, fmax, T, T, T)                                                         \
  EACH_WIDTH(LIFT_2_SCALAR, fmin, T, T, T)
EACH_FLOATING(OF_TYPE)

float __nv_fast_fdividef(float, float);
#define NATIVE_1(F)                                                                                \
  DEFINE_1(native_##F, float, float, __nv_fast_##F##f(x))                                          \
  DEFINE_1(half_##F, float, float, __nv_fast_##F##f(x))
NATIVE_1(cos) NATIVE_1(exp) NATIVE_1(exp10) NATIVE_1(log) NATIVE_1(log10) NATIVE_1(log2)
NATIVE_1(sin) NATIVE_1(tan)
#define HARDWARE(KIND)                                                                             \
  DEFINE_1(KIND##_exp2, float, float, __nvvm_ex2_approx_f(x))                                      \
  DEFINE_1(KIND##_recip, float, float, __nv_fast_fdividef(1.0f, x))                                \
  DEFINE_1(KIND##_rsqrt, float, float, __nvvm_rsqrt_approx_f(x))                                   \
  DEFINE_1(KIND##_sqrt, float, float, __nvvm_sqrt_approx_f(x))                                     \
  DEFINE_2(KIND##_divide, float, float, float, __nv_fast_fdividef(x, y))                           \
  DEFINE_2(KIND##_powr, float, float, float, __nv_fast_powf(x, y))
HARDWARE(native) HARDWARE(half)

// Functions that return a second result through a pointer of any address space.
#define LIFT_POINTER(N, SPACE, F, R, A, P)                                                         \
  R##N OVERLOADED F(A##N x, SPACE P##N *second)                                                    \
  {                                                                                                \
    R##N r;                                                                                        \
    for (int i = 0; i < N; i++) {                                                                  \
      P part;                                                                                      \
      r[i] = F(x[i], &part);                                                                       \
      (*second)[i] = part;                                                                         \
    }                                                                                              \
    return r;                                                                                      \
  }
#define IN_SPACE(SPACE, F, R, A, P, E)                                                             \
  R OVERLOADED F(A x, SPACE P *second)                                                             \
  {                                                                                                \
    P part;                                                                                        \
    R r = E;                                                                                       \
    *second = part;                                                                                \
    return r;                                                                                      \
  }                                                                                                \
  EACH_WIDTH(LIFT_POINTER, SPACE, F, R, A, P)

float __nv_frexpf(float, int *);
double __nv_frexp(double, int *);
float __nv_modff(float, float *);
double __nv_modf(double, double *);
void __nv_sincosf(float, float *, float *);
void __nv_sincos(double, double *, double *);
float __attribute__((always_inline)) _sincosf(float x, float *part)
{
  float r;
  __nv_sincosf(x, &r, part);
  return r;
}
double __attribute__((always_inline)) _sincos(double x, double *part)
{
  double r;
  __nv_sincos(x, &r, part);
  return r;
}
// Private first: vectors in any space use its scalar function.
#define WITH_POINTER(SPACE)                                                                        \
  IN_SPACE(SPACE, frexp, float, float, int, __nv_frexpf(x, &part))                                 \
  IN_SPACE(SPACE, frexp, double, double, int, __nv_frexp(x, &part))                                \
  IN_SPACE(SPACE, modf, float, float, float, __nv_modff(x, &part))                                 \
  IN_SPACE(SPACE, modf, double, double, double, __nv_modf(x, &part))                               \
  IN_SPACE(SPACE, sincos, float, float, float, _sincosf(x, &part))                                 \
  IN_SPACE(SPACE, sincos, double, double, double, _sincos(x, &part))                               \
  IN_SPACE(SPACE, fract, float, float, float, fmin(x - (part = floor(x)), 0x1.fffffep-1f))         \
  IN_SPACE(SPACE, fract, double, double, double,                                                   \
           fmin(x - (part = floor(x)), 0x1.fffffffffffffp-1))
WITH_POINTER(__private) WITH_POINTER(__global) WITH_POINTER(__local)
