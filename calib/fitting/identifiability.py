"""Finds the parameters that a set of measurements does not determine."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

TOLERANCE = 1.5e-8
"""A singular value below this fraction of the largest counts as zero; columns have unit length.
This is half the digits of float64; columns that are multiples of each other yield about 1e-16."""


def null_space(jacobian: Floats) -> Floats:
    """(n_parameter, n_null): orthonormal directions, in units of the columns' lengths, along which
    no row changes; a column of zeros is one of them."""
    _n_row, n_parameter = jacobian.shape
    lengths = np.linalg.norm(jacobian, axis=0)
    unit = jacobian / np.where(lengths > 0, lengths, 1.0)
    _, singular, right = np.linalg.svd(unit, full_matrices=True)
    values = np.zeros(n_parameter)
    values[: len(singular)] = singular
    largest = max(float(values.max(initial=0.0)), 1e-300)
    return np.ascontiguousarray(right[values <= TOLERANCE * largest].T)


def indistinct(jacobian: Floats, names: Sequence[str]) -> tuple[tuple[str, ...], ...]:
    """Groups of parameters that the rows do not distinguish; a single one has no effect on any row.

    Two parameters are in one group if a direction of the null space changes both.
    """
    null = null_space(jacobian)
    linked = np.abs(null @ null.T) > 1e-6
    left = [j for j in range(len(names)) if linked[j, j]]
    groups = []
    while left:
        group, edge = {left[0]}, [left[0]]
        while edge:
            j = edge.pop()
            new = {int(k) for k in np.flatnonzero(linked[j])} - group
            group |= new
            edge.extend(new)
        groups.append(tuple(names[j] for j in sorted(group)))
        left = [j for j in left if j not in group]
    return tuple(groups)


def covariance(jacobian: Floats, variance: float) -> Floats:
    """variance (J^T J)^-1; infinite on the diagonal for parameters that the rows do not
    determine."""
    lengths = np.linalg.norm(jacobian, axis=0)
    lengths = np.where(lengths > 0, lengths, 1.0)
    unit = jacobian / lengths
    inverse = np.linalg.pinv(unit.T @ unit, rcond=TOLERANCE**2, hermitian=True)
    result = np.asarray(variance * inverse, np.float64)
    result /= np.outer(lengths, lengths)
    null = null_space(jacobian)
    undetermined = np.flatnonzero(np.linalg.norm(null, axis=1) > 1e-6)
    result[undetermined, undetermined] = np.inf
    return result
