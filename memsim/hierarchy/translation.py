"""Translation of addresses: where pages lie, and the translations that a core misses.

A core's buffer holds the pages of its last requests, least recently used out first. What the first level
serves is not looked up: it goes by virtual addresses (Jia et al., arXiv 1804.06826, of the V100), so the
buffer sees the requests that a core sends on, in their order. It is empty when a core begins.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from memsim.compile import hot
from memsim.hierarchy.cache import unpack
from memsim.hierarchy.requests import CHUNK_GRANULES
from memsim.hierarchy.rng import drawn
from memsim.machine.parts import Translation
from memsim.trace.model import GRANULE_BYTES

N_FRAMES = 1 << 18
"""Places that a page can have in memory; half a terabyte of pages of 2 MB."""

I64 = npt.NDArray[np.int64]
CHUNK_BYTES = CHUNK_GRANULES * GRANULE_BYTES


def pages_of(chunk: I64, page_bytes: int) -> I64:
    """(n_chunk,) the page of each chunk of 256 bytes: true chunk numbers in, page numbers out."""
    return np.asarray(chunk * CHUNK_BYTES // page_bytes, np.int64)


def placement_key(seed: int, trial: int) -> int:
    """What the places of pages hang on: the trial, not the launch."""
    return int(np.random.SeedSequence([seed, trial, N_FRAMES]).generate_state(1, np.uint64)[0])


def displaced(chunk: I64, page_bytes: int, key: int) -> I64:
    """(n_chunk,) by how many chunks each chunk's place in memory is off its address, at random by page."""
    page = pages_of(chunk, page_bytes)
    frame = drawn(page.astype(np.uint64) + np.uint64(key), N_FRAMES)
    return (frame - page) * (page_bytes // CHUNK_BYTES)


@hot
def _misses(record, first, last, page, lines_per_chunk, held, missed):  # type: ignore[no-untyped-def]
    """Add to missed (n_site,) the requests whose page is not in held (n_entries,), the latest first."""
    entries = len(held)
    for core in range(len(first)):
        held[:] = -1
        for i in range(first[core], last[core]):
            line, _, _, site, _, counted = unpack(record[i])
            wanted = page[line // lines_per_chunk]
            if held[0] == wanted:
                continue
            k = 1
            while k < entries and held[k] != wanted:
                k += 1
            if k == entries:
                k = entries - 1
                missed[site] += counted
            while k > 0:
                held[k] = held[k - 1]
                k -= 1
            held[0] = wanted


def missed_translations(
    translation: Translation,
    record: npt.NDArray[np.uint64],
    first: I64,
    last: I64,
    chunk: I64,
    granules_per_line: int,
    n_sites: int,
) -> I64:
    """(n_sites,) counted requests whose page the core's buffer did not hold.

    record : requests, as memsim.hierarchy.cache packs them; core c sent record[first[c]:last[c]]
    chunk : (n_chunk,) the true chunk of each dense one
    granules_per_line : of the records' lines
    """
    missed = np.zeros(n_sites, np.int64)
    _misses(
        record,
        first,
        last,
        pages_of(chunk, translation.page_bytes),
        CHUNK_GRANULES // granules_per_line,
        np.empty(translation.entries, np.int64),
        missed,
    )
    return missed
