"""The accesses to local memory that the text of an OpenCL C kernel makes, and their bank conflicts."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tracegen.c_source.expressions import Unreadable
from tracegen.execution.banks import Conflicts
from tracegen.local_memory.evaluation import TooLong
from tracegen.local_memory.executions import Executions
from tracegen.local_memory.text import Text
from tracegen.local_memory.walk import Group

_UNREADABLE = (Unreadable, AssertionError, LookupError, ValueError, ArithmeticError, RecursionError)


@dataclass(frozen=True)
class LocalAccess:
    """An access to local memory in the text.

    at, start, end : offsets of the access, and of the statement or header around it
    conflicts : bytes that an instruction accesses of each work-item -> its conflicts, None if the addresses are
        unknown
    """

    array: str
    direction: str
    at: int
    start: int
    end: int
    conflicts: Callable[[int], Conflicts | None]


def local_accesses(
    text: str,
    kernel: str,
    grid: Sequence[int],
    group_shape: Sequence[int],
    lanes: int,
    values: Mapping[str, int],
) -> list[LocalAccess]:
    """The accesses of one group, as far as its text can be followed.

    lanes : of a sub-group;  values : the kernel's integer arguments
    """
    executions = Executions()
    with contextlib.suppress(TooLong, *_UNREADABLE):
        Group(Text(text), grid, group_shape, executions).run(kernel, values)
    return [
        LocalAccess(
            *access, *executed.around, functools.partial(executions.conflicts, access, lanes=lanes)
        )
        for access, executed in executions.of.items()
    ]
