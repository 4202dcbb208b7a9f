// convert_T, with and without saturation, and the rounding modes where a floating-point type is involved.
#define CONVERT_VECTOR(N, D, SUFFIX, S)                                                            \
  D##N OVERLOADED convert_##D##N##SUFFIX(S##N x)                                                   \
  {                                                                                                \
    D##N r;                                                                                        \
    for (int i = 0; i < N; i++)                                                                    \
      r[i] = convert_##D##SUFFIX(x[i]);                                                            \
    return r;                                                                                      \
  }
#define CONVERSION(D, SUFFIX, S, E)                                                                \
  D OVERLOADED convert_##D##SUFFIX(S x) { return E; }                                              \
  EACH_WIDTH(CONVERT_VECTOR, D, SUFFIX, S)

#define CONVERT(D, S) CONVERSION(D, , S, (D)x)
#define CONVERT_FROM_ALL(D)                                                                        \
  CONVERT(D, char) CONVERT(D, uchar) CONVERT(D, short) CONVERT(D, ushort) CONVERT(D, int)          \
  CONVERT(D, uint) CONVERT(D, long) CONVERT(D, ulong) CONVERT(D, float) CONVERT(D, double)         \
  CONVERT(D, half)
EACH_TYPE(CONVERT_FROM_ALL)

// Saturation between integers. NARROW has fewer than 64 bits.
#define SATURATE(D, S, E) CONVERSION(D, _sat, S, (D)(E))
#define FROM_SIGNED(D, LEAST, MOST, S) SATURATE(D, S, clamp((long)x, (long)LEAST, (long)MOST))
#define NARROW(D, LEAST, MOST)                                                                     \
  FROM_SIGNED(D, LEAST, MOST, char) FROM_SIGNED(D, LEAST, MOST, uchar)                             \
  FROM_SIGNED(D, LEAST, MOST, short) FROM_SIGNED(D, LEAST, MOST, ushort)                           \
  FROM_SIGNED(D, LEAST, MOST, int) FROM_SIGNED(D, LEAST, MOST, uint)                               \
  FROM_SIGNED(D, LEAST, MOST, long)                                                                \
  SATURATE(D, ulong, min(x, (ulong)MOST))
NARROW(char, CHAR_MIN, CHAR_MAX) NARROW(uchar, 0, UCHAR_MAX) NARROW(short, SHRT_MIN, SHRT_MAX)
NARROW(ushort, 0, USHRT_MAX) NARROW(int, INT_MIN, INT_MAX) NARROW(uint, 0, UINT_MAX)
#define WIDE(S) SATURATE(long, S, x) SATURATE(ulong, S, max((long)x, (long)0))
WIDE(char) WIDE(uchar) WIDE(short) WIDE(ushort) WIDE(int) WIDE(uint) WIDE(long)
SATURATE(long, ulong, min(x, (ulong)LONG_MAX))
SATURATE(ulong, ulong, x)

// From floating-point types to integers: the hardware saturates, and turns NaN into 0.
#define DECLARE_ROUND(S, M)                                                                        \
  int __nv_##S##2int_##M(S); uint __nv_##S##2uint_##M(S); long __nv_##S##2ll_##M(S);               \
  ulong __nv_##S##2ull_##M(S);
#define DECLARE_ROUNDS(S)                                                                          \
  DECLARE_ROUND(S, rn) DECLARE_ROUND(S, rz) DECLARE_ROUND(S, ru) DECLARE_ROUND(S, rd)
DECLARE_ROUNDS(float) DECLARE_ROUNDS(double)
#define NAMED(D, SUFFIX, S, E) CONVERSION(D, _sat##SUFFIX, S, E)
#define SMALL(D, LEAST, MOST, SUFFIX, S, F, M)                                                     \
  NAMED(D, SUFFIX, S, (D)clamp(__nv_##F##2int_##M(x), LEAST, MOST))
#define ROUND(SUFFIX, S, F, M)                                                                     \
  SMALL(char, CHAR_MIN, CHAR_MAX, SUFFIX, S, F, M) SMALL(uchar, 0, UCHAR_MAX, SUFFIX, S, F, M)     \
  SMALL(short, SHRT_MIN, SHRT_MAX, SUFFIX, S, F, M) SMALL(ushort, 0, USHRT_MAX, SUFFIX, S, F, M)   \
  NAMED(int, SUFFIX, S, __nv_##F##2int_##M(x)) NAMED(uint, SUFFIX, S, __nv_##F##2uint_##M(x))      \
  NAMED(long, SUFFIX, S, __nv_##F##2ll_##M(x)) NAMED(ulong, SUFFIX, S, __nv_##F##2ull_##M(x))
#define ROUNDS(S, F)                                                                               \
  ROUND(, S, F, rz) ROUND(_rte, S, F, rn) ROUND(_rtz, S, F, rz) ROUND(_rtp, S, F, ru)              \
  ROUND(_rtn, S, F, rd)
ROUNDS(float, float) ROUNDS(double, double) ROUNDS(half, float)

// A result out of range is undefined without _sat, so saturation serves there too.
#define MODE(D, S, SUFFIX) CONVERSION(D, SUFFIX, S, convert_##D##_sat##SUFFIX(x))
#define MODES(D, S) MODE(D, S, _rte) MODE(D, S, _rtz) MODE(D, S, _rtp) MODE(D, S, _rtn)
#define MODES_FROM_FLOATING(D) MODES(D, float) MODES(D, double) MODES(D, half)
EACH_INTEGER(MODES_FROM_FLOATING)

// To floating-point types.
#define TO(D, S, F, M, SUFFIX)                                                                     \
  D __nv_##F##2##D##_##M(S);                                                                       \
  CONVERSION(D, SUFFIX, S, __nv_##F##2##D##_##M(x))
#define TO_ALL(D, S, F)                                                                            \
  TO(D, S, F, rn, _rte) TO(D, S, F, rz, _rtz) TO(D, S, F, ru, _rtp) TO(D, S, F, rd, _rtn)
TO_ALL(float, int, int) TO_ALL(float, uint, uint) TO_ALL(float, long, ll)
TO_ALL(float, ulong, ull) TO_ALL(float, double, double) TO_ALL(double, long, ll)
TO_ALL(double, ulong, ull)
