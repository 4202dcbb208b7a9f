"""Helpers of the builders of measurement kernels."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import loopy as lp
import numpy as np
import numpy.typing as npt
from loopy.kernel.instruction import LegacyStringInstructionTag
from loopy.symbolic import IdentityMapper, TaggedVariable
from pymbolic.primitives import Subscript, Variable

from calib.kernels.collection import Built, Choice, Number, TagError

DTYPES = Choice(("float32", "float64"))
loopy_kernel = functools.partial(lp.make_kernel, lang_version=(2018, 2))
"""A kernel from domains, text and arguments, in the version of Loopy's language that all have."""
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


def require_groups(
    groups_fit: bool, lsize_0: int, lsize_1: int, *, prefetch: bool = False, **extents: int
) -> None:
    """Raises TagError if groups are too large, are not square although tiles are prefetched, or do not divide the
    extents although they are to fit."""
    require_group(lsize_0, lsize_1)
    if prefetch and lsize_0 != lsize_1:
        raise TagError(f"prefetch:True needs square groups, got {lsize_0} x {lsize_1}")
    if groups_fit:
        unit = math.lcm(lsize_0, lsize_1)
        require_multiple(**{name: (value, unit) for name, value in extents.items()})


def assume_multiples(kernel: Any, **units: int) -> Any:
    """The kernel with the assumption that sizes are positive multiples of their units."""
    texts = (f"{name} mod {unit} = 0 and {name} >= {unit}" for name, unit in units.items())
    return lp.assume(kernel, " and ".join(texts))


def in_groups(kernel: Any, **items: tuple[int, int]) -> Any:
    """The kernel with inames divided into groups. items : iname -> (work-items of a group, axis of the grid)"""
    for iname, (count, axis) in items.items():
        tags = {"outer_tag": f"g.{axis}", "inner_tag": f"l.{axis}"}
        kernel = lp.split_iname(kernel, iname, count, **tags)
    return kernel


def with_tile(
    kernel: Any, array: str, inames: list[str], outer: Iterable[str], **options: Any
) -> Any:
    """The kernel with a tile of an array, which groups load into local memory in each iteration of the outer inames."""
    return lp.add_prefetch(
        kernel,
        array,
        inames,
        temporary_name=f"{array}_fetch",
        fetch_outer_inames=frozenset(outer),
        **{"default_tag": "l.auto", **options},
    )


@functools.cache
def without_work(kernel: Any, *removed: str) -> Any:
    """The kernel with its loads alone, without those of the removed arrays."""
    import calib

    return calib.remove_work(kernel, remove_vars=removed)


def computing(
    exact: Callable[..., Any],
    kernel: Any,
    env: Mapping[str, int],
    arguments: Callable[[], dict[str, Any]],
    terms: int | npt.NDArray[Any],
    *,
    most: Callable[..., Any] | None = None,
    written: slice = slice(None),
    trip_counts: Mapping[str, float] | None = None,
) -> Built:
    """A kernel with a single output, whose values are compared with those of a function of its arguments.

    terms : additions and products that each value is part of: it may be off by so many roundings of `most`, the
        sum of its terms' absolute values; of 0 it must be equal
    most : by default `exact` of absolute values, which it is for sums of products
    written : the part of the output that the kernel writes
    """

    def check(outputs: Mapping[str, Any]) -> None:
        (computed,) = outputs.values()
        given = {name: _wide(value) for name, value in arguments().items()}
        sizes = {name: np.abs(value) for name, value in given.items()}
        bound = terms * np.finfo(computed.dtype).eps * (most or exact)(**sizes)[written]
        close(computed[written], exact(**given)[written], bound)

    return Built(
        kernel=kernel, env=env, arguments=arguments, check=check, trip_counts=trip_counts or {}
    )


def _wide(value: Any) -> Any:
    """A real number, or an array of them, as float64."""
    return np.asarray(value, np.float64) if np.asarray(value).dtype.kind == "f" else value


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


@dataclass(frozen=True, kw_only=True)
class Layout:
    """A flat array that a 2-D grid of work-items covers once: item (i0, i1) is at s0 i0 + s1 i1.

    stride_0, stride_1 : elements between neighbours along each axis; the larger one is the width of
        a row
    """

    stride_0: int
    stride_1: int

    @property
    def width(self) -> int:
        return max(self.stride_0, self.stride_1)

    @property
    def domain(self) -> str:
        """Bounds of i0 and i1; the number of rows, `rows`, is a parameter."""
        across = self.width // min(self.stride_0, self.stride_1)
        if self.stride_0 <= self.stride_1:
            return f"0 <= i0 < {across} and 0 <= i1 < rows"
        return f"0 <= i0 < rows and 0 <= i1 < {across}"

    @property
    def index(self) -> str:
        return f"{self.stride_0} * i0 + {self.stride_1} * i1"

    @property
    def shape(self) -> str:
        return f"{self.width} * rows"

    def rows_unit(self, lsize_0: int, lsize_1: int) -> int:
        """The unit of which the number of rows must be a multiple."""
        return lsize_1 if self.stride_0 <= self.stride_1 else lsize_0

    def rows(self, nelements: int, lsize_0: int, lsize_1: int) -> int:
        """The number of rows with `nelements` elements; raises TagError if groups do not fit."""
        least = min(self.stride_0, self.stride_1)
        if self.width % least:
            raise TagError(
                f"one stride must be a multiple of the other, got {self.stride_0} and"
                f" {self.stride_1}"
            )
        across = lsize_0 if self.stride_0 <= self.stride_1 else lsize_1
        require_multiple(
            lid_stride=(self.width, least * across),
            nelements=(nelements, self.width * self.rows_unit(lsize_0, lsize_1)),
        )
        return nelements // self.width
