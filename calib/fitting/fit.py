"""Fits a model's parameters to measured kernels.

Minimises ||r(p)||_2 with r_i = (g(features_i, p) - t_i) / s_i, where s_i is t_i for a table scaled
by its output and 1 otherwise (Stevens and Klöckner 2020, section 7.2). J_ij = dr_i/dp_j comes from
the symbolic derivative; SciPy's Levenberg-Marquardt runs from several points.

Counts are of the order of 1e9 and costs per count of 1e-12 s, so a search in these units is badly
conditioned. The unit of a parameter is therefore the value at which it alone would explain the
output or, inside a function, at which it changes the function's argument by one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import scipy.linalg
from pymbolic import primitives
from scipy.optimize import least_squares, nnls
from scipy.sparse.csgraph import connected_components

from calib.features.table import FeatureTable
from calib.fitting import expression as ex
from calib.fitting.performance_model import Model
from memsim.errors import MemsimError
from memsim.statistics import student_t

Floats = npt.NDArray[np.float64]


class FitError(MemsimError):
    """A model cannot be fitted to these kernels."""


@dataclass(frozen=True, kw_only=True)
class FittedValue:
    """A value with the 95 % interval of a new measurement.

    value, low, high : scalars or arrays of one shape; the interval is infinite if the fit does not
        determine the value
    """

    value: Floats
    low: Floats
    high: Floats


@dataclass(frozen=True, kw_only=True)
class Fit(Mapping[str, float]):
    """Parameter values as a mapping, with their uncertainty.

    parameters : name -> value
    covariance : (n_parameter, n_parameter); infinite on the diagonal for a parameter that the data
        do not determine, 0 for one at its bound
    residual_norm : ||r||_2 at the solution
    degrees_of_freedom : number of kernels minus number of determined parameters
    relative : whether residuals are relative to the output
    at_bound : parameters that are 0 because the fit is non-negative
    indistinct : groups of parameters that the data do not distinguish
    errors : (n_kernel,) g / t - 1
    """

    model: Model
    parameters: Mapping[str, float]
    covariance: Floats
    residual_norm: float
    degrees_of_freedom: int
    relative: bool
    at_bound: tuple[str, ...]
    indistinct: tuple[tuple[str, ...], ...]
    errors: Floats

    def __getitem__(self, name: str) -> float:
        return self.parameters[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.parameters)

    def __len__(self) -> int:
        return len(self.parameters)

    @property
    def mean_error(self) -> float:
        """Geometric mean of |g/t - 1| over the measurements."""
        return geometric_mean(np.abs(self.errors))

    def half_widths(self, confidence: float = 0.95) -> dict[str, float]:
        """Half-width of each parameter's interval; nan for one at its bound, inf for an
        undetermined one."""
        deviation = np.sqrt(np.diag(self.covariance))
        if (
            self.degrees_of_freedom
        ):  # otherwise all free parameters already have an infinite interval
            deviation = deviation * self._quantile(confidence)
        return {
            name: float("nan") if name in self.at_bound else float(deviation[j])
            for j, name in enumerate(self.model.parameters)
        }

    def predict(self, features: Mapping[str, Any], confidence: float = 0.95) -> FittedValue:
        """The model's value with its interval, from the covariance of parameters and the
        scatter."""
        value = self.model.evaluate(self, features)
        slope = self.model.gradient(self, features)
        known = np.nan_to_num(self.covariance, posinf=0.0)
        variance = np.einsum("...i,ij,...j", slope, known, slope)
        open_ = np.isinf(np.diag(self.covariance))
        variance = np.where(np.any(slope[..., open_] != 0, axis=-1), np.inf, variance)
        scatter = self._deviation * (np.abs(value) if self.relative else 1.0)
        half = self._quantile(confidence) * np.sqrt(np.maximum(variance, 0) + scatter**2)
        return FittedValue(value=value, low=np.maximum(value - half, 0), high=value + half)

    @property
    def _deviation(self) -> float:
        """Standard deviation of a residual."""
        if self.degrees_of_freedom == 0:
            return float("inf")
        return self.residual_norm / float(np.sqrt(self.degrees_of_freedom))

    def _quantile(self, confidence: float) -> float:
        if self.degrees_of_freedom == 0:
            return float("inf")
        return student_t(self.degrees_of_freedom + 1, confidence)


def fit_model(
    model: Model,
    table: FeatureTable,
    *,
    nonnegative: bool = False,
    singular: Literal["refuse", "report"] = "refuse",
    n_starts: int = 8,
    seed: int = 0,
) -> Fit:
    """Fits the parameters of a model to a table; for a scaled table the errors are relative.

    nonnegative : restrict every parameter to 0 or above, as costs are
    singular : if the data do not determine all parameters, "refuse" raises FitError with their
        names; "report" lists them in `Fit.indistinct` and returns one of the equally good solutions
    n_starts : number of Levenberg-Marquardt runs for a nonlinear model; the best result is used

    Raises FitError if there are fewer kernels than parameters or the model has no finite value.
    """
    if table.output != model.output:
        raise FitError(f"the table's output is {table.output}, the model's {model.output}")
    n_kernel, n_parameter = len(table), len(model.parameters)
    if n_kernel < n_parameter:
        raise FitError(
            f"{n_kernel} kernels cannot determine {n_parameter} parameters: {', '.join(model.parameters)}"
        )
    plain = table.unscaled()
    weight = 1.0 / (table.scale if table.scale is not None else np.ones(n_kernel))
    problem = _Problem(model, plain, weight, nonnegative)
    scaled = problem.linear() if model.is_linear else problem.search(n_starts, seed)
    jacobian = problem.jacobian(scaled)
    residual = problem.residual(scaled)
    if not (np.isfinite(jacobian).all() and np.isfinite(residual).all()):
        raise FitError(
            "the model has no finite value at any start: look at its quotients and roots"
        )
    groups = indistinct(jacobian, model.parameters)
    if groups and singular == "refuse":
        raise FitError(_why_singular(model, plain, groups))
    at_bound = (scaled <= 1e-12) if nonnegative else np.zeros(n_parameter, bool)
    free = np.flatnonzero(~at_bound)
    rank = len(free) - null_space(jacobian[:, free]).shape[1]
    freedom = n_kernel - rank
    variance = float(residual @ residual) / freedom if freedom else float("inf")
    wide = np.zeros((n_parameter, n_parameter))
    if free.size and not freedom:
        wide[free, free] = np.inf
    elif free.size:
        units = problem.sizes[free]
        wide[np.ix_(free, free)] = covariance(jacobian[:, free], variance) * np.outer(units, units)
    parameters = problem.named(scaled)
    return Fit(
        model=model,
        parameters=parameters,
        covariance=wide,
        residual_norm=float(np.linalg.norm(residual)),
        degrees_of_freedom=freedom,
        relative=table.scale is not None,
        at_bound=tuple(n for n, at in zip(model.parameters, at_bound, strict=True) if at),
        indistinct=groups,
        errors=model.evaluate(parameters, plain.values) / plain.outputs - 1,
    )


def geometric_mean(values: Any) -> float:
    """exp(mean(log)); values of 0 count as 1e-12, the last digits of a float64 sum."""
    return float(np.exp(np.mean(np.log(np.maximum(np.asarray(values, np.float64), 1e-12)))))


class _Problem:
    """The residual and its Jacobian over parameters in units of `sizes`."""

    def __init__(
        self, model: Model, table: FeatureTable, weight: Floats, nonnegative: bool
    ) -> None:
        self.model, self.table, self.weight = model, table, weight
        self.nonnegative = nonnegative
        self.sizes = natural_sizes(model, table)
        # Residuals of absolute times are near 1e-3; tolerances are meant for numbers near 1.
        self.unit = 1.0 / float(np.median(np.abs(table.outputs * weight)))

    def named(self, scaled: Floats) -> dict[str, float]:
        values = (scaled * self.sizes).tolist()
        return dict(zip(self.model.parameters, values, strict=True))

    def residual(self, scaled: Floats) -> Floats:
        value = self.model.evaluate(self.named(scaled), self.table.values)
        return (value - self.table.outputs) * self.weight

    def jacobian(self, scaled: Floats) -> Floats:
        gradient = self.model.gradient(self.named(scaled), self.table.values)
        shape = (len(self.table), len(self.sizes))
        return np.broadcast_to(gradient, shape) * self.weight[:, None] * self.sizes

    def linear(self) -> Floats:
        """The exact minimum of a linear model."""
        matrix = self.jacobian(np.zeros(len(self.sizes)))
        target = self.table.outputs * self.weight
        if self.nonnegative:
            return np.asarray(nnls(matrix, target)[0], np.float64)
        return np.asarray(np.linalg.lstsq(matrix, target, rcond=None)[0], np.float64)

    def search(self, n_starts: int, seed: int) -> Floats:
        """The best result of several searches."""
        best, least = None, np.inf
        for start in starts(self.model, self.table, self.sizes, n_starts, seed):
            end = self._from(start)
            if end is not None:
                square = float(np.sum(self.residual(end) ** 2))
                if square < least:
                    best, least = end, square
        if best is None:
            raise FitError(
                "the model has no finite value at any start: look at its quotients and roots"
            )
        return best

    def _from(self, start: Floats) -> Floats | None:
        if not (
            np.isfinite(self.residual(start)).all() and np.isfinite(self.jacobian(start)).all()
        ):
            return None
        try:
            solution = least_squares(
                lambda x: self.residual(x) * self.unit,
                start,
                jac=lambda x: self.jacobian(x) * self.unit,
                method="trf" if self.nonnegative else "lm",
                bounds=(0.0, np.inf) if self.nonnegative else (-np.inf, np.inf),
                x_scale="jac",
                max_nfev=400,
            )
        except ValueError:  # a step to parameters where the model has no value
            return None
        end = np.asarray(solution.x, np.float64)
        if self.nonnegative:  # an interior method does not reach the bound exactly
            cleared = np.where(end < 1e-6, 0.0, end)
            if np.sum(self.residual(cleared) ** 2) <= np.sum(self.residual(end) ** 2) * (1 + 1e-6):
                return cleared
        return end


def _why_singular(model: Model, table: FeatureTable, groups: tuple[tuple[str, ...], ...]) -> str:
    reasons = []
    for group in groups:
        named = [f"{name} ({' '.join(model.features_of(name)) or 'no feature'})" for name in group]
        if len(group) == 1:
            features = model.features_of(group[0])
            absent = features and all(np.all(table.values[f] == 0) for f in features)
            why = "its features are 0 in every kernel" if absent else "it changes no kernel's value"
            reasons.append(f"{named[0]}: {why}")
        else:
            reasons.append(f"{', '.join(named)}: only the sum of their costs is determined")
    return f"these kernels do not determine every parameter: {'; '.join(reasons)}"


TOLERANCE = 1.5e-8
"""A singular value below this fraction of the largest counts as zero; columns have unit length.
This is half the digits of float64; columns that are multiples of each other yield about 1e-16."""


def null_space(jacobian: Floats) -> Floats:
    """(n_parameter, n_null): orthonormal directions, in units of the columns' lengths, along which
    no row changes; a column of zeros is one of them."""
    lengths = np.linalg.norm(jacobian, axis=0)
    unit = jacobian / np.where(lengths > 0, lengths, 1.0)
    if not unit.size:  # which older versions of SciPy refuse
        return np.eye(unit.shape[1])
    return np.ascontiguousarray(scipy.linalg.null_space(unit, rcond=TOLERANCE))


def indistinct(jacobian: Floats, names: Sequence[str]) -> tuple[tuple[str, ...], ...]:
    """Groups of parameters that the rows do not distinguish; a single one has no effect on any row.

    Two parameters are in one group if a direction of the null space changes both.
    """
    null = null_space(jacobian)
    linked = np.abs(null @ null.T) > 1e-6
    _, group = connected_components(linked, directed=False)
    undetermined = [j for j in range(len(names)) if linked[j, j]]
    return tuple(
        tuple(names[j] for j in undetermined if group[j] == number)
        for number in dict.fromkeys(group[undetermined].tolist())
    )


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
    calls = (one for one in ex.subtrees(model.tree) if isinstance(one, primitives.Call))
    arguments = [argument for call in calls for argument in call.parameters]
    for name in model.parameters:
        if sizes[name]:
            continue
        for argument in arguments:
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
