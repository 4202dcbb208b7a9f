"""Kernels written in OpenCL C: their source is instrumented at every access to global memory."""
