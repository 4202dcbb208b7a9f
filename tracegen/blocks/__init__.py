"""Counts of basic blocks, by running a copy of the kernel that counts."""
