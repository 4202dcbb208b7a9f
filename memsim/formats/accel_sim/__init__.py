"""Accel-Sim's traces of CUDA programs: reading and writing."""
