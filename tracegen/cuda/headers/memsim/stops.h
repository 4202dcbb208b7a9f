// What ends a run.
#pragma once
#ifndef MEMSIM_NVIDIA
[[noreturn]] MEMSIM_DEVICE void __trap() { __builtin_trap(); }
MEMSIM_DEVICE void __brkpt() {}
#endif
extern "C" { // <assert.h> declares it for the host
[[noreturn]] MEMSIM_DEVICE void __assert_fail(const char *, const char *, unsigned, const char *) {
  __builtin_trap();
}
}
