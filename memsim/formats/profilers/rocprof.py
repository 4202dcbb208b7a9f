"""rocprof's CSV: results.csv of versions 1 and 2, and rocprofv3's counter_collection.csv.

v1, v2   a row per launch, a column per counter after `Index,KernelName,...,grd,wgr,...` (v1) or
         `Dispatch_ID,...,Grid_Size,Workgroup_Size,...,Kernel_Name,...` (v2)
v3       a row per counter: `Dispatch_Id`, `Kernel_Name`, `Counter_Name`, `Counter_Value`

A counter of one of several units (`TCC_HIT[3]`) is added to the sum over them (`TCC_HIT_sum`). A v3
file names such a counter several times. MI300's EA0 is MI200's EA.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from memsim.errors import TraceError
from memsim.formats.profilers.counter_file import (
    MOST_LAUNCHES,
    CounterFile,
    CounterSums,
    LaunchCounters,
    count,
    full_rows,
    name_of,
)

_WANTED = re.compile(
    r"(TCC_|TCP_|FETCH_SIZE|WRITE_SIZE|FetchSize|WriteSize|L2CacheHit|SQ_INSTS_VMEM_)"
)
_KERNEL = ("KernelName", "Kernel_Name")
_LAUNCH = ("Index", "Dispatch_ID", "Dispatch_Id")
_GRID = ("grd", "Grid_Size")
_GROUP = ("wgr", "Workgroup_Size")


def begins(row: list[str]) -> bool:
    """Whether a row is where rocprof's CSV begins."""
    return _find(row, _KERNEL) is not None and _find(row, _LAUNCH) is not None


def read(path: Path, first: list[str], rows: Iterator[list[str]]) -> CounterFile:
    """The file that begins with row `first`; raises TraceError."""
    columns = [cell.strip() for cell in first]
    kernel_at, id_at = _find(columns, _KERNEL), _find(columns, _LAUNCH)
    assert kernel_at is not None
    assert id_at is not None
    is_long = "Counter_Name" in columns
    if is_long and "Counter_Value" not in columns:
        raise TraceError("the first row must have the column Counter_Value")
    wanted = [] if is_long else [i for i, name in enumerate(columns) if _WANTED.match(name)]
    sums = CounterSums()
    groups: dict[tuple[str, ...], int | None] = {}
    for row in full_rows(rows, len(columns)):
        # The compiler appends a suffix for the kernel's descriptor.
        kernel = re.sub(r"( \[clone \.kd\]|\.kd)$", "", name_of("KernelName", row[kernel_at]))
        key = (name_of("Index", row[id_at]), kernel)
        if is_long:
            name = name_of("Counter_Name", row[columns.index("Counter_Name")])
            named = [(name, row[columns.index("Counter_Value")])] if _WANTED.match(name) else []
        else:
            named = [(columns[i], row[i]) for i in wanted]
        for name, cell in named:
            value = count(name, cell)
            if value is not None:
                sums.add(key, _summed(name), value, MOST_LAUNCHES, "launches")
        if key in sums.values and key not in groups:
            groups[key] = _groups(columns, row)
    launches = tuple(
        LaunchCounters(id=key[0], kernel=key[1], n_groups=groups[key], counters=values)
        for key, values in sums.values.items()
    )
    notes = () if launches else ("no counter of TCP, TCC or memory was collected",)
    return CounterFile(path=path, tool="rocprof", launches=launches, notes=notes)


def _summed(name: str) -> str:
    plain = re.sub(r"\[\d{1,4}\]$", "_sum", name).replace("TCC_EA0_", "TCC_EA_")
    if re.match(r"TC[CP]_", plain) and not re.search(r"_(sum|avr|avg|max|min)$", plain):
        return f"{plain}_sum"
    return plain


def _groups(columns: list[str], row: list[str]) -> int | None:
    grid_at, group_at = _find(columns, _GRID), _find(columns, _GROUP)
    if grid_at is None or group_at is None:
        return None
    sizes = row[grid_at].strip(), row[group_at].strip()
    if not all(re.fullmatch(r"[0-9]{1,15}", size) for size in sizes):
        return None
    grid, group = (int(size) for size in sizes)
    return -(-grid // group) if grid and group else None


def _find(columns: list[str], names: tuple[str, ...]) -> int | None:
    plain = [cell.strip() for cell in columns]
    return next((plain.index(name) for name in names if name in plain), None)
