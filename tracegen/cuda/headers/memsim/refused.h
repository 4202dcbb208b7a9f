// What cannot be traced: a kernel that calls it is refused, with its line. Others of its file are not.
#pragma once
#ifdef MEMSIM_AMD
#define MEMSIM_COMMENT ";"
#else
#define MEMSIM_COMMENT "//"
#endif
#define MEMSIM_REFUSED(what)                                                                         \
  do {                                                                                               \
    asm volatile(MEMSIM_COMMENT " memsim_refused_" #what);                                           \
    __builtin_trap();                                                                                \
  } while (0)
// See tracegen/cuda/host_code.py.
extern "C" __host__ __device__ inline void memsim_left_out() { __builtin_trap(); }
#define cudaTextureType1D 1
#define cudaTextureType2D 2
#define cudaTextureType3D 3
enum cudaTextureReadMode { cudaReadModeElementType, cudaReadModeNormalizedFloat };
typedef unsigned long long cudaTextureObject_t;
typedef unsigned long long cudaSurfaceObject_t;
typedef cudaTextureObject_t hipTextureObject_t;
template <class T, int kind = 1, int mode = 0> struct __attribute__((device_builtin_texture_type)) texture {
  int normalized, filterMode, addressMode[3];
};
#define MEMSIM_TEXTURE(name)                                                                         \
  template <class T, class... Any> MEMSIM_DEVICE T name(Any...) {                                    \
    MEMSIM_REFUSED(texture);                                                                         \
    return T();                                                                                      \
  }                                                                                                  \
  template <class T, int kind, int mode, class... Any>                                               \
  MEMSIM_DEVICE T name(texture<T, kind, mode>, Any...) {                                             \
    MEMSIM_REFUSED(texture);                                                                         \
    return T();                                                                                      \
  }
MEMSIM_TEXTURE(tex1Dfetch)
MEMSIM_TEXTURE(tex1D)
MEMSIM_TEXTURE(tex2D)
MEMSIM_TEXTURE(tex3D)
MEMSIM_TEXTURE(tex1DLod)
MEMSIM_TEXTURE(tex2DLod)
MEMSIM_TEXTURE(tex2DLayered)
MEMSIM_TEXTURE(tex2DGather)
MEMSIM_TEXTURE(tex2Dgather)
#undef MEMSIM_TEXTURE
#define MEMSIM_SURFACE(name)                                                                         \
  template <class T, class... Any> MEMSIM_DEVICE T name(Any...) {                                    \
    MEMSIM_REFUSED(surface);                                                                         \
    return T();                                                                                      \
  }
MEMSIM_SURFACE(surf1Dread)
MEMSIM_SURFACE(surf1Dwrite)
MEMSIM_SURFACE(surf2Dread)
MEMSIM_SURFACE(surf2Dwrite)
MEMSIM_SURFACE(surf3Dread)
MEMSIM_SURFACE(surf3Dwrite)
#undef MEMSIM_SURFACE

namespace nvcuda { namespace wmma {
struct matrix_a {};
struct matrix_b {};
struct accumulator {};
struct row_major {};
struct col_major {};
enum layout_t { mem_row_major, mem_col_major };
namespace precision { struct tf32 {}; }
template <class Use, int m, int n, int k, class T, class Layout = void> struct fragment {
  T x[8];
  static constexpr int num_elements = 8;
};
#define MEMSIM_MATRIX(name)                                                                          \
  template <class... Any> MEMSIM_DEVICE void name(Any &&...) { MEMSIM_REFUSED(matrix); }
MEMSIM_MATRIX(fill_fragment)
MEMSIM_MATRIX(load_matrix_sync)
MEMSIM_MATRIX(store_matrix_sync)
MEMSIM_MATRIX(mma_sync)
#undef MEMSIM_MATRIX
} }
