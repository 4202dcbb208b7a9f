"""Code for NVIDIA GPUs: OpenCL C to PTX by clang, PTX to machine code by ptxas, and both as data."""
