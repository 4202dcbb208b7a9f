"""Arguments for a TranslationUnit without a workload: the given scalars, and arrays with reproducible contents."""

from __future__ import annotations

import logging
import zlib
from collections.abc import Iterator, Mapping
from typing import Any

import loopy as lp
import numpy as np
from loopy.symbolic import WalkMapper
from pymbolic import evaluate
from pymbolic import primitives as p

from memsim.errors import KernelError
from tracegen.workloads.settings import WrongSetting, convert

_log = logging.getLogger("tracegen")


def arguments(t_unit: Any, settings: Mapping[str, str]) -> dict[str, Any]:
    """Argument name -> value for everything that a kernel reads.

    Real arrays hold uniform random numbers. An integer array that is itself an index, as `ind` in
    x[ind[j]], holds random indices in range; any other holds zeros, with a warning.

    Raises KernelError where a scalar is missing or a setting is unknown.
    """
    kernel = t_unit.default_entrypoint
    scalars = [a for a in kernel.args if isinstance(a, lp.ValueArg)]
    listed = ", ".join(a.name for a in scalars) or "none"
    for name in settings:
        if name not in {a.name for a in scalars}:
            raise WrongSetting(
                f"kernel {kernel.name} has no scalar argument {name}; it has {listed}"
            )
    values: dict[str, Any] = {}
    for scalar in scalars:
        if scalar.name not in settings:
            raise KernelError(
                f"kernel {kernel.name} needs a value for {scalar.name}: --set {scalar.name}=VALUE"
            )
        real = scalar.dtype is not None and scalar.dtype.numpy_dtype.kind == "f"
        value = convert(scalar.name, settings[scalar.name], float if real else int)
        values[scalar.name] = (
            value if scalar.dtype is None else scalar.dtype.numpy_dtype.type(value)
        )
    limits = _index_limits(kernel, values)
    made: dict[str, Any] = dict(values)
    for argument in kernel.args:
        if isinstance(argument, lp.ArrayArg) and argument.is_input:
            made[argument.name] = _in_order(
                _array(kernel, argument, values, limits), argument.dim_tags, values
            )
    return made


def _in_order(array: Any, dim_tags: Any, values: Mapping[str, Any]) -> Any:
    """The array in the kernel's order of axes: Fortran's first axis is contiguous."""
    strides = [getattr(tag, "stride", None) for tag in dim_tags or ()]
    if len(strides) < 2 or not all(isinstance(one, int | p.ExpressionNode) for one in strides):
        return array
    axes = np.argsort([-int(evaluate(one, dict(values))) for one in strides], kind="stable")
    return np.ascontiguousarray(array.transpose(axes)).transpose(np.argsort(axes))


def _array(kernel: Any, argument: Any, values: Mapping[str, Any], limits: Mapping[str, int]) -> Any:
    dtype = np.dtype(np.float32) if argument.dtype is None else argument.dtype.numpy_dtype
    if not isinstance(argument.shape, tuple):
        raise KernelError(
            f"array {argument.name} of kernel {kernel.name} has no known shape: give it one, or"
            " return a tracegen.Workload with the array"
        )
    shape = _shape(argument.shape, values)
    rng = np.random.default_rng(zlib.crc32(argument.name.encode()))
    if dtype.kind == "f":
        return rng.random(shape).astype(dtype)
    if dtype.kind == "c":
        return (rng.random(shape) + 1j * rng.random(shape)).astype(dtype)
    if dtype.kind in "iu" and argument.name in limits:
        return rng.integers(0, max(limits[argument.name], 1), shape).astype(dtype)
    _log.warning(
        "array %s of kernel %s is filled with zeros; return a tracegen.Workload for real ones",
        argument.name,
        kernel.name,
    )
    return np.zeros(shape, dtype)


def _shape(shape: tuple[Any, ...], values: Mapping[str, Any]) -> tuple[int, ...]:
    return tuple(int(evaluate(extent, dict(values))) for extent in shape)


def _index_limits(kernel: Any, values: Mapping[str, Any]) -> dict[str, int]:
    """Integer arrays that index others -> the smallest extent that they index."""
    limits: dict[str, int] = {}
    for subscript in _subscripts(kernel):
        array = kernel.arg_dict.get(subscript.aggregate.name)
        if array is None or not isinstance(getattr(array, "shape", None), tuple):
            continue
        for index, extent in zip(subscript.index_tuple, array.shape, strict=False):
            if isinstance(index, p.Subscript):
                name = index.aggregate.name
                limit = int(evaluate(extent, dict(values)))
                limits[name] = min(limits.get(name, limit), limit)
    return limits


def _subscripts(kernel: Any) -> Iterator[Any]:
    class Walker(WalkMapper):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.subscripts: list[Any] = []

        def map_subscript(self, expr: Any, *args: Any) -> None:
            self.subscripts.append(expr)
            super().map_subscript(expr, *args)

    walker = Walker()
    for instruction in kernel.instructions:
        instruction.with_transformed_expressions(lambda expr: (walker(expr), expr)[1])
    yield from walker.subscripts
