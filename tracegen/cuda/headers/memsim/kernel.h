// What CUDA C++ and HIP declare for kernels. Every program is compiled with this file before its own text.
#pragma once
#ifdef MEMSIM_NVIDIA
#include <__clang_cuda_math_forward_declares.h>
#endif
#include "standard.h"

#include "qualifiers.h"
#include "vectors.h"
#ifdef MEMSIM_NVIDIA
#include "nvidia.h"
#endif
#ifdef MEMSIM_AMD
#include "amd.h"
#endif
#define MEMSIM_PRINTF printf
#include "../nvrtc/printed.h"
#include "bits.h"
#include "arithmetic.h"
#include "stops.h"
#include "atomics.h"
#include "loads.h"
#include "copies.h"
#include "refused.h"
#include "host.h"
#ifdef MEMSIM_DESCRIBED
#include "../nvrtc/signature.h"
#endif
