// Functions of integers.
int __nv_mul24(int, int);
uint __nv_umul24(uint, uint);
int __nv_mulhi(int, int);
uint __nv_umulhi(uint, uint);
long __nv_mul64hi(long, long);
ulong __nv_umul64hi(ulong, ulong);

#define BITS(T) ((int)sizeof(T) * 8)

DEFINE_2(mul24, int, int, int, __nv_mul24(x, y))
DEFINE_2(mul24, uint, uint, uint, __nv_umul24(x, y))
DEFINE_3(mad24, int, int, int, int, __nv_mul24(x, y) + z)
DEFINE_3(mad24, uint, uint, uint, uint, __nv_umul24(x, y) + z)

#define SMALL_MUL_HI(T, WIDE) DEFINE_2(mul_hi, T, T, T, (T)(((WIDE)x * (WIDE)y) >> BITS(T)))
SMALL_MUL_HI(char, int) SMALL_MUL_HI(uchar, uint) SMALL_MUL_HI(short, int)
SMALL_MUL_HI(ushort, uint)
DEFINE_2(mul_hi, int, int, int, __nv_mulhi(x, y))
DEFINE_2(mul_hi, uint, uint, uint, __nv_umulhi(x, y))
DEFINE_2(mul_hi, long, long, long, __nv_mul64hi(x, y))
DEFINE_2(mul_hi, ulong, ulong, ulong, __nv_umul64hi(x, y))

#define UPSAMPLE(WIDE, HIGH, LOW)                                                                  \
  DEFINE_2(upsample, WIDE, HIGH, LOW, (WIDE)((WIDE)x << BITS(LOW) | y))
UPSAMPLE(short, char, uchar) UPSAMPLE(ushort, uchar, uchar) UPSAMPLE(int, short, ushort)
UPSAMPLE(uint, ushort, ushort) UPSAMPLE(long, int, uint) UPSAMPLE(ulong, uint, uint)

#define MOST_SIGNED(T) ((T)(((ulong)1 << (BITS(T) - 1)) - 1))
#define BY_SIGN(T, U)                                                                              \
  DEFINE_1(abs, U, T, (U)(x < 0 ? -(U)x : (U)x))                                                   \
  DEFINE_1(abs, U, U, x)                                                                           \
  DEFINE_2(abs_diff, U, T, T, (U)(x > y ? (U)x - (U)y : (U)y - (U)x))                              \
  DEFINE_2(abs_diff, U, U, U, (U)(x > y ? x - y : y - x))                                          \
  DEFINE_1(clz, U, U, (U)(x ? __builtin_clzl((ulong)x) - 64 + BITS(U) : BITS(U)))                  \
  DEFINE_1(clz, T, T, (T)clz((U)x))                                                                \
  DEFINE_1(popcount, U, U, (U)__builtin_popcountl((ulong)x))                                       \
  DEFINE_1(popcount, T, T, (T)popcount((U)x))                                                      \
  DEFINE_2(rotate, U, U, U,                                                                        \
           (U)(x << (y & (BITS(U) - 1)) | x >> ((BITS(U) - (y & (BITS(U) - 1))) & (BITS(U) - 1)))) \
  DEFINE_2(rotate, T, T, T, (T)rotate((U)x, (U)y))                                                 \
  DEFINE_2(add_sat, U, U, U, (U)(x + y) < x ? (U)~(U)0 : (U)(x + y))                               \
  DEFINE_2(sub_sat, U, U, U, x < y ? (U)0 : (U)(x - y))                                            \
  DEFINE_2(add_sat, T, T, T,                                                                       \
           y > 0 && x > MOST_SIGNED(T) - y      ? MOST_SIGNED(T)                                   \
           : y < 0 && x < ~MOST_SIGNED(T) - y ? (T)~MOST_SIGNED(T)                                 \
                                                : (T)(x + y))                                      \
  DEFINE_2(sub_sat, T, T, T,                                                                       \
           y < 0 && x > MOST_SIGNED(T) + y      ? MOST_SIGNED(T)                                   \
           : y > 0 && x < ~MOST_SIGNED(T) + y ? (T)~MOST_SIGNED(T)                                 \
                                                : (T)(x - y))
EACH_SIGNED(BY_SIGN)

#define OF_INTEGER(T)                                                                              \
  DEFINE_2(hadd, T, T, T, (T)((x & y) + ((x ^ y) >> 1)))                                           \
  DEFINE_2(rhadd, T, T, T, (T)((x | y) - ((x ^ y) >> 1)))                                          \
  DEFINE_2(max, T, T, T, x > y ? x : y)                                                            \
  DEFINE_2(min, T, T, T, x < y ? x : y)                                                            \
  EACH_WIDTH(LIFT_2_SCALAR, max, T, T, T)                                                          \
  EACH_WIDTH(LIFT_2_SCALAR, min, T, T, T)                                                          \
  DEFINE_3(clamp, T, T, T, T, min(max(x, y), z))                                                   \
  EACH_WIDTH(CLAMP_SCALAR, T)                                                                      \
  DEFINE_3(mad_hi, T, T, T, T, (T)(mul_hi(x, y) + z))
#define CLAMP_SCALAR(N, T)                                                                         \
  T##N OVERLOADED clamp(T##N x, T least, T most) { return min(max(x, least), most); }
EACH_INTEGER(OF_INTEGER)

// Sums of a product and z that leave the range become its ends.
#define SMALL_MAD_SAT(T, LEAST, MOST)                                                              \
  DEFINE_3(mad_sat, T, T, T, T, (T)clamp((long)x * (long)y + (long)z, (long)LEAST, (long)MOST))
SMALL_MAD_SAT(char, CHAR_MIN, CHAR_MAX) SMALL_MAD_SAT(uchar, 0, UCHAR_MAX)
SMALL_MAD_SAT(short, SHRT_MIN, SHRT_MAX) SMALL_MAD_SAT(ushort, 0, USHRT_MAX)
SMALL_MAD_SAT(int, INT_MIN, INT_MAX)
DEFINE_3(mad_sat, uint, uint, uint, uint,
         (uint)min((ulong)x * (ulong)y + (ulong)z, (ulong)UINT_MAX))
DEFINE_3(mad_sat, ulong, ulong, ulong, ulong, mul_hi(x, y) ? ULONG_MAX : add_sat(x * y, z))
long OVERLOADED mad_sat(long x, long y, long z)
{
  ulong product = (ulong)x * (ulong)y, low = product + (ulong)z;
  long high = mul_hi(x, y) + (z >> 63) + (low < product);
  return high == (long)low >> 63 ? (long)low : high < 0 ? LONG_MIN : LONG_MAX;
}
EACH_WIDTH(LIFT_3, mad_sat, long, long, long, long)
