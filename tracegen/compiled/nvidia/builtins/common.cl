// Common, geometric and relational functions, and shuffles.
#define COMMON(T)                                                                                  \
  DEFINE_2(max, T, T, T, fmax(x, y))                                                               \
  DEFINE_2(min, T, T, T, fmin(x, y))                                                               \
  EACH_WIDTH(LIFT_2_SCALAR, max, T, T, T)                                                          \
  EACH_WIDTH(LIFT_2_SCALAR, min, T, T, T)                                                          \
  DEFINE_3(clamp, T, T, T, T, fmin(fmax(x, y), z))                                                 \
  DEFINE_1(degrees, T, T, x * (T)57.295779513082320877)                                            \
  DEFINE_1(radians, T, T, x * (T)0.017453292519943295769)                                          \
  DEFINE_1(sign, T, T, x > 0 ? (T)1 : x < 0 ? (T) - 1 : x == 0 ? x : (T)0)                         \
  DEFINE_3(mix, T, T, T, T, x + (y - x) * z)                                                       \
  DEFINE_2(step, T, T, T, y < x ? (T)0 : (T)1)                                                     \
  T OVERLOADED smoothstep(T low, T high, T x)                                                      \
  {                                                                                                \
    T t = clamp((x - low) / (high - low), (T)0, (T)1);                                             \
    return t * t * ((T)3 - (T)2 * t);                                                              \
  }                                                                                                \
  EACH_WIDTH(LIFT_3, smoothstep, T, T, T, T)                                                       \
  EACH_WIDTH(SCALAR_EDGES, T)                                                                      \
  T OVERLOADED dot(T x, T y) { return x * y; }                                                     \
  T OVERLOADED dot(T##2 x, T##2 y) { return x.x * y.x + x.y * y.y; }                               \
  T OVERLOADED dot(T##3 x, T##3 y) { return x.x * y.x + x.y * y.y + x.z * y.z; }                   \
  T OVERLOADED dot(T##4 x, T##4 y) { return x.x * y.x + x.y * y.y + x.z * y.z + x.w * y.w; }       \
  T##3 OVERLOADED cross(T##3 x, T##3 y) { return x.yzx * y.zxy - x.zxy * y.yzx; }                  \
  T##4 OVERLOADED cross(T##4 x, T##4 y) { return (T##4)(cross(x.xyz, y.xyz), (T)0); }              \
  OF_SHAPE(T, T) OF_SHAPE(T, T##2) OF_SHAPE(T, T##3) OF_SHAPE(T, T##4)
#define SCALAR_EDGES(N, T)                                                                         \
  T##N OVERLOADED clamp(T##N x, T least, T most) { return clamp(x, (T##N)least, (T##N)most); }     \
  T##N OVERLOADED mix(T##N x, T##N y, T z) { return mix(x, y, (T##N)z); }                          \
  T##N OVERLOADED step(T edge, T##N x) { return step((T##N)edge, x); }                             \
  T##N OVERLOADED smoothstep(T low, T high, T##N x)                                                \
  {                                                                                                \
    return smoothstep((T##N)low, (T##N)high, x);                                                   \
  }
#define OF_SHAPE(T, V)                                                                             \
  T OVERLOADED length(V x) { return sqrt(dot(x, x)); }                                             \
  T OVERLOADED distance(V x, V y) { return length(x - y); }                                        \
  V OVERLOADED normalize(V x) { return x * rsqrt(dot(x, x)); }
EACH_FLOATING(COMMON)

#define FAST_SHAPE(V)                                                                              \
  float OVERLOADED fast_length(V x) { return half_sqrt(dot(x, x)); }                               \
  float OVERLOADED fast_distance(V x, V y) { return fast_length(x - y); }                          \
  V OVERLOADED fast_normalize(V x) { return x * half_rsqrt(dot(x, x)); }
FAST_SHAPE(float) FAST_SHAPE(float2) FAST_SHAPE(float3) FAST_SHAPE(float4)

// True is 1 for scalars, and -1 in each component of a vector.
#define RELATION_2(N, F, T, I, E)                                                                  \
  I##N OVERLOADED F(T##N x, T##N y) { return E; }
#define RELATION_1(N, F, T, I)                                                                     \
  I##N OVERLOADED F(T##N x)                                                                        \
  {                                                                                                \
    I##N r;                                                                                        \
    for (int i = 0; i < N; i++)                                                                    \
      r[i] = -(I)F(x[i]);                                                                          \
    return r;                                                                                      \
  }
#define RELATE_2(F, T, I, E)                                                                       \
  int OVERLOADED F(T x, T y) { return E; }                                                         \
  EACH_WIDTH(RELATION_2, F, T, I, E)
#define RELATE_1(F, T, I, E)                                                                       \
  int OVERLOADED F(T x) { return E; }                                                              \
  EACH_WIDTH(RELATION_1, F, T, I)
#define RELATIONS(T, I, S)                                                                         \
  RELATE_2(isequal, T, I, x == y)                                                                  \
  RELATE_2(isnotequal, T, I, x != y)                                                               \
  RELATE_2(isgreater, T, I, x > y)                                                                 \
  RELATE_2(isgreaterequal, T, I, x >= y)                                                           \
  RELATE_2(isless, T, I, x < y)                                                                    \
  RELATE_2(islessequal, T, I, x <= y)                                                              \
  RELATE_2(islessgreater, T, I, (x < y) | (x > y))                                                 \
  RELATE_2(isordered, T, I, (x == x) & (y == y))                                                   \
  RELATE_2(isunordered, T, I, (x != x) | (y != y))                                                 \
  RELATE_1(isnan, T, I, x != x)                                                                    \
  RELATE_1(isinf, T, I, fabs(x) == (T)INFINITY)                                                    \
  RELATE_1(isfinite, T, I, fabs(x) < (T)INFINITY)                                                  \
  RELATE_1(isnormal, T, I, fabs(x) < (T)INFINITY && fabs(x) >= (T)S)                               \
  RELATE_1(signbit, T, I, as_##I(x) < 0)
RELATIONS(float, int, FLT_MIN)
RELATIONS(double, long, DBL_MIN)
RELATIONS(half, short, 0x1.0p-14f)

#define ANY_ALL(N, T)                                                                              \
  int OVERLOADED any(T##N x)                                                                       \
  {                                                                                                \
    int r = 0;                                                                                     \
    for (int i = 0; i < N; i++)                                                                    \
      r |= x[i] < 0;                                                                               \
    return r;                                                                                      \
  }                                                                                                \
  int OVERLOADED all(T##N x)                                                                       \
  {                                                                                                \
    int r = 1;                                                                                     \
    for (int i = 0; i < N; i++)                                                                    \
      r &= x[i] < 0;                                                                               \
    return r;                                                                                      \
  }
#define TESTS(T, U)                                                                                \
  int OVERLOADED any(T x) { return x < 0; }                                                        \
  int OVERLOADED all(T x) { return x < 0; }                                                        \
  EACH_WIDTH(ANY_ALL, T)
EACH_SIGNED(TESTS)

// Scalars select by a condition that is not 0, vectors by the highest bit of each component.
#define SELECT_VECTOR(N, T, I)                                                                     \
  T##N OVERLOADED select(T##N x, T##N y, I##N c)                                                   \
  {                                                                                                \
    T##N r;                                                                                        \
    for (int i = 0; i < N; i++)                                                                    \
      r[i] = c[i] >> (sizeof(I) * 8 - 1) ? y[i] : x[i];                                            \
    return r;                                                                                      \
  }
#define SELECT(T, I)                                                                               \
  T OVERLOADED select(T x, T y, I c) { return c ? y : x; }                                         \
  EACH_WIDTH(SELECT_VECTOR, T, I)
#define SELECTS(T, U) SELECT(T, T) SELECT(T, U) SELECT(U, T) SELECT(U, U)
EACH_SIGNED(SELECTS)
SELECT(float, int) SELECT(float, uint) SELECT(double, long) SELECT(double, ulong)
SELECT(half, short) SELECT(half, ushort)

#define BITSELECT(T) DEFINE_3(bitselect, T, T, T, T, (T)((x & ~z) | (y & z)))
EACH_INTEGER(BITSELECT)
#define BITSELECT_FLOATING(T, I)                                                                   \
  DEFINE_3(bitselect, T, T, T, T, as_##T((I)((as_##I(x) & ~as_##I(z)) | (as_##I(y) & as_##I(z)))))
BITSELECT_FLOATING(float, int) BITSELECT_FLOATING(double, long) BITSELECT_FLOATING(half, short)

#define SHUFFLE(N, M, T, U)                                                                        \
  T##N OVERLOADED shuffle(T##M x, U##N mask)                                                       \
  {                                                                                                \
    T##N r;                                                                                        \
    for (int i = 0; i < N; i++)                                                                    \
      r[i] = x[mask[i] & (M - 1)];                                                                 \
    return r;                                                                                      \
  }                                                                                                \
  T##N OVERLOADED shuffle2(T##M x, T##M y, U##N mask)                                              \
  {                                                                                                \
    T##N r;                                                                                        \
    for (int i = 0; i < N; i++)                                                                    \
      r[i] = mask[i] & M ? y[mask[i] & (M - 1)] : x[mask[i] & (M - 1)];                            \
    return r;                                                                                      \
  }
#define SHUFFLES(M, T, U) SHUFFLE(2, M, T, U) SHUFFLE(4, M, T, U) SHUFFLE(8, M, T, U) SHUFFLE(16, M, T, U)
#define SHUFFLES_OF(T, U) SHUFFLES(2, T, U) SHUFFLES(4, T, U) SHUFFLES(8, T, U) SHUFFLES(16, T, U)
#define SHUFFLES_OF_BOTH(T, U) SHUFFLES_OF(T, U) SHUFFLES_OF(U, U)
EACH_SIGNED(SHUFFLES_OF_BOTH)
SHUFFLES_OF(float, uint) SHUFFLES_OF(double, ulong) SHUFFLES_OF(half, ushort)
