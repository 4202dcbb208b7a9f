"""Which line of a set is replaced: a policy is two functions and a line of `POLICIES`.

The slots of a set form a ring, the one that was filled last first; a policy may move others there. Empty slots are at
its end and are filled first, the one that was dropped last before the others. The readable twin is
tests/twins/replay/sets.py.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from memsim.compile import choice, inner, nth
from memsim.hierarchy.cache import (
    EMPTY,
    LINE,
    LONG_AGO,
    META,
    NEXT,
    PREV,
    UNKNOWN,
    entry_of,
    is_awaited,
    set_turns,
    write_back,
)
from memsim.hierarchy.rng import below

FREED_SETS = 4
"""Sets that give up a line each when all room is taken, as an H200's L1 does (measured for memsim)."""


@inner
def promote(geometry, cache, slot, set_):
    """Make a slot the first of its set's ring."""
    slots = cache.slots
    tail = np.int64(cache.sets[nth(set_)])
    if tail == slot:
        cache.sets[nth(set_)] = slots[nth(slot + PREV)]
        return
    front = np.int64(slots[nth(tail + NEXT)])
    if front != slot:
        before, after = np.int64(slots[nth(slot + PREV)]), np.int64(slots[nth(slot + NEXT)])
        slots[nth(before + NEXT)] = after
        slots[nth(after + PREV)] = before
        slots[nth(tail + NEXT)] = slot
        slots[nth(slot + PREV)] = tail
        slots[nth(slot + NEXT)] = front
        slots[nth(front + PREV)] = slot


@inner
def _stay(geometry, cache, slot, set_):
    """A use changes nothing."""


@inner
def _last(stage, set_, oldest):
    """The last slot of the ring."""
    return np.int64(stage.cache.sets[nth(set_)])


@inner
def _last_not_awaited(stage, set_, oldest):
    """An empty slot if there is one, else the last whose data are there, else the last."""
    slots = stage.cache.slots
    last = np.int64(stage.cache.sets[nth(set_)])
    slot, chosen = last, np.int64(-1)
    for _ in range(stage.geometry.ways):
        if slots[nth(slot + LINE)] < 0:
            return slot
        if chosen < 0 and not is_awaited(stage.geometry, slots, slot, oldest):
            chosen = slot
        slot = np.int64(slots[nth(slot + PREV)])
    return chosen if chosen >= 0 else last


@inner
def _any(stage, set_, oldest):
    """A random slot."""
    ways = stage.geometry.ways
    return (set_ * ways + below(stage.rng, ways)) * stage.geometry.stride


@inner
def _point_away(geometry, cache, slot, set_):
    """Make every node of the tree on the path to a slot point away from it."""
    node, span, base = 1, geometry.ways, set_ * geometry.ways
    way = slot // geometry.stride - base
    while span > 1:
        span //= 2
        right = way // span & 1
        cache.ways[nth(base + node)] = 1 - right
        node = 2 * node + right


@inner
def _pointed_to(stage, set_, oldest):
    """The slot that the nodes of the tree point to."""
    node, span, base = 1, stage.geometry.ways, set_ * stage.geometry.ways
    way = np.int64(0)
    while span > 1:
        span //= 2
        right = np.int64(stage.cache.ways[nth(base + node)])
        way += right * span
        node = 2 * node + right
    return (base + way) * stage.geometry.stride


class Policy(NamedTuple):
    """A replacement policy.

    used(geometry, cache, slot, set_) : a slot was hit; if has_ways, also : it has just been filled
    victim(stage, set_, oldest) : the slot of a set that is filled next, where the ring's last is not empty;
        oldest : lines that were requested after this turn are under way
    has_ways : it keeps a number of each way in `Cache.ways`, 0 at first
    stores_first : a store is no use, and what it puts into a new line is replaced first
    """

    used: Any
    victim: Any
    has_ways: bool = False
    stores_first: bool = False


POLICIES = {
    "lru": Policy(promote, _last),
    "lru_loads": Policy(promote, _last_not_awaited, stores_first=True),
    "fifo": Policy(_stay, _last),
    "random": Policy(_stay, _any),
    "plru": Policy(_point_away, _pointed_to, has_ways=True),
}
"""Every policy by the name that machine files use; a new one is a line here."""
NUMBERS = {name: number for number, name in enumerate(POLICIES)}
LRU = NUMBERS["lru"]
HAS_WAYS, STORES_FIRST = np.array([one[2:] for one in POLICIES.values()]).T.copy()

_used = choice([policy.used for policy in POLICIES.values()])
_victim = choice([policy.victim for policy in POLICIES.values()])


@inner
def used(geometry, cache, slot, set_):
    """See `Policy`."""
    _used(geometry.replacement, geometry, cache, slot, set_)


@inner
def drop(geometry, cache, slot, set_):
    """Invalidate a slot: it is the next to be filled."""
    if geometry.has_dataless is not None:
        cache.data[nth(set_ // geometry.n_sets * 2)] -= 1
    cache.slots[nth(slot + LINE)] = EMPTY
    cache.slots[nth(slot + META)] = 0
    promote(geometry, cache, slot, set_)
    cache.sets[nth(set_)] = slot


@inner
def _free_data(stage, instance, counted, oldest):
    """All room is taken: each of the next four sets in turn gives up its last line that is not awaited."""
    geometry, cache = stage.geometry, stage.cache
    for _ in range(FREED_SETS):
        set_ = np.int64(cache.data[nth(2 * instance + 1)])
        cache.data[nth(2 * instance + 1)] = set_ + 1 if set_ + 1 < geometry.n_sets else 0
        set_ += instance * geometry.n_sets
        slot = np.int64(cache.sets[nth(set_)])
        for _ in range(geometry.ways):
            if cache.slots[nth(slot + LINE)] >= 0 and not is_awaited(
                geometry, cache.slots, slot, oldest
            ):
                write_back(stage, slot, counted)
                drop(geometry, cache, slot, set_)
                break
            slot = np.int64(cache.slots[nth(slot + PREV)])


@inner
def allocate(stage, instance, line, set_, counted, oldest):
    """Give an absent line a slot; the line in it is evicted, and written back if dirty; oldest : see `Policy`"""
    geometry, cache = stage.geometry, stage.cache
    slot = np.int64(cache.sets[nth(set_)])
    if cache.slots[nth(slot + LINE)] >= 0:
        slot = _victim(geometry.replacement, stage, set_, oldest)
    promote(geometry, cache, slot, set_)
    if HAS_WAYS[nth(geometry.replacement)]:
        used(geometry, cache, slot, set_)
    old = np.int64(cache.slots[nth(slot + LINE)])
    if geometry.has_dataless is not None and old < 0:
        # The slot is not among those that are freed, for it is empty.
        if cache.data[nth(2 * instance)] >= geometry.data_lines:
            _free_data(stage, instance, counted, oldest)
        cache.data[nth(2 * instance)] += 1
    if old >= 0:
        write_back(stage, slot, counted)
    elif old == UNKNOWN and len(cache.traces) > 0:
        cache.unknown[nth(set_)] -= 1
    cache.slots[nth(slot + LINE)] = line
    cache.slots[nth(slot + META)] = 0
    cache.lines[nth(entry_of(geometry, instance, line))] = slot
    if len(cache.stores) > 1:
        # A store makes sectors valid without a fill: the old line's turns must not count for them.
        set_turns(geometry, cache.slots, slot, 0xFF, LONG_AGO)
    return slot
