"""The accesses to shared memory that the threads of one group note, and their bank conflicts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

from tracegen.cuda.ir import Place
from tracegen.cuda.library import shared
from tracegen.execution.banks import (
    BANKS,
    Conflicts,
    added_passes,
    words_a_lane,
    would_access,
)

MOST_TIMES = 16
"""Executions of an access by a thread that are noted, in one group."""
MOST_BYTES = 32 << 20


class Noted(Protocol):
    """An access that is checked."""

    @property
    def size_bytes(self) -> int: ...
    @property
    def place(self) -> Place | None: ...
    @property
    def is_shared(self) -> bool: ...


class Notes:
    """The accesses of one group to memory that is not traced.

    noted : (n_check, n_time, n_thread) 1 + the byte of the array, 0 where a thread made none. Times begin anew
        behind each barrier, after the latest of any thread
    times : (n_check, n_thread) how many of them were noted
    """

    def __init__(self, checks: Sequence[Noted], n_threads: int, recording: bool) -> None:
        self.checks = checks
        n = len(checks) if recording and any(check.is_shared for check in checks) else 0
        n_time = min(MOST_BYTES // max(4 * n * n_threads, 1), MOST_TIMES)
        shape = (n, max(n_time, 1), n_threads)
        self.noted: npt.NDArray[np.uint32] = np.zeros((0, 1, n_threads), np.uint32)
        self.times: npt.NDArray[np.uint8] = np.zeros((0, n_threads), np.uint8)
        if n:
            self.noted = shared(4 * int(np.prod(shape))).view(np.uint32).reshape(shape)
            self.times = shared(n * n_threads).reshape(n, n_threads)

    def bank_conflicts(self, lanes: int, size_bytes: int) -> dict[Place, Conflicts]:
        """Place -> the conflicts of an access there, by what was noted.

        lanes : of a sub-group;  size_bytes : that an instruction accesses of each
        """
        found: dict[Place, list[tuple[float, float]]] = defaultdict(list)
        words = words_a_lane(size_bytes)
        buffers = np.zeros(BANKS, np.int64), np.zeros(BANKS, np.int64)
        for check, noted in zip(self.checks, self.noted, strict=False):
            if check.is_shared and check.place is not None:
                added, accesses = added_passes(noted, words, lanes, *buffers)
                if accesses:
                    passes = added * BANKS / lanes / accesses
                    found[check.place].append((passes, accesses / would_access(noted, lanes)))
        return {place: Conflicts(*np.mean(of, axis=0).tolist()) for place, of in found.items()}


def conflicts_at_one_address(lanes: int, size_bytes: int) -> Conflicts:
    """Where all lanes of a sub-group access the same bytes."""
    buffers = np.zeros(BANKS, np.int64), np.zeros(BANKS, np.int64)
    noted = np.ones((1, lanes), np.uint32)
    added, accesses = added_passes(noted, words_a_lane(size_bytes), lanes, *buffers)
    return Conflicts(float(added * BANKS / lanes / accesses))
