"""OpenCL devices: which one traces are recorded on, and its buffers."""
