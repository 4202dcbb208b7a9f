#include "memsim/kernel.h"
#include "memsim/half.h"
