"""One core with unsectored caches against pycachesim, an independent simulator in C.

Both models agree where each request finishes before the next begins: for one sub-group, whose
requests reach L2 in order. pycachesim differs in what it counts: its loads include those that a missing store
makes, its hits are those of loads alone, and its bytes are those requested, not the lines transferred. A
store's hit does not make a line recent there, so LRU is compared where a load of it came just before.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import cachesim
import numpy as np
import numpy.typing as npt
import pytest

from memsim.hierarchy.cache import ACCESSES, HITS
from memsim.machine.model import Machine
from memsim.machine.parts import Level
from tests.support.small_machines import level, machine
from tests.support.traces import one_subgroup
from tests.support.trials import replayed

LOAD, STORE = 0, 1
KEEPS = {"write_policy": "write_back", "write_allocate": "fetch_on_write"}


def theirs(
    levels: tuple[Level, ...], granules: npt.NDArray[np.int64], kinds: npt.NDArray[np.int64]
) -> list[dict[str, Any]]:
    """pycachesim's statistics, first level first."""
    memory = cachesim.MainMemory()
    below, caches = None, []
    for cache in reversed(levels):
        keeps = cache.write_policy == "write_back"
        shape = (cache.n_sets, cache.n_ways, cache.line_bytes, cache.replacement.upper())
        links = {"load_from": below, "store_to": below}
        below = cachesim.Cache(cache.name, *shape, write_back=keeps, write_allocate=keeps, **links)
        caches.append(below)
    memory.load_to(caches[0])
    memory.store_from(caches[0])
    simulator = cachesim.CacheSimulator(caches[-1], memory)
    for granule, kind in zip(granules.tolist(), kinds.tolist(), strict=True):
        (simulator.store if kind == STORE else simulator.load)(granule * 32, length=32)
    return [cache.stats() for cache in reversed(caches)] + [memory.stats()]


def ours(
    on: Machine, granules: npt.NDArray[np.int64], kinds: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.int64], int, int]:
    accesses = ((k, [g]) for g, k in zip(granules.tolist(), kinds.tolist(), strict=True))
    result = replayed(one_subgroup(accesses, "load", "store"), on)
    return result.counts, result.dram_read_bytes, result.dram_write_bytes


def stream(n: int = 1500) -> npt.NDArray[np.int64]:
    """Granules: a sweep, a stride, and a walk with reuse at all distances, one after another."""
    rng = np.random.default_rng(3)
    sweep, stride = np.arange(n) % 700, np.arange(n) * 9 % 1024
    steps = rng.zipf(1.5, size=2 * n).clip(max=300) * rng.choice([-1, 1], size=2 * n)
    return np.concatenate([sweep, stride, np.abs(np.cumsum(steps))])


GEOMETRIES = {
    "direct mapped": (level("L1", line=32, ways=1, sets=64),),
    "4 ways": (level("L1", line=64, ways=4, sets=16),),
    "fully associative": (level("L1", line=128, ways=-1, sets=24),),
    "64 ways": (level("L1", line=32, ways=64, sets=2),),
    "two levels": (level("L1", line=64, ways=2, sets=16), level("L2", line=64, ways=8, sets=32)),
    "longer lines below": (level("L1", line=32, ways=4, sets=8), level("L2", line=128, ways=4, sets=16)),
    "three levels": (level("L1", line=64, ways=2, sets=4), level("L2", line=64, ways=4, sets=8), level("L3", line=128, ways=16, sets=4)),
    "fifo": (level("L1", line=64, ways=4, sets=8, replacement="fifo"),),
}  # fmt: skip


@pytest.mark.parametrize("geometry", sorted(GEOMETRIES))
def test_loads(geometry: str) -> None:
    levels, granules = GEOMETRIES[geometry], stream()
    kinds = np.full(len(granules), LOAD)
    counts, read, written = ours(machine(*levels), granules, kinds)
    *caches, memory = theirs(levels, granules, kinds)
    for mine, cache in zip(counts[:, LOAD], caches, strict=True):
        assert mine[ACCESSES] == cache["LOAD_count"]
        assert mine[HITS] == cache["HIT_count"]
        assert mine[ACCESSES] - mine[HITS] == cache["MISS_count"]
    assert read == memory["LOAD_count"] * levels[-1].line_bytes
    assert written == 0
    assert (counts[:, LOAD, HITS] > 0).all()


def mixed(replacement: str) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Granules and kinds: loads and stores at random; under LRU a store follows its own load."""
    granules = stream()
    kinds = np.random.default_rng(4).integers(0, 2, size=len(granules))
    if replacement == "lru":
        kinds[1::2] = STORE
        kinds[::2] = LOAD
        granules[1::2] = granules[::2]
    return granules, kinds


@pytest.mark.parametrize("replacement", ["lru", "fifo"])
@pytest.mark.parametrize("geometry", ["direct mapped", "4 ways", "fully associative", "64 ways"])
def test_loads_and_stores_written_back(geometry: str, replacement: str) -> None:
    """Stores hit and miss as loads do, and a dirty line goes out once."""
    (plain,) = GEOMETRIES[geometry]
    cache = dataclasses.replace(plain, replacement=replacement, **KEEPS)
    granules, kinds = mixed(replacement)
    counts, read, written = ours(machine(cache), granules, kinds)
    their, memory = theirs((cache,), granules, kinds)
    misses = counts[0, :, ACCESSES] - counts[0, :, HITS]
    assert counts[0, LOAD, HITS] == their["HIT_count"]
    assert misses.sum() == their["MISS_count"]
    assert counts[0, STORE, ACCESSES] == their["STORE_count"]
    assert written == their["EVICT_count"] * cache.line_bytes
    assert written == memory["STORE_count"] * cache.line_bytes
    # A store that covers a whole line need not read it; pycachesim reads it all the same.
    covered = misses[STORE] if cache.line_bytes == 32 else 0
    assert read == (memory["LOAD_count"] - covered) * cache.line_bytes
    assert written > 0


def test_a_write_through_level_above_a_write_back_one() -> None:
    """The lower level is FIFO, because it receives stores to lines that no load requested."""
    levels = (
        level("L1", line=64, ways=2, sets=8, replacement="fifo"),
        level("L2", line=64, ways=4, sets=32, replacement="fifo", **KEEPS),
    )
    granules, kinds = mixed("fifo")
    counts, read, written = ours(machine(*levels), granules, kinds)
    first, second, memory = theirs(levels, granules, kinds)
    misses = counts[..., ACCESSES] - counts[..., HITS]
    assert counts[0, LOAD, HITS] == first["HIT_count"]
    assert misses[0, LOAD] == first["MISS_count"]
    assert counts[1, LOAD, HITS] == second["HIT_count"]
    assert misses[1].sum() == second["MISS_count"]
    assert read == memory["LOAD_count"] * 64
    assert written == memory["STORE_count"] * 64
