"""Kernels with their arguments: how they are described, found and loaded."""
