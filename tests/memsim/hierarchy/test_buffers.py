"""The alignment of the hot loops' state."""

from __future__ import annotations

import numpy as np
import pytest

from memsim.hierarchy.cache import CACHE_LINE_BYTES, HUGE_PAGE_BYTES, MUCH_BYTES, aligned


@pytest.mark.parametrize("n_bytes", [8, 4096, MUCH_BYTES - 8, MUCH_BYTES, 3 * HUGE_PAGE_BYTES + 8])
def test_arrays_begin_where_they_should(n_bytes: int) -> None:
    array = aligned((n_bytes // 8, 1), np.int64)
    assert array.nbytes == n_bytes
    assert array.shape == (n_bytes // 8, 1)
    assert array.flags.c_contiguous
    unit = HUGE_PAGE_BYTES if n_bytes >= MUCH_BYTES else CACHE_LINE_BYTES
    assert array.ctypes.data % unit == 0
    array[:] = 7  # all of it is its own
    assert array.sum() == 7 * array.size
