// What a probe does. Calls of these functions are put before accesses, at the ends of loops' bodies and
// at barriers, and are compiled with the kernel.
//
// A token is `position << 48 | byte`: the number of the probe, and the byte of the address map that is
// accessed. Counting and recording are one: token number `memsim_at` of a thread is kept if it is below
// `memsim_room` (nothing is where a run only counts).
#pragma once
struct memsim_region {
  unsigned long base, bytes, place; // in this process; size; in the address map
};
extern "C" {
extern __device__ unsigned long *memsim_first;
extern __device__ unsigned long memsim_at, memsim_room, memsim_turns;
extern __device__ memsim_region memsim_regions[];
__device__ __attribute__((noreturn)) void memsim_outside(const volatile void *address, unsigned long position, unsigned long region);
__device__ __attribute__((noreturn)) void memsim_beyond(unsigned long number, unsigned long offset);
__device__ __attribute__((noreturn)) void memsim_endless(unsigned long position);
extern __device__ int memsim_noting;
__device__ void memsim_note(unsigned long number, unsigned long offset);
__device__ void memsim_reach(const volatile void *address, unsigned long position, unsigned long bytes,
                             unsigned long misaligned, unsigned long is_private);

#define MEMSIM_PROBE __device__ __attribute__((used, always_inline))
MEMSIM_PROBE void memsim_token(unsigned long token) {
  unsigned long at = memsim_at;
  if (at < memsim_room)
    memsim_first[at] = token;
  memsim_at = at + 1;
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
// A subscript of an array in shared, constant or private memory. One group's are noted.
MEMSIM_PROBE void memsim_inside(const volatile void *address, const volatile void *base,
                                unsigned long array_bytes, unsigned long bytes, unsigned long number) {
  unsigned long offset = (unsigned long)address - (unsigned long)base;
  if (__builtin_expect(offset >= array_bytes || offset + bytes > array_bytes, 0))
    memsim_beyond(number, offset);
  if (__builtin_expect(memsim_noting, 0))
    memsim_note(number, offset);
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
MEMSIM_PROBE void memsim_turn(unsigned long position) {
  if (__builtin_expect(--memsim_turns == 0, 0))
    memsim_endless(position);
}
}
