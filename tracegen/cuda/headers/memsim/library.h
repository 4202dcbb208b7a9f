// What the headers of the CUDA C++ library share: cuda::std is the host's library.
#pragma once
#include "kernel.h"
namespace cuda {
namespace std {
using namespace ::std;
}
enum thread_scope { thread_scope_system, thread_scope_device, thread_scope_block, thread_scope_thread };
}
