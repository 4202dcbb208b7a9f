// Where functions run and where variables lie.
#pragma once
#define __host__ __attribute__((host))
#define __device__ __attribute__((device))
#ifndef __global__ // a limit on registers defines it
#define __global__ __attribute__((global))
#endif
#define __shared__ __attribute__((shared))
#define __constant__ __attribute__((constant, used)) // or a static one, which the host sets, would count as 0
#define __managed__ __attribute__((device))
#define __grid_constant__
#define __forceinline__ __inline__ __attribute__((always_inline))
#define __align__(bytes) __attribute__((aligned(bytes)))
#define memsim_(bytes) __attribute__((aligned(bytes))) // see tracegen/cuda/program.py
#define __builtin_align__(bytes) __attribute__((aligned(bytes)))
#ifdef MEMSIM_AMD // as HIP's own header has it
#define MEMSIM_BOUND_1(threads, groups) __attribute__((amdgpu_flat_work_group_size(1, threads)))
#define MEMSIM_BOUND_2(threads, groups)                                                              \
  __attribute__((amdgpu_flat_work_group_size(1, threads), amdgpu_waves_per_eu(groups)))
#define MEMSIM_SELECT(threads, groups, cluster, bounds, ...) bounds(threads, groups)
#define __launch_bounds__(...)                                                                     \
  MEMSIM_SELECT(__VA_ARGS__, MEMSIM_BOUND_2, MEMSIM_BOUND_2, MEMSIM_BOUND_1, )
#else
#define __launch_bounds__(...) __attribute__((launch_bounds(__VA_ARGS__)))
#endif
#define __cluster_dims__(...)
#define __maxnreg__(...)
#define CUDART_CB

#define MEMSIM_ANYWHERE __host__ __device__ __inline__ __attribute__((always_inline, nodebug))
#define MEMSIM_BOTH static MEMSIM_ANYWHERE
#define MEMSIM_DEVICE static __device__ __inline__ __attribute__((always_inline, nodebug))
#define MEMSIM_INLINE __device__ __inline__ __attribute__((always_inline, nodebug))

template <class T> struct memsim_same {
  typedef T type;
};
