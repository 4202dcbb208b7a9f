// Loads and stores of vectors, prefetches and atomics.
#define VECTOR_LOAD(N, SPACE, T)                                                                   \
  T##N OVERLOADED vload##N(size_t offset, const SPACE T *p)                                        \
  {                                                                                                \
    T##N r;                                                                                        \
    for (int i = 0; i < N; i++)                                                                    \
      r[i] = p[offset * N + i];                                                                    \
    return r;                                                                                      \
  }
#define VECTOR_STORE(N, SPACE, T)                                                                  \
  void OVERLOADED vstore##N(T##N x, size_t offset, SPACE T *p)                                     \
  {                                                                                                \
    for (int i = 0; i < N; i++)                                                                    \
      p[offset * N + i] = x[i];                                                                    \
  }
#define PREFETCH(N, T)                                                                             \
  void OVERLOADED prefetch(const __global T##N *p, size_t n) {}
#define IN_MEMORY(T)                                                                               \
  EACH_WIDTH(VECTOR_LOAD, __global, T) EACH_WIDTH(VECTOR_LOAD, __local, T)                         \
  EACH_WIDTH(VECTOR_LOAD, __private, T) EACH_WIDTH(VECTOR_LOAD, __constant, T)                     \
  EACH_WIDTH(VECTOR_STORE, __global, T) EACH_WIDTH(VECTOR_STORE, __local, T)                       \
  EACH_WIDTH(VECTOR_STORE, __private, T)                                                           \
  void OVERLOADED prefetch(const __global T *p, size_t n) {}                                       \
  EACH_WIDTH(PREFETCH, T)
EACH_TYPE(IN_MEMORY)

// Half precision in memory, float in registers; vloada_half3 and vstorea_half3 have a stride of 4.
#define HALF_LOAD(N, SPACE, NAME, STRIDE)                                                          \
  float##N OVERLOADED NAME##N(size_t offset, const SPACE half *p)                                  \
  {                                                                                                \
    float##N r;                                                                                    \
    for (int i = 0; i < N; i++)                                                                    \
      r[i] = p[offset * (STRIDE) + i];                                                             \
    return r;                                                                                      \
  }
#define HALF_STORE(N, SPACE, NAME, STRIDE, T)                                                      \
  void OVERLOADED NAME##N(T##N x, size_t offset, SPACE half *p)                                    \
  {                                                                                                \
    for (int i = 0; i < N; i++)                                                                    \
      p[offset * (STRIDE) + i] = x[i];                                                             \
  }
#define HALF_OF_WIDTH(SPACE, N, PACKED, ALIGNED)                                                   \
  HALF_LOAD(N, SPACE, vload_half, PACKED)                                                          \
  HALF_LOAD(N, SPACE, vloada_half, ALIGNED)
#define HALF_LOADS(SPACE)                                                                          \
  float OVERLOADED vload_half(size_t offset, const SPACE half *p) { return p[offset]; }            \
  HALF_OF_WIDTH(SPACE, 2, 2, 2) HALF_OF_WIDTH(SPACE, 3, 3, 4) HALF_OF_WIDTH(SPACE, 4, 4, 4)        \
  HALF_OF_WIDTH(SPACE, 8, 8, 8) HALF_OF_WIDTH(SPACE, 16, 16, 16)
HALF_LOADS(__global) HALF_LOADS(__local) HALF_LOADS(__private) HALF_LOADS(__constant)
#define HALF_STORED(SPACE, N, PACKED, ALIGNED, T)                                                  \
  HALF_STORE(N, SPACE, vstore_half, PACKED, T)                                                     \
  HALF_STORE(N, SPACE, vstorea_half, ALIGNED, T)
#define HALF_STORES(SPACE, T)                                                                      \
  void OVERLOADED vstore_half(T x, size_t offset, SPACE half *p) { p[offset] = x; }                \
  void OVERLOADED vstore_half_rte(T x, size_t offset, SPACE half *p) { p[offset] = x; }            \
  HALF_STORED(SPACE, 2, 2, 2, T) HALF_STORED(SPACE, 3, 3, 4, T) HALF_STORED(SPACE, 4, 4, 4, T)     \
  HALF_STORED(SPACE, 8, 8, 8, T) HALF_STORED(SPACE, 16, 16, 16, T)
EACH_SPACE(HALF_STORES, float)
EACH_SPACE(HALF_STORES, double)

// Up to version 18, clang has only the older builtins for this target. They order more accesses, which
// makes no difference to its code, and lack the minimum and maximum of 64 bits.
#if __clang_major__ < 19
#define FETCH(OPERATION, P, X) __sync_fetch_and_##OPERATION(P, X)
#define EXCHANGE(P, X) __sync_swap(P, X)
#define COMPARE_AND_SWAP(P, EXPECTED, X) EXPECTED = __sync_val_compare_and_swap(P, EXPECTED, X)
#define LEAST_AND_MOST(PREFIX, SPACE, T, SIGN)                                                     \
  ATOMIC_2(PREFIX##_min, __sync_fetch_and_##SIGN##min(p, x), SPACE, T)                             \
  ATOMIC_2(PREFIX##_max, __sync_fetch_and_##SIGN##max(p, x), SPACE, T)
#define WIDE_LEAST_AND_MOST(SPACE, T)
#else
#define FETCH(OPERATION, P, X) __atomic_fetch_##OPERATION(P, X, __ATOMIC_RELAXED)
#define EXCHANGE(P, X) __atomic_exchange_n(P, X, __ATOMIC_RELAXED)
#define COMPARE_AND_SWAP(P, EXPECTED, X)                                                           \
  __atomic_compare_exchange_n(P, &EXPECTED, X, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED)
#define LEAST_AND_MOST(PREFIX, SPACE, T, SIGN)                                                     \
  ATOMIC_2(PREFIX##_min, FETCH(min, p, x), SPACE, T)                                               \
  ATOMIC_2(PREFIX##_max, FETCH(max, p, x), SPACE, T)
#define WIDE_LEAST_AND_MOST(SPACE, T) LEAST_AND_MOST(atom, SPACE, T, )
#endif

#define ATOMIC_2(NAME, RESULT, SPACE, T)                                                           \
  T OVERLOADED NAME(volatile SPACE T *p, T x) { return RESULT; }
#define ATOMIC(PREFIX, SPACE, T)                                                                   \
  ATOMIC_2(PREFIX##_add, FETCH(add, p, x), SPACE, T)                                               \
  ATOMIC_2(PREFIX##_sub, FETCH(sub, p, x), SPACE, T)                                               \
  ATOMIC_2(PREFIX##_and, FETCH(and, p, x), SPACE, T)                                               \
  ATOMIC_2(PREFIX##_or, FETCH(or, p, x), SPACE, T)                                                 \
  ATOMIC_2(PREFIX##_xor, FETCH(xor, p, x), SPACE, T)                                               \
  ATOMIC_2(PREFIX##_xchg, EXCHANGE(p, x), SPACE, T)                                                \
  T OVERLOADED PREFIX##_inc(volatile SPACE T *p) { return PREFIX##_add(p, (T)1); }                 \
  T OVERLOADED PREFIX##_dec(volatile SPACE T *p) { return PREFIX##_sub(p, (T)1); }                 \
  T OVERLOADED PREFIX##_cmpxchg(volatile SPACE T *p, T expected, T x)                              \
  {                                                                                                \
    COMPARE_AND_SWAP(p, expected, x);                                                              \
    return expected;                                                                               \
  }
#define NARROW_ATOMIC(PREFIX, SPACE, T, SIGN)                                                      \
  ATOMIC(PREFIX, SPACE, T) LEAST_AND_MOST(PREFIX, SPACE, T, SIGN)
#define ATOMICS(SPACE)                                                                             \
  NARROW_ATOMIC(atomic, SPACE, int, ) NARROW_ATOMIC(atomic, SPACE, uint, u)                        \
  NARROW_ATOMIC(atom, SPACE, int, ) NARROW_ATOMIC(atom, SPACE, uint, u)                            \
  ATOMIC(atom, SPACE, long) ATOMIC(atom, SPACE, ulong)                                             \
  WIDE_LEAST_AND_MOST(SPACE, long) WIDE_LEAST_AND_MOST(SPACE, ulong)                               \
  float OVERLOADED atomic_xchg(volatile SPACE float *p, float x)                                   \
  {                                                                                                \
    return as_float(EXCHANGE((volatile SPACE int *)p, as_int(x)));                                 \
  }
ATOMICS(__global) ATOMICS(__local)
