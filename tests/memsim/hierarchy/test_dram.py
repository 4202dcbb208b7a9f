"""Memory behind the caches: hand-computed latencies, and the sampling of batches."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

from memsim.hierarchy.dram import (
    N_BATCHES,
    N_WINDOWS,
    QUEUED,
    DramSample,
    bytes_per_row,
    dominant,
    merged_positions,
    sample_latencies,
    sample_positions,
    windows,
)
from memsim.machine.parts import Dram
from tests.support.small_machines import dram

BASE, MISS, CONFLICT, BURST = 400.0, 20.0, 45.0, 4.0


def memory(**changes: object) -> Dram:
    """Two channels with two banks each; a burst of 64 bytes takes BURST cycles."""
    values: dict[str, object] = {"row_miss_cycles": MISS, "row_conflict_cycles": CONFLICT}
    values |= {"latency_cycles": BASE, "bandwidth_bytes_per_cycle": 2 * 64 / BURST}
    return dram(**{"burst_bytes": 64, "channel_index": "modulo", **values, **changes})


def latencies(
    addresses: list[list[int]],
    *,
    writes: tuple[int, ...] = (),
    first_bytes: int = 64,
    on: Dram | None = None,
    generator: np.random.Generator | None = None,
) -> DramSample:
    """Latencies of batches of 64-byte requests; `writes` are positions over all batches."""
    flat = np.array([address for batch in addresses for address in batch], np.int64)
    is_read = np.ones(len(flat), np.bool_)
    is_read[list(writes)] = False
    size_bytes = np.full(len(flat), 64, np.int64)
    size_bytes[0] = first_bytes
    return sample_latencies(
        on or memory(),
        address_bytes=flat,
        size_bytes=size_bytes,
        is_read=is_read,
        batch_offset=np.cumsum([0, *map(len, addresses)]).astype(np.int64),
        generator=generator,
    )


# Channel 0 holds bytes 0..255, 512..767, ...; its rows of 1 KiB are 2 KiB apart, in banks 0, 1, 1, 0
# (the row number folded onto one bit).
SAME_ROW, OTHER_BANK, SAME_BANK, OTHER_CHANNEL = 64, 2048, 3 * 2048, 256


@pytest.mark.parametrize(
    ("batches", "expected", "row_hits"),
    [
        ([[0]], [BASE + MISS], 0),
        ([[0], [SAME_ROW]], [BASE + MISS, BASE], 0.5),
        ([[0], [SAME_BANK]], [BASE + MISS, BASE + CONFLICT], 0),
        ([[0], [OTHER_BANK]], [BASE + MISS, BASE + MISS], 0),
        # In flight together: the bus serves one burst after the other, banks open rows meanwhile.
        ([[0, 64, 128]], [BASE + MISS, BASE + MISS + BURST, BASE + MISS + 2 * BURST], 2 / 3),
        ([[0, OTHER_BANK]], [BASE + MISS, BASE + MISS + BURST], 0),
        ([[0, SAME_BANK]], [BASE + MISS, BASE + MISS + BURST + CONFLICT], 0),
        ([[0, OTHER_CHANNEL]], [BASE + MISS, BASE + MISS], 0),
    ],
)
def test_latencies_by_hand(
    batches: list[list[int]], expected: list[float], row_hits: float
) -> None:
    sample = latencies(batches)
    assert list(sample.latency_cycles) == expected
    assert sample.row_hit_ratio == pytest.approx(row_hits)
    assert sample.mean_cycles == pytest.approx(np.mean(expected))


def test_a_write_takes_the_bus_and_gives_no_latency() -> None:
    sample = latencies([[0, SAME_ROW]], writes=(0,))
    assert list(sample.latency_cycles) == [BASE + MISS + BURST]


def test_a_longer_request_takes_more_bursts() -> None:
    sample = latencies([[0, SAME_ROW]], first_bytes=65)
    assert list(sample.latency_cycles) == [BASE + MISS, BASE + MISS + 2 * BURST]


class Phases(np.random.Generator):
    """A generator with given uniform numbers: the phase of each channel's refresh interval."""

    def __init__(self, *phase: float) -> None:
        super().__init__(np.random.PCG64(0))
        self.phase = phase

    def random(self, size):  # type: ignore[no-untyped-def, override]
        return np.broadcast_to(np.array(self.phase), size).copy()


@pytest.mark.parametrize(
    ("phase", "expected"),
    [
        # 100 cycles in 1000: phase p puts the channel's next refresh at 1000 p - 100.
        (0.05, [BASE + 50 + MISS, BASE + 50 + MISS + BURST]),  # half done
        (0.1, [BASE + 100 + MISS, BASE + 100 + MISS + BURST]),  # begins now
        (0.0, [BASE + MISS, BASE + MISS + BURST]),  # just over
        # The first request ends as the refresh begins, the second has to wait, and for its row too.
        (0.1 + (MISS + BURST) / 1000, [BASE + MISS, BASE + MISS + BURST + 100 + MISS]),
        (0.9, [BASE + MISS, BASE + MISS + BURST]),  # long afterwards
    ],
)
def test_a_refresh_by_hand(phase: float, expected: list[float]) -> None:
    on = memory(refresh_cycles=100.0, refresh_interval_cycles=1000.0)
    sample = latencies([[0, SAME_ROW]], on=on, generator=Phases(phase))
    assert list(sample.latency_cycles) == pytest.approx(expected)


def test_lone_requests_wait_half_a_refresh_as_often_as_there_is_one() -> None:
    """Mean wait R^2 / 2I of a random moment, and the row is closed in the share R / I of them."""
    refresh, interval, n = 200.0, 1000.0, 20_000
    quiet = memory(row_miss_cycles=0.0, row_conflict_cycles=0.0, bandwidth_bytes_per_cycle=1e9)
    found = {
        cycles: latencies(
            [[0]] * n,
            on=dataclasses.replace(quiet, refresh_cycles=cycles, refresh_interval_cycles=interval),
            generator=np.random.default_rng(4),
        )
        for cycles in (refresh, 0.0)
    }
    waits = found[refresh].latency_cycles - BASE
    exact = refresh**2 / (2 * interval)
    assert abs(waits.mean() - exact) < 5 * waits.std() / math.sqrt(n)
    assert (found[0.0].latency_cycles == BASE).all()
    share = refresh / interval
    closed = 1 - found[refresh].row_hit_ratio
    assert abs(closed - share) < 5 * math.sqrt(share * (1 - share) / n)


def test_dominant_latency() -> None:
    near, far = np.full(60, 500.0, np.float32), np.full(40, 900.0, np.float32)
    assert dominant(np.concatenate([near, far])) == 500
    assert dominant(np.full(3, 420.0, np.float32)) == 420
    # No table of all times between these fits in memory.
    assert dominant(np.array([500, 500, 1e12, 3e38], np.float32)) == 500
    spread = np.arange(400, 4000, 10, dtype=np.float32)
    assert math.isnan(dominant(spread))
    assert math.isnan(dominant(np.zeros(0, np.float32)))


@pytest.mark.parametrize("n_request", [1, 5000, 10**7])
def test_batches_lie_in_the_queue(n_request: int) -> None:
    n_cores, width = 14, 32
    position, offset = sample_positions(np.random.default_rng(3), n_request, n_cores, width)
    sizes = np.diff(offset)
    assert offset[0] == 0
    assert offset[-1] == len(position)
    assert position.min() >= 0
    assert position.max() < n_request
    assert sizes.min() >= 1
    assert sizes.max() <= min(n_cores * width, n_request)
    assert len(np.unique(position)) == len(position)
    starts = np.zeros(len(position), bool)
    starts[offset[:-1]] = True
    assert (np.diff(position)[~starts[1:]] == 1).all()  # requests of a batch are neighbours
    if n_request == 10**7:
        assert len(sizes) == N_BATCHES


def test_queues_side_by_side_are_drawn_by_what_waits() -> None:
    first, waiting = np.array([0, 1000, 9000]), np.array([1000, 8000, 0])
    position, offset = np.arange(4500, 8100), np.array([0, 1800, 3600])
    at = merged_positions(np.random.default_rng(0), position, offset, first, waiting)
    assert at.min() >= 0
    assert at.max() < 9000
    in_first = at < 1000
    n, p = len(at), 1 / 9
    assert abs(in_first.sum() - n * p) < 5 * math.sqrt(n * p * (1 - p))
    assert abs(in_first.sum() - n / 2) > 5 * math.sqrt(n / 4)  # the test can fail
    batch = at[:1800]
    # Half of the merge is done: so is half of each queue, and each goes on in order.
    assert batch[batch < 1000][0] == 500
    assert batch[batch >= 1000][0] == 1000 + 4000
    assert (np.diff(batch[batch >= 1000]) == 1).all()


def test_bytes_of_every_row_that_is_opened() -> None:
    """Rows of 1 KiB: a stream uses 1 KiB of each, whatever its order; single bursts of as many rows use 64 bytes."""
    stream = np.arange(0, 8192, 64).reshape(2, -1)
    size = np.full(stream.shape, 64)
    shuffled = np.random.default_rng(3).permuted(stream, axis=1)
    assert bytes_per_row(memory(), stream, size) == bytes_per_row(memory(), shuffled, size) == 1024
    assert bytes_per_row(memory(), 2048 * np.arange(32)[None], size[:1, :32]) == 64
    # In windows that are served one after another, each opens its rows again.
    assert bytes_per_row(memory(), stream.reshape(32, 4), size.reshape(32, 4)) == 256


def test_windows_are_what_the_channels_have_queued() -> None:
    length = 2 * QUEUED
    assert windows(memory(), 100).tolist() == [list(range(100))]
    positions = windows(memory(), 10 * length)
    assert positions.shape == (N_WINDOWS, length)
    assert (positions[0, 0], positions[-1, -1]) == (0, 10 * length - 1)
