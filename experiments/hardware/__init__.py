"""Comparisons with measured hardware, one kernel or curve a module."""
