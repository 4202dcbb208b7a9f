"""Piecewise quasi-polynomials, and the exact number of integer points of a parametric set.

`quasi_polynomial` and `piecewise` are the values, `lattice_points` counts the points of an isl.Set,
and `isl_forms` translates isl's affine forms.
"""
