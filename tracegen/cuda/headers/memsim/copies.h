// Asynchronous copies from global to shared memory: a load and a store, which are done at once. NVIDIA's
// targets from sm_80 on have an instruction for copies of 4, 8 and 16 bytes.
#pragma once
template <class Word> MEMSIM_DEVICE void memsim_copy(void *to, const void *from) {
#if defined(MEMSIM_NVIDIA) && __CUDA_ARCH__ >= 800
  if (sizeof(Word) >= 4) {
    unsigned place = (unsigned)(unsigned long)(__attribute__((address_space(3))) void *)to;
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(place), "l"(from), "n"(sizeof(Word)) : "memory");
    return;
  }
#endif
  *(Word *)to = *(const Word *)from;
}
// Waits until at most some of the groups of copies that were committed last are under way.
MEMSIM_DEVICE void __pipeline_wait_prior(unsigned groups) {
#if defined(MEMSIM_NVIDIA) && __CUDA_ARCH__ >= 800
  switch (groups) {
  case 1: asm volatile("cp.async.wait_group 1;" ::: "memory"); break;
  case 2: asm volatile("cp.async.wait_group 2;" ::: "memory"); break;
  case 3: asm volatile("cp.async.wait_group 3;" ::: "memory"); break;
  default: asm volatile("cp.async.wait_all;" ::: "memory");
  }
#endif
}
MEMSIM_DEVICE void __pipeline_commit() {
#if defined(MEMSIM_NVIDIA) && __CUDA_ARCH__ >= 800
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}
// The last `zeros` bytes are 0 instead.
MEMSIM_DEVICE void __pipeline_memcpy_async(void *to, const void *from, unsigned long bytes, unsigned long zeros = 0) {
  if (zeros) {
    __builtin_memset(to, 0, bytes);
    for (unsigned long k = 0; k + zeros < bytes; ++k)
      ((char *)to)[k] = ((const char *)from)[k];
  } else if (bytes == 16) {
    memsim_copy<uint4>(to, from);
  } else if (bytes == 8) {
    memsim_copy<uint2>(to, from);
  } else {
    memsim_copy<unsigned>(to, from);
  }
}
// Threads of a group copy next to each other, as many bytes at a time as the addresses allow.
template <class Word> MEMSIM_DEVICE void memsim_copy_words(unsigned rank, unsigned n, char *to, const char *from, unsigned long bytes) {
  for (unsigned long k = rank * sizeof(Word); k < bytes; k += n * sizeof(Word))
    memsim_copy<Word>(to + k, from + k);
}
MEMSIM_DEVICE void memsim_copy_by(unsigned rank, unsigned n, void *to, const void *from, unsigned long bytes) {
  unsigned long all = (unsigned long)to | (unsigned long)from | bytes;
  if ((all & 15) == 0)
    memsim_copy_words<uint4>(rank, n, (char *)to, (const char *)from, bytes);
  else if ((all & 3) == 0)
    memsim_copy_words<unsigned>(rank, n, (char *)to, (const char *)from, bytes);
  else
    memsim_copy_words<char>(rank, n, (char *)to, (const char *)from, bytes);
}
namespace cuda {
template <unsigned long alignment> struct aligned_size_t {
  static constexpr unsigned long align = alignment;
  unsigned long value;
  __host__ __device__ explicit constexpr aligned_size_t(unsigned long bytes) : value(bytes) {}
  __host__ __device__ constexpr operator unsigned long() const { return value; }
};
}
