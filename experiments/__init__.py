"""Benchmark kernels, and checks of the models against measured hardware."""
