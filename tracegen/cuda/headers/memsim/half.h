// Half precision and bfloat16, by value. Arithmetic in bfloat16 is done in single precision and rounded.
#pragma once
struct __align__(2) __half {
  _Float16 value;
  __half() = default;
  __host__ __device__ __half(_Float16 v) : value(v) {}
  __host__ __device__ __half(float v) : value((_Float16)v) {}
  __host__ __device__ __half(double v) : value((_Float16)v) {}
  __host__ __device__ __half(int v) : value((_Float16)v) {}
  __host__ __device__ operator float() const { return (float)value; }
};
struct __align__(2) __nv_bfloat16 {
  unsigned short bits;
  __nv_bfloat16() = default;
  __host__ __device__ __nv_bfloat16(float v) {
    unsigned wide;
    __builtin_memcpy(&wide, &v, 4);
    // Rounded to nearest, ties to even; a NaN stays one.
    bits = v != v ? 0x7fff : (unsigned short)((wide + 0x7fff + (wide >> 16 & 1)) >> 16);
  }
  __host__ __device__ __nv_bfloat16(double v) : __nv_bfloat16((float)v) {}
  __host__ __device__ __nv_bfloat16(int v) : __nv_bfloat16((float)v) {}
  __host__ __device__ operator float() const {
    unsigned wide = (unsigned)bits << 16;
    float v;
    __builtin_memcpy(&v, &wide, 4);
    return v;
  }
};
typedef __half half;
typedef __nv_bfloat16 nv_bfloat16;
typedef __nv_bfloat16 __hip_bfloat16;
#define MEMSIM_TWO(T2, T)                                                                            \
  struct __align__(4) T2 {                                                                           \
    T x, y;                                                                                          \
    T2() = default;                                                                                  \
    __host__ __device__ T2(T x, T y) : x(x), y(y) {}                                                 \
  };
MEMSIM_TWO(__half2, __half)
MEMSIM_TWO(__nv_bfloat162, __nv_bfloat16)
#undef MEMSIM_TWO
typedef __half2 half2;
typedef __nv_bfloat162 nv_bfloat162;
typedef __nv_bfloat162 __hip_bfloat162;

MEMSIM_BOTH __half __float2half(float v) { return v; }
MEMSIM_BOTH __half __float2half_rn(float v) { return v; }
MEMSIM_BOTH float __half2float(__half v) { return v; }
MEMSIM_BOTH __half __double2half(double v) { return v; }
MEMSIM_BOTH __half __int2half_rn(int v) { return v; }
MEMSIM_BOTH __half __uint2half_rn(unsigned v) { return (float)v; }
MEMSIM_BOTH int __half2int_rn(__half v) { return (int)__builtin_rintf(v); }
MEMSIM_BOTH int __half2int_rz(__half v) { return (int)(float)v; }
MEMSIM_BOTH unsigned __half2uint_rn(__half v) { return (unsigned)__builtin_rintf(v); }
MEMSIM_BOTH unsigned __half2uint_rz(__half v) { return (unsigned)(float)v; }
MEMSIM_BOTH __half __short2half_rn(short v) { return (float)v; }
MEMSIM_BOTH __half __ushort2half_rn(unsigned short v) { return (float)v; }
MEMSIM_BOTH __nv_bfloat16 __float2bfloat16(float v) { return v; }
MEMSIM_BOTH __nv_bfloat16 __float2bfloat16_rn(float v) { return v; }
MEMSIM_BOTH float __bfloat162float(__nv_bfloat16 v) { return v; }
MEMSIM_BOTH __half2 __halves2half2(__half x, __half y) { return {x, y}; }
MEMSIM_BOTH __half2 make_half2(__half x, __half y) { return {x, y}; }
MEMSIM_BOTH __half2 __float2half2_rn(float v) { return {v, v}; }
MEMSIM_BOTH __half2 __half2half2(__half v) { return {v, v}; }
MEMSIM_BOTH __half2 __floats2half2_rn(float x, float y) { return {x, y}; }
MEMSIM_BOTH float __low2float(__half2 v) { return v.x; }
MEMSIM_BOTH float __high2float(__half2 v) { return v.y; }
MEMSIM_BOTH __half __low2half(__half2 v) { return v.x; }
MEMSIM_BOTH __half __high2half(__half2 v) { return v.y; }
MEMSIM_BOTH float2 __half22float2(__half2 v) { return make_float2(v.x, v.y); }
MEMSIM_BOTH __half2 __float22half2_rn(float2 v) { return {v.x, v.y}; }
MEMSIM_BOTH float2 __bfloat1622float2(__nv_bfloat162 v) { return make_float2(v.x, v.y); }
MEMSIM_BOTH __nv_bfloat162 __floats2bfloat162_rn(float x, float y) { return {x, y}; }
MEMSIM_BOTH __nv_bfloat162 __float22bfloat162_rn(float2 v) { return {v.x, v.y}; }
MEMSIM_BOTH __nv_bfloat162 __float2bfloat162_rn(float v) { return {v, v}; }
MEMSIM_BOTH __nv_bfloat162 __bfloat162bfloat162(__nv_bfloat16 v) { return {v, v}; }
MEMSIM_BOTH __nv_bfloat162 __halves2bfloat162(__nv_bfloat16 x, __nv_bfloat16 y) { return {x, y}; }
MEMSIM_BOTH float __low2float(__nv_bfloat162 v) { return v.x; }
MEMSIM_BOTH float __high2float(__nv_bfloat162 v) { return v.y; }
MEMSIM_BOTH __nv_bfloat16 __low2bfloat16(__nv_bfloat162 v) { return v.x; }
MEMSIM_BOTH __nv_bfloat16 __high2bfloat16(__nv_bfloat162 v) { return v.y; }
MEMSIM_BOTH __nv_bfloat162 make_bfloat162(__nv_bfloat16 x, __nv_bfloat16 y) { return {x, y}; }
MEMSIM_BOTH __half2 __lows2half2(__half2 a, __half2 b) { return {a.x, b.x}; }
MEMSIM_BOTH __half2 __highs2half2(__half2 a, __half2 b) { return {a.y, b.y}; }
MEMSIM_BOTH __half2 __lowhigh2highlow(__half2 v) { return {v.y, v.x}; }

#define MEMSIM_HALF_OPERATION(sign, name)                                                            \
  MEMSIM_BOTH __half name(__half a, __half b) { return __half((_Float16)(a.value sign b.value)); }   \
  MEMSIM_BOTH __half operator sign(__half a, __half b) { return name(a, b); }                        \
  MEMSIM_BOTH __half &operator sign##=(__half &a, __half b) { return a = name(a, b); }               \
  MEMSIM_BOTH __half2 name##2(__half2 a, __half2 b) { return {name(a.x, b.x), name(a.y, b.y)}; }     \
  MEMSIM_BOTH __half2 operator sign(__half2 a, __half2 b) { return name##2(a, b); }                  \
  MEMSIM_BOTH __half2 &operator sign##=(__half2 &a, __half2 b) { return a = name##2(a, b); }         \
  MEMSIM_BOTH __nv_bfloat16 name(__nv_bfloat16 a, __nv_bfloat16 b) { return (float)a sign(float) b; } \
  MEMSIM_BOTH __nv_bfloat16 operator sign(__nv_bfloat16 a, __nv_bfloat16 b) { return name(a, b); }   \
  MEMSIM_BOTH __nv_bfloat16 &operator sign##=(__nv_bfloat16 &a, __nv_bfloat16 b) { return a = name(a, b); } \
  MEMSIM_BOTH __nv_bfloat162 name##2(__nv_bfloat162 a, __nv_bfloat162 b) {                           \
    return {name(a.x, b.x), name(a.y, b.y)};                                                         \
  }                                                                                                  \
  MEMSIM_BOTH __nv_bfloat162 operator sign(__nv_bfloat162 a, __nv_bfloat162 b) { return name##2(a, b); } \
  MEMSIM_BOTH __nv_bfloat162 &operator sign##=(__nv_bfloat162 &a, __nv_bfloat162 b) { return a = name##2(a, b); }
MEMSIM_HALF_OPERATION(+, __hadd)
MEMSIM_HALF_OPERATION(-, __hsub)
MEMSIM_HALF_OPERATION(*, __hmul)
MEMSIM_HALF_OPERATION(/, __hdiv)
#undef MEMSIM_HALF_OPERATION
#define MEMSIM_HALF_COMPARISON(sign, name)                                                           \
  MEMSIM_BOTH bool name(__half a, __half b) { return a.value sign b.value; }                         \
  MEMSIM_BOTH bool operator sign(__half a, __half b) { return a.value sign b.value; }                \
  MEMSIM_BOTH bool name(__nv_bfloat16 a, __nv_bfloat16 b) { return (float)a sign(float) b; }
MEMSIM_HALF_COMPARISON(<, __hlt)
MEMSIM_HALF_COMPARISON(<=, __hle)
MEMSIM_HALF_COMPARISON(>, __hgt)
MEMSIM_HALF_COMPARISON(>=, __hge)
MEMSIM_HALF_COMPARISON(==, __heq)
MEMSIM_HALF_COMPARISON(!=, __hne)
#undef MEMSIM_HALF_COMPARISON
MEMSIM_BOTH __half __hneg(__half a) { return __half((_Float16)-a.value); }
MEMSIM_BOTH __half operator-(__half a) { return __hneg(a); }
MEMSIM_BOTH __half __hfma(__half a, __half b, __half c) { return __builtin_fmaf(a, b, c); }
MEMSIM_BOTH __half2 __hfma2(__half2 a, __half2 b, __half2 c) {
  return {__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y)};
}
MEMSIM_BOTH __nv_bfloat16 __hfma(__nv_bfloat16 a, __nv_bfloat16 b, __nv_bfloat16 c) {
  return __builtin_fmaf(a, b, c);
}
MEMSIM_BOTH __nv_bfloat162 __hfma2(__nv_bfloat162 a, __nv_bfloat162 b, __nv_bfloat162 c) {
  return {__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y)};
}

// What both types have, one value and two at a time.
#define MEMSIM_SHORT_FLOAT(T, T2)                                                                    \
  MEMSIM_BOTH T __hmax(T a, T b) { return (float)a < (float)b ? b : a; }                             \
  MEMSIM_BOTH T __hmin(T a, T b) { return (float)b < (float)a ? b : a; }                             \
  MEMSIM_BOTH T __habs(T a) { return __builtin_fabsf(a); }                                           \
  MEMSIM_BOTH bool __hisnan(T a) { return __builtin_isnan((float)a); }                               \
  MEMSIM_BOTH int __hisinf(T a) { return __builtin_isinf((float)a); }                                \
  MEMSIM_BOTH T hsqrt(T a) { return __builtin_sqrtf(a); }                                            \
  MEMSIM_BOTH T hrsqrt(T a) { return 1.0f / __builtin_sqrtf(a); }                                    \
  MEMSIM_BOTH T hrcp(T a) { return 1.0f / (float)a; }                                                \
  MEMSIM_BOTH T hfloor(T a) { return __builtin_floorf(a); }                                          \
  MEMSIM_BOTH T hceil(T a) { return __builtin_ceilf(a); }                                            \
  MEMSIM_BOTH T htrunc(T a) { return __builtin_truncf(a); }                                          \
  MEMSIM_BOTH T hrint(T a) { return __builtin_rintf(a); }                                            \
  MEMSIM_DEVICE T hexp(T a) { return expf(a); }                                                      \
  MEMSIM_DEVICE T hexp2(T a) { return exp2f(a); }                                                    \
  MEMSIM_DEVICE T hlog(T a) { return logf(a); }                                                      \
  MEMSIM_DEVICE T hlog2(T a) { return log2f(a); }                                                    \
  MEMSIM_DEVICE T hexp10(T a) { return exp2f(3.3219281f * (float)a); }                               \
  MEMSIM_DEVICE T hlog10(T a) { return log10f(a); }                                                  \
  MEMSIM_DEVICE T hsin(T a) { return sinf(a); }                                                      \
  MEMSIM_DEVICE T hcos(T a) { return cosf(a); }                                                      \
  MEMSIM_BOTH T operator+(T a) { return a; }                                                         \
  MEMSIM_BOTH T2 __hneg2(T2 a) { return {-(float)a.x, -(float)a.y}; }                                \
  MEMSIM_BOTH T2 operator-(T2 a) { return __hneg2(a); }                                              \
  MEMSIM_PAIR(T, T2, __habs)                                                                         \
  MEMSIM_MAPPED(T2, sqrt)                                                                            \
  MEMSIM_MAPPED(T2, rsqrt)                                                                           \
  MEMSIM_MAPPED(T2, rcp)                                                                             \
  MEMSIM_MAPPED(T2, floor)                                                                           \
  MEMSIM_MAPPED(T2, ceil)                                                                            \
  MEMSIM_MAPPED(T2, trunc)                                                                           \
  MEMSIM_MAPPED(T2, rint)                                                                            \
  MEMSIM_MAPPED(T2, exp)                                                                             \
  MEMSIM_MAPPED(T2, exp2)                                                                            \
  MEMSIM_MAPPED(T2, exp10)                                                                           \
  MEMSIM_MAPPED(T2, log)                                                                             \
  MEMSIM_MAPPED(T2, log2)                                                                            \
  MEMSIM_MAPPED(T2, log10)                                                                           \
  MEMSIM_MAPPED(T2, sin)                                                                             \
  MEMSIM_MAPPED(T2, cos)                                                                             \
  MEMSIM_PAIRS(T2, __hmax)                                                                           \
  MEMSIM_PAIRS(T2, __hmin)                                                                           \
  MEMSIM_COMPARED(T2, __hlt)                                                                         \
  MEMSIM_COMPARED(T2, __hle)                                                                         \
  MEMSIM_COMPARED(T2, __hgt)                                                                         \
  MEMSIM_COMPARED(T2, __hge)                                                                         \
  MEMSIM_COMPARED(T2, __heq)                                                                         \
  MEMSIM_COMPARED(T2, __hne)
#define MEMSIM_PAIR(T, T2, name) MEMSIM_BOTH T2 name##2(T2 a) { return {name(a.x), name(a.y)}; }
#define MEMSIM_MAPPED(T2, name) MEMSIM_DEVICE T2 h2##name(T2 a) { return {h##name(a.x), h##name(a.y)}; }
#define MEMSIM_PAIRS(T2, name) MEMSIM_BOTH T2 name##2(T2 a, T2 b) { return {name(a.x, b.x), name(a.y, b.y)}; }
#define MEMSIM_COMPARED(T2, name)                                                                    \
  MEMSIM_BOTH T2 name##2(T2 a, T2 b) { return {(float)name(a.x, b.x), (float)name(a.y, b.y)}; }
MEMSIM_SHORT_FLOAT(__half, __half2)
MEMSIM_SHORT_FLOAT(__nv_bfloat16, __nv_bfloat162)
#undef MEMSIM_SHORT_FLOAT
#undef MEMSIM_PAIR
#undef MEMSIM_MAPPED
#undef MEMSIM_PAIRS
#undef MEMSIM_COMPARED
MEMSIM_BOTH __half __ushort_as_half(unsigned short v) { return memsim_reinterpret<__half>(v); }
MEMSIM_BOTH __half __short_as_half(short v) { return memsim_reinterpret<__half>(v); }
MEMSIM_BOTH unsigned short __half_as_ushort(__half v) { return memsim_reinterpret<unsigned short>(v); }
MEMSIM_BOTH short __half_as_short(__half v) { return memsim_reinterpret<short>(v); }
MEMSIM_BOTH __nv_bfloat16 __ushort_as_bfloat16(unsigned short v) { return memsim_reinterpret<__nv_bfloat16>(v); }
MEMSIM_BOTH unsigned short __bfloat16_as_ushort(__nv_bfloat16 v) { return v.bits; }
MEMSIM_DEVICE __half atomicAdd(__half *address, __half v) { return atomicAdd(&address->value, v.value); }
template <class T2> MEMSIM_DEVICE T2 memsim_add_two(T2 *address, T2 v) {
  unsigned old = *(unsigned *)address, seen;
  do {
    seen = old;
    old = atomicCAS((unsigned *)address, seen, memsim_reinterpret<unsigned>(memsim_reinterpret<T2>(seen) + v));
  } while (old != seen);
  return memsim_reinterpret<T2>(old);
}
MEMSIM_DEVICE __half2 atomicAdd(__half2 *address, __half2 v) {
#ifdef MEMSIM_NVIDIA
  unsigned old;
  asm volatile("atom.add.noftz.f16x2 %0, [%1], %2;" : "=r"(old) : "l"(address), "r"(memsim_reinterpret<unsigned>(v)) : "memory");
  return memsim_reinterpret<__half2>(old);
#else
  return memsim_add_two(address, v);
#endif
}
MEMSIM_DEVICE __nv_bfloat162 atomicAdd(__nv_bfloat162 *address, __nv_bfloat162 v) { return memsim_add_two(address, v); }
MEMSIM_DEVICE __half2 unsafeAtomicAdd(__half2 *address, __half2 v) {
#if defined(__gfx90a__) || defined(__gfx940__) || defined(__gfx941__) || defined(__gfx942__)
  typedef _Float16 two __attribute__((ext_vector_type(2)));
  typedef __attribute__((address_space(1))) two in_global_memory;
  return memsim_reinterpret<__half2>(
      __builtin_amdgcn_global_atomic_fadd_v2f16((in_global_memory *)address, memsim_reinterpret<two>(v)));
#else
  return atomicAdd(address, v);
#endif
}
MEMSIM_DEVICE __nv_bfloat162 unsafeAtomicAdd(__nv_bfloat162 *address, __nv_bfloat162 v) { return atomicAdd(address, v); }
#ifdef MEMSIM_NVIDIA // other types have one already
#define MEMSIM_READ_ONLY(T, bits)                                                                    \
  MEMSIM_DEVICE T __ldg(const T *address) { return memsim_reinterpret<T>(__ldg((const bits *)address)); }
MEMSIM_READ_ONLY(__half, unsigned short)
MEMSIM_READ_ONLY(__nv_bfloat16, unsigned short)
MEMSIM_READ_ONLY(__half2, unsigned)
MEMSIM_READ_ONLY(__nv_bfloat162, unsigned)
#undef MEMSIM_READ_ONLY
#endif
#ifdef MEMSIM_NVIDIA
// Pairs are shuffled as words of 32 bits; templates do it on AMD's GPUs.
#define MEMSIM_PAIRS(name, T, Lane)                                                                  \
  MEMSIM_DEVICE T name(unsigned mask, T pair, Lane lane, int width = 32) {                           \
    int word;                                                                                        \
    __builtin_memcpy(&word, &pair, 4);                                                               \
    word = name(mask, word, lane, width);                                                            \
    __builtin_memcpy(&pair, &word, 4);                                                               \
    return pair;                                                                                     \
  }
#define MEMSIM_SHUFFLES(T)                                                                           \
  MEMSIM_PAIRS(__shfl_sync, T, int)                                                                  \
  MEMSIM_PAIRS(__shfl_up_sync, T, unsigned)                                                          \
  MEMSIM_PAIRS(__shfl_down_sync, T, unsigned)                                                        \
  MEMSIM_PAIRS(__shfl_xor_sync, T, int)
MEMSIM_SHUFFLES(__half2)
MEMSIM_SHUFFLES(__nv_bfloat162)
#undef MEMSIM_SHUFFLES
#undef MEMSIM_PAIRS
#endif
