// Loads and stores with cache hints: here plain ones. Only __ldg reaches the machine code as it is.
#pragma once
#define MEMSIM_LOAD(name)                                                                            \
  template <class T> MEMSIM_DEVICE T name(const T *address) { return *address; }
#ifndef MEMSIM_NVIDIA
MEMSIM_LOAD(__ldg)
#endif
MEMSIM_LOAD(__ldca)
MEMSIM_LOAD(__ldcg)
MEMSIM_LOAD(__ldcs)
MEMSIM_LOAD(__ldcv)
MEMSIM_LOAD(__ldlu)
#undef MEMSIM_LOAD
#define MEMSIM_STORE(name)                                                                           \
  template <class T> MEMSIM_DEVICE void name(T *address, typename memsim_same<T>::type value) {      \
    *address = value;                                                                                \
  }
MEMSIM_STORE(__stwb)
MEMSIM_STORE(__stcg)
MEMSIM_STORE(__stcs)
MEMSIM_STORE(__stwt)
#undef MEMSIM_STORE
