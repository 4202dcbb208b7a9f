"""The benchmark kernels, as Loopy workloads."""
