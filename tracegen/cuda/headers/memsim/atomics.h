// Atomic operations, by the compiler's builtins.
#pragma once
#ifdef MEMSIM_AMD
#define MEMSIM_FETCH(operation) __hip_atomic_##operation(address, v, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT)
#else
#define MEMSIM_FETCH(operation) __atomic_##operation(address, v, __ATOMIC_RELAXED)
#endif
#define MEMSIM_ATOMIC(name, expression)                                                              \
  template <class T> MEMSIM_DEVICE T name(T *address, typename memsim_same<T>::type v) {             \
    return expression;                                                                               \
  }                                                                                                  \
  template <class T> MEMSIM_DEVICE T name(volatile T *volatile_address, typename memsim_same<T>::type v) { \
    T *address = const_cast<T *>(volatile_address);                                                  \
    return expression;                                                                               \
  }
#define MEMSIM_ATOMICS(name, expression)                                                             \
  MEMSIM_ATOMIC(name, expression)                                                                    \
  MEMSIM_ATOMIC(name##_block, expression)                                                            \
  MEMSIM_ATOMIC(name##_system, expression)
template <class T> MEMSIM_DEVICE T memsim_exchange(T *address, T v) {
  T old;
  __atomic_exchange(address, &v, &old, __ATOMIC_RELAXED);
  return old;
}
template <class T> MEMSIM_DEVICE T memsim_swap(T *address, T expected, T v) {
  __atomic_compare_exchange(address, &expected, &v, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
  return expected;
}
MEMSIM_ATOMICS(atomicAdd, MEMSIM_FETCH(fetch_add))
MEMSIM_ATOMICS(atomicSub, MEMSIM_FETCH(fetch_sub))
MEMSIM_ATOMICS(atomicExch, memsim_exchange<T>(address, v))
MEMSIM_ATOMICS(atomicMin, MEMSIM_FETCH(fetch_min))
MEMSIM_ATOMICS(atomicMax, MEMSIM_FETCH(fetch_max))
MEMSIM_ATOMICS(atomicAnd, MEMSIM_FETCH(fetch_and))
MEMSIM_ATOMICS(atomicOr, MEMSIM_FETCH(fetch_or))
MEMSIM_ATOMICS(atomicXor, MEMSIM_FETCH(fetch_xor))
#ifdef MEMSIM_AMD
MEMSIM_ATOMICS(atomicInc, __builtin_amdgcn_atomic_inc32(address, v, __ATOMIC_RELAXED, "agent"))
MEMSIM_ATOMICS(atomicDec, __builtin_amdgcn_atomic_dec32(address, v, __ATOMIC_RELAXED, "agent"))
#else
MEMSIM_ATOMICS(atomicInc, __nvvm_atom_inc_gen_ui(address, v))
MEMSIM_ATOMICS(atomicDec, __nvvm_atom_dec_gen_ui(address, v))
#endif
MEMSIM_ATOMIC(unsafeAtomicAdd, MEMSIM_FETCH(fetch_add))
MEMSIM_ATOMIC(atomicAddNoRet, MEMSIM_FETCH(fetch_add))
#define MEMSIM_SWAP(name)                                                                            \
  template <class T>                                                                                 \
  MEMSIM_DEVICE T name(volatile T *address, typename memsim_same<T>::type expected,                  \
                       typename memsim_same<T>::type v) {                                            \
    return memsim_swap<T>(const_cast<T *>(address), expected, v);                                    \
  }
MEMSIM_SWAP(atomicCAS)
MEMSIM_SWAP(atomicCAS_block)
MEMSIM_SWAP(atomicCAS_system)
MEMSIM_DEVICE float2 atomicAdd(float2 *address, float2 v) {
  return make_float2(atomicAdd(&address->x, v.x), atomicAdd(&address->y, v.y));
}
MEMSIM_DEVICE float4 atomicAdd(float4 *address, float4 v) {
  return make_float4(atomicAdd(&address->x, v.x), atomicAdd(&address->y, v.y), atomicAdd(&address->z, v.z),
                     atomicAdd(&address->w, v.w));
}
