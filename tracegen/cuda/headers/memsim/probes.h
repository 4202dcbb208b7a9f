// What a probe does. Calls of these functions are put before accesses, at the ends of loops' bodies and
// at barriers, and are compiled with the kernel.
//
// A token is `position << 48 | byte`: the number of the probe, and the byte of the address map that is
// accessed. Counting and recording are one: tokens are written where there is room, and what follows is
// decided where there is no more.
#pragma once
struct memsim_region {
  unsigned long base, bytes, place; // in this process; size; in the address map
};
struct memsim_tokens { // of a thread
  unsigned long *next, *end;
  unsigned long turns; // of its loops that are left
  unsigned long *repeats; // of each loop without accesses, since its nest was reached
};
#define MEMSIM_COLD __device__ __attribute__((preserve_most))
extern "C" {
extern __device__ memsim_tokens *memsim_thread; // the one that runs
extern __device__ memsim_region memsim_regions[];
__device__ __attribute__((noreturn)) void memsim_outside(const volatile void *address, unsigned long position, unsigned long region);
__device__ __attribute__((noreturn)) void memsim_beyond(unsigned long number, unsigned long offset);
MEMSIM_COLD void memsim_full();
__device__ __attribute__((noreturn)) void memsim_endless(unsigned long line);
MEMSIM_COLD void memsim_begin_nest(unsigned long loop);
extern __device__ unsigned long memsim_limits[]; // the first byte that an access may not begin at
MEMSIM_COLD void memsim_look(unsigned long number, unsigned long offset);
__device__ void memsim_reach(const volatile void *address, unsigned long position, unsigned long bytes,
                             unsigned long misaligned, unsigned long is_private);

#define MEMSIM_PROBE __device__ __attribute__((used, always_inline))
MEMSIM_PROBE void memsim_token(unsigned long token) {
  memsim_tokens *self = memsim_thread;
  *self->next = token;
  if (__builtin_expect(++self->next == self->end, 0))
    memsim_full();
}
// An access to one array. misaligned : bits of the address that must be 0
MEMSIM_PROBE void memsim_access(const volatile void *address, unsigned long position, unsigned long region,
                                unsigned long bytes, unsigned long misaligned) {
  const memsim_region &array = memsim_regions[region];
  unsigned long offset = (unsigned long)address - array.base;
  if (__builtin_expect(offset >= array.bytes || offset + bytes > array.bytes || offset & misaligned, 0))
    memsim_outside(address, position, region);
  memsim_token(position << 48 | (array.place + offset));
}
// A subscript of an array in shared, constant or private memory. One group's are noted: its limits are 0.
MEMSIM_PROBE void memsim_inside(const volatile void *address, const volatile void *base, unsigned long number) {
  unsigned long offset = (unsigned long)address - (unsigned long)base;
  if (__builtin_expect(offset >= memsim_limits[number], 0))
    memsim_look(number, offset);
}
// Whether an access lies in an array, and what follows where a pointer may point into several.
MEMSIM_PROBE unsigned long memsim_is_inside(const volatile void *address, const volatile void *base,
                                            unsigned long array_bytes, unsigned long bytes) {
  unsigned long offset = (unsigned long)address - (unsigned long)base;
  return offset < array_bytes && offset + bytes <= array_bytes;
}
MEMSIM_PROBE void memsim_somewhere(unsigned long is_inside, unsigned long number) {
  if (__builtin_expect(!is_inside, 0))
    memsim_beyond(number, 0);
}
// The end of a loop's body.
MEMSIM_PROBE void memsim_turn(unsigned long line) {
  if (__builtin_expect(--memsim_thread->turns == 0, 0))
    memsim_endless(line);
}
// The same of a loop without accesses, and the header of one that lies in no other.
MEMSIM_PROBE void memsim_repeat(unsigned long loop) { ++memsim_thread->repeats[loop]; }
MEMSIM_PROBE void memsim_nest(unsigned long loop, unsigned long is_first) {
  if (__builtin_expect(is_first, 0))
    memsim_begin_nest(loop);
}
}
