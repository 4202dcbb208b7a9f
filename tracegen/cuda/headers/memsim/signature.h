// Describes the parameters of a kernel: tracegen/compiled/cuda_signature.py reads the table.
#pragma once
struct memsim_parameter {
  unsigned long bytes;
  char kind;           // p: pointer, i, u, f, b: numbers as numpy names them, s: anything else
  char element;        // of a pointer: the kind of what it points to
  bool constant;       // of a pointer: whether it may not be written through
  unsigned long element_bytes;
};

template <class T> struct memsim_kind {
  static constexpr char value = __is_pointer(T)                     ? 'p'
                                : __is_same(T, bool)                ? 'b'
                                : __is_floating_point(T)            ? 'f'
                                : __is_enum(T) || __is_signed(T)    ? 'i'
                                : __is_integral(T)                  ? 'u'
                                                                    : 's';
};
template <class T> struct memsim_kind<const T> : memsim_kind<T> {};
template <class T> struct memsim_kind<volatile T> : memsim_kind<T> {};
template <class T> struct memsim_kind<const volatile T> : memsim_kind<T> {};
template <class T> struct memsim_bytes {
  static constexpr unsigned long value = sizeof(T);
};
template <> struct memsim_bytes<void> {
  static constexpr unsigned long value = 0;
};
template <> struct memsim_bytes<const void> : memsim_bytes<void> {};
template <> struct memsim_kind<void> {
  static constexpr char value = 's';
};
template <class T> struct memsim_describe {
  static constexpr memsim_parameter value = {sizeof(T), memsim_kind<T>::value, 0, false, 0};
};
template <class T> struct memsim_describe<T *> {
  static constexpr memsim_parameter value = {sizeof(T *), 'p', memsim_kind<T>::value, __is_const(T),
                                             memsim_bytes<T>::value};
};
template <class T> struct memsim_describe<T *const> : memsim_describe<T *> {};
template <class T> struct memsim_describe<T *__restrict__> : memsim_describe<T *> {};

template <class T> struct memsim_parameters_of;
template <class... P> struct memsim_parameters_of<void (*)(P...)> {
  struct list {
    memsim_parameter of[sizeof...(P) + 1];
  };
  static constexpr list value = {{memsim_describe<P>::value..., {0, 0, 0, false, 0}}};
};

#define MEMSIM_SIGNATURE(...)                                                                      \
  extern "C" __device__ __attribute__((used)) void *memsim_kernel = (void *)&__VA_ARGS__;          \
  extern "C" __device__ __attribute__((used)) memsim_parameters_of<decltype(&__VA_ARGS__)>::list   \
      memsim_parameters = memsim_parameters_of<decltype(&__VA_ARGS__)>::value;
