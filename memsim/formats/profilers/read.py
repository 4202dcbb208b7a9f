"""Reads a profiler's CSV file, whichever profiler wrote it."""

from __future__ import annotations

import csv
import os
from pathlib import Path

from memsim.errors import TraceError
from memsim.formats.profilers import nsight, rocprof
from memsim.formats.profilers.counter_file import CounterFile, Rows
from memsim.formats.text import Text


def read_counters(path: str | os.PathLike[str]) -> CounterFile:
    """The counters in a profiler's CSV, plain or packed; its first row identifies the profiler.

    Raises TraceError, with file and line, where it is neither Nsight Compute's nor rocprof's.
    """
    target = Path(path)
    with Text(target) as text:
        try:
            rows = Rows(text)
            for row in rows:
                for begins, read in ((nsight.begins, nsight.read), (rocprof.begins, rocprof.read)):
                    if begins(row):
                        rows.begun = True
                        return read(target, row, rows)
        except TraceError as error:
            if str(error).startswith(str(target)):
                raise
            raise text.fail(str(error), max(text.number, 1)) from None
        except csv.Error as error:
            raise text.fail(f"not CSV: {error}", max(text.number, 1)) from None
    raise TraceError(
        f"{target}: contains no counters: there must be a row of columns as Nsight Compute (--csv) or"
        " rocprof write it"
    )
