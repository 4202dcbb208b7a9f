"""How long kernels take on an OpenCL device."""
