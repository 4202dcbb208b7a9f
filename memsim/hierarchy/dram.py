"""Memory behind the last cache: random groups of requests that are in flight together.

A batch consists of up to one group of requests a core; a group is up to `subgroup_size` consecutive
requests of the queue (Baghsorkhi et al. 2012, section 3.2.3). Every batch finds all channels idle. A
channel has one data bus, and banks with one open row each, which stay open from batch to batch.

    latency = unloaded latency + wait for the bank's row + wait for the channel's bus

A channel serves nothing during a refresh, and all its rows are closed afterwards. When a batch
arrives, each channel is at a random point of its refresh interval.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from memsim.compile import hot
from memsim.hierarchy.set_index import FUNCTIONS
from memsim.machine.parts import Dram

N_BATCHES = 64
"""Batches sampled per trial: 42,000 requests on a machine of 80 cores, a millisecond of work."""
DOMINANT_SHARE = 0.5
QUEUED = 64
"""Requests that a channel has queued, as Accel-Sim configuration SM7_QV100 (frfcfs_dram_sched_queue_size)."""
N_WINDOWS = 8
_BIN_CYCLES = 16.0


@dataclass(frozen=True)
class DramSample:
    """Latencies of sampled reads (n,) float32 in core clocks, the share of row-buffer hits, and the bytes that are
    transferred for every row that is opened if a channel serves what it has queued row by row."""

    latency_cycles: npt.NDArray[np.float32]
    row_hit_ratio: float
    bytes_per_row: float = float("nan")

    @property
    def mean_cycles(self) -> float:
        return float(self.latency_cycles.mean()) if len(self.latency_cycles) else float("nan")

    @property
    def dominant_cycles(self) -> float:
        return dominant(self.latency_cycles)


NO_SAMPLE = DramSample(np.zeros(0, np.float32), float("nan"))
"""The sample of a trial in which nothing reaches memory."""


def dominant(latency_cycles: npt.NDArray[np.float32]) -> float:
    """The mean of the fullest 48-cycle window if that contains half of the samples, else NaN."""
    if not len(latency_cycles):
        return float("nan")
    bins = np.floor(latency_cycles / _BIN_CYCLES)
    values, counts = np.unique(bins, return_counts=True)
    centres = np.unique(values[:, None] + np.array([-1, 0, 1]))
    centres = centres[(centres >= values[0]) & (centres <= values[-1])]
    before = np.concatenate([[0], np.cumsum(counts)])  # samples in the first bins
    ends = np.searchsorted(values, centres + 1, side="right")
    window = before[ends] - before[np.searchsorted(values, centres - 1)]
    inside = np.abs(bins - centres[window.argmax()]) <= 1
    if inside.mean() < DOMINANT_SHARE:
        return float("nan")
    return float(latency_cycles[inside].mean())


class Bursts(NamedTuple):
    """Requests on their way to memory, (n,) each; batch k is those from offset[k] to offset[k + 1]."""

    channel: npt.NDArray[np.int32]
    bank: npt.NDArray[np.int32]
    row: npt.NDArray[np.int64]
    n_bursts: npt.NDArray[np.int64]
    is_read: npt.NDArray[np.bool_]
    offset: npt.NDArray[np.int64]


class Channels(NamedTuple):
    """The state of the channels.

    open_row : (n_channels, n_banks) int64, -1 closed;  bank_free : likewise, float64, cycle
    bus_free : (n_channels,) float64, cycle
    refresh_at : (n_batch, n_channels) float64, when each channel's next refresh begins, negative for
        one that is under way when the batch arrives
    """

    open_row: npt.NDArray[np.int64]
    bank_free: npt.NDArray[np.float64]
    bus_free: npt.NDArray[np.float64]
    refresh_at: npt.NDArray[np.float64]


class Timing(NamedTuple):
    """Durations in core clocks; refresh is 0 for memory that does not refresh."""

    burst: float
    row_miss: float
    row_conflict: float
    latency: float
    refresh: float
    refresh_interval: float


@hot
def serve_batches(bursts, channels, timing, latency):  # type: ignore[no-untyped-def]
    """Fill latency (n,) float32, NaN for writes; returns the number of row-buffer hits.

    Rows stay open from batch to batch; every batch finds banks and buses idle.
    """
    open_row, bank_free, bus_free = channels.open_row, channels.bank_free, channels.bus_free
    refresh_at = channels.refresh_at
    row_hits = 0
    for batch in range(len(bursts.offset) - 1):
        bank_free[:] = 0.0
        bus_free[:] = 0.0
        for i in range(bursts.offset[batch], bursts.offset[batch + 1]):
            c, b = bursts.channel[i], bursts.bank[i]
            was_open = 0
            if open_row[c, b] == bursts.row[i]:
                was_open = 1
                extra = 0.0
            elif open_row[c, b] < 0:
                extra = timing.row_miss
            else:
                extra = timing.row_conflict
            row_hits += was_open
            begin = max(bus_free[c], bank_free[c, b] + extra)
            end = begin + bursts.n_bursts[i] * timing.burst
            while timing.refresh > 0 and end > refresh_at[batch, c]:
                done = refresh_at[batch, c] + timing.refresh
                open_row[c, :] = -1
                for other in range(bank_free.shape[1]):
                    bank_free[c, other] = max(bank_free[c, other], done)
                bus_free[c] = max(bus_free[c], done)
                refresh_at[batch, c] += timing.refresh_interval
                row_hits -= was_open
                was_open = 0
                begin = max(bus_free[c], bank_free[c, b] + timing.row_miss)
                end = begin + bursts.n_bursts[i] * timing.burst
            open_row[c, b] = bursts.row[i]
            bus_free[c] = end
            bank_free[c, b] = end
            latency[i] = timing.latency + begin if bursts.is_read[i] else np.nan
    return row_hits


def sample_positions(
    rng: np.random.Generator, n_request: int, n_cores: int, subgroup_size: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """(positions in the queue, batch offsets) of the batches of one trial.

    A batch has 1..n_cores groups of 1..subgroup_size requests, drawn uniformly. Batches are spread
    evenly over the queue from a random offset.
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
    """The records of sampled requests (n,) when many queues are served at the same time.

    position : (n,) positions in the merged queue
    first, waiting : (n_queue,) the first request of each queue, and the number of them

    A batch draws the queues of its requests with weights `waiting`, and takes consecutive requests
    of each queue, from the point that the merge has reached in it.
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


def _channel_and_row(
    dram: Dram, address_bytes: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int64]]:
    """(n,) the channel of each address, and the number of its row among those of the channel's banks."""
    block = address_bytes // dram.interleave_bytes
    channel = FUNCTIONS[dram.channel_index](block, dram.n_channels)
    local = block // dram.n_channels * dram.interleave_bytes + address_bytes % dram.interleave_bytes
    return channel, local // dram.row_bytes


def windows(dram: Dram, n_request: int) -> npt.NDArray[np.int64]:
    """(n_window, n) positions in a queue of what the channels have queued at a few times, evenly spread."""
    length = min(dram.n_channels * QUEUED, n_request)
    begins = np.linspace(0, n_request - length, N_WINDOWS if n_request > length else 1)
    return begins.astype(np.int64)[:, None] + np.arange(length)


def bytes_per_row(
    dram: Dram, address_bytes: npt.NDArray[np.int64], size_bytes: npt.NDArray[np.int64]
) -> float:
    """Bytes for every row that is opened, of windows of requests: (n_window, n) each.

    A controller serves what is queued for an open row first (Rixner et al., Memory Access Scheduling, ISCA 2000), so
    in a window no row is opened twice.
    """
    channel, row = _channel_and_row(dram, address_bytes)
    rows = sum(len(np.unique(one)) for one in row * dram.n_channels + channel)
    return float(size_bytes.sum()) / rows


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
    generator : draws the times of refreshes; without it there are none
    """
    channel, row = _channel_and_row(dram, address_bytes)
    bank = FUNCTIONS["xor"](row, dram.n_banks)
    latency = np.empty(len(address_bytes), np.float32)
    refreshing = generator is not None and dram.refresh_cycles > 0
    refresh_at = np.zeros((1, 1))
    if generator is not None and refreshing:
        phase = generator.random((len(batch_offset) - 1, dram.n_channels))
        refresh_at = phase * dram.refresh_interval_cycles - dram.refresh_cycles
    n_hits = serve_batches(
        Bursts(
            channel=channel,
            bank=bank,
            row=row // dram.n_banks,
            n_bursts=-(-size_bytes // dram.burst_bytes),
            is_read=is_read,
            offset=batch_offset,
        ),
        Channels(
            open_row=np.full((dram.n_channels, dram.n_banks), -1, np.int64),
            bank_free=np.zeros((dram.n_channels, dram.n_banks)),
            bus_free=np.zeros(dram.n_channels),
            refresh_at=refresh_at,
        ),
        Timing(
            burst=dram.burst_bytes * dram.n_channels / dram.bandwidth_bytes_per_cycle,
            row_miss=dram.row_miss_cycles,
            row_conflict=dram.row_conflict_cycles,
            latency=dram.latency_cycles,
            refresh=dram.refresh_cycles if refreshing else 0.0,
            refresh_interval=dram.refresh_interval_cycles,
        ),
        latency,
    )
    ratio = n_hits / len(address_bytes) if len(address_bytes) else float("nan")
    return DramSample(latency[~np.isnan(latency)], ratio)
