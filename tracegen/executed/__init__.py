"""Traces of launches whose machine code is run."""
