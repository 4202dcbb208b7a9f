"""Bytes a second from each level, and what main memory takes for batches of given addresses."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from calib.probes.bench import WORD_BYTES, Bench
from calib.probes.device import Local
from calib.probes.dram_groups import DramGroups
from calib.probes.outcome import (
    Curve,
    Finding,
    Floats,
    Notebook,
    Unclear,
    lower_end,
)

REPEATS = 25
_RUN_BYTES = 1 << 23
"""Read by one run of each group: short enough that some runs are not disturbed."""
GROUP_ITEMS = 64
WIDTHS = (1, 2, 4, 8, 16, 32)
MOST_LANES = 256
_N_BATCHES = 2048
_SPACING_BYTES = 256


def bandwidth(
    bench: Bench,
    name: str,
    data_bytes: float,
    *,
    groups: int,
    above: tuple[float, bool] = (0, True),
) -> Finding:
    """Bytes a second that groups read of so many bytes, each a part of its own: all of them together.

    above : what the level above holds, bytes, and whether it is known to forget what comes round.
        Otherwise it may replace at random and keep a part of the data, see `missing_part`; then the level
        asked for is slower than it seems, by that part at most

    Raises Unclear where the data do not divide so, or are less than twice what the level above holds.
    """
    each = int(data_bytes) // groups
    held, forgets = above
    if data_bytes < 2 * held:
        raise Unclear(
            f"the {int(data_bytes)} bytes that it surely holds are less than twice the {int(held)} of"
            " the level above"
        )
    missing = 1.0 if forgets else missing_part(data_bytes / held)
    items = min(GROUP_ITEMS, bench.device.max_group_items)
    unit = 16 * 4 * items
    each = each // unit * unit
    if each < unit:
        raise Unclear(f"{int(data_bytes)} bytes are too few for {groups} groups")
    if each * groups > bench.bytes:
        raise Unclear(f"{groups} times {each} bytes do not fit the buffer")
    rounds = max(_RUN_BYTES // each, 1)
    device = bench.device
    device.run("reads", groups * items, items, each // 16, rounds)
    spent = np.array(
        [device.run("reads", groups * items, items, each // 16, rounds) for _ in range(REPEATS)]
    )
    spent = np.maximum(spent - bench.overhead_s, 0.1 * spent)
    moved = each * groups * rounds
    low_s, least_s = lower_end(spent)
    return Finding(
        value=moved / least_s,
        low=moved / (least_s + device.tick_s) * missing,
        high=moved / max(low_s - device.tick_s, 0.1 * least_s),
        unit="bytes/s",
        how=f"{groups} group{'s' if groups > 1 else ''} of {items} work-items read {each} bytes each,"
        f" {rounds} times ({name})",
    )


def missing_part(times_held: float) -> float:
    """Of data read over and over, so many times what a cache holds, what misses if it replaces at random.

    Between two visits of a line every other one of N passes once, N m of them evict, each of 1 in C
    lines: m = 1 - exp(-m N / C). Any policy that forgets the oldest misses all.
    """
    missing = 1.0
    for _ in range(60):
        missing = 1 - math.exp(-missing * times_held)
    return missing


def batches_ns(
    bench: Bench,
    address_bytes: npt.NDArray[np.integer],
    offset: npt.NDArray[np.integer],
    *,
    hit_ns: float = 0.0,
    repeats: int = 5,
    bare_s: float | None = None,
) -> Floats:
    """(repeats,) ns of a batch, mean over batches of byte addresses [offset[b], offset[b + 1]).

    One group loads all of a batch, and the next batch waits for it. What that costs beside the loads
    is taken out: `bare_s`, by default measured here, of which the loads take `hit_ns` a batch. Addresses
    are taken modulo the buffer. Before each repeat the whole buffer is read, so that none of them lies
    in a cache that is much smaller.

    Raises Unclear where there are no batches.
    """
    if len(offset) < 2 or not len(address_bytes):
        raise Unclear("there are no batches")
    bare = float(bare_times_s(bench, offset).min()) if bare_s is None else bare_s
    groups = bench.device.n_units
    found = np.empty(repeats)
    for k in range(repeats):
        bench.device.run("reads", 64 * groups, 64, bench.bytes // groups // 16, 1)
        spent = _batches_s(bench, np.asarray(address_bytes) % bench.bytes // WORD_BYTES, offset)
        found[k] = (spent - bare) / (len(offset) - 1) * 1e9 + hit_ns
    return np.maximum(found, hit_ns)


def bare_times_s(bench: Bench, offset: npt.NDArray[np.integer], repeats: int = 12) -> Floats:
    """(repeats,) seconds of such batches at one address only, which the first level holds."""
    nowhere = np.zeros(int(offset[-1]), np.uint32)
    return np.array([_batches_s(bench, nowhere, offset) for _ in range(repeats)])


def _batches_s(
    bench: Bench, words: npt.NDArray[np.integer], offset: npt.NDArray[np.integer]
) -> float:
    widest = min(int(np.diff(offset).max()), bench.device.max_group_items, MOST_LANES)
    items = 1 << max((widest - 1).bit_length(), 0)
    items = items if items <= bench.device.max_group_items else items // 2
    at, ends = words.astype(np.uint32), np.asarray(offset, np.uint32)
    return bench.device.run("batches", items, items, at, ends, len(offset) - 1, Local(4 * items))


def memory_batches(
    bench: Bench, book: Notebook, cached_bytes: float, hit: Finding | None
) -> Finding:
    """ns of a batch of random addresses that no cache holds, by the batch's width; that of width 1.

    hit : what the first level takes, whose interval this one is widened by; and by that of what batches
        cost without their loads, of all repeats the least: each one's own, and the least difference
        would be where that was disturbed most

    Raises Unclear where the buffer is less than four times what the caches hold.
    """
    if bench.bytes < 4 * cached_bytes:
        raise Unclear(
            f"a buffer of {bench.bytes} bytes lies in caches of {int(cached_bytes)} bytes"
        )
    hit_ns = hit.value if hit else 0.0
    places = bench.bytes // _SPACING_BYTES
    offsets = [np.arange(min(_N_BATCHES, places // width) + 1) * width for width in WIDTHS]
    bare = [lower_end(bare_times_s(bench, offset)) for offset in offsets]
    table = np.empty((len(WIDTHS), 4))
    for r in range(table.shape[1]):
        for k, offset in enumerate(offsets):
            address = bench.rng.permutation(places)[: offset[-1]] * _SPACING_BYTES
            table[k, r] = batches_ns(
                bench, address, offset, hit_ns=hit_ns, repeats=1, bare_s=bare[k][1]
            )[0]
    least = table.min(axis=1)
    book.curves.append(
        Curve(
            title="Main memory: a batch of random addresses",
            x_label="addresses in a batch",
            y_label="ns a batch",
            x=np.array(WIDTHS, np.float64),
            y=least,
            reading="Each batch waits for the last one. Where a wider batch takes no longer, memory serves"
            " its requests side by side.",
        )
    )
    low, value = lower_end(table[0])
    # Of the times and of what is taken out of them, a tick each.
    ticks_ns = 2 * bench.device.tick_s / (len(offsets[0]) - 1) * 1e9
    bare_ns = (bare[0][1] - bare[0][0]) / (len(offsets[0]) - 1) * 1e9
    return Finding(
        value=value,
        low=low - ticks_ns - (hit_ns - hit.low if hit else 0.0),
        high=value + bare_ns + ticks_ns + (hit.high - hit_ns if hit else 0.0),
        unit="ns",
        how=f"single random addresses, each of which waits for the last; batches of {WIDTHS[-1]}"
        f" take {least[-1]:.4g} ns",
    )


def kernel_memory(bench: Bench, groups: DramGroups, hit_ns: float) -> Finding:
    """ns of a group of requests of a replayed kernel: its own memory latency T_m under load."""
    times = batches_ns(bench, groups.address_bytes, groups.offset, hit_ns=hit_ns, repeats=12)
    low, value = lower_end(times)
    sizes = np.diff(groups.offset)
    tick_ns = bench.device.tick_s / len(sizes) * 1e9
    return Finding(
        value=value,
        low=low - tick_ns,
        high=value + tick_ns,
        unit="ns",
        how=f"{len(sizes)} groups of {sizes.min()} to {sizes.max()} requests that a replay of"
        f" '{groups.kernel}' on {groups.machine} has in flight together, run on this device: mean of"
        " a group, until its last request is there",
    )
