"""The bandwidth of each level, and the time of main memory for batches of addresses."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from calib.probes.bench import WORD_BYTES, Bench
from calib.probes.device import Local
from calib.probes.dram_groups import DramGroups
from calib.probes.outcome import Finding, Floats, Notebook, Unclear, lower_end, rate

REPEATS = 25
_RUN_BYTES = 1 << 23
"""Bytes that each group reads in a run: few enough that some runs are not disturbed."""
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
    """Bytes per second that all groups together read, each from a separate part of data_bytes.

    above : capacity of the level above in bytes, and whether it surely evicts data that are read
        cyclically. If not, it may replace at random and serve a part of the data, see `missing_part`; the
        level's true bandwidth is then lower, at most by that part

    Raises Unclear where the data cannot be divided, or are less than twice the capacity of the level above.
    """
    each = int(data_bytes) // groups
    capacity_above, evicts = above
    if data_bytes < 2 * capacity_above:
        raise Unclear(
            f"the {int(data_bytes)} bytes that surely fit are less than twice the capacity of the level"
            f" above, {int(capacity_above)} bytes"
        )
    missing = 1.0 if evicts else missing_part(data_bytes / capacity_above)
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
    how = (
        f"{groups} group{'s' if groups > 1 else ''} of {items} work-items read {each:,} bytes each,"
        f" {'once' if rounds == 1 else f'{rounds} times'} ({name})"
    )
    speed = rate(moved, spent, device.tick_s, "bytes/s", how)
    return replace(speed, low=speed.low * missing)


def missing_part(times_capacity: float) -> float:
    """The miss ratio of data that are read cyclically through a cache with random replacement.

    Between two visits of a line, each of the N other lines passes once, and N m of them miss and evict one
    of the C lines: m = 1 - exp(-m N / C). LRU and FIFO miss all of them.

    times_capacity : N / C
    """
    missing = 1.0
    for _ in range(60):
        missing = 1 - math.exp(-missing * times_capacity)
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
    """(repeats,) nanoseconds per batch, the mean over batches of byte addresses [offset[b], offset[b + 1]).

    One group loads all of a batch, and the next batch waits for it. The cost without the loads is
    subtracted. Addresses are taken modulo the buffer. Before each repeat the whole buffer is read, so that
    no address is in a cache that is much smaller.

    bare_s : seconds of such batches that hit the first level, in `hit_ns` each; measured here by default

    Raises Unclear where there are no batches.
    """
    if len(offset) < 2 or not len(address_bytes):
        raise Unclear("there are no batches")
    bare = float(bare_times_s(bench, offset).min()) if bare_s is None else bare_s
    groups = bench.device.n_units
    times_ns = np.empty(repeats)
    for k in range(repeats):
        bench.device.run("reads", 64 * groups, 64, bench.bytes // groups // 16, 1)
        spent = _batches_s(bench, np.asarray(address_bytes) % bench.bytes // WORD_BYTES, offset)
        times_ns[k] = (spent - bare) / (len(offset) - 1) * 1e9 + hit_ns
    return np.maximum(times_ns, hit_ns)


def bare_times_s(bench: Bench, offset: npt.NDArray[np.integer]) -> Floats:
    """(12,) seconds of batches that load a single address, which hits the first level."""
    nowhere = np.zeros(int(offset[-1]), np.uint32)
    return np.array([_batches_s(bench, nowhere, offset) for _ in range(12)])


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
    """Nanoseconds of a random address in memory; the curve has the time of wider batches too.

    The interval is widened by that of `hit`, and by that of batches without their loads. The least of all
    repeats of the latter is subtracted: if each repeat's own were, the least difference would be that of
    the most disturbed one.

    hit : latency of the first level

    Raises Unclear where the buffer is less than four times the capacity of the caches.
    """
    if bench.bytes < 4 * cached_bytes:
        raise Unclear(
            f"a buffer of {bench.bytes} bytes is too small for caches of {int(cached_bytes)} bytes"
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
    book.draw(
        title="DRAM: requests in parallel",
        x_label="addresses in a batch",
        y_label="ns per batch",
        x=np.array(WIDTHS, np.float64),
        y=least,
        reading="Batches of random addresses; each waits for the previous one. Where a wider batch takes no longer, memory"
        " serves its requests in parallel.",
    )
    low, value = lower_end(table[0])
    # A tick of the clock for the times, and one for the time that is subtracted.
    ticks_ns = 2 * bench.device.tick_s / (len(offsets[0]) - 1) * 1e9
    bare_ns = (bare[0][1] - bare[0][0]) / (len(offsets[0]) - 1) * 1e9
    return Finding(
        value=value,
        low=low - ticks_ns - (hit_ns - hit.low if hit else 0.0),
        high=value + bare_ns + ticks_ns + (hit.high - hit_ns if hit else 0.0),
        unit="ns",
        how=f"single random addresses, each of which waits for the previous one; batches of {WIDTHS[-1]}"
        f" take {least[-1]:.4g} ns",
    )


def kernel_memory(bench: Bench, groups: DramGroups, hit_ns: float) -> Finding:
    """Nanoseconds of a group of requests of a replayed kernel: its own memory latency T_m under load."""
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
        f" '{groups.kernel}' on {groups.machine} has in flight together, run on this device: mean time of"
        " a group until its last request has arrived",
    )
