"""Conflicts between the banks of local memory (CUDA's shared memory).

Local memory has 32 banks of 4 bytes, and successive words lie in successive banks. The lanes that access
different words of one bank wait for each other; those that access one word do not. Accesses of more
than 4 bytes a lane are made for as many lanes at a time as need 128 bytes (CUDA C++ Programming Guide,
section Shared Memory, compute capability 5.x and later; AMD, CDNA2 Instruction Set Architecture, section
Local Data Share: 32 banks, half a wavefront at a time).

Lanes whose accesses of 8 bytes or more are not aligned to 8 bytes are served one after another. NVIDIA's
GPUs refuse such accesses; on AMD's, LLVM ranks them slowest (`allowsMisalignedMemoryAccessesImpl` of
SIISelLowering.cpp) and since version 15 makes none, but version 14 merged loads of neighbouring words into
them. A 15 x 15 convolution on an MI250X then took 10.1 ms, for which 64 cycles each give 9.9.
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
def _passes(bytes_of, begin, end, words_a_lane, misaligned, word, in_bank):  # type: ignore[no-untyped-def]
    """Different words in the busiest bank, of the accesses of threads `begin` to `end`; 0 without any.

    misaligned : their accesses are served one after another
    """
    n, most = 0, 0
    in_bank[:] = 0
    for thread in range(begin, end):
        if bytes_of[thread] == 0:
            continue
        if misaligned:
            most += 1
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
def _is_misaligned(bytes_of, begin, end):  # type: ignore[no-untyped-def]
    """Whether addresses differ by no multiple of 8 bytes: wherever the accesses begin, some are misaligned."""
    known = np.int64(-1)
    for thread in range(begin, end):
        if bytes_of[thread] == 0:
            continue
        place = (np.int64(bytes_of[thread]) - 1) % 8
        if known >= 0 and place != known:
            return True
        known = place
    return False


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
            misaligned = words_a_lane > 1 and _is_misaligned(noted[time], first, end)
            for begin in range(first, end, together):
                last = min(begin + together, end)
                most = _passes(noted[time], begin, last, words_a_lane, misaligned, word, in_bank)
                if most > 0:
                    active = True
                    added += most - 1
            accesses += active
    return added, accesses
