#include "../memsim/kernel.h"
