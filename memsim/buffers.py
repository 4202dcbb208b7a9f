"""Arrays of state that hot loops meet at random places."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

HUGE_PAGE_BYTES = 1 << 21


def aligned_zeros(shape: tuple[int, ...], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """Zeros that begin a huge page of this CPU, so that records of 32 or 64 bytes lie in one of its
    cache lines each, and few translations cover all.

    numpy begins 16 bytes after a cache line, and asks for huge pages from 4 MiB on only.
    """
    n_bytes = math.prod(shape) * np.dtype(dtype).itemsize
    pages = max(1, -(-n_bytes // HUGE_PAGE_BYTES))
    raw = np.empty((pages + 1) * HUGE_PAGE_BYTES, np.uint8)
    begin = -raw.ctypes.data % HUGE_PAGE_BYTES
    out = raw[begin : begin + n_bytes].view(dtype).reshape(shape)
    out[...] = 0
    return out
