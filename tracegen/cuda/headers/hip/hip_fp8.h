// Numbers of 8 bits: e4m3 and e5m2 of the Open Compute Project, and those of AMD, without infinities and negative zero (fnuz).
#pragma once
#include "../memsim/kernel.h"
#include "../memsim/half.h"
typedef unsigned char __hip_fp8_storage_t;
typedef unsigned short __hip_fp8x2_storage_t;
typedef unsigned int __hip_fp8x4_storage_t;
enum __hip_saturation_t { __HIP_NOSAT, __HIP_SATFINITE };
enum __hip_fp8_interpretation_t { __HIP_E4M3, __HIP_E5M2, __HIP_E4M3_FNUZ, __HIP_E5M2_FNUZ };

MEMSIM_BOTH float memsim_power_of_2(int exponent) { return __int_as_float((exponent + 127) << 23); }
MEMSIM_BOTH int memsim_fraction_bits(__hip_fp8_interpretation_t kind) { return kind == __HIP_E4M3 || kind == __HIP_E4M3_FNUZ ? 3 : 2; }
// The exponent of the smallest normal number.
MEMSIM_BOTH int memsim_least_exponent(__hip_fp8_interpretation_t kind) {
  return (memsim_fraction_bits(kind) == 3 ? -6 : -14) - (kind >= __HIP_E4M3_FNUZ);
}
MEMSIM_BOTH __hip_fp8_storage_t memsim_to_fp8(float v, __hip_saturation_t saturation, __hip_fp8_interpretation_t kind) {
  int bits = __float_as_int(v), sign = bits >> 24 & 0x80, fraction = memsim_fraction_bits(kind);
  int least = memsim_least_exponent(kind), exponent = (bits >> 23 & 255) - 127;
  int largest = kind >= __HIP_E4M3_FNUZ ? 0x7f : kind == __HIP_E4M3 ? 0x7e : 0x7b;
  if (v != v)
    return kind >= __HIP_E4M3_FNUZ ? 0x80 : sign | 0x7f;
  exponent = exponent < least ? least : exponent > 16 ? 16 : exponent;
  float units = __builtin_rintf(__builtin_fabsf(v) * memsim_power_of_2(fraction - exponent));
  int code = (exponent - least << fraction) + (int)__builtin_fminf(units, 127);
  if (code > largest)
    code = saturation == __HIP_SATFINITE ? largest : kind >= __HIP_E4M3_FNUZ ? 0x80 : largest + 1;
  return code || kind < __HIP_E4M3_FNUZ ? sign | code : 0;
}
MEMSIM_BOTH float memsim_from_fp8(__hip_fp8_storage_t v, __hip_fp8_interpretation_t kind) {
  int fraction = memsim_fraction_bits(kind), least = memsim_least_exponent(kind);
  int exponent = (v & 0x7f) >> fraction, units = v & (1 << fraction) - 1;
  if (kind >= __HIP_E4M3_FNUZ ? v == 0x80 : kind == __HIP_E4M3 ? (v & 0x7f) == 0x7f : (v & 0x7f) > 0x7c)
    return __builtin_nanf("");
  if (kind == __HIP_E5M2 && (v & 0x7f) == 0x7c)
    return v & 0x80 ? -__builtin_inff() : __builtin_inff();
  units += exponent ? 1 << fraction : 0;
  float size = units * memsim_power_of_2(least + (exponent ? exponent - 1 : 0) - fraction);
  return v & 0x80 ? -size : size;
}
MEMSIM_BOTH __hip_fp8_storage_t __hip_cvt_float_to_fp8(float v, __hip_saturation_t s, __hip_fp8_interpretation_t kind) {
  return memsim_to_fp8(v, s, kind);
}
MEMSIM_BOTH __hip_fp8_storage_t __hip_cvt_double_to_fp8(double v, __hip_saturation_t s, __hip_fp8_interpretation_t kind) {
  return memsim_to_fp8(v, s, kind);
}
MEMSIM_BOTH __hip_fp8x2_storage_t __hip_cvt_float2_to_fp8x2(float2 v, __hip_saturation_t s, __hip_fp8_interpretation_t kind) {
  return memsim_to_fp8(v.x, s, kind) | memsim_to_fp8(v.y, s, kind) << 8;
}
#define MEMSIM_DEFAULTS(kind)                                                                        \
  static constexpr __hip_saturation_t __default_saturation = __HIP_SATFINITE;                        \
  static constexpr __hip_fp8_interpretation_t __default_interpret = kind;
#define MEMSIM_FP8(name, kind)                                                                       \
  struct __hip_fp8_##name {                                                                          \
    __hip_fp8_storage_t __x;                                                                         \
    MEMSIM_DEFAULTS(kind)                                                                            \
    __hip_fp8_##name() = default;                                                                    \
    template <class T> __host__ __device__ __hip_fp8_##name(T v) : __x(memsim_to_fp8((float)v, __HIP_SATFINITE, kind)) {} \
    __host__ __device__ operator float() const { return memsim_from_fp8(__x, kind); }                \
  };                                                                                                 \
  struct __align__(2) __hip_fp8x2_##name {                                                           \
    __hip_fp8x2_storage_t __x;                                                                       \
    MEMSIM_DEFAULTS(kind)                                                                            \
    __hip_fp8x2_##name() = default;                                                                  \
    template <class T2> __host__ __device__ __hip_fp8x2_##name(T2 v)                                 \
        : __x(__hip_cvt_float2_to_fp8x2({(float)v.x, (float)v.y}, __HIP_SATFINITE, kind)) {}         \
    __host__ __device__ operator float2() const {                                                    \
      return {memsim_from_fp8(__x & 255, kind), memsim_from_fp8(__x >> 8, kind)};                    \
    }                                                                                                \
  };                                                                                                 \
  struct __align__(4) __hip_fp8x4_##name {                                                           \
    __hip_fp8x4_storage_t __x;                                                                       \
    MEMSIM_DEFAULTS(kind)                                                                            \
    __hip_fp8x4_##name() = default;                                                                  \
    template <class T2> __host__ __device__ __hip_fp8x4_##name(T2 a, T2 b)                           \
        : __x(__hip_fp8x2_##name(a).__x | (unsigned)__hip_fp8x2_##name(b).__x << 16) {}              \
    __host__ __device__ __hip_fp8x4_##name(float4 v) : __hip_fp8x4_##name(float2{v.x, v.y}, float2{v.z, v.w}) {} \
    __host__ __device__ operator float4() const {                                                    \
      return {memsim_from_fp8(__x & 255, kind), memsim_from_fp8(__x >> 8 & 255, kind),               \
              memsim_from_fp8(__x >> 16 & 255, kind), memsim_from_fp8(__x >> 24, kind)};             \
    }                                                                                                \
  };
MEMSIM_FP8(e4m3, __HIP_E4M3)
MEMSIM_FP8(e5m2, __HIP_E5M2)
MEMSIM_FP8(e4m3_fnuz, __HIP_E4M3_FNUZ)
MEMSIM_FP8(e5m2_fnuz, __HIP_E5M2_FNUZ)
#undef MEMSIM_FP8
#undef MEMSIM_DEFAULTS
