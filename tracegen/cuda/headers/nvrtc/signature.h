// Describes the parameters of a kernel: tracegen/compiled/cuda_signature.py reads the table. clang and NVRTC compile it.
#pragma once
typedef unsigned long long memsim_word;
struct memsim_row {
  // bytes; kind (p: pointer, i, u, f, b: numbers as numpy names them, t, T: an accessor of PyTorch
  // with indices of 32 and 64 bits, s: anything else); of what a pointer points to: kind,
  // whether it may not be written, bytes; whether a type is in it that is not known here
  memsim_word of[6];
};
template <class T, class = void> struct memsim_type { // functions, and classes that are only declared
  static constexpr memsim_word bytes = 0, kind = 's', unknown = 0;
};
template <class T> struct memsim_type<T, decltype(void(sizeof(T)))> {
  static constexpr memsim_word bytes = sizeof(T), kind = __is_enum(T) ? 'i' : 's', unknown = alignof(T) >= 4096;
};
#define MEMSIM_NUMBER(letter, T)                                                                     \
  template <> struct memsim_type<T, void> {                                                          \
    static constexpr memsim_word bytes = sizeof(T), kind = letter, unknown = 0;                      \
  };
template <> struct memsim_type<void, void> {
  static constexpr memsim_word bytes = 0, kind = 's', unknown = 0;
};
MEMSIM_NUMBER('b', bool)
MEMSIM_NUMBER('i', char)
MEMSIM_NUMBER('i', signed char)
MEMSIM_NUMBER('u', unsigned char)
MEMSIM_NUMBER('i', short)
MEMSIM_NUMBER('u', unsigned short)
MEMSIM_NUMBER('i', int)
MEMSIM_NUMBER('u', unsigned)
MEMSIM_NUMBER('i', long)
MEMSIM_NUMBER('u', unsigned long)
MEMSIM_NUMBER('i', long long)
MEMSIM_NUMBER('u', unsigned long long)
MEMSIM_NUMBER('f', float)
MEMSIM_NUMBER('f', double)
#ifdef __clang__
MEMSIM_NUMBER('f', _Float16)
#endif

template <class T> struct memsim_plain {
  typedef T type;
  static constexpr bool is_constant = false;
};
template <class T> struct memsim_plain<const T> {
  typedef T type;
  static constexpr bool is_constant = true;
};
template <class T> struct memsim_plain<volatile T> : memsim_plain<T> {};
template <class T> struct memsim_plain<const volatile T> : memsim_plain<const T> {};
template <class T> struct memsim_describe {
  typedef memsim_type<typename memsim_plain<T>::type> type;
  static constexpr memsim_row value = {{type::bytes, type::kind, 0, 0, 0, type::unknown}};
};
template <class T> struct memsim_describe<T *> {
  typedef memsim_type<typename memsim_plain<T>::type> type;
  static constexpr memsim_row value = {{sizeof(T *), 'p', type::kind, memsim_plain<T>::is_constant, type::bytes, type::unknown}};
};
template <class T> struct memsim_describe<T *const> : memsim_describe<T *> {};
template <class T> struct memsim_describe<T *__restrict__> : memsim_describe<T *> {};

template <class T> struct memsim_parameters_of;
template <class... P> struct memsim_parameters_of<void (*)(P...)> {
  struct memsim_list {
    memsim_row of[sizeof...(P) + 1];
  };
  static constexpr memsim_list memsim_value = {{memsim_describe<P>::value..., {{1}}}}; // the last one ends the table
};

#ifdef __clang__ // NVRTC's caller asks for the symbol. Among overloaded kernels, clang finds none for a variable of the device
#define MEMSIM_KERNEL(...)                                                                           \
  static constexpr memsim_kernel_type memsim_pointer = __VA_ARGS__;                                  \
  extern "C" __device__ __attribute__((used)) void *memsim_kernel = (void *)memsim_pointer;
#else
#define MEMSIM_KERNEL(...)
#endif
#define MEMSIM_SIGNATURE(...)                                                                        \
  typedef decltype(__VA_ARGS__) memsim_kernel_type;                                                  \
  MEMSIM_KERNEL(__VA_ARGS__)                                                                         \
  extern "C" __device__ __attribute__((used)) memsim_parameters_of<memsim_kernel_type>::memsim_list  \
      memsim_parameters = memsim_parameters_of<memsim_kernel_type>::memsim_value;
