"""What each static access requests, counted from the trace alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from memsim.compile import hot
from memsim.trace.model import Trace


@hot
def _site_totals(site, lanes, granule_offset, byte_mask, accesses, n_lanes, sectors, useful, ideal):  # type: ignore[no-untyped-def]  # fmt: skip
    for p in range(len(site)):
        s = site[p]
        if s < 0:
            continue
        bytes_ = np.int64(0)
        for i in range(granule_offset[p], granule_offset[p + 1]):
            mask = byte_mask[i]
            mask = mask - ((mask >> np.uint32(1)) & np.uint32(0x55555555))
            mask = (mask & np.uint32(0x33333333)) + ((mask >> np.uint32(2)) & np.uint32(0x33333333))
            mask = (mask + (mask >> np.uint32(4))) & np.uint32(0x0F0F0F0F)
            bytes_ += np.int64((mask * np.uint32(0x01010101)) & np.uint32(0xFFFFFFFF)) >> 24
        accesses[s] += 1
        n_lanes[s] += lanes[p]
        sectors[s] += granule_offset[p + 1] - granule_offset[p]
        useful[s] += bytes_
        ideal[s] += (bytes_ + 31) // 32


def site_totals(trace: Trace) -> dict[str, npt.NDArray[Any]]:
    """Per site (n_site,): sub-group accesses, lanes, 32-byte sectors, useful bytes, ideal sectors."""
    n = len(trace.sites)
    totals = [np.zeros(n, np.int64) for _ in range(5)]
    _site_totals(trace.site, trace.lanes, trace.granule_offset, trace.byte_mask, *totals)
    names = ("site_accesses", "site_lanes", "site_sectors", "site_useful_bytes")
    return {**dict(zip(names, totals[:4], strict=True)), "site_ideal_sectors": totals[4] * 1.0}
