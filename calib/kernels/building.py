"""Helpers of the builders of measurement kernels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import loopy as lp
import numpy as np
import numpy.typing as npt
from loopy.kernel.instruction import LegacyStringInstructionTag
from loopy.symbolic import IdentityMapper, TaggedVariable
from pymbolic.primitives import Subscript, Variable

from calib.kernels.collection import Choice, Number, TagError

DTYPES = Choice(("float32", "float64"))
LANGUAGE = (2018, 2)
GROUP = {"lsize_0": Number((16,)), "lsize_1": Number((16,))}
FIT = Choice((True, False))
"""Whether groups fit evenly into the arrays, so that no conditions at their edges are needed."""


def size(name: str) -> Any:
    """A kernel's integer argument."""
    return lp.ValueArg(name, np.int32)


def read(names: str, dtype: Any, shape: str) -> Any:
    return lp.GlobalArg(names, np.dtype(dtype), shape=shape)


def written(names: str, dtype: Any, shape: str) -> Any:
    return lp.GlobalArg(names, np.dtype(dtype), shape=shape, is_input=False, is_output=True)


def numbers(shape: int | tuple[int, ...], dtype: Any, seed: int = 0) -> npt.NDArray[Any]:
    """Uniform random numbers in [-1, 1), identical for identical arguments."""
    drawn = np.random.default_rng(seed).random(shape, dtype=np.dtype(dtype).type)
    return 2 * drawn - 1


def require_multiple(**pairs: tuple[int, int]) -> None:
    """Raises TagError for the first size that is not a multiple of its unit."""
    for name, (value, unit) in pairs.items():
        if value % unit:
            raise TagError(f"{name} must be a multiple of {unit} here, got {value}")


def require_group(lsize_0: int, lsize_1: int = 1) -> None:
    """Raises TagError if a work-group has more items than devices support."""
    if lsize_0 * lsize_1 > 1024:
        raise TagError(f"a work-group has at most 1024 items, got {lsize_0} x {lsize_1}")


def assume_multiples(kernel: Any, **units: int) -> Any:
    """The kernel with the assumption that sizes are positive multiples of their units."""
    texts = (f"{name} mod {unit} = 0 and {name} >= {unit}" for name, unit in units.items())
    return lp.assume(kernel, " and ".join(texts))


def close(outputs: npt.NDArray[Any], exact: npt.NDArray[Any], bound: npt.NDArray[Any]) -> None:
    """Raises AssertionError if the error of an output exceeds its bound."""
    error = np.abs(np.asarray(outputs, np.float64) - exact)
    assert (error <= bound).all(), f"off by up to {error.max()}"


def tag_loads(kernel: Any, tags: Mapping[str, str]) -> Any:
    """The kernel with its loads of each array tagged, because prefetching drops tags of the text.

    tags : array -> tag, like `a$tag[i]` in the text
    """
    (name,) = kernel.entrypoints
    mapper = _Tagger(tags)
    inner = kernel[name]
    instructions = [insn.with_transformed_expressions(mapper) for insn in inner.instructions]
    return kernel.with_kernel(inner.copy(instructions=instructions))


class _Tagger(IdentityMapper):  # type: ignore[misc]
    def __init__(self, tags: Mapping[str, str]) -> None:
        super().__init__()
        self.tags = tags

    def map_subscript(self, expr: Any, *args: Any, **kwargs: Any) -> Any:
        mapped = super().map_subscript(expr, *args, **kwargs)
        if type(mapped.aggregate) is Variable and mapped.aggregate.name in self.tags:
            name = mapped.aggregate.name
            tag = LegacyStringInstructionTag(self.tags[name])
            return Subscript(TaggedVariable(name, frozenset((tag,))), mapped.index)
        return mapped
