"""What a history has of a layout, and a kernel to be recorded."""

from __future__ import annotations

from typing import Any

import numpy as np

from calib.history.key import Key
from calib.history.records import Record
from calib.history.statistics import running
from tests.support.loopy_kernels import grouped
from tracegen.workloads.workload import Workload


def record_of(
    size: int, times_s: Any, terms: dict[str, float] | None = None, layout: int = 0
) -> Record:
    """Of launches on so many bytes, whose number is the layout where no other is given."""
    return Record(
        key=Key(kernel="k", device="d", layout=layout or size),
        size_bytes=size,
        terms=terms or {},
        accepted=running(times_s),
        seen=len(times_s),
        rejected=0,
        recent=np.asarray(times_s),
        first_at=0.0,
        last_at=0.0,
    )


def twice(n: int = 4096) -> Workload:
    given = {"x": np.ones(n, np.float32)}
    return grouped(
        "y[i] = 2 * x[i]", "x: f4[n]; y: f4[n] out; n: i4", given, group=64, name="twice"
    )
