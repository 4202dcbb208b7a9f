"""Oclgrind as an independent reference for global memory accesses."""
