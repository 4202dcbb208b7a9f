// Constants by the names of HIP.
#pragma once
#include "../math_constants.h"
#define HIP_INF_F CUDART_INF_F
#define HIP_NAN_F CUDART_NAN_F
#define HIP_MAX_NORMAL_F CUDART_MAX_NORMAL_F
#define HIP_PI_F CUDART_PI_F
#define HIP_PIO2_F CUDART_PIO2_F
#define HIP_SQRT_TWO_F CUDART_SQRT_TWO_F
#define HIP_LN2_F CUDART_LN2_F
#define HIP_INF CUDART_INF
#define HIP_NAN CUDART_NAN
#define HIP_PI CUDART_PI
#define HIP_PIO2 CUDART_PIO2
#define HIP_SQRT_TWO CUDART_SQRT_TWO
#define HIP_LN2 CUDART_LN2
