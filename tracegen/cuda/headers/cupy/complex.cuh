#include "../thrust/complex.h"
using thrust::complex;
