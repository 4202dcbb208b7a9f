"""Alternatives to the network: log-linear Poisson regression, and polynomials of the sizes."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np

from calib.block_counts.sampling import FloatArray, SampleError

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


def fit_polynomial(
    inputs: FloatArray, counts: FloatArray, *, most_terms: int = MOST_TERMS
) -> Polynomial:
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
    most_terms = min(most_terms, len(np.unique(inputs, axis=0)) // SAMPLES_A_TERM)
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
