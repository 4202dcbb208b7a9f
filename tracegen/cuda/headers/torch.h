// What kernels use of PyTorch's headers: accessors of tensors, numbers of 16 bits, and the macros of loops. Written from
// PyTorch's documentation; a numpy array is the argument of an accessor (see tracegen/cuda/arguments.py).
#ifndef MEMSIM_TORCH // copies of this file have other names
#define MEMSIM_TORCH
#ifdef __clang__
#include <stdint.h>
#endif
#include <cuda_bf16.h>
#include <cuda_fp16.h>

namespace c10 {
using BFloat16 = __nv_bfloat16;
using Half = __half;
} // namespace c10

namespace at {
using namespace c10;
template <class T> struct DefaultPtrTraits { typedef T *PtrType; };
template <class T> struct RestrictPtrTraits { typedef T *__restrict__ PtrType; };

template <class T, size_t N, template <class> class Traits = DefaultPtrTraits, class Index = int64_t> class TensorAccessor;

// Axes: how extents and strides are stored
template <class T, size_t N, template <class> class Traits, class Index, class Axes> class MemsimAccessor {
public:
  typedef typename Traits<T>::PtrType PtrType;
  __host__ __device__ Index size(Index axis) const { return sizes_[axis]; }
  __host__ __device__ Index stride(Index axis) const { return strides_[axis]; }
  __host__ __device__ PtrType data() const { return data_; }
  __host__ __device__ decltype(auto) operator[](Index at) const {
    if constexpr (N == 1) return static_cast<T &>(data_[strides_[0] * at]);
    else return TensorAccessor<T, N - 1, Traits, Index>(data_ + strides_[0] * at, sizes_ + 1, strides_ + 1);
  }
protected:
  PtrType data_;
  Axes sizes_, strides_;
};
template <class T, size_t N, template <class> class Traits, class Index>
class TensorAccessor : public MemsimAccessor<T, N, Traits, Index, const Index *> {
public:
  __host__ __device__ TensorAccessor(typename Traits<T>::PtrType data, const Index *sizes, const Index *strides) {
    this->data_ = data;
    this->sizes_ = sizes;
    this->strides_ = strides;
  }
};
template <class T, size_t N, template <class> class Traits = DefaultPtrTraits, class Index = int64_t>
class GenericPackedTensorAccessor : public MemsimAccessor<T, N, Traits, Index, Index[N]> {};
template <class T, size_t N, template <class> class Traits = DefaultPtrTraits>
using PackedTensorAccessor32 = GenericPackedTensorAccessor<T, N, Traits, int32_t>;
template <class T, size_t N, template <class> class Traits = DefaultPtrTraits>
using PackedTensorAccessor64 = GenericPackedTensorAccessor<T, N, Traits, int64_t>;
template <class T, size_t N, template <class> class Traits = DefaultPtrTraits, class Index = int64_t>
using PackedTensorAccessor = GenericPackedTensorAccessor<T, N, Traits, Index>;
} // namespace at

namespace torch {
using namespace c10;
using at::DefaultPtrTraits;
using at::GenericPackedTensorAccessor;
using at::PackedTensorAccessor;
using at::PackedTensorAccessor32;
using at::PackedTensorAccessor64;
using at::RestrictPtrTraits;
using at::TensorAccessor;
} // namespace torch

#if !defined(__clang__) || defined(MEMSIM_DESCRIBED)
template <class T, size_t N, template <class> class Traits, class Index>
struct memsim_describe<at::GenericPackedTensorAccessor<T, N, Traits, Index>> {
  typedef memsim_type<typename memsim_plain<T>::type> type;
  static constexpr memsim_row value = {{sizeof(at::GenericPackedTensorAccessor<T, N, Traits, Index>), sizeof(Index) == 4 ? 't' : 'T', type::kind,
                                        memsim_plain<T>::is_constant, type::bytes, type::unknown}};
};
#endif

#define C10_HOST_DEVICE __host__ __device__
#define C10_DEVICE __device__
#define C10_HOST __host__
#define C10_LAUNCH_BOUNDS_0
#define C10_LAUNCH_BOUNDS_1(most) __launch_bounds__(most)
#define C10_LAUNCH_BOUNDS_2(most, least) __launch_bounds__(most, least)
#define C10_RESTRICT __restrict__
#define CUDA_KERNEL_LOOP_TYPE(i, n, type)                                                            \
  int64_t memsim_##i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;                  \
  for (type i = memsim_##i; memsim_##i < (n); memsim_##i += blockDim.x * gridDim.x, i = memsim_##i)
#define CUDA_KERNEL_LOOP(i, n) CUDA_KERNEL_LOOP_TYPE(i, n, int)
template <class T> __device__ T gpuAtomicAdd(T *place, T value) { return atomicAdd(place, value); }
template <class T> __device__ void gpuAtomicAddNoReturn(T *place, T value) { atomicAdd(place, value); }
#endif
