// Barriers of a block. On this computer, a thread that waits gives way to the next one.
#pragma once
#ifdef MEMSIM_CPU
extern "C" {
__device__ void memsim_barrier();
// Waits for the block; returns how many of its threads gave a true value, and how many there are.
__device__ int memsim_barrier_votes(int vote, int *threads);
__device__ unsigned long long memsim_clock();
// Ends the run. file : 0 if unknown
[[noreturn]] __device__ void memsim_stop(const char *file, unsigned line);
}
MEMSIM_DEVICE void __syncthreads() { memsim_barrier(); }
MEMSIM_DEVICE int __syncthreads_count(int vote) {
  int threads;
  return memsim_barrier_votes(vote != 0, &threads);
}
MEMSIM_DEVICE int __syncthreads_or(int vote) { return __syncthreads_count(vote) != 0; }
MEMSIM_DEVICE int __syncthreads_and(int vote) {
  int threads;
  return memsim_barrier_votes(vote != 0, &threads) == threads;
}
MEMSIM_DEVICE void __threadfence() {}
MEMSIM_DEVICE void __threadfence_block() {}
MEMSIM_DEVICE void __threadfence_system() {}
MEMSIM_DEVICE long long clock64() { return (long long)memsim_clock(); }
MEMSIM_DEVICE long long wall_clock64() { return (long long)memsim_clock(); }
MEMSIM_DEVICE clock_t clock() { return (clock_t)clock64(); }
MEMSIM_DEVICE void __nanosleep(unsigned) {}
template <class... Any> MEMSIM_DEVICE int printf(const char *, Any...) { return 0; }
#define MEMSIM_STOP(file, line) memsim_stop(file, line)
#else
#define MEMSIM_STOP(file, line) __builtin_trap()
#endif
#ifndef MEMSIM_NVIDIA
[[noreturn]] MEMSIM_DEVICE void __trap() { MEMSIM_STOP(0, 0); }
MEMSIM_DEVICE void __brkpt() {}
#endif
extern "C" { // <assert.h> declares it for the host
[[noreturn]] MEMSIM_DEVICE void __assert_fail(const char *, const char *file, unsigned line, const char *) {
  MEMSIM_STOP(file, line);
}
}
