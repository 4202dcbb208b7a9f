// Integer and bit intrinsics, and reinterpretations.
#pragma once
template <class To, class From> MEMSIM_BOTH To memsim_reinterpret(From value) {
  To result;
  __builtin_memcpy(&result, &value, sizeof(To));
  return result;
}
#ifndef MEMSIM_NVIDIA
MEMSIM_BOTH int __popc(unsigned v) { return __builtin_popcount(v); }
MEMSIM_BOTH int __popcll(unsigned long long v) { return __builtin_popcountll(v); }
MEMSIM_BOTH int __clz(int v) { return v ? __builtin_clz((unsigned)v) : 32; }
MEMSIM_BOTH int __clzll(long long v) { return v ? __builtin_clzll((unsigned long long)v) : 64; }
MEMSIM_BOTH int __ffs(int v) { return __builtin_ffs(v); }
MEMSIM_BOTH int __ffsll(long long v) { return __builtin_ffsll(v); }
MEMSIM_BOTH unsigned __brev(unsigned v) { return __builtin_bitreverse32(v); }
MEMSIM_BOTH unsigned long long __brevll(unsigned long long v) { return __builtin_bitreverse64(v); }
MEMSIM_BOTH int __mul24(int a, int b) { return (int)((unsigned)(a << 8 >> 8) * (unsigned)(b << 8 >> 8)); }
MEMSIM_BOTH unsigned __umul24(unsigned a, unsigned b) { return (a & 0xffffff) * (b & 0xffffff); }
MEMSIM_BOTH int __mulhi(int a, int b) { return (int)((long long)a * b >> 32); }
MEMSIM_BOTH unsigned __umulhi(unsigned a, unsigned b) { return (unsigned)((unsigned long long)a * b >> 32); }
MEMSIM_BOTH long long __mul64hi(long long a, long long b) { return (long long)((__int128)a * b >> 64); }
MEMSIM_BOTH unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
  return (unsigned long long)((unsigned __int128)a * b >> 64);
}
MEMSIM_BOTH int __hadd(int a, int b) { return (int)(((long long)a + b) >> 1); }
MEMSIM_BOTH int __rhadd(int a, int b) { return (int)(((long long)a + b + 1) >> 1); }
MEMSIM_BOTH unsigned __uhadd(unsigned a, unsigned b) { return (unsigned)(((unsigned long long)a + b) >> 1); }
MEMSIM_BOTH unsigned __urhadd(unsigned a, unsigned b) { return (unsigned)(((unsigned long long)a + b + 1) >> 1); }
MEMSIM_BOTH unsigned __sad(int a, int b, unsigned c) { return c + (unsigned)(a < b ? b - a : a - b); }
MEMSIM_BOTH unsigned __usad(unsigned a, unsigned b, unsigned c) { return c + (a < b ? b - a : a - b); }
MEMSIM_BOTH unsigned __funnelshift_l(unsigned low, unsigned high, unsigned by) {
  return by & 31 ? high << (by & 31) | low >> (32 - (by & 31)) : high;
}
MEMSIM_BOTH unsigned __funnelshift_r(unsigned low, unsigned high, unsigned by) {
  return by & 31 ? low >> (by & 31) | high << (32 - (by & 31)) : low;
}
MEMSIM_BOTH unsigned __funnelshift_lc(unsigned low, unsigned high, unsigned by) {
  return by < 32 ? __funnelshift_l(low, high, by) : low;
}
MEMSIM_BOTH unsigned __funnelshift_rc(unsigned low, unsigned high, unsigned by) {
  return by < 32 ? __funnelshift_r(low, high, by) : high;
}
MEMSIM_BOTH unsigned __byte_perm(unsigned a, unsigned b, unsigned select) {
  unsigned long long bytes = (unsigned long long)b << 32 | a;
  unsigned result = 0;
  for (int k = 0; k < 4; ++k) {
    unsigned char byte = (unsigned char)(bytes >> 8 * (select >> 4 * k & 7));
    if (select >> 4 * k & 8)
      byte = byte & 0x80 ? 0xff : 0;
    result |= (unsigned)byte << 8 * k;
  }
  return result;
}
MEMSIM_BOTH int __dp4a(int a, int b, int c) {
  for (int k = 0; k < 32; k += 8)
    c += (int)(signed char)(a >> k) * (int)(signed char)(b >> k);
  return c;
}
MEMSIM_BOTH unsigned __dp4a(unsigned a, unsigned b, unsigned c) {
  for (int k = 0; k < 32; k += 8)
    c += (a >> k & 255) * (b >> k & 255);
  return c;
}

MEMSIM_BOTH int __float_as_int(float v) { return memsim_reinterpret<int>(v); }
MEMSIM_BOTH unsigned __float_as_uint(float v) { return memsim_reinterpret<unsigned>(v); }
MEMSIM_BOTH float __int_as_float(int v) { return memsim_reinterpret<float>(v); }
MEMSIM_BOTH float __uint_as_float(unsigned v) { return memsim_reinterpret<float>(v); }
MEMSIM_BOTH long long __double_as_longlong(double v) { return memsim_reinterpret<long long>(v); }
MEMSIM_BOTH double __longlong_as_double(long long v) { return memsim_reinterpret<double>(v); }
MEMSIM_BOTH int __double2hiint(double v) { return (int)(memsim_reinterpret<long long>(v) >> 32); }
MEMSIM_BOTH int __double2loint(double v) { return (int)memsim_reinterpret<long long>(v); }
MEMSIM_BOTH double __hiloint2double(int high, int low) {
  return memsim_reinterpret<double>((long long)((unsigned long long)(unsigned)high << 32 | (unsigned)low));
}

// Two or four integers in a word, each on its own. m : the largest of each
template <class T, class F> MEMSIM_BOTH unsigned memsim_each(unsigned a, unsigned b, F f) {
  unsigned result = 0;
  for (unsigned at = 0; at < 32; at += 8 * sizeof(T))
    result |= (unsigned)(typename std::make_unsigned<T>::type)f((int)(T)(a >> at), (int)(T)(b >> at)) << at;
  return result;
}
#define MEMSIM_EACH(name, T, expression)                                                             \
  MEMSIM_BOTH unsigned name(unsigned a, unsigned b) {                                                \
    return memsim_each<T>(a, b, [](int a, int b) { return expression; });                            \
  }
#define MEMSIM_SIGNED_EACH(n, T, m)                                                                  \
  MEMSIM_EACH(__vmins##n, T, a < b ? a : b)                                                          \
  MEMSIM_EACH(__vmaxs##n, T, a < b ? b : a)                                                          \
  MEMSIM_EACH(__vabsdiffs##n, T, a < b ? b - a : a - b)                                              \
  MEMSIM_EACH(__vaddss##n, T, a + b > m ? m : a + b < -m - 1 ? -m - 1 : a + b)                       \
  MEMSIM_EACH(__vsubss##n, T, a - b > m ? m : a - b < -m - 1 ? -m - 1 : a - b)                       \
  MEMSIM_EACH(__vavgs##n, T, (a + b + (a + b >= 0)) >> 1)                                            \
  MEMSIM_BOTH unsigned __vabs##n(unsigned a) { return memsim_each<T>(a, 0, [](int a, int) { return a < 0 ? -a : a; }); } \
  MEMSIM_BOTH unsigned __vabsss##n(unsigned a) { return __vabsdiffs##n(__vmaxs##n(a, __vsubss##n(0, a)), 0); } \
  MEMSIM_BOTH unsigned __vnegss##n(unsigned a) { return __vsubss##n(0, a); } \
  MEMSIM_BOTH unsigned __vneg##n(unsigned a) { return memsim_each<T>(a, 0, [](int a, int) { return -a; }); }
#define MEMSIM_UNSIGNED_EACH(n, T, m)                                                                \
  MEMSIM_EACH(__vadd##n, T, a + b)                                                                   \
  MEMSIM_EACH(__vsub##n, T, a - b)                                                                   \
  MEMSIM_EACH(__vminu##n, T, a < b ? a : b)                                                          \
  MEMSIM_EACH(__vmaxu##n, T, a < b ? b : a)                                                          \
  MEMSIM_EACH(__vabsdiffu##n, T, a < b ? b - a : a - b)                                              \
  MEMSIM_EACH(__vaddus##n, T, a + b > m ? m : a + b)                                                 \
  MEMSIM_EACH(__vsubus##n, T, a < b ? 0 : a - b)                                                     \
  MEMSIM_EACH(__vavgu##n, T, (a + b + 1) >> 1)                                                       \
  MEMSIM_EACH(__vhaddu##n, T, (a + b) >> 1)
#define MEMSIM_COMPARED(kind, T, sign)                                                                \
  MEMSIM_EACH(__vcmp##kind, T, a sign b ? -1 : 0)                                                    \
  MEMSIM_EACH(__vset##kind, T, a sign b)
#define MEMSIM_ORDERED(n, T)                                                                         \
  MEMSIM_COMPARED(lt##n, T, <)                                                                       \
  MEMSIM_COMPARED(le##n, T, <=)                                                                      \
  MEMSIM_COMPARED(gt##n, T, >)                                                                       \
  MEMSIM_COMPARED(ge##n, T, >=)
MEMSIM_ORDERED(s2, short)
MEMSIM_ORDERED(s4, signed char)
MEMSIM_ORDERED(u2, unsigned short)
MEMSIM_ORDERED(u4, unsigned char)
MEMSIM_COMPARED(eq2, unsigned short, ==)
MEMSIM_COMPARED(eq4, unsigned char, ==)
MEMSIM_COMPARED(ne2, unsigned short, !=)
MEMSIM_COMPARED(ne4, unsigned char, !=)
#undef MEMSIM_COMPARED
#undef MEMSIM_ORDERED
MEMSIM_SIGNED_EACH(2, short, 0x7fff)
MEMSIM_SIGNED_EACH(4, signed char, 0x7f)
MEMSIM_UNSIGNED_EACH(2, unsigned short, 0xffff)
MEMSIM_UNSIGNED_EACH(4, unsigned char, 0xff)
MEMSIM_BOTH unsigned __vsadu4(unsigned a, unsigned b) { return __dp4a(__vabsdiffu4(a, b), 0x01010101u, 0u); }
#undef MEMSIM_EACH
#undef MEMSIM_SIGNED_EACH
#undef MEMSIM_UNSIGNED_EACH
#endif
