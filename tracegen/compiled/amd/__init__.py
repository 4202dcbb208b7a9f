"""Code for AMD GPUs: OpenCL C to machine code by clang, and its assembly as data."""
