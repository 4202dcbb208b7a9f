"""The table of remedies for Loopy kernels."""

from __future__ import annotations

from collections.abc import Mapping

from calib.advice.layout import axis_order, padded_pitch
from calib.advice.local_memory import staged, tiled
from calib.advice.loops import interchanged, shared_sum, swizzled, unrolled
from calib.advice.mapping import group_shape, other_lanes, swapped_lanes
from calib.advice.proposals import Remedy
from calib.advice.vectors import vectorised

REMEDIES: Mapping[str, Remedy] = {
    "swap lanes": swapped_lanes,
    "other lanes": other_lanes,
    "stage": staged,
    "tile": tiled,
    "axis order": axis_order,
    "share a sum": shared_sum,
    "interchange": interchanged,
    "unroll": unrolled,
    "vectorise": vectorised,
    "group shape": group_shape,
    "group order": swizzled,
    "pad": padded_pitch,
}
"""Name -> remedy, in the order in which they are tried."""
