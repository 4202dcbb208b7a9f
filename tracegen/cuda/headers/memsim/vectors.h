// Vector types: up to four values side by side, with CUDA's alignment (at most 16 bytes).
#pragma once
#define MEMSIM_VECTORS(name, T, pair, four)                                                          \
  struct name##1 { T x; };                                                                           \
  struct __align__(pair) name##2 { T x, y; };                                                        \
  struct name##3 { T x, y, z; };                                                                     \
  struct __align__(four) name##4 { T x, y, z, w; };                                                  \
  MEMSIM_BOTH name##1 make_##name##1(T x) { return {x}; }                                            \
  MEMSIM_BOTH name##2 make_##name##2(T x, T y) { return {x, y}; }                                    \
  MEMSIM_BOTH name##3 make_##name##3(T x, T y, T z) { return {x, y, z}; }                            \
  MEMSIM_BOTH name##4 make_##name##4(T x, T y, T z, T w) { return {x, y, z, w}; }
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

#ifdef __HIPCC__ // HIP has arithmetic of vectors, CUDA has not
#define MEMSIM_OPERATOR(V, T, sign, ...)                                                             \
  MEMSIM_BOTH V operator sign(V a, V b) { return {__VA_ARGS__}; }                                    \
  MEMSIM_BOTH V operator sign(V a, T s) { return a sign memsim_all<V>(s); }                          \
  MEMSIM_BOTH V operator sign(T s, V b) { return memsim_all<V>(s) sign b; }                          \
  MEMSIM_BOTH V &operator sign##=(V &a, V b) { return a = a sign b; }                                \
  MEMSIM_BOTH V &operator sign##=(V &a, T s) { return a = a sign memsim_all<V>(s); }
#define MEMSIM_ARITHMETIC(name, T, sign)                                                             \
  MEMSIM_OPERATOR(name##2, T, sign, a.x sign b.x, a.y sign b.y)                                      \
  MEMSIM_OPERATOR(name##3, T, sign, a.x sign b.x, a.y sign b.y, a.z sign b.z)                        \
  MEMSIM_OPERATOR(name##4, T, sign, a.x sign b.x, a.y sign b.y, a.z sign b.z, a.w sign b.w)
#define MEMSIM_VECTOR_ARITHMETIC(name, T)                                                            \
  template <> __host__ __device__ inline name##2 memsim_all(T s) { return {s, s}; }                  \
  template <> __host__ __device__ inline name##3 memsim_all(T s) { return {s, s, s}; }               \
  template <> __host__ __device__ inline name##4 memsim_all(T s) { return {s, s, s, s}; }            \
  MEMSIM_ARITHMETIC(name, T, +)                                                                      \
  MEMSIM_ARITHMETIC(name, T, -)                                                                      \
  MEMSIM_ARITHMETIC(name, T, *)                                                                      \
  MEMSIM_ARITHMETIC(name, T, /)
template <class V, class T> __host__ __device__ V memsim_all(T s);
MEMSIM_VECTOR_ARITHMETIC(float, float)
MEMSIM_VECTOR_ARITHMETIC(double, double)
MEMSIM_VECTOR_ARITHMETIC(int, int)
MEMSIM_VECTOR_ARITHMETIC(uint, unsigned)
#undef MEMSIM_OPERATOR
#undef MEMSIM_ARITHMETIC
#undef MEMSIM_VECTOR_ARITHMETIC
#endif

struct dim3 {
  unsigned int x, y, z;
  __host__ __device__ constexpr dim3(unsigned int x = 1, unsigned int y = 1, unsigned int z = 1) : x(x), y(y), z(z) {}
  __host__ __device__ constexpr dim3(uint3 v) : x(v.x), y(v.y), z(v.z) {}
  __host__ __device__ constexpr operator uint3() const { return {x, y, z}; }
};
