// Shuffles, votes and reductions of a warp. All are made of one operation: every lane gives 8 bytes,
// waits for the others, and reads what they gave.
#pragma once
#ifdef MEMSIM_CPU
extern "C" {
// What the lanes gave, by lane. mask : those that must come (0: those that can); came : those that did
__device__ const unsigned long long *memsim_warp(unsigned long long mask, unsigned long long value,
                                                 unsigned long long *came);
__device__ __attribute__((const)) unsigned memsim_lane();
}
#if MEMSIM_WARP == 64
typedef unsigned long long memsim_mask;
#else
typedef unsigned memsim_mask;
#endif
#define MEMSIM_ALL ((memsim_mask)-1)

MEMSIM_DEVICE void __syncwarp(memsim_mask mask = MEMSIM_ALL) {
  unsigned long long came;
  memsim_warp(mask, 0, &came);
}

template <class T> MEMSIM_DEVICE T memsim_from_lane(memsim_mask mask, T value, int lane, bool inside) {
  static_assert(sizeof(T) <= 8, "a shuffle moves at most 8 bytes");
  unsigned long long bits = 0, came;
  __builtin_memcpy(&bits, &value, sizeof(T));
  const unsigned long long *given = memsim_warp(mask, bits, &came);
  if (inside && (came >> lane & 1)) {
    unsigned long long other = given[lane];
    __builtin_memcpy(&value, &other, sizeof(T));
  }
  return value;
}
template <class T> MEMSIM_DEVICE T __shfl_sync(memsim_mask mask, T value, int source, int width = MEMSIM_WARP) {
  int first = (int)memsim_lane() & ~(width - 1);
  return memsim_from_lane(mask, value, first + (source & (width - 1)), true);
}
template <class T> MEMSIM_DEVICE T __shfl_up_sync(memsim_mask mask, T value, unsigned by, int width = MEMSIM_WARP) {
  int lane = (int)memsim_lane(), source = lane - (int)by;
  return memsim_from_lane(mask, value, source, source >= (lane & ~(width - 1)));
}
template <class T> MEMSIM_DEVICE T __shfl_down_sync(memsim_mask mask, T value, unsigned by, int width = MEMSIM_WARP) {
  int lane = (int)memsim_lane(), source = lane + (int)by;
  return memsim_from_lane(mask, value, source, source < (lane & ~(width - 1)) + width);
}
template <class T> MEMSIM_DEVICE T __shfl_xor_sync(memsim_mask mask, T value, int with, int width = MEMSIM_WARP) {
  int lane = (int)memsim_lane(), source = lane ^ with;
  return memsim_from_lane(mask, value, source, source < (lane & ~(width - 1)) + width);
}
// The forms without a mask take the lanes that arrive together.
template <class T> MEMSIM_DEVICE T __shfl(T value, int source, int width = MEMSIM_WARP) {
  return __shfl_sync(0, value, source, width);
}
template <class T> MEMSIM_DEVICE T __shfl_up(T value, unsigned by, int width = MEMSIM_WARP) {
  return __shfl_up_sync(0, value, by, width);
}
template <class T> MEMSIM_DEVICE T __shfl_down(T value, unsigned by, int width = MEMSIM_WARP) {
  return __shfl_down_sync(0, value, by, width);
}
template <class T> MEMSIM_DEVICE T __shfl_xor(T value, int with, int width = MEMSIM_WARP) {
  return __shfl_xor_sync(0, value, with, width);
}

MEMSIM_DEVICE memsim_mask __ballot_sync(memsim_mask mask, int vote) {
  unsigned long long came;
  const unsigned long long *given = memsim_warp(mask, vote != 0, &came);
  memsim_mask votes = 0;
  for (int lane = 0; lane < MEMSIM_WARP; ++lane)
    if (came >> lane & 1)
      votes |= (memsim_mask)given[lane] << lane;
  return votes;
}
MEMSIM_DEVICE memsim_mask __activemask() {
  unsigned long long came;
  memsim_warp(0, 0, &came);
  return (memsim_mask)came;
}
MEMSIM_DEVICE memsim_mask __ballot(int vote) { return __ballot_sync(0, vote); }
MEMSIM_DEVICE int __any_sync(memsim_mask mask, int vote) { return __ballot_sync(mask, vote) != 0; }
MEMSIM_DEVICE int __all_sync(memsim_mask mask, int vote) { return __ballot_sync(mask, !vote) == 0; }
MEMSIM_DEVICE int __any(int vote) { return __any_sync(0, vote); }
MEMSIM_DEVICE int __all(int vote) { return __all_sync(0, vote); }
template <class T> MEMSIM_DEVICE memsim_mask __match_any_sync(memsim_mask mask, T value) {
  unsigned long long bits = 0, came;
  __builtin_memcpy(&bits, &value, sizeof(T));
  const unsigned long long *given = memsim_warp(mask, bits, &came);
  memsim_mask equal = 0;
  for (int lane = 0; lane < MEMSIM_WARP; ++lane)
    if (came >> lane & 1)
      equal |= (memsim_mask)(given[lane] == bits) << lane;
  return equal;
}
template <class T> MEMSIM_DEVICE memsim_mask __match_all_sync(memsim_mask mask, T value, int *all) {
  memsim_mask equal = __match_any_sync(mask, value);
  *all = __all_sync(mask, equal == mask);
  return *all ? equal : 0;
}

template <class T, class F> MEMSIM_DEVICE T memsim_reduced(memsim_mask mask, T value, F combine) {
  unsigned long long bits = 0, came;
  __builtin_memcpy(&bits, &value, sizeof(T));
  const unsigned long long *given = memsim_warp(mask, bits, &came);
  bool first = true;
  for (int lane = 0; lane < MEMSIM_WARP; ++lane)
    if (came >> lane & 1) {
      T other;
      __builtin_memcpy(&other, &given[lane], sizeof(T));
      value = first ? other : combine(value, other);
      first = false;
    }
  return value;
}
#define MEMSIM_REDUCTION(name, expression)                                                           \
  template <class T> MEMSIM_DEVICE T __reduce_##name##_sync(memsim_mask mask, T value) {             \
    return memsim_reduced(mask, value, [](T a, T b) -> T { return expression; });                    \
  }
MEMSIM_REDUCTION(add, a + b)
MEMSIM_REDUCTION(min, b < a ? b : a)
MEMSIM_REDUCTION(max, a < b ? b : a)
MEMSIM_REDUCTION(and, a & b)
MEMSIM_REDUCTION(or, a | b)
MEMSIM_REDUCTION(xor, a ^ b)
#undef MEMSIM_REDUCTION
MEMSIM_DEVICE unsigned __lane_id() { return memsim_lane(); }
#ifdef __HIPCC__ // HIP's forms without a mask, and AMD's builtins that kernels name themselves
template <class T> MEMSIM_DEVICE memsim_mask __match_any(T value) { return __match_any_sync(0, value); }
template <class T> MEMSIM_DEVICE memsim_mask __match_all(T value, int *all) {
  return __match_all_sync(__activemask(), value, all);
}
template <class T> MEMSIM_DEVICE T memsim_of_first_lane(T value) {
  unsigned long long bits = 0, came;
  __builtin_memcpy(&bits, &value, sizeof(T));
  const unsigned long long *given = memsim_warp(0, bits, &came);
  __builtin_memcpy(&value, &given[__builtin_ctzll(came)], sizeof(T));
  return value;
}
#define __builtin_amdgcn_readfirstlane(value) memsim_of_first_lane(value)
#define __builtin_amdgcn_ds_bpermute(from, value) __shfl(value, (from) >> 2)
#define __builtin_amdgcn_mbcnt_lo(mask, before) \
  ((before) + (unsigned)__builtin_popcountll((unsigned)(mask) & ((1ull << memsim_lane()) - 1)))
#define __builtin_amdgcn_mbcnt_hi(mask, before) \
  ((before) + (unsigned)__builtin_popcountll((unsigned long long)(unsigned)(mask) << 32 & ((1ull << memsim_lane()) - 1)))
#define __builtin_amdgcn_s_barrier() __syncthreads()
#define __builtin_amdgcn_wave_barrier() __syncwarp()
#define __builtin_amdgcn_fence(...) ((void)0)
#define __builtin_amdgcn_s_sleep(turns) ((void)0)
#define __builtin_amdgcn_s_setprio(priority) ((void)0)
#define __builtin_amdgcn_sched_barrier(kinds) ((void)0)
#define __builtin_amdgcn_rcpf(value) (1.0f / (value))
#define __builtin_amdgcn_rsqf(value) rsqrtf(value)
#define __builtin_nontemporal_load(address) (*(address))
#define __builtin_nontemporal_store(value, address) (*(address) = (value))
#endif
#endif
