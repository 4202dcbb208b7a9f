// What nvcc's users have of the libraries of C and C++, for NVRTC, which has none of it: this comes before every program.
// Headers of these libraries are empty, or libcu++'s: see tracegen/compiled/nvidia/nvrtc.py.
#pragma once
#if __has_include(<cuda_runtime_api.h>)
#include <cuda_runtime_api.h>
#endif
#define _LIBCUDACXX___CUDA_CSTDINT_PRELUDE_H // libcu++ would declare int64_t as long long, which it is not on Linux
#include "signature.h" // before the program, whose macros may be called as names in it
#define MEMSIM_PRINTF _print // see tracegen/compiled/request.py
#include "printed.h"
__device__ __forceinline__ void memsim_left_out() { asm volatile("// memsim_left_out\n\ttrap;"); } // see tracegen/cuda/host_code.py

typedef signed char int8_t, int_least8_t, int_fast8_t;
typedef short int16_t, int_least16_t;
typedef int int32_t, int_least32_t;
typedef long int64_t, int_least64_t, int_fast16_t, int_fast32_t, int_fast64_t, intmax_t, intptr_t, ptrdiff_t, ssize_t, off_t;
typedef unsigned char uint8_t, uint_least8_t, uint_fast8_t, uchar;
typedef unsigned short uint16_t, uint_least16_t, ushort;
typedef unsigned uint32_t, uint_least32_t, uint;
typedef unsigned long uint64_t, uint_least64_t, uint_fast16_t, uint_fast32_t, uint_fast64_t, uintmax_t, uintptr_t, ulong;
#if __has_include(<cuda_pipeline.h>) // for NVRTC it declares uint64_t as unsigned long long, too
#define uint64_t memsim_pipeline_uint64_t
#define uintptr_t memsim_pipeline_uintptr_t
#include <cuda_pipeline.h>
#undef uint64_t
#undef uintptr_t
#endif
#define INT8_MIN (-128)
#define INT8_MAX 127
#define UINT8_MAX 255
#define INT16_MIN (-32768)
#define INT16_MAX 32767
#define UINT16_MAX 65535
#define INT32_MIN (-2147483647 - 1)
#define INT32_MAX 2147483647
#define UINT32_MAX 4294967295u
#define INT64_MIN (-9223372036854775807l - 1)
#define INT64_MAX 9223372036854775807l
#define UINT64_MAX 18446744073709551615ul
#define SIZE_MAX UINT64_MAX
#define INTMAX_MIN INT64_MIN
#define INTMAX_MAX INT64_MAX
#define UINTMAX_MAX UINT64_MAX
#define INTPTR_MIN INT64_MIN
#define INTPTR_MAX INT64_MAX
#define UINTPTR_MAX UINT64_MAX
#define PTRDIFF_MIN INT64_MIN
#define PTRDIFF_MAX INT64_MAX
#define INT8_C(number) number
#define UINT8_C(number) number
#define INT16_C(number) number
#define UINT16_C(number) number
#define INT32_C(number) number
#define UINT32_C(number) number##u
#define INT64_C(number) number##l
#define UINT64_C(number) number##ul
#define INTMAX_C(number) number##l
#define UINTMAX_C(number) number##ul

#define CHAR_BIT 8
#define CHAR_MIN INT8_MIN
#define CHAR_MAX INT8_MAX
#define SCHAR_MIN INT8_MIN
#define SCHAR_MAX INT8_MAX
#define UCHAR_MAX UINT8_MAX
#define SHRT_MIN INT16_MIN
#define SHRT_MAX INT16_MAX
#define USHRT_MAX UINT16_MAX
#define INT_MIN INT32_MIN
#define INT_MAX INT32_MAX
#define UINT_MAX UINT32_MAX
#define LONG_MIN INT64_MIN
#define LONG_MAX INT64_MAX
#define ULONG_MAX UINT64_MAX
#define LLONG_MIN (-9223372036854775807ll - 1)
#define LLONG_MAX 9223372036854775807ll
#define ULLONG_MAX 18446744073709551615ull
#define RAND_MAX INT32_MAX

#define FLT_RADIX 2
#define FLT_MANT_DIG 24
#define FLT_DIG 6
#define FLT_MIN_EXP (-125)
#define FLT_MAX_EXP 128
#define FLT_MIN 1.175494350822287507969e-38f
#define FLT_MAX 3.402823466385288598117e+38f
#define FLT_EPSILON 1.192092895507812500000e-7f
#define DBL_MANT_DIG 53
#define DBL_DIG 15
#define DBL_MIN_EXP (-1021)
#define DBL_MAX_EXP 1024
#define DBL_MIN 2.225073858507201383090e-308
#define DBL_MAX 1.797693134862315708145e+308
#define DBL_EPSILON 2.220446049250313080847e-16
#define INFINITY __int_as_float(0x7f800000)
#define NAN __int_as_float(0x7fffffff)
#define HUGE_VALF INFINITY
#define HUGE_VAL __longlong_as_double(0x7ff0000000000000ll)
#define M_E 2.7182818284590452354
#define M_LOG2E 1.4426950408889634074
#define M_LOG10E 0.43429448190325182765
#define M_LN2 0.69314718055994530942
#define M_LN10 2.30258509299404568402
#define M_PI 3.14159265358979323846
#define M_PI_2 1.57079632679489661923
#define M_PI_4 0.78539816339744830962
#define M_1_PI 0.31830988618379067154
#define M_2_PI 0.63661977236758134308
#define M_2_SQRTPI 1.12837916709551257390
#define M_SQRT2 1.41421356237309504880
#define M_SQRT1_2 0.70710678118654752440

#define offsetof(type, member) ((size_t)&reinterpret_cast<const volatile char &>(((type *)0)->member))

struct FILE;
#define stdin ((FILE *)0)
#define stdout ((FILE *)0)
#define stderr ((FILE *)0)
#if __has_include(<cuda/std/initializer_list>)
#include <cuda/std/initializer_list>
#endif
namespace cuda { namespace std {} }
namespace std {
using namespace cuda::std;
using ::size_t; using ::ptrdiff_t; using ::intptr_t; using ::uintptr_t; using ::intmax_t; using ::uintmax_t;
using ::int8_t; using ::int16_t; using ::int32_t; using ::int64_t;
using ::uint8_t; using ::uint16_t; using ::uint32_t; using ::uint64_t;
using ::memcpy; using ::memset;
using ::abs; using ::fabs; using ::fmod; using ::remainder; using ::fma; using ::fmax; using ::fmin; using ::fdim;
using ::exp; using ::exp2; using ::expm1; using ::log; using ::log10; using ::log2; using ::log1p; using ::pow; using ::sqrt;
using ::cbrt; using ::hypot; using ::sin; using ::cos; using ::tan; using ::asin; using ::acos; using ::atan; using ::atan2;
using ::sinh; using ::cosh; using ::tanh; using ::asinh; using ::acosh; using ::atanh; using ::erf; using ::erfc;
using ::tgamma; using ::lgamma; using ::ceil; using ::floor; using ::trunc; using ::round; using ::rint; using ::nearbyint;
using ::lround; using ::llround; using ::lrint; using ::llrint; using ::frexp; using ::ldexp; using ::modf; using ::scalbn;
using ::logb; using ::ilogb; using ::nextafter; using ::copysign; using ::isnan; using ::isinf; using ::isfinite;
using ::signbit;
template <class T> constexpr const T &min(const T &a, const T &b) { return b < a ? b : a; }
template <class T> constexpr const T &max(const T &a, const T &b) { return a < b ? b : a; }
template <class T, class Less> constexpr const T &min(const T &a, const T &b, Less less) { return less(b, a) ? b : a; }
template <class T, class Less> constexpr const T &max(const T &a, const T &b, Less less) { return less(a, b) ? b : a; }
template <class T> struct hash;

// Types of the host, of whose layout nothing is known: `memsim/signature.h` knows them by their alignment.
struct memsim_anything {
  template <class... T> memsim_anything(T &&...);
};
#define MEMSIM_HOST_TYPE(name)                                                                       \
  template <class... T> struct alignas(4096) name {                                                  \
    template <class... U> name(U &&...);                                                             \
    name(initializer_list<memsim_anything>);                                                         \
  };
MEMSIM_HOST_TYPE(vector)
MEMSIM_HOST_TYPE(deque)
MEMSIM_HOST_TYPE(list)
MEMSIM_HOST_TYPE(map)
MEMSIM_HOST_TYPE(multimap)
MEMSIM_HOST_TYPE(set)
MEMSIM_HOST_TYPE(unordered_map)
MEMSIM_HOST_TYPE(unordered_set)
MEMSIM_HOST_TYPE(queue)
MEMSIM_HOST_TYPE(stack)
MEMSIM_HOST_TYPE(basic_string)
MEMSIM_HOST_TYPE(basic_istream)
MEMSIM_HOST_TYPE(basic_ostream)
MEMSIM_HOST_TYPE(unique_ptr)
MEMSIM_HOST_TYPE(shared_ptr)
MEMSIM_HOST_TYPE(future)
MEMSIM_HOST_TYPE(lock_guard)
MEMSIM_HOST_TYPE(unique_lock)
MEMSIM_HOST_TYPE(memsim_host)
typedef basic_string<char> string;
typedef memsim_host<int> ostream, istream, iostream, ofstream, ifstream, fstream, stringstream, ostringstream, istringstream;
typedef memsim_host<long> mutex, thread, exception, runtime_error, logic_error, invalid_argument, random_device, mt19937, mt19937_64;
extern ostream cout, cerr, clog;
extern istream cin;
}
