"""Checks of the parameters of benchmark kernels, and reproducible data."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from memsim.errors import KernelError

MAX_GROUP_ITEMS = 1024
"""Largest number of work-items in a group on the modelled devices."""

MAX_ITEMS = 2**31 - 1
"""Largest length of an array, because Loopy's index arithmetic has 32 bits."""


def require_positive(**parameters: int) -> None:
    """Raise KernelError with the first parameter that is less than 1."""
    for name, value in parameters.items():
        if value < 1:
            raise KernelError(f"{name} must be at least 1, got {value}")


def require_group(*extents: int) -> None:
    """Raise KernelError if a work-group with these extents is empty or larger than
    MAX_GROUP_ITEMS."""
    shape = "x".join(map(str, extents))
    if min(extents) < 1:
        raise KernelError(f"every extent of a work-group must be at least 1, got {shape}")
    items = int(np.prod(extents, dtype=object))
    if items > MAX_GROUP_ITEMS:
        raise KernelError(f"a work-group must have at most {MAX_GROUP_ITEMS} items, got {shape}")


def require_indexable(**lengths: int) -> None:
    """Raise KernelError with the first array that is too long for 32-bit indices."""
    for name, length in lengths.items():
        if length > MAX_ITEMS:
            raise KernelError(f"{name} must have at most {MAX_ITEMS} elements, got {length}")


def require_choice(name: str, value: str, choices: tuple[str, ...]) -> None:
    """Raise KernelError if `value` is not one of `choices`."""
    if value not in choices:
        raise KernelError(f"{name} must be one of {', '.join(choices)}, got {value!r}")


def real_type(dtype: str) -> Any:
    """The numpy dtype of `float32` or `float64`; raises KernelError for other names."""
    require_choice("dtype", dtype, ("float32", "float64"))
    return np.dtype(dtype)


def data(shape: int | tuple[int, ...], dtype: Any, *, seed: int = 0) -> npt.NDArray[Any]:
    """Uniform random numbers in [-1, 1), the same for the same arguments."""
    drawn = np.random.default_rng(seed).random(shape, dtype=dtype)
    drawn *= 2
    drawn -= 1
    return drawn
