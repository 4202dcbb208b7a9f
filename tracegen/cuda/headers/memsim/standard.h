// The C++ standard library's mathematics and memory functions, which kernels may call.
#pragma once
// What <cmath> takes from the rest of the library stays with the host.
#include <limits>
#include <type_traits>
#include <utility>
#if __has_include(<bits/stl_algobase.h>)
#include <bits/stl_algobase.h>
#endif
#include <climits>
#include <cfloat>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#if __has_include(<malloc.h>)
#include <malloc.h>
#endif
#include <cstdio>
#include <ctime>
#ifdef __HIPCC__ // which HIP's own header brings along
#include <cassert>
#include <string>
#endif
#include <math.h>
#include <stdlib.h>
#include <string.h>
