"""Whether the text of a kernel depends on the shape of its groups."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_OPENCL = re.compile(
    r"\b(?:get_local_id|get_local_size|get_group_id|get_num_groups|reqd_work_group_size|__?local|barrier"
    r"|work_group_barrier|sub_group_\w+|work_group_\w+)\b"
)
_AXIS = r"\s*\.\s*([xyz])"
_GLOBAL_ID = re.compile(
    rf"blockIdx{_AXIS}\s*\*\s*blockDim\s*\.\s*\1\s*\+\s*threadIdx\s*\.\s*\1"
    rf"|threadIdx{_AXIS}\s*\+\s*blockIdx\s*\.\s*\2\s*\*\s*blockDim\s*\.\s*\2"
    rf"|blockDim{_AXIS}\s*\*\s*blockIdx\s*\.\s*\3\s*\+\s*threadIdx\s*\.\s*\3"
)
_WHOLE_GRID = re.compile(
    rf"gridDim{_AXIS}\s*\*\s*blockDim\s*\.\s*\1|blockDim{_AXIS}\s*\*\s*gridDim\s*\.\s*\2"
)
_OPENCL_GRID = re.compile(r"\bget_global_size\b")
_CUDA = re.compile(
    r"\b(?:blockIdx|blockDim|threadIdx|gridDim|__shared__|__sync\w*|__launch_bounds__|__shfl\w*"
    r"|__ballot\w*|__any\w*|__all\w*|cooperative_groups|warpSize|hipBlockDim_\w|hipThreadIdx_\w)\b"
)


def is_free_of_shape(workload: Any) -> bool:
    """Whether an OpenCL C or CUDA C++ text uses global ids alone, so that groups may have any shape.

    The whole file is read, without what it includes: a file with any use of a group's shape, local memory
    or a barrier counts as dependent, and so does one with `#include "..."`.
    """
    text = _text(workload)
    if text is None or re.search(r'#\s*include\s*"', text):
        return False
    text = _COMMENT.sub(" ", text)
    if hasattr(workload, "local_size"):
        return not _OPENCL.search(text)
    return not _CUDA.search(_WHOLE_GRID.sub("0", _GLOBAL_ID.sub("0", text)))


def strides_over_grid(workload: Any) -> bool:
    """Whether a text asks for the number of its work-items, as one does that computes the same with any number of groups."""
    text = _COMMENT.sub(" ", _text(workload) or "")
    opencl = hasattr(workload, "local_size")
    return bool((_OPENCL_GRID if opencl else _WHOLE_GRID).search(text))


def _text(workload: Any) -> str | None:
    source, path = getattr(workload, "source", None), getattr(workload, "path", None)
    if source is not None:
        return str(source)
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace") if path else None
    except OSError:
        return None
