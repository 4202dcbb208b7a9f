"""Reads what `ptxas -v` reports of a kernel: registers, local and private memory, spills."""

from __future__ import annotations

import re
from dataclasses import dataclass

from memsim.errors import KernelError

_SPILLS = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_USED = re.compile(r"^.*Used (\d+) registers(.*)$", re.MULTILINE)
_STACK = re.compile(r"(\d+) bytes cumulative stack size")
_LOCAL = re.compile(r"(\d+) bytes smem")


@dataclass(frozen=True)
class Usage:
    """What a kernel, with the functions that it calls, needs of a core.

    private_bytes : stack of a work-item
    """

    registers_per_item: int
    local_memory_bytes: int
    private_bytes: int
    spill_store_bytes: int
    spill_load_bytes: int


def read_usage(log: str) -> Usage:
    """The usage of the one kernel that ptxas compiled. Raises KernelError if the log has none."""
    used = _USED.search(log)
    if used is None:
        raise KernelError("ptxas does not tell the kernel's registers")
    spills = [tuple(map(int, match.groups())) for match in _SPILLS.finditer(log)]
    frames = [frame for frame, _, _ in spills]
    stack, local = _STACK.search(used[2]), _LOCAL.search(used[2])
    return Usage(
        registers_per_item=int(used[1]),
        local_memory_bytes=int(local[1]) if local else 0,
        private_bytes=int(stack[1]) if stack else max(frames, default=0),
        spill_store_bytes=sum(stores for _, stores, _ in spills),
        spill_load_bytes=sum(loads for _, _, loads in spills),
    )
