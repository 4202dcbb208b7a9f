// Nothing is printed, but what would be is computed. MEMSIM_PRINTF is the name of the function.
#pragma once
#ifdef __AMDGCN__
#define MEMSIM_KEEP(kind, letter, value) asm volatile("" : : "v"(value))
#else // ptxas leaves out what no instruction uses: this one has no other effect
#define MEMSIM_KEEP(kind, letter, value)                                                             \
  asm volatile("{ .reg .pred p; setp.eq." kind " p, %0, 0x5f3759df; @p nanosleep.u32 0; }" : : letter(value))
#endif
template <class T> static __device__ inline void memsim_keep(T value) {
  if (sizeof(T) == 8) {
    long long whole;
    memcpy(&whole, &value, 8);
    MEMSIM_KEEP("s64", "l", whole);
  } else {
    int part = 0;
    memcpy(&part, &value, sizeof(T) < 4 ? sizeof(T) : 4);
    MEMSIM_KEEP("s32", "r", part);
  }
}
static __device__ inline void memsim_keep(float value) { memsim_keep((double)value); } // as variable arguments are passed
template <class... Any> static __device__ inline int MEMSIM_PRINTF(const char *, Any... values) {
  const int done[] = {0, (memsim_keep(values), 0)...};
  return done[0];
}
