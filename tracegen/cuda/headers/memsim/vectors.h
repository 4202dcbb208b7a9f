// Vector types: up to four values side by side, with CUDA's alignment (at most 16 bytes).
#pragma once
#ifdef __HIPCC__ // HIP has constructors and arithmetic of vectors, CUDA has not
#define MEMSIM_MADE(V, ...)                                                                          \
  V() = default;                                                                                     \
  __VA_ARGS__
#else
#define MEMSIM_MADE(...)
#endif
#define MEMSIM_MAKES constexpr MEMSIM_ANYWHERE
#define MEMSIM_VECTORS(name, T, pair, four)                                                          \
  struct name##1 {                                                                                   \
    T x;                                                                                             \
    MEMSIM_MADE(name##1, MEMSIM_MAKES name##1(T x) : x(x) {})                                        \
  };                                                                                                 \
  struct __align__(pair) name##2 {                                                                   \
    T x, y;                                                                                          \
    MEMSIM_MADE(name##2, MEMSIM_MAKES explicit name##2(T v) : x(v), y(v) {}                          \
    template <class A, class B> MEMSIM_MAKES name##2(A x, B y) : x((T)x), y((T)y) {})                \
  };                                                                                                 \
  struct name##3 {                                                                                   \
    T x, y, z;                                                                                       \
    MEMSIM_MADE(name##3, MEMSIM_MAKES explicit name##3(T v) : x(v), y(v), z(v) {}                    \
    template <class A, class B, class C> MEMSIM_MAKES name##3(A x, B y, C z) : x((T)x), y((T)y), z((T)z) {}) \
  };                                                                                                 \
  struct __align__(four) name##4 {                                                                   \
    T x, y, z, w;                                                                                    \
    MEMSIM_MADE(name##4, MEMSIM_MAKES explicit name##4(T v) : x(v), y(v), z(v), w(v) {}              \
    template <class A, class B, class C, class D>                                                    \
    MEMSIM_MAKES name##4(A x, B y, C z, D w) : x((T)x), y((T)y), z((T)z), w((T)w) {})                \
  };                                                                                                 \
  MEMSIM_BOTH name##1 make_##name##1(T x) { return {x}; }                                            \
  MEMSIM_BOTH name##2 make_##name##2(T x, T y) { return {x, y}; }                                    \
  MEMSIM_BOTH name##3 make_##name##3(T x, T y, T z) { return {x, y, z}; }                            \
  MEMSIM_BOTH name##4 make_##name##4(T x, T y, T z, T w) { return {x, y, z, w}; }                    \
  MEMSIM_EACH(name##1, T, f(a.x, b.x))                                                               \
  MEMSIM_EACH(name##2, T, f(a.x, b.x), f(a.y, b.y))                                                  \
  MEMSIM_EACH(name##3, T, f(a.x, b.x), f(a.y, b.y), f(a.z, b.z))                                     \
  MEMSIM_EACH(name##4, T, f(a.x, b.x), f(a.y, b.y), f(a.z, b.z), f(a.w, b.w))
#ifdef __HIPCC__
template <class V> struct memsim_vector {};
#define MEMSIM_EACH(V, Number, ...)                                                                  \
  template <> struct memsim_vector<V> {                                                              \
    typedef Number T;                                                                                \
    template <class F> MEMSIM_ANYWHERE static V each(F f, V a, V b) { return {__VA_ARGS__}; }        \
  };
#else
#define MEMSIM_EACH(...)
#endif
MEMSIM_VECTORS(char, signed char, 2, 4)
MEMSIM_VECTORS(uchar, unsigned char, 2, 4)
MEMSIM_VECTORS(short, short, 4, 8)
MEMSIM_VECTORS(ushort, unsigned short, 4, 8)
MEMSIM_VECTORS(int, int, 8, 16)
MEMSIM_VECTORS(uint, unsigned int, 8, 16)
MEMSIM_VECTORS(long, long, 16, 16)
MEMSIM_VECTORS(ulong, unsigned long, 16, 16)
MEMSIM_VECTORS(longlong, long long, 16, 16)
MEMSIM_VECTORS(ulonglong, unsigned long long, 16, 16)
MEMSIM_VECTORS(float, float, 8, 16)
MEMSIM_VECTORS(double, double, 16, 16)
#undef MEMSIM_VECTORS
#undef MEMSIM_EACH
#undef MEMSIM_MAKES
#undef MEMSIM_MADE

#ifdef __HIPCC__
#define MEMSIM_OF(V) class V, class T = typename memsim_vector<V>::T
#define MEMSIM_OPERATOR(name, sign)                                                                  \
  struct memsim_##name {                                                                             \
    template <class T> MEMSIM_ANYWHERE T operator()(T a, T b) const { return a sign b; }             \
  };                                                                                                 \
  template <MEMSIM_OF(V)> MEMSIM_BOTH V operator sign(V a, V b) {                                    \
    return memsim_vector<V>::each(memsim_##name(), a, b);                                            \
  }                                                                                                  \
  template <class V> MEMSIM_BOTH V operator sign(V a, typename memsim_vector<V>::T s) { return a sign V(s); } \
  template <class V> MEMSIM_BOTH V operator sign(typename memsim_vector<V>::T s, V b) { return V(s) sign b; } \
  template <MEMSIM_OF(V)> MEMSIM_BOTH V &operator sign##=(V &a, V b) { return a = a sign b; }        \
  template <class V> MEMSIM_BOTH V &operator sign##=(V &a, typename memsim_vector<V>::T s) { return a = a sign s; }
MEMSIM_OPERATOR(add, +)
MEMSIM_OPERATOR(subtract, -)
MEMSIM_OPERATOR(multiply, *)
MEMSIM_OPERATOR(divide, /)
MEMSIM_OPERATOR(remainder, %)
MEMSIM_OPERATOR(and, &)
MEMSIM_OPERATOR(or, |)
MEMSIM_OPERATOR(xor, ^)
MEMSIM_OPERATOR(left, <<)
MEMSIM_OPERATOR(right, >>)
#undef MEMSIM_OPERATOR
template <MEMSIM_OF(V)> MEMSIM_BOTH V operator-(V a) { return V((T)0) - a; }
template <MEMSIM_OF(V)> MEMSIM_BOTH V operator~(V a) { return a ^ V((T)-1); }
template <MEMSIM_OF(V)> MEMSIM_BOTH V &operator++(V &a) { return a += V((T)1); }
template <MEMSIM_OF(V)> MEMSIM_BOTH V &operator--(V &a) { return a -= V((T)1); }
template <MEMSIM_OF(V)> MEMSIM_BOTH bool operator==(V a, V b) {
  bool same = true;
  memsim_vector<V>::each([&same](T a, T b) { return same = same && a == b, a; }, a, b);
  return same;
}
template <MEMSIM_OF(V)> MEMSIM_BOTH bool operator!=(V a, V b) { return !(a == b); }
#undef MEMSIM_OF
typedef unsigned char uchar;
typedef unsigned long long ullong;
#endif

struct dim3 {
  unsigned int x, y, z;
  __host__ __device__ constexpr dim3(unsigned int x = 1, unsigned int y = 1, unsigned int z = 1) : x(x), y(y), z(z) {}
  __host__ __device__ constexpr dim3(uint3 v) : x(v.x), y(v.y), z(v.z) {}
  __host__ __device__ constexpr operator uint3() const { return {x, y, z}; }
};
