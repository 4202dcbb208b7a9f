"""Trace files with any contents and correct checksums, as a hostile writer can make them."""

from __future__ import annotations

import json
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from memsim.trace.arrow import write_columns
from memsim.trace.file import _columns, _description
from memsim.trace.model import Trace


def forge(path: Path, trace: Trace, **columns: Any) -> None:
    """Write a trace with some columns replaced, unchecked."""
    stored = _columns(trace) | {
        name: np.asarray(column, getattr(trace, name).dtype) for name, column in columns.items()
    }
    stored = {name: c.view(np.uint8) if c.dtype == np.bool_ else c for name, c in stored.items()}
    document = {
        "format": "memsim-trace",
        "version": 1,
        "launches": [_description(trace, stored)],
        "between": [],
    }
    write_forged(path, {f"0.{name}": column for name, column in stored.items()}, document)


def write_forged(path: Path, columns: dict[str, Any], document: Any) -> None:
    """Write columns with any JSON as the header."""
    text = json.dumps(document)
    write_columns(path, columns, {"memsim": text, "memsim.crc32": str(zlib.crc32(text.encode()))})
