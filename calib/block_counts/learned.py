"""Learned counts: the model with the least cross-validation error, and the intervals of its predictions.

Models are a log-linear Poisson regression and polynomials of the sizes. Intervals come from an ensemble. Each member
is fitted to samples drawn with replacement, and its relative errors on the samples that it was not fitted to are added
to its predictions. The members of a polynomial have the same terms and different coefficients, so the interval does
not include terms that matter only beyond the samples.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
import numpy.typing as npt

from calib.block_counts.sampling import FloatArray, SampleError, Samples

HIGHEST_DEGREE = 4
MOST_TERMS = 8
MOST_CANDIDATES = 210
SAMPLES_A_TERM = 6
_NEWTON_STEPS = 100


@dataclass(frozen=True)
class PowerLaw:
    """log(mean) = coefficients[0] + sum of coefficients[k + 1] log(input k)."""

    coefficients: FloatArray

    def predict(self, inputs: FloatArray) -> FloatArray:
        exponent = self.coefficients[0] + np.log(inputs) @ self.coefficients[1:]
        counts: FloatArray = np.exp(np.minimum(exponent, 700.0))
        return counts

    def text(self, names: tuple[str, ...]) -> str:
        factors = [
            f"{name}^{power:.3g}" for name, power in zip(names, self.coefficients[1:], strict=True)
        ]
        return " ".join([f"{np.exp(self.coefficients[0]):.4g}", *factors])


@dataclass(frozen=True)
class Polynomial:
    """sum of coefficients[k] * product of inputs ** powers[k].

    powers : (n_term, n_input)
    """

    powers: FloatArray
    coefficients: FloatArray

    def predict(self, inputs: FloatArray) -> FloatArray:
        return np.maximum(_monomials(inputs, self.powers) @ self.coefficients, 0.0)

    def text(self, names: tuple[str, ...]) -> str:
        """Highest degree first."""
        terms = []
        for k in np.argsort(-self.powers.sum(axis=1), kind="stable"):
            factors = [
                name if power == 1 else f"{name}^{power:.0f}"
                for name, power in zip(names, self.powers[k], strict=True)
                if power
            ]
            terms.append(" ".join([f"{self.coefficients[k]:.6g}", *factors]))
        return " + ".join(terms) if terms else "0"


def fit_power_law(inputs: FloatArray, counts: FloatArray) -> PowerLaw:
    """Maximum-likelihood Poisson regression, by Newton's method (iteratively reweighted least squares).

    Raises SampleError where there are fewer samples than coefficients.
    """
    n, n_input = inputs.shape
    _enough("log-linear Poisson regression", n, n_input + 1)
    design = np.column_stack([np.ones(n), np.log(inputs)])
    centre = design.mean(axis=0)
    centre[0] = 0.0
    design = design - centre
    scale = float(counts.mean()) or 1.0
    target = counts / scale
    beta = np.zeros(n_input + 1)
    before = np.inf
    for _ in range(_NEWTON_STEPS):
        eta = np.clip(design @ beta, -30, 30)
        mean = np.exp(eta)
        loss = float((mean - target * eta).sum())
        if before - loss < 1e-12 * abs(loss):
            break
        before = loss
        weighted = design * mean[:, None]
        hessian = design.T @ weighted + 1e-10 * np.eye(n_input + 1)
        step = np.linalg.lstsq(hessian, design.T @ (target - mean), rcond=None)[0]
        # Far from the solution a full step would diverge.
        beta = beta + step * min(1.0, 2.0 / max(float(np.abs(step).max()), 1e-30))
    beta[0] += np.log(scale) - centre[1:] @ beta[1:]
    return PowerLaw(beta)


def fit_polynomial(inputs: FloatArray, counts: FloatArray) -> Polynomial:
    """A sum of monomials of the inputs up to degree 4, chosen by orthogonal matching pursuit.

    It minimises squared relative errors, so that small sizes weigh as much as large ones. A term is kept
    where it lowers the Bayesian information criterion. Raises SampleError for fewer samples than
    n_input + 2.
    """
    n, n_input = inputs.shape
    _enough("a polynomial", n, n_input + 2)
    powers = np.array(
        [
            power
            for power in itertools.product(range(HIGHEST_DEGREE + 1), repeat=n_input)
            if sum(power) <= HIGHEST_DEGREE
        ],
        np.float64,
    )
    # Low degrees first: of equally good terms the simpler one is chosen.
    powers = powers[np.argsort(powers.sum(axis=1), kind="stable")][:MOST_CANDIDATES]
    largest = inputs.max(axis=0)
    weight = _weights(counts)
    columns = _monomials(inputs / largest, powers) * weight[:, None]
    size = np.linalg.norm(columns, axis=0)
    columns = columns / size
    target = counts * weight
    chosen: list[int] = []
    best, best_score = np.zeros(0), _criterion(float(target @ target), n, 0)
    kept = 0
    residual = target
    # Samples that were drawn twice add no information: a term needs several distinct samples.
    most_terms = min(MOST_TERMS, len(np.unique(inputs, axis=0)) // SAMPLES_A_TERM)
    for _ in range(min(max(most_terms, 1), len(powers))):
        left = columns - (
            columns[:, chosen] @ np.linalg.lstsq(columns[:, chosen], columns, rcond=None)[0]
            if chosen
            else 0
        )
        norms = np.linalg.norm(left, axis=0)
        gain = np.where(norms > 1e-7, np.abs(left.T @ residual) / np.maximum(norms, 1e-7), 0.0)
        gain[chosen] = 0.0
        if gain.max() <= 1e-12 * np.linalg.norm(target):
            break
        chosen.append(int(np.argmax(gain)))
        fitted = np.linalg.lstsq(columns[:, chosen], target, rcond=None)[0]
        residual = target - columns[:, chosen] @ fitted
        score = _criterion(float(residual @ residual), n, len(chosen))
        if score < best_score - 1e-9:
            best, best_score, kept = fitted, score, len(chosen)
    powers, used = powers[chosen[:kept]], chosen[:kept]
    coefficients = best / size[used] / np.prod(largest**powers, axis=1) if kept else best
    return Polynomial(powers, coefficients)


def refit_polynomial(powers: FloatArray, inputs: FloatArray, counts: FloatArray) -> Polynomial:
    """The same terms with coefficients fitted to other samples.

    Raises SampleError where these are too few.
    """
    _enough("a polynomial", len(np.unique(inputs, axis=0)), len(powers))
    weight = _weights(counts)
    largest = inputs.max(axis=0)
    columns = _monomials(inputs / largest, powers) * weight[:, None]
    fitted = np.linalg.lstsq(columns, counts * weight, rcond=None)[0]
    return Polynomial(powers, fitted / np.prod(largest**powers, axis=1))


def _weights(counts: FloatArray) -> FloatArray:
    weights: FloatArray = 1.0 / np.maximum(counts, max(1.0, 1e-3 * float(counts.max())))
    return weights


def _criterion(squares: float, n: int, terms: int) -> float:
    return n * float(np.log(max(squares / n, 1e-24))) + terms * float(np.log(n))


def _monomials(inputs: FloatArray, powers: FloatArray) -> FloatArray:
    if not len(powers):
        return np.zeros((len(inputs), 0))
    values: FloatArray = np.prod(inputs[:, None, :] ** powers[None], axis=2)
    return values


def _enough(what: str, n: int, parameters: int) -> None:
    if n < parameters:
        raise SampleError(f"{what} has {parameters} parameters, got {n} samples")


Purpose = Literal["within", "beyond"]
FOLDS = 4
MEMBERS = 16
LEVEL = 0.95
NEIGHBOURS = 300
"""Errors of members that an interval is based on: with 16 members, those of about 50 samples."""


class CountModel(Protocol):
    """A model of one block's counts."""

    def predict(self, inputs: FloatArray) -> FloatArray:
        """Counts, (n,), of inputs, (n, n_input)."""
        ...


Fit = Callable[[FloatArray, FloatArray], CountModel]
FITS: Mapping[str, Fit] = {"power law": fit_power_law, "polynomial": fit_polynomial}
"""Kind of model -> the function that fits it."""
Rows = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Constant:
    """A model that always predicts the same count."""

    value: float

    def predict(self, inputs: FloatArray) -> FloatArray:
        return np.full(len(inputs), self.value)


@dataclass(frozen=True)
class PredictedCounts:
    """Counts with their 95 % intervals, (n,) each.

    outside : (n, n_input) bool, inputs outside the range of the training samples
    warning : names these inputs; empty where there are none
    """

    mean: FloatArray
    low: FloatArray
    high: FloatArray
    outside: npt.NDArray[np.bool_]
    warning: str


@dataclass(frozen=True)
class LearnedCount:
    """A block's learned count.

    errors : kind of model -> its normalised cross-validation error
    members : models fitted to resampled data
    unseen : (n, 2) prediction and relative error of members on samples that they were not fitted to
    least, most : (n_input,) range of the training samples
    """

    block: str
    names: tuple[str, ...]
    kind: str
    model: CountModel
    errors: Mapping[str, float]
    members: tuple[CountModel, ...]
    unseen: FloatArray
    least: FloatArray
    most: FloatArray

    def predict(self, inputs: FloatArray) -> PredictedCounts:
        """Counts at inputs (n, n_input).

        Raises SampleError for another number of columns, and for inputs that are not positive.
        """
        inputs = np.atleast_2d(np.asarray(inputs, np.float64))
        if inputs.shape[1] != len(self.names):
            raise SampleError(
                f"{self.block} is predicted from {', '.join(self.names)}: {len(self.names)} inputs,"
                f" got {inputs.shape[1]}"
            )
        if not (inputs > 0).all():
            raise SampleError(f"inputs of {self.block} must be positive")
        mean = self.model.predict(inputs)
        spread = np.array([member.predict(inputs) for member in self.members])
        low, high = np.empty(len(inputs)), np.empty(len(inputs))
        tail = (1 - LEVEL) / 2
        for row in range(len(inputs)):
            every = spread[:, row, None] * (1 + self._errors_near(mean[row]))
            low[row], high[row] = np.quantile(every, (tail, 1 - tail))
        outside = (inputs < self.least) | (inputs > self.most)
        return PredictedCounts(
            mean,
            np.maximum(np.minimum(low, mean), 0),
            np.maximum(high, mean),
            outside,
            self._warning(inputs, outside),
        )

    def _errors_near(self, count: float) -> FloatArray:
        """Relative errors at similar counts: those of large counts are smaller than those of small ones."""
        if len(self.unseen) <= NEIGHBOURS:
            return self.unseen[:, 1]
        away = np.abs(np.log(self.unseen[:, 0] / max(count, 1e-9)))
        near: FloatArray = self.unseen[np.argpartition(away, NEIGHBOURS)[:NEIGHBOURS], 1]
        return near

    def _warning(self, inputs: FloatArray, outside: npt.NDArray[np.bool_]) -> str:
        parts = []
        for k, name in enumerate(self.names):
            if outside[:, k].any():
                far = inputs[outside[:, k], k]
                parts.append(
                    f"{name} = {far.min():g}..{far.max():g}"
                    if len(far) > 1
                    else f"{name} = {far[0]:g}"
                )
                parts[-1] += f" (trained on {self.least[k]:g}..{self.most[k]:g})"
        return f"outside the trained range: {', '.join(parts)}" if parts else ""


def learn(
    given: Samples,
    column: int,
    purpose: Purpose = "within",
    kinds: Mapping[str, Fit] = FITS,
    seed: int = 0,
    *,
    ensemble: bool = True,
) -> LearnedCount:
    """Learns the count of one block.

    column : index of the block in the samples
    purpose : what cross-validation leaves out: random samples (`within`), or the samples with the largest
        inputs (`beyond`), for predictions beyond the samples
    kinds : the models that it selects from
    ensemble : False takes a fraction of the time, and gives intervals of zero width

    Raises SampleError where the samples are too few for every kind of model.
    """
    x, y = given.inputs, given.counts[:, column]
    least, most = x.min(axis=0), x.max(axis=0)
    block = given.blocks[column]
    if np.ptp(y) == 0:
        constant = Constant(float(y[0]))
        return LearnedCount(
            block, given.names, "constant", constant, {"constant": 0.0}, (constant,),
            np.array([[1.0, 0.0]]), least, most,
        )  # fmt: skip
    folds = _folds(x, purpose, seed)
    errors: dict[str, float] = {}
    refused: list[str] = []
    for kind, fit in kinds.items():
        try:
            errors[kind] = _validated(fit, x, y, folds)
        except SampleError as error:
            refused.append(str(error))
    if not errors:
        raise SampleError(f"{block} cannot be learned: {'; '.join(refused)}")
    best = min(errors, key=lambda kind: errors[kind])
    model = kinds[best](x, y)
    members: tuple[CountModel, ...] = (model,)
    unseen = np.array([[1.0, 0.0]])
    if ensemble:
        members, unseen = _ensemble(_again(kinds[best], model), x, y, seed)
    return LearnedCount(block, given.names, best, model, errors, members, unseen, least, most)


def _folds(x: FloatArray, purpose: Purpose, seed: int) -> list[tuple[Rows, Rows]]:
    """(training rows, test rows) of each fold."""
    n = len(x)
    if purpose == "beyond":
        least = x.min(axis=0)
        reach = ((x - least) / np.where(np.ptp(x, axis=0) > 0, np.ptp(x, axis=0), 1)).mean(axis=1)
        order = np.argsort(reach, kind="stable")
        return [(order[:cut], order[cut:]) for cut in {max(round(s * n), 2) for s in (0.55, 0.7)}]
    order = np.random.default_rng(seed).permutation(n)
    parts = np.array_split(order, min(FOLDS, n))
    return [
        (np.concatenate([p for k, p in enumerate(parts) if k != left]), parts[left])
        for left in range(len(parts))
    ]


def _validated(fit: Fit, x: FloatArray, y: FloatArray, folds: Sequence[tuple[Rows, Rows]]) -> float:
    scale = float(y.max()) or 1.0
    errors = []
    for trained, left in folds:
        predicted = fit(x[trained], y[trained]).predict(x[left])
        errors.append(float((((predicted - y[left]) / scale) ** 2).mean()))
    return float(np.mean(errors))


def _again(fit: Fit, model: CountModel) -> Fit:
    """The function that fits the members of an ensemble: those of a polynomial keep its terms."""
    if not isinstance(model, Polynomial):
        return fit
    powers = model.powers
    return lambda x, y: refit_polynomial(powers, x, y)


def _ensemble(
    fit: Fit, x: FloatArray, y: FloatArray, seed: int
) -> tuple[tuple[CountModel, ...], FloatArray]:
    rng = np.random.default_rng([seed, len(x)])
    members: list[CountModel] = []
    errors: list[FloatArray] = [np.array([[1.0, 0.0]])]
    n = len(x)
    for _ in range(MEMBERS):
        drawn = rng.integers(0, n, n)
        try:
            member = fit(x[drawn], y[drawn])
        except SampleError:
            continue
        members.append(member)
        unseen = np.setdiff1d(np.arange(n), drawn)
        predicted = member.predict(x[unseen])
        keep = predicted > 0
        errors.append(np.column_stack([predicted[keep], y[unseen][keep] / predicted[keep] - 1]))
    if not members:
        return (fit(x, y),), np.concatenate(errors)
    return tuple(members), np.concatenate(errors)
