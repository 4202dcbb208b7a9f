// What Oclgrind's plugin headers need of LLVM: a name for a pointer and a length.
#pragma once

#include <cstddef>

namespace llvm
{
struct StringRef
{
  const char *data;
  size_t size;
};
} // namespace llvm
