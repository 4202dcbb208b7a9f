"""Arrays of state that hot loops meet at random places."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

CACHE_LINE_BYTES, HUGE_PAGE_BYTES = 64, 1 << 21
MUCH_BYTES = HUGE_PAGE_BYTES // 4
"""From here on a huge page is worth its zeroing, small pages of so much being many."""


def aligned(shape: tuple[int, ...], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """An array, uninitialised, that begins one of this CPU's cache lines, so that records of 32 or 64
    bytes lie in one each; and if it is large, a huge page, so that few translations cover it.

    numpy begins 16 bytes after a cache line, and asks for huge pages from 4 MiB on only.
    """
    n_bytes = math.prod(shape) * np.dtype(dtype).itemsize
    unit = HUGE_PAGE_BYTES if n_bytes >= MUCH_BYTES else CACHE_LINE_BYTES
    raw = np.empty(-(-n_bytes // unit) * unit + unit, np.uint8)
    begin = -raw.ctypes.data % unit
    return raw[begin : begin + n_bytes].view(dtype).reshape(shape)
