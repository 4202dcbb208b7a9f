// Complex numbers as Thrust has them; CuPy's are the same.
#pragma once
#include "../memsim/kernel.h"
namespace thrust {
template <class T> struct alignas(2 * sizeof(T)) complex {
  typedef T value_type;
  T x, y;
  __host__ __device__ constexpr complex(T re = T(), T im = T()) : x(re), y(im) {}
  template <class U> __host__ __device__ constexpr complex(const complex<U> &z) : x((T)z.x), y((T)z.y) {}
  __host__ __device__ constexpr T real() const { return x; }
  __host__ __device__ constexpr T imag() const { return y; }
  __host__ __device__ void real(T re) { x = re; }
  __host__ __device__ void imag(T im) { y = im; }
#define MEMSIM_COMPLEX(sign)                                                                         \
  __host__ __device__ complex &operator sign##=(complex z) { return *this = *this sign z; }
  MEMSIM_COMPLEX(+)
  MEMSIM_COMPLEX(-)
  MEMSIM_COMPLEX(*)
  MEMSIM_COMPLEX(/)
#undef MEMSIM_COMPLEX
  friend __host__ __device__ complex operator+(complex a, complex b) { return {a.x + b.x, a.y + b.y}; }
  friend __host__ __device__ complex operator-(complex a, complex b) { return {a.x - b.x, a.y - b.y}; }
  friend __host__ __device__ complex operator*(complex a, complex b) {
    return {a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x};
  }
  friend __host__ __device__ complex operator/(complex a, complex b) {
    T square = b.x * b.x + b.y * b.y;
    return {(a.x * b.x + a.y * b.y) / square, (a.y * b.x - a.x * b.y) / square};
  }
  friend __host__ __device__ complex operator-(complex a) { return {-a.x, -a.y}; }
  friend __host__ __device__ complex operator+(complex a) { return a; }
  friend __host__ __device__ bool operator==(complex a, complex b) { return a.x == b.x && a.y == b.y; }
  friend __host__ __device__ bool operator!=(complex a, complex b) { return !(a == b); }
};
template <class T> MEMSIM_DEVICE T real(complex<T> z) { return z.x; }
template <class T> MEMSIM_DEVICE T imag(complex<T> z) { return z.y; }
template <class T> MEMSIM_DEVICE T norm(complex<T> z) { return z.x * z.x + z.y * z.y; }
template <class T> MEMSIM_DEVICE T abs(complex<T> z) { return ::hypot(z.x, z.y); }
template <class T> MEMSIM_DEVICE T arg(complex<T> z) { return ::atan2(z.y, z.x); }
template <class T> MEMSIM_DEVICE complex<T> conj(complex<T> z) { return {z.x, -z.y}; }
template <class T> MEMSIM_DEVICE complex<T> polar(T size, T angle = T()) {
  return {size * (T)::cos(angle), size * (T)::sin(angle)};
}
template <class T> MEMSIM_DEVICE complex<T> exp(complex<T> z) { return polar((T)::exp(z.x), z.y); }
template <class T> MEMSIM_DEVICE complex<T> log(complex<T> z) { return {(T)::log(abs(z)), arg(z)}; }
template <class T> MEMSIM_DEVICE complex<T> sqrt(complex<T> z) { return polar((T)::sqrt(abs(z)), arg(z) / 2); }
template <class T> MEMSIM_DEVICE complex<T> pow(complex<T> z, complex<T> w) { return exp(w * log(z)); }
template <class T> MEMSIM_DEVICE complex<T> pow(complex<T> z, T w) { return polar((T)::pow(abs(z), w), w * arg(z)); }
template <class T> MEMSIM_DEVICE complex<T> sin(complex<T> z) {
  return {(T)(::sin(z.x) * ::cosh(z.y)), (T)(::cos(z.x) * ::sinh(z.y))};
}
template <class T> MEMSIM_DEVICE complex<T> cos(complex<T> z) {
  return {(T)(::cos(z.x) * ::cosh(z.y)), (T)(-::sin(z.x) * ::sinh(z.y))};
}
}
