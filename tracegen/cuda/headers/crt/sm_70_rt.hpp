// clang includes this for sm_70; what it would declare is in memsim/nvidia.h.
