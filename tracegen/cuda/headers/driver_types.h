#include "memsim/kernel.h"
