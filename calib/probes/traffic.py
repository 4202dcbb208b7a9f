"""Bytes a second from each level, and what main memory takes for batches of given addresses."""

from __future__ import annotations

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
    interval_of,
    resampled_least,
)

REPEATS = 25
_RUN_BYTES = 1 << 23
"""Read by one run of each group: short enough that some runs are not disturbed."""
GROUP_ITEMS = 64
WIDTHS = (1, 2, 4, 8, 16, 32)
MOST_LANES = 256
_N_BATCHES = 2048
_SPACING_BYTES = 256


def bandwidth(bench: Bench, name: str, size_bytes: float, *, groups: int, shared: bool) -> Finding:
    """Bytes a second that groups read from a level that holds their data: all of them together.

    size_bytes : of the level, of which the data take half; shared : by all groups, else each has it

    Raises Unclear where the data do not divide so.
    """
    each = int(size_bytes) // 2 // (groups if shared else 1)
    items = min(GROUP_ITEMS, bench.device.max_group_items)
    unit = 16 * 4 * items
    each = each // unit * unit
    if each < unit:
        raise Unclear(f"half of {int(size_bytes)} bytes is too little for {groups} groups")
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
    low, high = interval_of(moved / resampled_least(spent))
    value = moved / float(spent.min())
    return Finding(
        value=value,
        low=min(low, value),
        high=max(high, value),
        unit="bytes/s",
        how=f"{groups} group{'s' if groups > 1 else ''} of {items} work-items read {each} bytes each,"
        f" {rounds} times ({name})",
    )


def batches_ns(
    bench: Bench,
    address_bytes: npt.NDArray[np.integer],
    offset: npt.NDArray[np.integer],
    *,
    hit_ns: float = 0.0,
    repeats: int = 5,
) -> Floats:
    """(repeats,) ns of a batch, mean over batches of byte addresses [offset[b], offset[b + 1]).

    One group loads all of a batch, and the next batch waits for it. What that costs beside the loads
    is taken out: the same batches at one address only, whose loads take `hit_ns`. Addresses are taken
    modulo the buffer. Before each repeat the whole buffer is read, so that none of them lies in a
    cache that is much smaller.

    Raises Unclear where there are no batches.
    """
    n_batch = len(offset) - 1
    if n_batch < 1 or not len(address_bytes):
        raise Unclear("there are no batches")
    words = (np.asarray(address_bytes) % bench.bytes // WORD_BYTES).astype(np.uint32)
    ends = np.asarray(offset, np.uint32)
    widest = min(int(np.diff(offset).max()), bench.device.max_group_items, MOST_LANES)
    items = 1 << max((widest - 1).bit_length(), 0)
    items = items if items <= bench.device.max_group_items else items // 2

    def seconds(at: npt.NDArray[np.uint32]) -> float:
        return bench.device.run("batches", items, items, at, ends, n_batch, Local(4 * items))

    bare = min(seconds(np.zeros_like(words)) for _ in range(4))
    groups = bench.device.n_units
    found = np.empty(repeats)
    for k in range(repeats):
        bench.device.run("reads", 64 * groups, 64, bench.bytes // groups // 16, 1)
        found[k] = (seconds(words) - bare) / n_batch * 1e9 + hit_ns
    return np.maximum(found, hit_ns)


def memory_batches(bench: Bench, book: Notebook, cached_bytes: float, hit_ns: float) -> Finding:
    """ns of a batch of random addresses that no cache holds, by the batch's width; that of width 1.

    Raises Unclear where the buffer is less than four times what the caches hold.
    """
    if bench.bytes < 4 * cached_bytes:
        raise Unclear(
            f"a buffer of {bench.bytes} bytes lies in caches of {int(cached_bytes)} bytes"
        )
    places = bench.bytes // _SPACING_BYTES
    table = np.empty((len(WIDTHS), 4))
    for r in range(table.shape[1]):
        for k, width in enumerate(WIDTHS):
            n = min(_N_BATCHES, places // width)
            address = bench.rng.permutation(places)[: n * width] * _SPACING_BYTES
            offset = np.arange(n + 1) * width
            table[k, r] = batches_ns(bench, address, offset, hit_ns=hit_ns, repeats=1)[0]
    least = table.min(axis=1)
    book.curves.append(
        Curve(
            title="Main memory: a batch of random addresses",
            x_label="addresses in a batch",
            y_label="ns a batch",
            x=np.array(WIDTHS, np.float64),
            y=least,
        )
    )
    low, high = interval_of(resampled_least(table)[:, 0])
    return Finding(
        value=float(least[0]),
        low=min(low, float(least[0])),
        high=high,
        unit="ns",
        how=f"single random addresses, each of which waits for the last; batches of {WIDTHS[-1]}"
        f" take {least[-1]:.4g} ns",
    )


def kernel_memory(bench: Bench, groups: DramGroups, hit_ns: float) -> Finding:
    """ns of a group of requests of a replayed kernel: its own memory latency T_m under load."""
    times = batches_ns(bench, groups.address_bytes, groups.offset, hit_ns=hit_ns, repeats=12)
    low, high = interval_of(resampled_least(times))
    sizes = np.diff(groups.offset)
    return Finding(
        value=float(times.min()),
        low=min(low, float(times.min())),
        high=high,
        unit="ns",
        how=f"{len(sizes)} groups of {sizes.min()} to {sizes.max()} requests that a replay of"
        f" '{groups.kernel}' on {groups.machine} has in flight together, run on this device: mean of"
        " a group, until its last request is there",
    )
