"""The executions of accesses to local memory by one group, and the passes that bank conflicts add to them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import numpy as np

from tracegen.c_source.statements import Span
from tracegen.execution.banks import (
    BANKS,
    WORD_BYTES,
    Conflicts,
    added_passes,
    words_a_lane,
    would_access,
)
from tracegen.local_memory.values import Integer, Mask

MOST_TIMES = 16
"""Executions of an access that are looked at, as in runs of CUDA C++ kernels."""

Access = tuple[str, str, int]
"""Array, direction and offset in the text."""


@dataclass
class Executed:
    """around : the statement, or the header, of the access
    patterns : bytes of a pattern -> how often it was met.  is_known : whether every address was known
    """

    around: Span
    patterns: Counter[bytes] = field(default_factory=Counter)
    is_known: bool = True


class Executions:
    """met : how many there were;  new : those of them of accesses that were not met often yet"""

    def __init__(self) -> None:
        self.of: dict[Access, Executed] = {}
        self.met = self.new = 0
        self._known: dict[tuple[bytes, int, int], tuple[int, int, int]] = {}
        self._buffers = np.zeros(BANKS, np.int64), np.zeros(BANKS, np.int64)

    def add(self, access: Access, around: Span, byte: Integer, mask: Mask) -> None:
        """byte : that each work-item accesses, None if it is unknown;  mask : those that do"""
        self.met += 1
        executed = self.of.setdefault(access, Executed(around))
        if byte is None:
            executed.is_known = False
        elif executed.patterns.total() < MOST_TIMES:
            self.new += 1
            executed.patterns[_pattern(byte, mask)] += 1

    def conflicts(self, access: Access, size_bytes: int, lanes: int) -> Conflicts | None:
        """Those of an access of so many bytes a work-item; None if they are not known."""
        executed = self.of[access]
        words = words_a_lane(size_bytes)
        added = accesses = would = 0
        for pattern, times in executed.patterns.items():
            key = pattern, words, lanes
            if key not in self._known:
                noted = np.frombuffer(pattern, np.uint32)[None]
                passes, some = added_passes(noted, words, lanes, *self._buffers)
                self._known[key] = passes, some, would_access(noted, lanes)
            added += times * self._known[key][0]
            accesses += times * self._known[key][1]
            would += times * self._known[key][2]
        if not executed.is_known or not accesses:
            return None
        return Conflicts(added * BANKS / lanes / accesses, accesses / would)


def _pattern(byte: Integer, mask: Mask) -> bytes:
    """1 + the byte of each work-item, 0 where it makes none.

    Banks are alike, so only distances matter: bytes count from the lowest, down to a multiple of the
    largest access.
    """
    if isinstance(byte, int):
        byte = np.full(len(mask), byte, np.int64)
    aligned = BANKS * WORD_BYTES
    lowest = int(byte[mask].min()) // aligned * aligned
    return np.where(mask, byte - lowest + 1, 0).astype(np.uint32).tobytes()
