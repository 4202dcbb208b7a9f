"""Conflicts between the banks of shared memory, as one group's accesses show them.

Shared memory has 32 banks of 4 bytes, and successive words lie in successive banks. The lanes that access
different words of one bank wait for each other; those that access one word do not. Accesses of more
than 4 bytes a lane are made for as many lanes at a time as need 128 bytes (CUDA C++ Programming Guide,
section Shared Memory, compute capability 5.x and later; AMD, CDNA2 Instruction Set Architecture, section
Local Data Share: 32 banks, half a wavefront at a time).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

from memsim.compile import hot
from tracegen.cuda.ir import Place
from tracegen.cuda.library import shared

BANKS = 32
WORD_BYTES = 4
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

    noted : (n_check, n_time, n_thread) 1 + the byte of the array, 0 where a thread made none
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

    def bank_conflicts(self, lanes: int) -> dict[Place, float]:
        """Place -> the passes that conflicts add to an access there, each of 4 bytes a lane; the mean over
        the accesses of sub-groups that were noted.

        lanes : of a sub-group
        """
        found: dict[Place, list[float]] = defaultdict(list)
        buffers = np.zeros(BANKS, np.int64), np.zeros(BANKS, np.int64)
        for check, noted in zip(self.checks, self.noted, strict=False):
            if check.is_shared and check.place is not None:
                words = min(1 << max(check.size_bytes // WORD_BYTES - 1, 0).bit_length(), BANKS)
                added, accesses = _added_passes(noted, words, lanes, *buffers)
                if accesses:
                    found[check.place].append(added * BANKS / lanes / accesses)
        return {place: float(np.mean(passes)) for place, passes in found.items()}


@hot
def _passes(bytes_of, begin, end, words_a_lane, word, in_bank):  # type: ignore[no-untyped-def]
    """Different words in the busiest bank, of the accesses of threads `begin` to `end`; 0 without any."""
    n, most = 0, 0
    in_bank[:] = 0
    for thread in range(begin, end):
        if bytes_of[thread] == 0:
            continue
        for k in range(words_a_lane):
            wanted = (np.int64(bytes_of[thread]) - 1) // 4 + k
            known = False
            for j in range(n):
                known |= word[j] == wanted
            if not known:
                word[n] = wanted
                n += 1
                in_bank[wanted % 32] += 1
                most = max(most, in_bank[wanted % 32])
    return most


@hot
def _added_passes(noted, words_a_lane, lanes, word, in_bank):  # type: ignore[no-untyped-def]
    """(passes added, accesses of sub-groups)

    noted : (n_time, n_thread);  words_a_lane : a power of two, at most 32
    word, in_bank : (32,) buffers
    """
    together = 32 // words_a_lane
    added, accesses = 0, 0
    n_time, n_thread = noted.shape
    for time in range(n_time):
        for first in range(0, n_thread, lanes):
            end = min(first + lanes, n_thread)
            active = False
            for begin in range(first, end, together):
                last = min(begin + together, end)
                most = _passes(noted[time], begin, last, words_a_lane, word, in_bank)
                if most > 0:
                    active = True
                    added += most - 1
            accesses += active
    return added, accesses
