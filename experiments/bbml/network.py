"""The Poisson network: one hidden tanh layer; its output is the mean of a Poisson variable.

Barai et al. (BB-ML), section 4.2: ten hidden units, Adam at 1e-4, 300 epochs in batches of 10, and
PyTorch's PoissonNLLLoss with log_input=False, which is lambda - y log(lambda + eps), where lambda is the
output itself. Inputs are scaled to 0..1, counts by their mean. Where the output falls below a small
positive number, the logarithm is that of this number.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from calib.block_counts import FITS, FloatArray, SampleError
from memsim.compile import compiled

LEAST_MEAN = 1e-2
"""Least output, as a fraction of the mean count, in the derivative of the logarithm."""
_BETA_1, _BETA_2, _SMALL = 0.9, 0.999, 1e-8


@dataclass(frozen=True, kw_only=True)
class NetworkOptions:
    """Size and training of a network; the defaults are the paper's."""

    hidden: int = 10
    epochs: int = 300
    batch: int = 10
    learning_rate: float = 1e-4
    seed: int = 0

    def n_parameters(self, n_input: int) -> int:
        return self.hidden * (n_input + 2) + 1


@dataclass(frozen=True)
class Network:
    """A trained network.

    weights : flat: hidden weights, hidden biases, output weights, output bias
    least, span : (n_input,) scaling of the inputs;  scale : of the counts
    """

    weights: FloatArray
    least: FloatArray
    span: FloatArray
    scale: float
    hidden: int

    def predict(self, inputs: FloatArray) -> FloatArray:
        scaled = (inputs - self.least) / self.span
        first, bias, second, last = _parts(self.weights, scaled.shape[1], self.hidden)
        output = np.tanh(scaled @ first.T + bias) @ second + last
        counts: FloatArray = np.maximum(output, 0.0) * self.scale
        return counts


def fit_network(
    inputs: FloatArray, counts: FloatArray, options: NetworkOptions | None = None
) -> Network:
    """A network trained on inputs (n, n_input) and the counts (n,) of one block.

    Raises SampleError where there are fewer samples than parameters.
    """
    options = options or NetworkOptions()
    n, n_input = inputs.shape
    n_parameters = options.n_parameters(n_input)
    if n < n_parameters:
        raise SampleError(
            f"a network of {options.hidden} hidden units has {n_parameters} parameters for"
            f" {n_input} inputs, got {n} samples"
        )
    least = inputs.min(axis=0)
    span = np.ptp(inputs, axis=0)
    span[span == 0] = 1.0
    scale = float(counts.mean()) or 1.0
    scaled, target = (inputs - least) / span, counts / scale
    rng = np.random.default_rng(options.seed)
    weights = initial_weights(rng, n_input, options.hidden)
    order = np.stack([rng.permutation(n) for _ in range(options.epochs)]).astype(np.int32)
    _train(
        np.ascontiguousarray(scaled), target, weights, order, options.hidden, options.batch,
        options.learning_rate,
    )  # fmt: skip
    return Network(weights, least, span, scale, options.hidden)


def initial_weights(rng: np.random.Generator, n_input: int, hidden: int) -> FloatArray:
    """PyTorch's initial weights of a Linear layer: uniform within 1 / sqrt(inputs of the layer)."""
    near = 1 / np.sqrt(n_input)
    far = 1 / np.sqrt(hidden)
    return np.concatenate(
        [
            rng.uniform(-near, near, hidden * n_input),
            rng.uniform(-near, near, hidden),
            rng.uniform(-far, far, hidden + 1),
        ]
    )


def _parts(weights: FloatArray, n_input: int, hidden: int) -> tuple[Any, Any, Any, Any]:
    first = hidden * n_input
    return (
        weights[:first].reshape(hidden, n_input),
        weights[first : first + hidden],
        weights[first + hidden : first + 2 * hidden],
        weights[-1],
    )


@compiled
def _gradient(
    inputs: Any, target: Any, weights: Any, hidden: int, rows: Any, gradient: Any
) -> float:
    n_input = inputs.shape[1]
    gradient[:] = 0.0
    activity = np.empty(hidden)
    loss = 0.0
    biases, second, last = hidden * n_input, hidden * (n_input + 1), hidden * (n_input + 2)
    for row in rows:
        output = weights[last]
        for h in range(hidden):
            total = weights[biases + h]
            for k in range(n_input):
                total += weights[h * n_input + k] * inputs[row, k]
            activity[h] = np.tanh(total)
            output += weights[second + h] * activity[h]
        y = target[row]
        if output > LEAST_MEAN:
            loss += output - y * np.log(output)
            slope = 1.0 - y / output
        else:
            # The loss continues as a straight line; a count of 0 does not pull the output further down.
            loss += LEAST_MEAN - y * np.log(LEAST_MEAN) - y / LEAST_MEAN * (output - LEAST_MEAN)
            slope = -y / LEAST_MEAN
        slope /= len(rows)
        gradient[last] += slope
        for h in range(hidden):
            gradient[second + h] += slope * activity[h]
            inner = slope * weights[second + h] * (1.0 - activity[h] * activity[h])
            gradient[biases + h] += inner
            for k in range(n_input):
                gradient[h * n_input + k] += inner * inputs[row, k]
    return loss / len(rows)


@compiled
def _train(
    inputs: Any, target: Any, weights: Any, order: Any, hidden: int, batch: int, rate: float
) -> None:
    """Adam (Kingma and Ba, 2015) over batches in the given orders."""
    mean, square = np.zeros_like(weights), np.zeros_like(weights)
    gradient = np.zeros_like(weights)
    decay_1, decay_2 = 1.0, 1.0
    for epoch in range(order.shape[0]):
        for first in range(0, order.shape[1], batch):
            _gradient(
                inputs, target, weights, hidden, order[epoch, first : first + batch], gradient
            )
            decay_1 *= _BETA_1
            decay_2 *= _BETA_2
            for k in range(len(weights)):
                mean[k] = _BETA_1 * mean[k] + (1 - _BETA_1) * gradient[k]
                square[k] = _BETA_2 * square[k] + (1 - _BETA_2) * gradient[k] ** 2
                step = mean[k] / (1 - decay_1)
                weights[k] -= rate * step / (np.sqrt(square[k] / (1 - decay_2)) + _SMALL)


KINDS = {"network": fit_network, **FITS}
"""What cross-validation selects a model from: the network, and the models of `memsim blocks`."""
