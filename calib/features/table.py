"""Tables of feature values, to which models are fitted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from memsim.errors import MemsimError

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class FeatureTable:
    """One row per kernel, one column per feature.

    output : the feature that a model is to predict
    kernels : a name for each row
    values : feature -> (n_kernel,) float64, including the output
    scale : (n_kernel,), the divisor of each row; None for an unscaled table
    spread : (n_kernel,), half-widths of the 95 % intervals of measured outputs

    Raises MemsimError if lengths differ, an output is not positive or a value is not finite.
    """

    output: str
    kernels: tuple[str, ...]
    values: Mapping[str, Floats]
    scale: Floats | None = None
    spread: Floats | None = None

    def __post_init__(self) -> None:
        if self.output not in self.values:
            raise MemsimError(f"no values of the output feature {self.output}")
        for name, column in self.values.items():
            if np.shape(column) != (len(self.kernels),):
                raise MemsimError(
                    f"{name} must have one value for each of {len(self.kernels)} kernels,"
                    f" got shape {np.shape(column)}"
                )
            self._refuse(name, ~np.isfinite(column), "must be a finite number")
        self._refuse(self.output, self.values[self.output] <= 0, "must be positive")

    def _refuse(self, feature: str, wrong: npt.NDArray[np.bool_], rule: str) -> None:
        if wrong.any():
            row = int(np.argmax(wrong))
            raise MemsimError(
                f"{feature} of kernel {self.kernels[row]} {rule}, got {self.values[feature][row]}"
            )

    def __len__(self) -> int:
        return len(self.kernels)

    @property
    def outputs(self) -> Floats:
        return self.values[self.output]

    def unscaled(self) -> FeatureTable:
        """The table before it was scaled."""
        if self.scale is None:
            return self
        return replace(
            self,
            values={name: column * self.scale for name, column in self.values.items()},
            scale=None,
            spread=None if self.spread is None else self.spread * self.scale,
        )

    def rows(self, chosen: npt.NDArray[np.bool_]) -> FeatureTable:
        """The chosen rows only."""
        return replace(
            self,
            kernels=tuple(n for n, keep in zip(self.kernels, chosen, strict=True) if keep),
            values={name: column[chosen] for name, column in self.values.items()},
            scale=None if self.scale is None else self.scale[chosen],
            spread=None if self.spread is None else self.spread[chosen],
        )


def scale_features_by_output(table: FeatureTable) -> FeatureTable:
    """Divides each row by its output, which becomes 1 (Stevens and Klöckner 2020, section 7.2).

    A fit to a scaled table minimises (g - t) / t, where g is evaluated on the unscaled features.
    For a linear model this is the same as evaluating it on scaled ones. A model that is not
    homogeneous in its features (an overlap with the tanh of a difference of costs) would be a
    different function on scaled features than the one that predicts.
    """
    if table.scale is not None:
        return table
    outputs = table.outputs
    return replace(
        table,
        values={name: column / outputs for name, column in table.values.items()},
        scale=outputs,
        spread=None if table.spread is None else table.spread / outputs,
    )
