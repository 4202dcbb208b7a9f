#include "../memsim/kernel.h"
#include "../memsim/half.h"
typedef __nv_bfloat16 hip_bfloat16;
