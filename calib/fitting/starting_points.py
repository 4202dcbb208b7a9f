"""Starting points of Levenberg-Marquardt: natural sizes of parameters and random multiples of them.

Counts are of the order of 1e9 and costs per count of 1e-12 s, so a search in these units is badly
conditioned. The unit of a parameter is therefore the value at which it alone would explain the
output or, inside a function, at which it changes the function's argument by one.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
from pymbolic import primitives
from scipy.optimize import nnls

from calib.features.table import FeatureTable
from calib.fitting import expression as ex
from calib.fitting.performance_model import Model

Floats = npt.NDArray[np.float64]


def natural_sizes(model: Model, table: FeatureTable) -> Floats:
    """(n_parameter,) positive: the unit of each parameter in the search."""
    t = table.outputs
    zero = dict.fromkeys(model.parameters, 0.0)
    sizes = dict.fromkeys(model.parameters, 0.0)
    slopes = model.gradient(zero, table.values)
    for j, name in enumerate(model.parameters):
        slope = np.abs(slopes[..., j])
        useful = np.isfinite(slope) & (slope > 0)
        if useful.any():
            sizes[name] = float(np.median(t[useful] / slope[useful]))
    units = {name: size or 1.0 for name, size in sizes.items()}
    values = {**units, **table.values}
    for name in model.parameters:
        if sizes[name]:
            continue
        for argument in _arguments(model.tree):
            if name not in ex.names(argument, "p_"):
                continue
            slope = np.abs(ex.evaluate(ex.derivative(argument, name), values))
            slope = slope[np.isfinite(slope) & (slope > 0)]
            if slope.size:
                units[name] = float(1 / np.median(slope))
                break
    return np.array([units[name] for name in model.parameters])


def starts(
    model: Model, table: FeatureTable, sizes: Floats, count: int, seed: int
) -> Iterator[Floats]:
    """Yields `count` points, (n_parameter,) in natural sizes.

    The first treats functions as constants, which leaves a linear problem (in an overlap each cost
    is half visible). The others multiply it by random factors from 1/30 to 30.
    """
    zero = dict.fromkeys(model.parameters, 0.0)
    matrix = np.nan_to_num(model.gradient(zero, table.values) * sizes / table.outputs[:, None])
    first, _ = nnls(matrix, np.ones(len(table)))
    shares = 1.0 / len(sizes)
    first = np.where(first > 0, first, 0.1 * shares)
    outside = ~np.any(matrix != 0, axis=0)
    first[outside] = 3.0
    yield first
    rng = np.random.default_rng(seed)
    for _ in range(count - 1):
        yield first * 10.0 ** rng.uniform(-1.5, 1.5, len(sizes))


def _arguments(tree: ex.Tree) -> Iterator[ex.Tree]:
    """The arguments of every function call in a tree."""
    if isinstance(tree, primitives.Call):
        for child in tree.parameters:
            yield child
            yield from _arguments(child)
    elif isinstance(tree, (primitives.Sum, primitives.Product)):
        for child in tree.children:
            yield from _arguments(child)
    elif isinstance(tree, primitives.Quotient):
        yield from _arguments(tree.numerator)
        yield from _arguments(tree.denominator)
    elif isinstance(tree, primitives.Power):
        yield from _arguments(tree.base)
        yield from _arguments(tree.exponent)
