"""Translation of addresses: the placement of pages, and misses of a core's translation buffer.

A core's buffer contains the pages of its last requests, with LRU replacement, and so do the translations under way. The first level uses
virtual addresses (Jia et al., arXiv 1804.06826, of the V100), so only the requests that it sends on are
translated, in their order. The buffer is empty when a core begins.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from memsim.compile import hot, nth
from memsim.hierarchy.cache import unpack
from memsim.hierarchy.requests import CHUNK_GRANULES
from memsim.hierarchy.rng import drawn
from memsim.machine.parts import Translation
from memsim.trace.model import GRANULE_BYTES

N_FRAMES = 1 << 18
"""Frames that a page can have in memory; half a terabyte in pages of 2 MB."""

I64 = npt.NDArray[np.int64]
CHUNK_BYTES = CHUNK_GRANULES * GRANULE_BYTES


def pages_of(chunk: I64, page_bytes: int) -> I64:
    """(n_chunk,) the page number of each chunk of 256 bytes; chunk : (n_chunk,) true chunk numbers."""
    return np.asarray(chunk * CHUNK_BYTES // page_bytes, np.int64)


def placement_key(seed: int, trial: int) -> int:
    """The key that determines the frames of pages: it depends on the trial, not on the launch."""
    return int(np.random.SeedSequence([seed, trial, N_FRAMES]).generate_state(1, np.uint64)[0])


def page_offsets(chunk: I64, page_bytes: int, key: int) -> I64:
    """(n_chunk,) per-chunk address offsets, in chunks, of a random placement of pages."""
    page = pages_of(chunk, page_bytes)
    frame = drawn(page.astype(np.uint64) + np.uint64(key), N_FRAMES)
    return (frame - page) * (page_bytes // CHUNK_BYTES)


@hot
def _misses(record, first, last, page, chunk_shift, buffer, missed):  # type: ignore[no-untyped-def]
    """Add to missed (n_site,) the counted requests whose page is not in the buffer (n_entries,).

    chunk_shift : a chunk has 2**chunk_shift lines
    buffer : scratch: pages, the most recent first
    """
    entries = len(buffer)
    for core in range(len(first)):
        buffer[:] = -1
        for i in range(first[core], last[core]):
            line, _, _, site, _, counted = unpack(record[nth(i)])
            accessed = page[nth(line >> chunk_shift)]
            if buffer[0] == accessed:
                continue
            k = 1
            while k < entries and buffer[nth(k)] != accessed:
                k += 1
            if k == entries:
                k = entries - 1
                missed[site] += counted
            while k > 0:
                buffer[nth(k)] = buffer[nth(k - 1)]
                k -= 1
            buffer[0] = accessed


def missed_translations(
    translation: Translation,
    record: npt.NDArray[np.uint64],
    first: I64,
    last: I64,
    chunk: I64,
    granules_per_line: int,
    n_sites: int,
) -> I64:
    """(n_sites,) counted requests that miss the translation buffer of their core.

    record : requests, as memsim.hierarchy.cache packs them; those of core c are
        record[first[c]:last[c]]
    chunk : (n_chunk,) the address of each dense chunk, in chunks
    granules_per_line : of the records' lines
    """
    missed = np.zeros(n_sites, np.int64)
    _misses(
        record,
        first,
        last,
        pages_of(chunk, translation.page_bytes),
        (CHUNK_GRANULES // granules_per_line).bit_length() - 1,
        np.empty(translation.entries + translation.under_way, np.int64),
        missed,
    )
    return missed
