"""A model of one feature, usually time, as an expression of parameters and other features.

Stevens and Klöckner 2020, section 6: t(n) = g(f_1(n), ..., f_k(n), p_1, ..., p_m), g
differentiable.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from calib.fitting import expression as ex
from memsim.errors import MemsimError

Floats = npt.NDArray[np.float64]


class ModelError(MemsimError):
    """A model is invalid or lacks a value."""


@dataclass(frozen=True)
class Model:
    """An output feature and the expression that models it.

    expression : see `calib.fitting.expression`; numbers, + - * / **, `p_...`, `f_...`, functions
    costs : named parts, `c_...` -> expression, which the expression and later costs may use; a
        breakdown groups parameters by them

    Raises ExpressionError, with a caret under the error, for an invalid expression.
    """

    output: str
    expression: str
    costs: Mapping[str, str] = field(default_factory=dict, kw_only=True)

    def __post_init__(self) -> None:
        if not self.output.startswith("f_"):
            raise ModelError(f"a model's output is a feature f_..., got {self.output!r}")
        if not self.input_features and not self.parameters:
            raise ModelError(f"a model needs parameters or features: {self.expression!r} has none")
        if self.output in self.input_features:
            raise ModelError(f"{self.output} is both output and input of the model")

    @cached_property
    def cost_trees(self) -> dict[str, ex.Tree]:
        """The trees of the named costs."""
        trees: dict[str, ex.Tree] = {}
        for name, text in self.costs.items():
            if not (name.startswith("c_") and name.isidentifier() and len(name) > 2):
                raise ModelError(f"a named cost is c_..., got {name!r}")
            trees[name] = ex.parse(text, trees)
        return trees

    @cached_property
    def tree(self) -> ex.Tree:
        return ex.parse(self.expression, self.cost_trees)

    @cached_property
    def parameters(self) -> tuple[str, ...]:
        """The parameters `p_...`, in order of appearance."""
        return ex.names(self.tree, "p_")

    @cached_property
    def input_features(self) -> tuple[str, ...]:
        return ex.names(self.tree, "f_")

    def all_features(self) -> tuple[str, ...]:
        """The output feature, then the inputs in order of appearance."""
        return (self.output, *self.input_features)

    @cached_property
    def jacobian(self) -> dict[str, ex.Tree]:
        """The derivative of the expression by each parameter."""
        return {name: ex.derivative(self.tree, name) for name in self.parameters}

    @cached_property
    def is_linear(self) -> bool:
        """Whether the model is linear in its parameters, with no constant term."""
        if any(ex.names(tree, "p_") for tree in self.jacobian.values()):
            return False
        rest = ex.evaluate(
            self.tree,
            dict.fromkeys(self.parameters, 0.0) | dict.fromkeys(self.input_features, 1.5),
        )
        return bool(rest == 0)

    def evaluate(self, parameters: Mapping[str, float], features: Mapping[str, Any]) -> Floats:
        """The model's value; arrays of feature values give an array."""
        return ex.evaluate(self.tree, self._values(parameters, features))

    def gradient(self, parameters: Mapping[str, float], features: Mapping[str, Any]) -> Floats:
        """Derivatives by the parameters: the features' shape, then one axis of parameters."""
        values = self._values(parameters, features)
        value, *columns = ex.evaluate_all((self.tree, *self.jacobian.values()), values)
        return np.stack([np.broadcast_to(column, value.shape) for column in columns], axis=-1)

    def eval_with_kernel(
        self,
        parameters: Mapping[str, float],
        kernel: Any,
        env: Mapping[str, Any],
        *,
        context: Any = None,
    ) -> Any:
        """The model's value for a kernel at a size: a float, or an array if env contains arrays.

        kernel : loopy.TranslationUnit, tracegen.Workload or measurement kernel
        context : calib.EvaluationContext, options of counting and simulation
        """
        from calib.features.gather import feature_arrays

        features = feature_arrays(self.input_features, kernel, env, context=context)
        value = self.evaluate(parameters, features)
        return float(value) if value.ndim == 0 else value

    def terms(
        self, parameters: Mapping[str, float], features: Mapping[str, Any]
    ) -> dict[str, Floats]:
        """The contribution of each parameter to the value: p dg/dp, with functions held constant.

        For a sum of costs these are its terms. Under an overlap they are the visible shares: a
        hidden cost contributes little. The remainder, which belongs to no single parameter, is
        called "rest"; the terms add up to the value.
        """
        values = self._values(parameters, features)
        slopes = [ex.derivative(self.tree, name, frozen_calls=True) for name in self.parameters]
        total, *columns = ex.evaluate_all((self.tree, *slopes), values)
        terms = {
            name: np.broadcast_to(parameters[name] * column, total.shape)
            for name, column in zip(self.parameters, columns, strict=True)
        }
        rest = total - np.sum(list(terms.values()), axis=0)
        if np.any(np.abs(rest) > 1e-9 * np.abs(total)):
            terms["rest"] = rest
        return {
            name: value for name, value in terms.items() if name == "rest" or np.any(value != 0)
        }

    def cost_of(self, parameter: str) -> str:
        """The named cost that contains a parameter; "" if there is none."""
        for name, tree in self.cost_trees.items():
            if parameter in ex.names(tree, "p_"):
                return name
        return ""

    def features_of(self, parameter: str) -> tuple[str, ...]:
        """The features that a parameter multiplies, without those in arguments of functions."""
        slope = ex.derivative(self.tree, parameter, frozen_calls=True)
        return ex.names(slope, "f_", in_calls=False)

    def _values(
        self, parameters: Mapping[str, float], features: Mapping[str, Any]
    ) -> dict[str, Any]:
        missing = [name for name in self.parameters if name not in parameters]
        if missing:
            raise ModelError(f"no value for parameter {', '.join(missing)}")
        missing = [name for name in self.input_features if name not in features]
        if missing:
            raise ModelError(f"no value for feature {', '.join(missing)}")
        values: dict[str, Any] = {name: float(parameters[name]) for name in self.parameters}
        for name in self.input_features:
            values[name] = np.asarray(features[name], np.float64)
        return values
