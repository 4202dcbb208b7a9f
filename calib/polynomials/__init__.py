"""Piecewise quasi-polynomials, and the exact number of integer points of a parametric set."""
