"""Counted features: the operations and accesses of a Loopy kernel as formulas in its sizes."""
