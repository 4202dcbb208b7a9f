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

#define ATOMIC_2(NAME, OPERATION, SPACE, T)                                                        \
  T OVERLOADED NAME(volatile SPACE T *p, T x)                                                      \
  {                                                                                                \
    return __atomic_##OPERATION(p, x, __ATOMIC_RELAXED);                                           \
  }
#define ATOMIC(PREFIX, SPACE, T)                                                                   \
  ATOMIC_2(PREFIX##_add, fetch_add, SPACE, T)                                                      \
  ATOMIC_2(PREFIX##_sub, fetch_sub, SPACE, T)                                                      \
  ATOMIC_2(PREFIX##_and, fetch_and, SPACE, T)                                                      \
  ATOMIC_2(PREFIX##_or, fetch_or, SPACE, T)                                                        \
  ATOMIC_2(PREFIX##_xor, fetch_xor, SPACE, T)                                                      \
  ATOMIC_2(PREFIX##_min, fetch_min, SPACE, T)                                                      \
  ATOMIC_2(PREFIX##_max, fetch_max, SPACE, T)                                                      \
  ATOMIC_2(PREFIX##_xchg, exchange_n, SPACE, T)                                                    \
  T OVERLOADED PREFIX##_inc(volatile SPACE T *p) { return PREFIX##_add(p, (T)1); }                 \
  T OVERLOADED PREFIX##_dec(volatile SPACE T *p) { return PREFIX##_sub(p, (T)1); }                 \
  T OVERLOADED PREFIX##_cmpxchg(volatile SPACE T *p, T expected, T x)                              \
  {                                                                                                \
    __atomic_compare_exchange_n(p, &expected, x, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED);           \
    return expected;                                                                               \
  }
#define ATOMICS(SPACE)                                                                             \
  ATOMIC(atomic, SPACE, int) ATOMIC(atomic, SPACE, uint) ATOMIC(atom, SPACE, int)                  \
  ATOMIC(atom, SPACE, uint) ATOMIC(atom, SPACE, long) ATOMIC(atom, SPACE, ulong)                   \
  float OVERLOADED atomic_xchg(volatile SPACE float *p, float x)                                   \
  {                                                                                                \
    return as_float(__atomic_exchange_n((volatile SPACE int *)p, as_int(x), __ATOMIC_RELAXED));    \
  }
ATOMICS(__global) ATOMICS(__local)
