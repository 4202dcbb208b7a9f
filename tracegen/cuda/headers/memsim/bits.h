// Integer and bit intrinsics, and reinterpretations.
#pragma once
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
MEMSIM_BOTH unsigned __sad(int a, int b, unsigned c) { return c + (unsigned)(a < b ? b - a : a - b); }
MEMSIM_BOTH unsigned __usad(unsigned a, unsigned b, unsigned c) { return c + (a < b ? b - a : a - b); }
MEMSIM_BOTH unsigned __funnelshift_l(unsigned low, unsigned high, unsigned by) {
  return by & 31 ? high << (by & 31) | low >> (32 - (by & 31)) : high;
}
MEMSIM_BOTH unsigned __funnelshift_r(unsigned low, unsigned high, unsigned by) {
  return by & 31 ? low >> (by & 31) | high << (32 - (by & 31)) : low;
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

template <class To, class From> MEMSIM_BOTH To memsim_reinterpret(From value) {
  To result;
  __builtin_memcpy(&result, &value, sizeof(To));
  return result;
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
#endif
