"""A cache in two partitions: near hits, far hits, and reads of memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import memsim
from memsim.hierarchy.cache import ACCESSES, FAR, HITS, PENDING, READ_GRANULES, WRITE_GRANULES
from memsim.latency import level_latencies_cycles
from memsim.machine.model import Machine
from tests.support.small_machines import level, machine
from tests.support.traces import loads, make_trace
from tests.support.trials import replayed

LINES = 8
"""Of each partition: one fully associative slice."""


def halved(cores: int = 2, **fields: Any) -> Machine:
    """An L1 that all loads bypass, and an L2 of two partitions: even lines belong to the first."""
    first = level("L1", caches_loads=False)
    plain: dict[str, Any] = {"ways": -1, "sets": LINES, "slices": 2, "n_partitions": 2}
    plain |= {"write_policy": "write_back", "write_allocate": "lazy_fetch_on_read"}
    plain["cores_per_instance"] = cores
    return machine(first, level("L2", **{**plain, **fields}), cores=cores)


ROUNDS = 5


@pytest.mark.parametrize(
    ("n", "near", "far"),
    [
        (LINES, LINES, 0),  # its own partition holds all, as copies the half that belongs elsewhere
        (LINES + 2, 0, LINES // 2 + 1),  # LRU loses all of it; the far half is still at home
        (2 * LINES, 0, LINES),
        (2 * LINES + 2, 0, 0),  # the home has no room for its half either
    ],
)
def test_one_core_sweeps(n: int, near: int, far: int) -> None:
    """Like a pointer chase on an A100: near hits up to 20 MB, far hits up to 40 MB, then misses."""
    counts = replayed(loads(list(range(n)) * ROUNDS), halved(2)).counts[1, 0]
    hits = (near + far) * (ROUNDS - 1)
    assert counts[ACCESSES] == n * ROUNDS
    assert counts[HITS] + counts[PENDING] == hits
    assert counts[FAR] == far * (ROUNDS - 1)
    assert counts[READ_GRANULES] == n * ROUNDS - hits


def test_memory_is_read_once_for_both_sides() -> None:
    """Two cores load every line in every round: each line misses once, and then always hits."""
    sweep = [(0, [g]) for g in list(range(LINES)) * ROUNDS]
    for trial in range(8):
        result = replayed(make_trace([[sweep], [sweep]]), halved(2), trial)
        counts = result.counts[1, 0]
        assert counts[ACCESSES] == 2 * LINES * ROUNDS
        assert counts[HITS] + counts[PENDING] == 2 * LINES * ROUNDS - LINES
        assert result.dram_read_bytes == 32 * LINES
        # Far is the first meeting of a core with a line of the other side, unless it came first.
        assert 0 <= counts[FAR] <= LINES
    separate = halved(2, n_partitions=1, slices=1, cores_per_instance=1)
    assert replayed(make_trace([[sweep], [sweep]]), separate).dram_read_bytes == 2 * 32 * LINES


def test_a_store_drops_the_copies() -> None:
    """Core 0 has a copy of line 1 of the other partition; its store drops it, so the next load is far."""
    accesses = [(0, [1]), (0, [1]), (1, [1]), (0, [1]), (0, [1])]
    result = replayed(make_trace([[accesses]], ("load", "store")), halved(2))
    load, store = result.counts[1]
    assert list(load[[ACCESSES, HITS, FAR, READ_GRANULES]]) == [4, 3, 1, 1]
    assert list(store[[ACCESSES, HITS, WRITE_GRANULES]]) == [1, 1, 0]


def test_one_side_is_as_no_partitions() -> None:
    """Lines of the core's own partition behave as in a cache of the size of that partition."""
    rng = np.random.default_rng(5)
    even = (2 * rng.integers(0, 2 * LINES, size=400)).tolist()
    plain = halved(1, n_partitions=1, slices=1, cores_per_instance=1)
    one, other = (replayed(loads(even), on).counts[1, 0] for on in (halved(2), plain))
    assert list(one) == list(other)
    assert one[FAR] == 0


@pytest.mark.parametrize(("line", "copies"), [(0, 1), (1, 0)])
def test_a_far_hit_takes_longer(line: int, copies: int) -> None:
    """Eight cores load one line, the first of them first: the other partition copies it from its home, or has it brought
    there by the first miss; all other hits are near."""
    on = halved(8, latency_cycles=200.0, far_latency_cycles=400.0)
    trace = make_trace([[[(0, [line])] * 3] for _ in range(8)])
    replay = memsim.replay(trace, on, trials=16, seed=1)
    far = replay.dataset["far_hits"].sel(level="L2").values[:, 0]
    hits = (replay.dataset["hits"] + replay.dataset["pending"]).sel(level="L2").values[:, 0]
    assert set(far) == {copies}
    assert (hits == 23).all()
    latency = replay.latency_cycles().values[:, 0]
    tm = replay.dataset["dram_mean_cycles"].values
    assert latency == pytest.approx(((23 - far) * 200 + far * 400 + tm) / 24)
    assert list(level_latencies_cycles(replay.dataset)) == [1.0, 200.0]
    without = memsim.replay(trace, halved(8, n_partitions=1), trials=2, seed=1)
    assert "far_hits" not in without.dataset
