"""Benchmark kernels, reproductions of five papers, and comparisons with measured hardware."""
