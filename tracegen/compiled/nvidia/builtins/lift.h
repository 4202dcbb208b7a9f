// What the files beside this one share: names of types, and functions of vectors from those of scalars.
#define OVERLOADED __attribute__((overloadable, always_inline))

#define EACH_WIDTH(MACRO, ...)                                                                     \
  MACRO(2, __VA_ARGS__)                                                                            \
  MACRO(3, __VA_ARGS__)                                                                            \
  MACRO(4, __VA_ARGS__)                                                                            \
  MACRO(8, __VA_ARGS__)                                                                            \
  MACRO(16, __VA_ARGS__)

#define EACH_SIGNED(MACRO)                                                                         \
  MACRO(char, uchar) MACRO(short, ushort) MACRO(int, uint) MACRO(long, ulong)
#define EACH_INTEGER(MACRO)                                                                        \
  MACRO(char) MACRO(uchar) MACRO(short) MACRO(ushort) MACRO(int) MACRO(uint) MACRO(long)           \
  MACRO(ulong)
#define EACH_FLOATING(MACRO) MACRO(float) MACRO(double) MACRO(half)
#define EACH_TYPE(MACRO) EACH_INTEGER(MACRO) EACH_FLOATING(MACRO)
#define EACH_SPACE(MACRO, ...)                                                                     \
  MACRO(__global, __VA_ARGS__) MACRO(__local, __VA_ARGS__) MACRO(__private, __VA_ARGS__)

// R F(A x), R F(A x, B y) and R F(A x, B y, C z) for each component of vectors.
#define LIFT_1(N, F, R, A)                                                                         \
  R##N OVERLOADED F(A##N x)                                                                        \
  {                                                                                                \
    R##N r;                                                                                        \
    for (int i = 0; i < N; i++)                                                                    \
      r[i] = F(x[i]);                                                                              \
    return r;                                                                                      \
  }
#define LIFT_2(N, F, R, A, B)                                                                      \
  R##N OVERLOADED F(A##N x, B##N y)                                                                \
  {                                                                                                \
    R##N r;                                                                                        \
    for (int i = 0; i < N; i++)                                                                    \
      r[i] = F(x[i], y[i]);                                                                        \
    return r;                                                                                      \
  }
#define LIFT_3(N, F, R, A, B, C)                                                                   \
  R##N OVERLOADED F(A##N x, B##N y, C##N z)                                                        \
  {                                                                                                \
    R##N r;                                                                                        \
    for (int i = 0; i < N; i++)                                                                    \
      r[i] = F(x[i], y[i], z[i]);                                                                  \
    return r;                                                                                      \
  }
// The same with a scalar as the second argument.
#define LIFT_2_SCALAR(N, F, R, A, B)                                                               \
  R##N OVERLOADED F(A##N x, B y)                                                                   \
  {                                                                                                \
    R##N r;                                                                                        \
    for (int i = 0; i < N; i++)                                                                    \
      r[i] = F(x[i], y);                                                                           \
    return r;                                                                                      \
  }

// A function of scalars, given by an expression in x, y and z, and its lifts.
#define DEFINE_1(F, R, A, E)                                                                       \
  R OVERLOADED F(A x) { return E; }                                                                \
  EACH_WIDTH(LIFT_1, F, R, A)
#define DEFINE_2(F, R, A, B, E)                                                                    \
  R OVERLOADED F(A x, B y) { return E; }                                                           \
  EACH_WIDTH(LIFT_2, F, R, A, B)
#define DEFINE_3(F, R, A, B, C, E)                                                                 \
  R OVERLOADED F(A x, B y, C z) { return E; }                                                      \
  EACH_WIDTH(LIFT_3, F, R, A, B, C)
