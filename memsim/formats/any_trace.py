"""Reads a trace of any known format, or a profiler's counters, recognised by name or content; one module per format.

The readers are part of memsim, not of tracegen, because `memsim replay DIR` must read these traces
without OpenCL and Loopy. Every reader streams: its memory is bounded whatever the file contains, and an
error in the file is a TraceError that names file and line.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from memsim.errors import TraceError
from memsim.formats.profilers import nsight, rocprof
from memsim.formats.profilers.counter_file import CounterFile, Rows
from memsim.formats.text import Text, check_launch

if TYPE_CHECKING:
    from memsim.trace.launches import Launches
    from memsim.trace.model import Trace

__all__ = ["launch_names", "read_any", "read_one"]

_PACKED = {".gz", ".xz", ".zst"}
_MOST_LISTED = 20


def read_any(path: str | os.PathLike[str], *, launch: int | None = None) -> Launches:
    """The launches of a trace of memsim or of another tool.

    A folder may hold Accel-Sim's kernelslist.g or PPT-GPU's .mem files. A file may be a trace of
    memsim, a kernelslist.g, .traceg, .mem or .csv, plain or packed (gzip, xz, zstd).

    launch : read only this one, from 0

    Raises TraceError where the format is unknown, the file is damaged, or there is no such launch.
    """
    from memsim.formats import csv_trace, ppt_gpu
    from memsim.formats.accel_sim import reading as accel_sim
    from memsim.trace.file import read_launches
    from memsim.trace.launches import Launches

    target = Path(path)
    kind = _kind(target)
    if kind == "accel-sim":
        return accel_sim.read(target, launch=launch)
    if kind == "ppt-gpu":
        return ppt_gpu.read(target, launch=launch)
    is_csv = kind == "csv"
    launches = Launches(launches=(csv_trace.read(target),)) if is_csv else read_launches(target)
    if launch is None:
        return launches
    check_launch(launch, len(launches.launches), target)
    return Launches(launches=(launches.launches[launch],))


def launch_names(path: str | os.PathLike[str]) -> list[str]:
    """The kernel of every launch at a path; only their headers are read."""
    from memsim.formats import ppt_gpu
    from memsim.formats.accel_sim import reading as accel_sim
    from memsim.trace.file import read_launches

    target = Path(path)
    kind = _kind(target)
    if kind == "accel-sim":
        return accel_sim.kernel_names(target)
    if kind == "ppt-gpu":
        return ppt_gpu.kernel_names(target)
    if kind == "csv":
        return [target.name]
    return [trace.launch.kernel for trace in read_launches(target, verify=False).launches]


def read_one(path: str | os.PathLike[str], launch: int | None = None) -> Trace:
    """As `read_any`, for one launch, which must be specified where there are several.

    Raises a TraceError that lists them where it is not specified; only their headers are read then.
    """
    if launch is None and len(names := launch_names(path)) > 1:
        raise _one_of_several(path, names)
    return read_any(path, launch=launch).launches[0]


def _one_of_several(path: str | os.PathLike[str], names: list[str]) -> TraceError:
    listed = ", ".join(f"{k} ({name})" for k, name in enumerate(names[:_MOST_LISTED]))
    more = ", ..." if len(names) > _MOST_LISTED else ""
    return TraceError(
        f"{os.fspath(path)} holds {len(names)} launches: choose one by --launch: {listed}{more}"
    )


def _kind(path: Path) -> str:
    return _folder_kind(path) if path.is_dir() else _file_kind(path)


def _folder_kind(folder: Path) -> str:
    try:
        names = sorted(entry.name for entry in os.scandir(folder))
    except OSError as error:
        raise TraceError(f"{folder}: cannot be read: {error.strerror or error}") from None
    if any(_stem(name).startswith("kernelslist") or ".traceg" in name for name in names):
        return "accel-sim"
    if "memory_traces" in names or any(_stem(name).endswith(".mem") for name in names):
        return "ppt-gpu"
    raise TraceError(
        f"{folder}: a folder must contain a kernelslist.g or .traceg files (Accel-Sim),"
        " or .mem files (PPT-GPU)"
    )


def _file_kind(path: Path) -> str:
    name = _stem(path.name)
    if _is_ours(path):
        return "memsim"
    if name.startswith("kernelslist") or name.endswith(".traceg"):
        return "accel-sim"
    if name.endswith(".mem"):
        return "ppt-gpu"
    if name.endswith(".csv"):
        return "csv"
    return _kind_of_content(path)


def _is_ours(path: Path) -> bool:
    try:
        with open(path, "rb") as file:
            return file.read(6) == b"ARROW1"
    except OSError as error:
        raise TraceError(f"{path}: cannot be read: {error.strerror or error}") from None


def _kind_of_content(path: Path) -> str:
    """By the first line with content; `memsim` where there is none."""
    from memsim.formats.csv_trace import COLUMNS

    try:
        with Text(path, buffer_bytes=1 << 16) as text:
            for _ in range(64):
                line = text.line()
                if line is None or b"\0" in line:
                    break
                if line.startswith(b"-kernel name"):
                    return "accel-sim"
                if line.replace(b" ", b"").startswith(",".join(COLUMNS[:4]).encode()):
                    return "csv"
    except TraceError:
        pass
    return "memsim"


def _stem(name: str) -> str:
    root, suffix = os.path.splitext(name)
    return root if suffix in _PACKED else name


def read_counters(path: str | os.PathLike[str]) -> CounterFile:
    """The counters in a profiler's CSV, plain or packed; its first row identifies the profiler.

    Raises TraceError, with file and line, where it is neither Nsight Compute's nor rocprof's.
    """
    target = Path(path)
    with Text(target) as text:
        rows = Rows(text)
        for row in rows:
            for tool in (nsight, rocprof):
                if tool.begins(row):
                    rows.begun = True
                    counters: CounterFile = tool.read(target, row, rows)
                    return counters
    raise TraceError(
        f"{target}: contains no counters: there must be a row of columns as Nsight Compute (--csv) or"
        " rocprof write it"
    )
