"""Arrays of state that hot loops access at random."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

CACHE_LINE_BYTES, HUGE_PAGE_BYTES = 64, 1 << 21
MUCH_BYTES = HUGE_PAGE_BYTES // 4
"""From this size on, a huge page is worth the time of zeroing it."""


def aligned(shape: tuple[int, ...], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """An uninitialised array that begins at a cache line of the CPU, so that no record of 32 or 64
    bytes straddles two. A large one begins at a huge page, so that few translations cover it.

    numpy's arrays begin 16 bytes after a cache line, and use huge pages from 4 MiB on only.
    """
    n_bytes = math.prod(shape) * np.dtype(dtype).itemsize
    unit = HUGE_PAGE_BYTES if n_bytes >= MUCH_BYTES else CACHE_LINE_BYTES
    raw = np.empty(-(-n_bytes // unit) * unit + unit, np.uint8)
    begin = -raw.ctypes.data % unit
    return raw[begin : begin + n_bytes].view(dtype).reshape(shape)
