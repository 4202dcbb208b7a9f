"""Memory behind the last cache: random groups of requests in flight together (seed 001, 3.2.3).

A batch holds the requests of up to one group a core, each of up to `subgroup_size` requests that
stand next to each other in the queue. A batch finds every channel idle; each channel has one data
bus and banks with one open row each, which stay open from batch to batch.

    latency = unloaded latency + wait for the bank's row + wait for the channel's bus

A channel that refreshes takes nothing meanwhile, and all its rows are closed afterwards. When a batch
comes, each channel stands at a random point of its refresh interval.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from memsim.compile import hot
from memsim.hierarchy.set_index import FUNCTIONS
from memsim.machine.parts import Dram

N_BATCHES = 64
"""Batches sampled per trial: 42,000 requests on a machine of 80 cores, a millisecond of work."""
DOMINANT_SHARE = 0.5
_BIN_CYCLES = 16.0


@dataclass(frozen=True)
class DramSample:
    """Latencies of sampled reads (n,) float32 in core clocks, and the share of row-buffer hits."""

    latency_cycles: npt.NDArray[np.float32]
    row_hit_ratio: float

    @property
    def mean_cycles(self) -> float:
        return float(self.latency_cycles.mean()) if len(self.latency_cycles) else float("nan")

    @property
    def dominant_cycles(self) -> float:
        return dominant(self.latency_cycles)


def dominant(latency_cycles: npt.NDArray[np.float32]) -> float:
    """The mean of the fullest 48-cycle window where it holds half of the samples, else NaN."""
    if not len(latency_cycles):
        return float("nan")
    bins = (latency_cycles / _BIN_CYCLES).astype(np.int64)
    bins -= bins.min()
    counts = np.bincount(bins)
    window = np.convolve(counts, np.ones(3, np.int64), mode="same")
    top = int(window.argmax())
    inside = np.abs(bins - top) <= 1
    if inside.mean() < DOMINANT_SHARE:
        return float("nan")
    return float(latency_cycles[inside].mean())


@hot
def serve_batches(channel, bank, row, bursts, is_read, batch_offset, open_row, free_at, bus_free, burst_cycles, miss_cycles, conflict_cycles, base_cycles, refresh_at, refresh_cycles, interval_cycles, latency):  # type: ignore[no-untyped-def]  # fmt: skip
    """Fill latency (n,) float32, NaN for writes; returns row-buffer hits.

    open_row : (n_channels, n_banks) int64, -1 closed, carried over; free_at likewise float64 and
    bus_free (n_channels,) float64 are reset for each batch
    refresh_at : (n_batch, n_channels) float64, when each channel's next refresh begins, one that is
        under way before 0; advanced. Without refreshing, refresh_cycles is 0
    """
    row_hits = 0
    for batch in range(len(batch_offset) - 1):
        free_at[:] = 0.0
        bus_free[:] = 0.0
        for i in range(batch_offset[batch], batch_offset[batch + 1]):
            c, b = channel[i], bank[i]
            was_open = 0
            if open_row[c, b] == row[i]:
                was_open = 1
                extra = 0.0
            elif open_row[c, b] < 0:
                extra = miss_cycles
            else:
                extra = conflict_cycles
            row_hits += was_open
            begin = max(bus_free[c], free_at[c, b] + extra)
            end = begin + bursts[i] * burst_cycles
            while refresh_cycles > 0 and end > refresh_at[batch, c]:
                done = refresh_at[batch, c] + refresh_cycles
                open_row[c, :] = -1
                for other in range(free_at.shape[1]):
                    free_at[c, other] = max(free_at[c, other], done)
                bus_free[c] = max(bus_free[c], done)
                refresh_at[batch, c] += interval_cycles
                row_hits -= was_open
                was_open = 0
                begin = max(bus_free[c], free_at[c, b] + miss_cycles)
                end = begin + bursts[i] * burst_cycles
            open_row[c, b] = row[i]
            bus_free[c] = end
            free_at[c, b] = end
            latency[i] = base_cycles + begin if is_read[i] else np.nan
    return row_hits


def sample_positions(
    rng: np.random.Generator, n_request: int, n_cores: int, subgroup_size: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """(positions in the queue, batch offsets) of the batches of one trial.

    A batch is 1..n_cores groups of 1..subgroup_size requests, uniformly; batches are spread evenly
    over the queue from a random offset.
    """
    n_batch = N_BATCHES
    groups = rng.integers(1, n_cores + 1, size=n_batch)
    sizes = np.array(
        [int(rng.integers(1, subgroup_size + 1, size=int(g)).sum()) for g in groups], np.int64
    )
    sizes = np.minimum(sizes, n_request)
    if int(sizes.sum()) >= n_request:
        bounds = np.minimum(np.concatenate([[0], np.cumsum(sizes)]), n_request)
        bounds = np.unique(bounds)
        return np.arange(bounds[-1]), bounds.astype(np.int64)
    gap = (n_request - int(sizes.sum())) // n_batch
    begins = np.concatenate([[0], np.cumsum(sizes + gap)[:-1]]) + int(rng.integers(0, gap + 1))
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    within = np.arange(offsets[-1]) - np.repeat(offsets[:-1], sizes)
    return np.repeat(begins, sizes) + within, offsets


def merged_positions(
    rng: np.random.Generator,
    position: npt.NDArray[np.int64],
    batch_offset: npt.NDArray[np.int64],
    first: npt.NDArray[np.int64],
    waiting: npt.NDArray[np.int64],
) -> npt.NDArray[np.int64]:
    """Where sampled requests lie when they come out of many queues side by side.

    position : (n,) places in the merged queue;  first, waiting : (n_queue,) where each queue's
    requests begin, and how many there are. A batch draws its requests' queues weighted by what
    waits, and takes them in order from the point that the merge has reached in each.
    """
    total = int(waiting.sum())
    out = np.empty_like(position)
    for begin, end in itertools.pairwise(batch_offset):
        queue = rng.choice(len(waiting), size=int(end - begin), p=waiting / total)
        reached = position[begin] * waiting[queue] // total
        order = np.argsort(queue, kind="stable")
        ordered = queue[order]
        rank = np.empty(len(queue), np.int64)
        starts = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
        lengths = np.diff(np.append(starts, len(ordered)))
        rank[order] = np.arange(len(ordered)) - np.repeat(starts, lengths)
        out[begin:end] = first[queue] + np.minimum(reached + rank, waiting[queue] - 1)
    return out


def sample_latencies(
    dram: Dram,
    *,
    address_bytes: npt.NDArray[np.int64],
    size_bytes: npt.NDArray[np.int64],
    is_read: npt.NDArray[np.bool_],
    batch_offset: npt.NDArray[np.int64],
    generator: np.random.Generator | None = None,
) -> DramSample:
    """Latencies of batches of requests in flight together.

    address_bytes, size_bytes, is_read : (n,); batch_offset : (n_batch + 1,) int64
    generator : of the refreshes' times; without one nothing is refreshed
    """
    block = address_bytes // dram.interleave_bytes
    channel = FUNCTIONS[dram.channel_index](block, dram.n_channels)
    local = block // dram.n_channels * dram.interleave_bytes + address_bytes % dram.interleave_bytes
    row = local // dram.row_bytes
    bank = FUNCTIONS["xor"](row, dram.n_banks)
    bursts = -(-size_bytes // dram.burst_bytes)
    latency = np.empty(len(address_bytes), np.float32)
    refreshing = generator is not None and dram.refresh_cycles > 0
    refresh_at = np.zeros((1, 1))
    if generator is not None and refreshing:
        phase = generator.random((len(batch_offset) - 1, dram.n_channels))
        refresh_at = phase * dram.refresh_interval_cycles - dram.refresh_cycles
    n_hits = serve_batches(
        channel,
        bank,
        row // dram.n_banks,
        bursts,
        is_read,
        batch_offset,
        np.full((dram.n_channels, dram.n_banks), -1, np.int64),
        np.zeros((dram.n_channels, dram.n_banks)),
        np.zeros(dram.n_channels),
        dram.burst_bytes * dram.n_channels / dram.bandwidth_bytes_per_cycle,
        dram.row_miss_cycles,
        dram.row_conflict_cycles,
        dram.latency_cycles,
        refresh_at,
        dram.refresh_cycles if refreshing else 0.0,
        dram.refresh_interval_cycles,
        latency,
    )
    ratio = n_hits / len(address_bytes) if len(address_bytes) else float("nan")
    return DramSample(latency[~np.isnan(latency)], ratio)
