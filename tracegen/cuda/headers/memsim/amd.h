// AMD's targets: clang's own headers declare mathematics, and its builtins do the rest.
#pragma once
#define MEMSIM_INDEX(type, name, from)                                                               \
  struct memsim_##type {                                                                             \
    __declspec(property(get = get_x)) unsigned x;                                                    \
    __declspec(property(get = get_y)) unsigned y;                                                    \
    __declspec(property(get = get_z)) unsigned z;                                                    \
    MEMSIM_INLINE unsigned get_x() const { return from(x); }                                          \
    MEMSIM_INLINE unsigned get_y() const { return from(y); }                                          \
    MEMSIM_INLINE unsigned get_z() const { return from(z); }                                          \
    MEMSIM_INLINE operator uint3() const { return {x, y, z}; }                                       \
    MEMSIM_INLINE operator dim3() const { return dim3(x, y, z); }                                    \
  };                                                                                                 \
  extern const __device__ __attribute__((weak)) memsim_##type name;
#define MEMSIM_THREAD(axis) __builtin_amdgcn_workitem_id_##axis()
#define MEMSIM_BLOCK(axis) __builtin_amdgcn_workgroup_id_##axis()
#define MEMSIM_SIZE(axis) __builtin_amdgcn_workgroup_size_##axis()
#define MEMSIM_GRID(axis) (__builtin_amdgcn_grid_size_##axis() / __builtin_amdgcn_workgroup_size_##axis())
MEMSIM_INDEX(thread_index, threadIdx, MEMSIM_THREAD)
MEMSIM_INDEX(block_index, blockIdx, MEMSIM_BLOCK)
MEMSIM_INDEX(block_dim, blockDim, MEMSIM_SIZE)
MEMSIM_INDEX(grid_dim, gridDim, MEMSIM_GRID)
#undef MEMSIM_INDEX
static constexpr int warpSize = MEMSIM_WARP;

#include <__clang_hip_libdevice_declares.h>
#include <__clang_hip_math.h>
#include <__clang_hip_cmath.h>

MEMSIM_DEVICE void memsim_fence() { __builtin_amdgcn_fence(__ATOMIC_SEQ_CST, "agent"); }
MEMSIM_DEVICE void __threadfence() { memsim_fence(); }
MEMSIM_DEVICE void __threadfence_block() { __builtin_amdgcn_fence(__ATOMIC_SEQ_CST, "workgroup"); }
MEMSIM_DEVICE void __threadfence_system() { memsim_fence(); }
MEMSIM_DEVICE void __syncthreads() {
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
  __builtin_amdgcn_s_barrier();
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}
extern "C" { // of AMD's device libraries
__device__ int __ockl_wgred_add_i32(int);
__device__ int __ockl_wgred_and_i32(int);
__device__ int __ockl_wgred_or_i32(int);
}
MEMSIM_DEVICE int __syncthreads_count(int vote) { return __ockl_wgred_add_i32(vote != 0); }
MEMSIM_DEVICE int __syncthreads_and(int vote) { return __ockl_wgred_and_i32(vote != 0); }
MEMSIM_DEVICE int __syncthreads_or(int vote) { return __ockl_wgred_or_i32(vote != 0); }
MEMSIM_DEVICE void __nanosleep(unsigned) { __builtin_amdgcn_s_sleep(1); }
MEMSIM_DEVICE long long clock64() { return (long long)__builtin_readcyclecounter(); }
MEMSIM_DEVICE long long wall_clock64() { return clock64(); }
MEMSIM_DEVICE clock_t clock() { return (clock_t)clock64(); }

extern "C" {
__device__ inline __attribute__((always_inline)) void *memcpy(void *to, const void *from, unsigned long bytes) {
  return __builtin_memcpy(to, from, bytes);
}
__device__ inline __attribute__((always_inline)) void *memset(void *at, int value, unsigned long bytes) {
  return __builtin_memset(at, value, bytes);
}
}


#if MEMSIM_WARP == 64
typedef unsigned long long memsim_mask;
#else
typedef unsigned memsim_mask;
#endif
#define MEMSIM_ALL ((memsim_mask)-1)
MEMSIM_DEVICE unsigned memsim_lane() { return __builtin_amdgcn_mbcnt_hi(~0u, __builtin_amdgcn_mbcnt_lo(~0u, 0)); }
MEMSIM_DEVICE unsigned __lane_id() { return memsim_lane(); }
MEMSIM_DEVICE void __syncwarp(memsim_mask = MEMSIM_ALL) { __builtin_amdgcn_wave_barrier(); }
template <class T> MEMSIM_DEVICE T memsim_from_lane(T value, int lane, bool inside) {
  static_assert(sizeof(T) <= 8, "a shuffle moves at most 8 bytes");
  int words[(sizeof(T) + 3) / 4] = {};
  __builtin_memcpy(words, &value, sizeof(T));
  int from = inside ? lane : (int)memsim_lane();
  for (unsigned k = 0; k < (sizeof(T) + 3) / 4; ++k)
    words[k] = __builtin_amdgcn_ds_bpermute(from << 2, words[k]);
  __builtin_memcpy(&value, words, sizeof(T));
  return value;
}
template <class T> MEMSIM_DEVICE T __shfl(T value, int source, int width = MEMSIM_WARP) {
  int first = (int)memsim_lane() & ~(width - 1);
  return memsim_from_lane(value, first + (source & (width - 1)), true);
}
template <class T> MEMSIM_DEVICE T __shfl_up(T value, unsigned by, int width = MEMSIM_WARP) {
  int lane = (int)memsim_lane(), source = lane - (int)by;
  return memsim_from_lane(value, source, source >= (lane & ~(width - 1)));
}
template <class T> MEMSIM_DEVICE T __shfl_down(T value, unsigned by, int width = MEMSIM_WARP) {
  int lane = (int)memsim_lane(), source = lane + (int)by;
  return memsim_from_lane(value, source, source < (lane & ~(width - 1)) + width);
}
template <class T> MEMSIM_DEVICE T __shfl_xor(T value, int with, int width = MEMSIM_WARP) {
  int lane = (int)memsim_lane(), source = lane ^ with;
  return memsim_from_lane(value, source, source < (lane & ~(width - 1)) + width);
}
#define MEMSIM_SYNC(name)                                                                            \
  template <class T, class... Any> MEMSIM_DEVICE T name##_sync(memsim_mask, T value, Any... others) { \
    return name(value, others...);                                                                   \
  }
MEMSIM_SYNC(__shfl)
MEMSIM_SYNC(__shfl_up)
MEMSIM_SYNC(__shfl_down)
MEMSIM_SYNC(__shfl_xor)
#undef MEMSIM_SYNC
#if MEMSIM_WARP == 64 && __has_builtin(__builtin_amdgcn_ballot_w64)
MEMSIM_DEVICE memsim_mask __ballot(int vote) { return __builtin_amdgcn_ballot_w64(vote != 0); }
#elif MEMSIM_WARP == 64 // clang 15: 33 is LLVM's number of `not equal`
MEMSIM_DEVICE memsim_mask __ballot(int vote) { return __builtin_amdgcn_uicmp(vote, 0, 33); }
#else
MEMSIM_DEVICE memsim_mask __ballot(int vote) { return __builtin_amdgcn_ballot_w32(vote != 0); }
#endif
MEMSIM_DEVICE memsim_mask __ballot_sync(memsim_mask, int vote) { return __ballot(vote); }
MEMSIM_DEVICE memsim_mask __activemask() { return __ballot(1); }
MEMSIM_DEVICE int __any(int vote) { return __ballot(vote) != 0; }
MEMSIM_DEVICE int __all(int vote) { return __ballot(!vote) == 0; }
MEMSIM_DEVICE int __any_sync(memsim_mask, int vote) { return __any(vote); }
MEMSIM_DEVICE int __all_sync(memsim_mask, int vote) { return __all(vote); }

// As HIP does it: one turn for each value, and none depends on a lane.
template <class T> MEMSIM_DEVICE memsim_mask __match_any(T value) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8, "values of 4 or 8 bytes are matched");
  int words[sizeof(T) / 4];
  __builtin_memcpy(words, &value, sizeof(T));
  memsim_mask equal = 0;
  for (memsim_mask left = __ballot(1); left;) {
    int lane = __builtin_ctzll(left);
    bool same = true;
    for (unsigned k = 0; k < sizeof(T) / 4; ++k)
      same = same && words[k] == __builtin_amdgcn_readlane(words[k], lane);
    memsim_mask these = __ballot(same);
    equal = same ? these : equal;
    left &= ~these;
  }
  return equal;
}
template <class T> MEMSIM_DEVICE memsim_mask __match_any_sync(memsim_mask mask, T value) { return __match_any(value) & mask; }
template <class T> MEMSIM_DEVICE memsim_mask __match_all_sync(memsim_mask mask, T value, int *all) {
  *all = __all(__match_any_sync(mask, value) == mask);
  return *all ? mask : 0;
}
template <class T> MEMSIM_DEVICE memsim_mask __match_all(T value, int *all) { return __match_all_sync(__activemask(), value, all); }

// Whole waves reduce by AMD's device library, lanes of a mask one after another.
#define MEMSIM_REDUCTION(name, T, kind, expression)                                                  \
  extern "C" __device__ __attribute__((const)) T __ockl_wfred_##name##_##kind(T);                     \
  MEMSIM_DEVICE T __reduce_##name##_sync(memsim_mask mask, T value) {                                \
    if (mask == MEMSIM_ALL)                                                                          \
      return __ockl_wfred_##name##_##kind(value);                                                    \
    T a = __shfl(value, __builtin_ctzll(mask));                                                      \
    for (mask &= mask - 1; mask; mask &= mask - 1) {                                                 \
      T b = __shfl(value, __builtin_ctzll(mask));                                                    \
      a = expression;                                                                                \
    }                                                                                                \
    return a;                                                                                        \
  }
#define MEMSIM_REDUCTIONS(name, expression)                                                          \
  MEMSIM_REDUCTION(name, int, i32, expression)                                                       \
  MEMSIM_REDUCTION(name, unsigned, u32, expression)                                                  \
  MEMSIM_REDUCTION(name, long long, i64, expression)                                                 \
  MEMSIM_REDUCTION(name, unsigned long long, u64, expression)
MEMSIM_REDUCTIONS(add, a + b)
MEMSIM_REDUCTIONS(min, b < a ? b : a)
MEMSIM_REDUCTIONS(max, a < b ? b : a)
MEMSIM_REDUCTIONS(and, a & b)
MEMSIM_REDUCTIONS(or, a | b)
MEMSIM_REDUCTIONS(xor, a ^ b)
#undef MEMSIM_REDUCTIONS
#undef MEMSIM_REDUCTION
// HIP's names of bit fields: `width` bits from `at` on
#define MEMSIM_FIELDS(type, bits)                                                                    \
  MEMSIM_BOTH type __bitextract_u##bits(type v, type at, type width) {                               \
    at &= bits - 1, width &= bits - 1;                                                               \
    return v >> at & (((type)1 << width) - 1);                                                       \
  }                                                                                                  \
  MEMSIM_BOTH type __bitinsert_u##bits(type v, type field, type at, type width) {                    \
    at &= bits - 1, width &= bits - 1;                                                               \
    type mask = (((type)1 << width) - 1) << at;                                                      \
    return (v & ~mask) | (field << at & mask);                                                       \
  }
MEMSIM_FIELDS(unsigned, 32)
MEMSIM_FIELDS(unsigned long long, 64)
#undef MEMSIM_FIELDS
