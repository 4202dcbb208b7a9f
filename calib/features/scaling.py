"""Relative instead of absolute errors."""

from __future__ import annotations

from calib.features.table import FeatureTable


def scale_features_by_output(table: FeatureTable) -> FeatureTable:
    """Divides each row by its output, which becomes 1 (seed 000, section 7.2).

    The table remembers what it was divided by. A fit to it minimises (g - t) / t with g taken on
    the features as they were gathered: for a linear model that is what dividing does, and for one
    that is not homogeneous in its features (an overlap with a tanh of a difference of costs) the
    divided features would fit another function than the one that predicts.
    """
    if table.scale is not None:
        return table
    outputs = table.outputs
    return FeatureTable(
        output=table.output,
        kernels=table.kernels,
        values={name: column / outputs for name, column in table.values.items()},
        scale=outputs,
        spread=None if table.spread is None else table.spread / outputs,
    )
