// What kernels of tests/support/random_cuda.py call, for this computer and for AMD's devices.
#ifdef ON_AMD
#define __device__ __attribute__((device))
#define __shared__ __attribute__((shared))
#define __global__ __attribute__((global))
#define __noinline__ __attribute__((noinline))
#define __align__(n) __attribute__((aligned(n)))
#define DEVICE static __device__ inline __attribute__((always_inline))
typedef signed char int8_t;
#define fmaf __builtin_fmaf
#define fma __builtin_fma
#define sqrtf __builtin_sqrtf
#define sqrt __builtin_sqrt
#define fabsf __builtin_fabsf
#define fabs __builtin_fabs
#define floorf __builtin_floorf
#define floor __builtin_floor
#define ceilf __builtin_ceilf
#define ceil __builtin_ceil
#define truncf __builtin_truncf
#define trunc __builtin_trunc
#define rintf __builtin_rintf
#define rint __builtin_rint
#define copysignf __builtin_copysignf
#define copysign __builtin_copysign
#define signbit __builtin_signbit
#define memcpy __builtin_memcpy
struct Place { unsigned x; };
#define threadIdx (Place{__builtin_amdgcn_workitem_id_x()})
#else
#include <fenv.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#define DEVICE static inline
#endif
typedef unsigned long long ull;
template <class T, class F> DEVICE T as(F x) { T r; memcpy(&r, &x, sizeof r); return r; }
DEVICE unsigned __float_as_uint(float x) { return as<unsigned>(x); }
DEVICE float __uint_as_float(unsigned x) { return as<float>(x); }
DEVICE long long __double_as_longlong(double x) { return as<long long>(x); }
DEVICE unsigned min(unsigned a, unsigned b) { return a < b ? a : b; }
DEVICE unsigned max(unsigned a, unsigned b) { return a > b ? a : b; }
DEVICE int min(int a, int b) { return a < b ? a : b; }
DEVICE int max(int a, int b) { return a > b ? a : b; }
DEVICE ull min(ull a, ull b) { return a < b ? a : b; }
DEVICE ull max(ull a, ull b) { return a > b ? a : b; }
#define abs absolute
DEVICE int absolute(int a) { return a < 0 ? 0 - a : a; }
DEVICE int __popc(unsigned x) { return __builtin_popcount(x); }
DEVICE int __popcll(ull x) { return __builtin_popcountll(x); }
DEVICE int __clz(int x) { return x ? __builtin_clz(x) : 32; }
DEVICE int __clzll(ull x) { return x ? __builtin_clzll(x) : 64; }
DEVICE int __ffs(int x) { return __builtin_ffs(x); }
DEVICE int __ffsll(ull x) { return __builtin_ffsll(x); }
DEVICE double __hiloint2double(int high, int low) { return as<double>((ull)(unsigned)high << 32 | (unsigned)low); }
DEVICE unsigned __brev(unsigned x) { return __builtin_bitreverse32(x); }
DEVICE ull __brevll(ull x) { return __builtin_bitreverse64(x); }
DEVICE unsigned __byte_perm(unsigned x, unsigned y, unsigned s) {
  ull both = (ull)y << 32 | x; unsigned r = 0;
  for (int k = 0; k < 4; k++) r |= (unsigned)(both >> 8 * (s >> 4 * k & 7) & 255) << 8 * k;
  return r;
}
DEVICE unsigned __funnelshift_l(unsigned lo, unsigned hi, unsigned n) { return ((ull)hi << 32 | lo) << (n & 31) >> 32; }
DEVICE unsigned __funnelshift_r(unsigned lo, unsigned hi, unsigned n) { return ((ull)hi << 32 | lo) >> (n & 31); }
DEVICE unsigned __funnelshift_lc(unsigned lo, unsigned hi, unsigned n) { return n >= 32 ? lo : __funnelshift_l(lo, hi, n); }
DEVICE unsigned __funnelshift_rc(unsigned lo, unsigned hi, unsigned n) { return n >= 32 ? hi : __funnelshift_r(lo, hi, n); }
DEVICE unsigned __umulhi(unsigned a, unsigned b) { return (ull)a * b >> 32; }
DEVICE int __mulhi(int a, int b) { return (long long)a * b >> 32; }
DEVICE ull __umul64hi(ull a, ull b) { return (unsigned __int128)a * b >> 64; }
DEVICE unsigned __usad(unsigned a, unsigned b, unsigned c) { return c + (a > b ? a - b : b - a); }
DEVICE unsigned __sad(int a, int b, unsigned c) { return c + (a > b ? (unsigned)a - b : (unsigned)b - a); }
DEVICE unsigned __dp4a(unsigned a, unsigned b, unsigned c) { for (int k = 0; k < 32; k += 8) c += (a >> k & 255) * (b >> k & 255); return c; }
DEVICE int __dp4a(int a, int b, int c) { for (int k = 0; k < 32; k += 8) c += (int8_t)(a >> k) * (int8_t)(b >> k); return c; }
template <class T, class F> DEVICE T clamped(F x, double least, double most) {
  if (x != x) return 0;
  if ((double)x <= least) return (T)least;
  if ((double)x >= most) return most >= 9.2e18 ? (sizeof(T) == 8 && (T)-1 > 0 ? ~(T)0 : (T)(~0ull >> 1)) : (T)most;
  return (T)x;
}
#define TO_INT(name, T, F, round, least, most) DEVICE T name(F x) { return clamped<T, F>(round(x), least, most); }
TO_INT(__float2int_rz, int, float, truncf, -2147483648.0, 2147483647.0)
TO_INT(__float2int_rn, int, float, rintf, -2147483648.0, 2147483647.0)
TO_INT(__float2int_rd, int, float, floorf, -2147483648.0, 2147483647.0)
TO_INT(__float2int_ru, int, float, ceilf, -2147483648.0, 2147483647.0)
TO_INT(__double2int_rz, int, double, trunc, -2147483648.0, 2147483647.0)
TO_INT(__double2int_rn, int, double, rint, -2147483648.0, 2147483647.0)
TO_INT(__double2int_rd, int, double, floor, -2147483648.0, 2147483647.0)
TO_INT(__float2uint_rz, unsigned, float, truncf, 0.0, 4294967295.0)
TO_INT(__float2uint_rn, unsigned, float, rintf, 0.0, 4294967295.0)
TO_INT(__float2uint_ru, unsigned, float, ceilf, 0.0, 4294967295.0)
TO_INT(__float2uint_rd, unsigned, float, floorf, 0.0, 4294967295.0)
TO_INT(__double2uint_rn, unsigned, double, rint, 0.0, 4294967295.0)
TO_INT(__double2uint_rz, unsigned, double, trunc, 0.0, 4294967295.0)
TO_INT(__float2ull_rz, ull, float, truncf, 0.0, 18446744073709551615.0)
TO_INT(__double2ull_rz, ull, double, trunc, 0.0, 18446744073709551615.0)
TO_INT(__float2ll_rz, long long, float, truncf, -9223372036854775808.0, 9223372036854775807.0)
TO_INT(__float2ll_rn, long long, float, rintf, -9223372036854775808.0, 9223372036854775807.0)
TO_INT(__double2ll_rn, long long, double, rint, -9223372036854775808.0, 9223372036854775807.0)
TO_INT(__double2ll_rz, long long, double, trunc, -9223372036854775808.0, 9223372036854775807.0)
#ifndef ON_AMD
template <class F> static F rounded(int mode, F (*f)(F, F, F), F a, F b, F c) {
  fesetround(mode); volatile F x = a, y = b, z = c; volatile F r = f(x, y, z); fesetround(FE_TONEAREST); return r;
}
#define ROUNDED(T, prefix, plus) \
  __attribute__((noinline)) static T prefix##_add(T a, T b, T) { volatile T r = a + b; return r; } \
  __attribute__((noinline)) static T prefix##_mul(T a, T b, T) { volatile T r = a * b; return r; } \
  __attribute__((noinline)) static T prefix##_fma(T a, T b, T c) { volatile T r = plus(a, b, c); return r; } \
  DEVICE T __##prefix##add_rd(T a, T b) { return rounded<T>(FE_DOWNWARD, prefix##_add, a, b, 0); } \
  DEVICE T __##prefix##add_ru(T a, T b) { return rounded<T>(FE_UPWARD, prefix##_add, a, b, 0); } \
  DEVICE T __##prefix##add_rz(T a, T b) { return rounded<T>(FE_TOWARDZERO, prefix##_add, a, b, 0); } \
  DEVICE T __##prefix##mul_rd(T a, T b) { return rounded<T>(FE_DOWNWARD, prefix##_mul, a, b, 0); } \
  DEVICE T __##prefix##mul_ru(T a, T b) { return rounded<T>(FE_UPWARD, prefix##_mul, a, b, 0); } \
  DEVICE T __##prefix##mul_rz(T a, T b) { return rounded<T>(FE_TOWARDZERO, prefix##_mul, a, b, 0); }
ROUNDED(float, f, fmaf)
ROUNDED(double, d, fma)
DEVICE float __fmaf_rd(float a, float b, float c) { return rounded<float>(FE_DOWNWARD, f_fma, a, b, c); }
DEVICE float __fmaf_ru(float a, float b, float c) { return rounded<float>(FE_UPWARD, f_fma, a, b, c); }
DEVICE float __fmaf_rz(float a, float b, float c) { return rounded<float>(FE_TOWARDZERO, f_fma, a, b, c); }
template <class T, class F> static T converted(int mode, F x) { fesetround(mode); volatile F y = x; volatile T r = (T)y; fesetround(FE_TONEAREST); return r; }
DEVICE float __int2float_rd(int x) { return converted<float>(FE_DOWNWARD, x); }
DEVICE float __int2float_ru(int x) { return converted<float>(FE_UPWARD, x); }
DEVICE float __uint2float_rz(unsigned x) { return converted<float>(FE_TOWARDZERO, (long long)x); }
DEVICE float __ll2float_rz(long long x) { return converted<float>(FE_TOWARDZERO, x); }
DEVICE float __double2float_rd(double x) { return converted<float>(FE_DOWNWARD, x); }
DEVICE float __double2float_ru(double x) { return converted<float>(FE_UPWARD, x); }
DEVICE float __double2float_rz(double x) { return converted<float>(FE_TOWARDZERO, x); }
DEVICE float __frcp_rn(float x) { return 1.0f / x; }
DEVICE double __drcp_rn(double x) { return 1.0 / x; }
DEVICE float __fsqrt_rn(float x) { return sqrtf(x); }
__attribute__((noinline)) static float f_div(float a, float b, float) { volatile float r = a / b; return r; }
__attribute__((noinline)) static float f_root(float a, float, float) { volatile float r = sqrtf(a); return r; }
DEVICE float __fdiv_rd(float a, float b) { return rounded<float>(FE_DOWNWARD, f_div, a, b, 0); }
DEVICE float __frcp_ru(float a) { return rounded<float>(FE_UPWARD, f_div, 1, a, 0); }
DEVICE float __fsqrt_rz(float a) { return rounded<float>(FE_TOWARDZERO, f_root, a, 0, 0); }
static _Float16 half_nearest(long double x) { // the nearest half: what a double loses is marked in its last bit
  double near = (double)x;
  if (near == near && (long double)near != x && near - near == 0) {
    ull bits = as<ull>(near);
    const bool above = (near < 0 ? -(long double)near : (long double)near) > (x < 0 ? -x : x);
    near = as<double>((above ? bits - 1 : bits) | 1);
  }
  return (_Float16)near;
}
#endif
DEVICE float __int2float_rn(int x) { return (float)x; }
DEVICE float __uint2float_rn(unsigned x) { return (float)x; }
DEVICE float __ull2float_rn(ull x) { return (float)x; }
DEVICE float __ll2float_rn(long long x) { return (float)x; }
DEVICE double __ull2double_rn(ull x) { return (double)x; }
DEVICE double __ll2double_rn(long long x) { return (double)x; }
DEVICE float __double2float_rn(double x) { return (float)x; }
DEVICE float __saturatef(float x) { return x != x ? 0.0f : x < 0.0f ? 0.0f : x > 1.0f ? 1.0f : x == 0.0f ? 0.0f : x; }
template <class T> DEVICE T least(T a, T b) { return a != a ? b : b != b ? a : a < b || (a == b && signbit(a)) ? a : b; }
template <class T> DEVICE T most(T a, T b) { return a != a ? b : b != b ? a : a > b || (a == b && !signbit(a)) ? a : b; }
#define fminf least<float>
#define fmaxf most<float>
#define fmin least<double>
#define fmax most<double>
#ifdef ON_AMD
static const int last_lane = __AMDGCN_WAVEFRONT_SIZE__ - 1;
DEVICE unsigned lane_of(unsigned from, unsigned x) { return (unsigned)__builtin_amdgcn_ds_bpermute((int)(4 * from), (int)x); }
template <class T> DEVICE T from_lane(T x, int from) {
  unsigned words[sizeof(T) / 4]; memcpy(words, &x, sizeof x);
  for (unsigned k = 0; k < sizeof(T) / 4; k++) words[k] = lane_of(from, words[k]);
  memcpy(&x, words, sizeof x); return x;
}
DEVICE int own_lane() { return __builtin_amdgcn_mbcnt_hi(~0u, __builtin_amdgcn_mbcnt_lo(~0u, 0)); }
template <class T> DEVICE T __shfl_sync(ull, T x, int from) { return from_lane(x, from & last_lane); }
template <class T> DEVICE T __shfl_up_sync(ull, T x, int by) { int l = own_lane(); return from_lane(x, l >= by ? l - by : l); }
template <class T> DEVICE T __shfl_down_sync(ull, T x, int by) { int l = own_lane(); return from_lane(x, l + by <= last_lane ? l + by : l); }
template <class T> DEVICE T __shfl_xor_sync(ull, T x, int with, int n = last_lane + 1) {
  int l = own_lane(), from = l ^ with; return from_lane(x, from <= (l | n - 1) ? from : l);
}
DEVICE ull __ballot_sync(ull, int p) { return __builtin_amdgcn_uicmp(p, 0, 33); }
DEVICE int __any_sync(ull, int p) { return __ballot_sync(0, p) != 0; }
DEVICE int __all_sync(ull, int p) { return __ballot_sync(0, !p) == 0; }
DEVICE ull __match_any_sync(ull, unsigned x) {
  ull equal = 0;
  for (ull left = __ballot_sync(0, 1); left;) {
    const bool same = x == (unsigned)__builtin_amdgcn_readlane((int)x, __builtin_ctzll(left));
    const ull these = __ballot_sync(0, same);
    equal = same ? these : equal; left &= ~these;
  }
  return equal;
}
DEVICE void __syncthreads() {
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup"); __builtin_amdgcn_s_barrier(); __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}
DEVICE void atomicAdd(unsigned *p, unsigned x) { __hip_atomic_fetch_add(p, x, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_WORKGROUP); }
DEVICE void atomicMax(int *p, int x) { __hip_atomic_fetch_max(p, x, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_WORKGROUP); }
DEVICE void atomicXor(unsigned *p, unsigned x) { __hip_atomic_fetch_xor(p, x, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_WORKGROUP); }
#endif
