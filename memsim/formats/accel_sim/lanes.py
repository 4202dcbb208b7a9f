"""Reconstructs the address of each lane from the granules of an access.

A Trace keeps the number of active lanes of an access and, for each granule, the requested bytes and the
groups of eight lanes that requested it. This module finds lanes and addresses that coalesce to
exactly that. Group q has eight lanes. Each granule needs one lane in every group that requested it,
and as many lanes as it has elements; further lanes may belong to any of its groups. This is a small
flow problem, solved by augmenting paths.
"""

from __future__ import annotations

import numpy as np

from memsim.compile import inner

GROUPS = 4
GROUP_LANES = 8
MOST_GRANULES = 128
"""With more granules, the greedy solution is used without augmenting paths."""


@inner
def bits(value):
    n = np.int64(0)
    while value:
        value &= value - 1
        n += 1
    return n


@inner
def element_bytes(masks, first, last, size):
    """The widest power of two, of at most 16 and the element's size, in which all masks are whole."""
    width = np.int64(1)
    while width < 16 and width * 2 <= size and size % (width * 2) == 0:
        width *= 2
    while width > 1:
        block = (np.int64(1) << width) - 1
        whole = True
        for i in range(first, last):
            for at in range(0, 32, width):
                part = (np.int64(masks[i]) >> at) & block
                whole = whole and (part == 0 or part == block)
        if whole:
            break
        width //= 2
    return width


@inner
def _place(share, groups, n, g, room):
    """Gives granule g one lane more; other granules' lanes move along a path where they must."""
    came_granule, came_group = room[1], room[2]
    for q in range(GROUPS):
        came_group[q] = -2
        if (groups[g] >> q) & 1:
            came_group[q] = -1
    for _ in range(GROUPS):
        for q in range(GROUPS):
            if came_group[q] > -2 and room[0, q] > 0:
                room[0, q] -= 1
                while came_group[q] >= 0:
                    other, before = came_granule[q], came_group[q]
                    share[other, q] += 1
                    share[other, before] -= 1
                    q = before
                share[g, q] += 1
                return True
        for q in range(GROUPS):
            if came_group[q] == -2:
                continue
            for other in range(n):
                if share[other, q] < 2:
                    continue
                for after in range(GROUPS):
                    if came_group[after] == -2 and (groups[other] >> after) & 1:
                        came_group[after] = q
                        came_granule[after] = other
    return False


@inner
def share_out(masks, groups, hits, has_hits, n, n_lane, width, share, room):
    """Fills share[granule, group] with lanes; False where one instruction cannot request it all.

    room : (3, GROUPS) scratch; room[0] ends as the lanes that are idle
    """
    if n > MOST_GRANULES:
        return False
    total = np.int64(0)
    for q in range(GROUPS):
        room[0, q] = GROUP_LANES
    for g in range(n):
        for q in range(GROUPS):
            requested = np.int64((groups[g] >> q) & 1)
            share[g, q] = requested
            room[0, q] -= requested
            total += requested
    for q in range(GROUPS):
        if room[0, q] < 0:
            return False
    for g in range(n):
        wanted = bits(np.int64(masks[g])) // width
        if has_hits:
            wanted = max(wanted, np.int64(hits[g]))
        for _ in range(wanted - bits(np.int64(groups[g]))):
            if not _place(share, groups, n, g, room):
                return False
            total += 1
    # Lanes that request the same as others.
    for q in range(GROUPS):
        for g in range(n):
            if share[g, q] > 0:
                more = min(room[0, q], n_lane - total)
                if more > 0:
                    share[g, q] += more
                    room[0, q] -= more
                    total += more
                break
    return total <= n_lane


@inner
def hand_out(granules, masks, n, width, share, next_lane, address):
    """Lanes and addresses of a share; returns the mask of active lanes.

    address : (32,) of each lane;  next_lane : (GROUPS,) scratch
    """
    active = np.int64(0)
    for q in range(GROUPS):
        next_lane[q] = q * GROUP_LANES
    for g in range(n):
        mask = np.int64(masks[g])
        at = np.int64(-width)
        for q in range(GROUPS):
            for _ in range(share[g, q]):
                # The next element; the last one again where lanes are more than elements.
                after = at + width
                while after < 32 and not (mask >> after) & 1:
                    after += width
                at = after if after < 32 else at
                lane = next_lane[q]
                next_lane[q] = lane + 1
                address[lane] = granules[g] * 32 + at
                active |= np.int64(1) << lane
    return active


@inner
def take_some(granules, masks, groups, n, width, left, pairs, next_lane, address):
    """As many lanes as one instruction has, of what is left: greedily, in order.

    left, pairs : (n,) of each granule, bytes of elements and groups that are still to be requested
    Returns the mask of active lanes; 0 where nothing is left.
    """
    active = np.int64(0)
    for q in range(GROUPS):
        next_lane[q] = q * GROUP_LANES
    for g in range(n):
        for q in range(GROUPS):
            if not (groups[g] >> q) & 1:
                continue
            while next_lane[q] < (q + 1) * GROUP_LANES:
                wants_pair = (pairs[g] >> q) & 1
                if left[g] == 0 and not wants_pair:
                    break
                source = left[g] if left[g] else np.int64(masks[g])
                at = np.int64(0)
                while not (source >> at) & 1:
                    at += width
                left[g] &= ~(((np.int64(1) << width) - 1) << at)
                pairs[g] &= ~(np.int64(1) << q)
                lane = next_lane[q]
                next_lane[q] = lane + 1
                address[lane] = granules[g] * 32 + at
                active |= np.int64(1) << lane
    return active
