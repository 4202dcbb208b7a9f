"""The options of tracing are the same in Python, in the commands and in the documentation."""

from __future__ import annotations

from typing import Any

import pytest

import tracegen
from memsim.errors import KernelError
from tests.support.loopy_kernels import copy


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"launch": -1}, "launch must be at least 0"),
        ({"memory_bytes": 0}, "memory_bytes must be at least 1"),
        ({"snapshot": 3}, "there is no option 'snapshot'"),
    ],
)
def test_wrong_options_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(KernelError, match=message):
        tracegen.trace(copy(64), **options)


def test_one_launch_cannot_be_every_launch() -> None:
    with pytest.raises(KernelError, match="leave out launch=0"):
        tracegen.trace_launches(copy(64), launch=0)
