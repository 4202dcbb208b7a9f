"""Oclgrind as an independent witness of global memory accesses."""
