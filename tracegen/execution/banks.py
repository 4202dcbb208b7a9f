"""Conflicts between the banks of local memory (CUDA's shared memory).

Local memory has 32 banks of 4 bytes, and successive words lie in successive banks. The lanes that access
different words of one bank wait for each other; those that access one word do not. Accesses of more
than 4 bytes a lane are made for as many lanes at a time as need 128 bytes (CUDA C++ Programming Guide,
section Shared Memory, compute capability 5.x and later; AMD, CDNA2 Instruction Set Architecture, section
Local Data Share: 32 banks, half a wavefront at a time).

NVIDIA's GPUs return 128 bytes a cycle, and pack equal ones: where each lane of a sub-group of 32 accesses the same 8
or 16 bytes as the next one, or each as the one after the next (n and n ^ 1, or n and n ^ 2), twice as many
lanes are served at a time (an engineer of NVIDIA, on compute capabilities 7.0 to 7.5: forums.developer.nvidia.com/
t/unexpected-shared-memory-bank-conflict/77228; for Maxwell, S. Gray gives two passes of 16 bytes a lane as the
least: github.com/NervanaSystems/maxas/issues/8).

A pass whose words are more than 64 bytes is called wide: where the array of local memory and L1 delivers 64 bytes a cycle, as on
NVIDIA's GPUs of compute capability 7.5, 8.6 and 8.9, it takes two cycles. What further passes deliver meanwhile is not counted.

Lanes whose accesses of 8 bytes or more are not aligned to 8 bytes are served one after another. NVIDIA's
GPUs refuse such accesses; on AMD's, LLVM ranks them slowest (`allowsMisalignedMemoryAccessesImpl` of
SIISelLowering.cpp) and since version 15 makes none, but version 14 merged loads of neighbouring words into
them. A 15 x 15 convolution on an MI250X then took 10.1 ms, for which 64 cycles each give 9.9.

Atomic operations on one word are assumed to take a pass each, as accesses to different words of a bank do. NVIDIA's
`ATOMS.POPC.INC` counts the lanes that increment a word and takes one pass for all of them. For floating-point numbers
NVIDIA's compilers make loops that compare and exchange, which the executed code repeats for one lane after another.
"""

from __future__ import annotations

import numpy as np

from memsim.compile import hot

WIDE_WORDS = 16
"""Words of a pass that is not wide."""


@hot
def _passes(bytes_of, begin, end, words_a_lane, misaligned, word, in_bank, in_turn):  # type: ignore[no-untyped-def]
    """(different words in the busiest bank, whether they make one wide pass), of the accesses of threads `begin` to `end`;
    0 without any.

    misaligned : their accesses are served one after another;  in_turn : those to one word are
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
            for j in range(0 if in_turn else n):
                known |= word[j] == wanted
            if not known:
                word[n] = wanted
                n += 1
                in_bank[wanted % 32] += 1
                most = max(most, in_bank[wanted % 32])
    return most, np.int64(most == 1 and n > WIDE_WORDS)


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
def _are_paired(bytes_of, begin, end, distance):  # type: ignore[no-untyped-def]
    """Whether each lane accesses the same as its partner, n ^ distance, if both access anything."""
    for thread in range(begin, end):
        partner = begin + (thread - begin ^ distance)
        both = partner < end and bytes_of[thread] and bytes_of[partner]
        if both and bytes_of[thread] != bytes_of[partner]:
            return False
    return True


@hot
def added_passes(noted, words_a_lane, lanes, word, in_bank, in_turn):  # type: ignore[no-untyped-def]
    """(passes added, wide passes). A pass serves as many lanes as need 128 bytes; fewer than none are added where lanes
    are paired.

    noted : (n_time, n_thread) uint32, 1 + the byte that a thread accesses, 0 where it accesses none
    words_a_lane : a power of two, at most 32
    word, in_bank : (32,) buffers;  in_turn : lanes that access one word are served one after another
    """
    added, wide = 0, 0
    may_pair = not in_turn and lanes == 32 and 1 < words_a_lane <= 4
    n_time, n_thread = noted.shape
    for time in range(n_time):
        for first in range(0, n_thread, lanes):
            end = min(first + lanes, n_thread)
            active = False
            misaligned = words_a_lane > 1 and _is_misaligned(noted[time], first, end)
            paired = may_pair and (
                _are_paired(noted[time], first, end, 1) or _are_paired(noted[time], first, end, 2)
            )
            together = (64 if paired else 32) // words_a_lane
            for begin in range(first, end, together):
                last = min(begin + together, end)
                most, is_wide = _passes(
                    noted[time], begin, last, words_a_lane, misaligned, word, in_bank, in_turn
                )
                if most > 0:
                    active = True
                    added += most - 1
                    wide += is_wide
            if active and paired:
                added -= words_a_lane // 2
    return added, wide
