"""Conflicts between the banks of local memory (CUDA's shared memory).

Local memory has 32 banks of 4 bytes, and successive words lie in successive banks. The lanes that access
different words of one bank wait for each other; those that access one word do not. Accesses of more
than 4 bytes a lane are made for as many lanes at a time as need 128 bytes (CUDA C++ Programming Guide,
section Shared Memory, compute capability 5.x and later; AMD, CDNA2 Instruction Set Architecture, section
Local Data Share: 32 banks, half a wavefront at a time).
"""

from __future__ import annotations

import numpy as np

from memsim.compile import hot

BANKS = 32
WORD_BYTES = 4


def words_a_lane(size_bytes: int) -> int:
    """The words that an access takes of each lane: a power of two, at most 32."""
    return min(1 << max(size_bytes // WORD_BYTES - 1, 0).bit_length(), BANKS)


@hot
def _passes(bytes_of, begin, end, words_a_lane, word, in_bank):  # type: ignore[no-untyped-def]
    """Different words in the busiest bank, of the accesses of threads `begin` to `end`; 0 without any."""
    n, most = 0, 0
    in_bank[:] = 0
    for thread in range(begin, end):
        if bytes_of[thread] == 0:
            continue
        for k in range(words_a_lane):
            wanted = (np.int64(bytes_of[thread]) - 1) // 4 // words_a_lane * words_a_lane + k
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
def added_passes(noted, words_a_lane, lanes, word, in_bank):  # type: ignore[no-untyped-def]
    """(passes added, accesses of sub-groups). A pass serves as many lanes as need 128 bytes.

    noted : (n_time, n_thread) uint32, 1 + the byte that a thread accesses, 0 where it accesses none
    words_a_lane : a power of two, at most 32
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
