"""Kernels whose paths differ from run to run, and work-items with more tokens than fit into memory."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import tracegen
from memsim.errors import KernelError, PathsWarning
from memsim.trace import Trace
from tests.support import loopy_kernels
from tracegen.recording.device_run import DeviceRun
from tracegen.recording.passes import shares

SOURCE = """\
__kernel void insert(__global const uint *keys, __global volatile uint *table, const uint mask)
{
  const uint key = keys[get_global_id(0)];
  uint slot = (key * 2654435761u) & mask;
  while (1) {
    const uint old = atomic_cmpxchg(&table[slot], 0u, key);
    if (old == 0u || old == key) break;
    slot = (slot + 1) & mask;
  }
}
__kernel void ragged(__global const float *in, __global float *out, const int n, const int step)
{
  const int i = get_global_id(0);
  for (int k = 0; k < n + step * (i % 7); ++k) {
    out[i] += in[(k * 3 + i) & 1023];
    if (k % 5 == i % 5) out[i] += in[k & 7];
  }
}
__kernel void endless(__global float *out)
{
  while (out[0] == 0.0f) out[get_global_id(0)] = 0.0f;
}
"""


def insert(n: int) -> tracegen.OpenCLWorkload:
    keys = np.random.default_rng(0).integers(1, 1 << 32, n, dtype=np.uint32)
    return tracegen.OpenCLWorkload(
        source=SOURCE,
        kernel="insert",
        arguments=[keys, np.zeros(2 * n, np.uint32), np.uint32(2 * n - 1)],
        global_size=n,
        local_size=64,
    )


def ragged(n: int, step: int = 3, items: int = 96) -> tracegen.OpenCLWorkload:
    return tracegen.OpenCLWorkload(
        source=SOURCE,
        kernel="ragged",
        arguments=[
            np.ones(1024, np.float32),
            np.zeros(items, np.float32),
            np.int32(n),
            np.int32(step),
        ],
        global_size=items,
        local_size=min(items, 48),
    )


def assert_equal(a: Trace, b: Trace) -> None:
    for name in ("site", "starts_sequence", "waits", "lanes", "granule", "byte_mask"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name))
    for name in ("granule_offset", "subgroup_offset", "lane_groups"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name))


@pytest.mark.filterwarnings("default::memsim.errors.PathsWarning")
@pytest.mark.parametrize("n", [1 << 14, 1 << 17])
def test_insertions_into_a_hash_table(n: int, context: Any) -> None:
    trace = tracegen.trace(insert(n), context=context)
    lanes = dict(zip(trace.site_names, np.bincount(trace.site, trace.lanes), strict=False))
    assert lanes["keys[get_global_id(0)]"] == n
    (probed,) = (count for name, count in lanes.items() if "table" in name)
    # Linear probing at a load of 1/2: (1 + 1 / (1 - 1/2)) / 2 = 1.5 probes a key (Knuth 6.4), of
    # keys that an unordered table holds; only the order of the insertions is chance.
    assert 1.45 * n < probed < 1.55 * n


@pytest.mark.parametrize(
    ("workload", "why"),
    [(insert(64), "order of its atomic operations"), (ragged(20), "it has a data race")],
)
def test_other_paths_are_recorded_again(
    workload: Any, why: str, context: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The hash table is filled by one group, for two could come in another order each time."""
    exact = tracegen.trace(workload, context=context)
    assert "one_of_many" not in exact.provenance
    count = DeviceRun._count
    for change in (lambda n: n // 8, lambda n: n + 3):
        with monkeypatch.context() as patched:
            patched.setattr(DeviceRun, "_count", lambda run, g, by=change: by(count(run, g)))
            with pytest.warns(PathsWarning, match=f"took other paths .*{why}"):
                trace = tracegen.trace(workload, context=context)
        assert_equal(trace, exact)
        assert why in trace.provenance["one_of_many"]


def test_paths_that_grow_with_each_run(context: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    record = DeviceRun._record

    def longer(run: DeviceRun, groups: Any, room: Any, *others: Any) -> Any:
        record(run, groups, room, *others)
        return 2 * room + 100

    monkeypatch.setattr(DeviceRun, "_record", longer)
    with pytest.raises(KernelError, match="longer paths each of the 8 times that it was run"):
        tracegen.trace(insert(1 << 10), context=context)


@pytest.mark.parametrize("memory_bytes", [1 << 13, 1 << 16])
@pytest.mark.parametrize("reduced", [True, False])
def test_long_work_items_are_recorded_in_pieces(
    context: Any, monkeypatch: pytest.MonkeyPatch, memory_bytes: int, reduced: bool
) -> None:
    exact = tracegen.trace(ragged(200), context=context, reduced=reduced)
    in_pieces = []
    pieces = DeviceRun._rows_in_pieces
    monkeypatch.setattr(
        DeviceRun, "_rows_in_pieces", lambda run, batch: in_pieces.append(1) or pieces(run, batch)
    )
    trace = tracegen.trace(ragged(200), context=context, reduced=reduced, memory_bytes=memory_bytes)
    assert in_pieces
    assert_equal(trace, exact)


def test_long_work_items_of_loopy(context: Any) -> None:
    indices = np.random.default_rng(0).integers(0, 4000, 4000)
    workload = loopy_kernels.gather(4000, indices)
    exact = tracegen.trace(workload, context=context, tracer="instrumented")
    small = tracegen.trace(workload, context=context, tracer="instrumented", memory_bytes=512)
    assert_equal(small, exact)


def test_other_paths_and_too_long(context: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    count = DeviceRun._count
    monkeypatch.setattr(DeviceRun, "_count", lambda run, g: count(run, g) + 1)
    match = r"took other paths when it was run again, and group 0 makes \d+ accesses, more than"
    with pytest.raises(KernelError, match=match):
        tracegen.trace(ragged(200), context=context, memory_bytes=1 << 13)


def test_shares() -> None:
    assert list(shares(np.array([5, 100, 1, 100]), 50)) == [5, 22, 1, 22]
    assert list(shares(np.array([5, 6]), 50)) == [5, 6]
    assert list(shares(np.array([9, 9, 9]), 3)) == [1, 1, 1]


def test_a_loop_that_does_not_end(context: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from tracegen.opencl_c import launch, probe_source

    monkeypatch.setattr(
        probe_source, "_STATE", probe_source._STATE.replace(str(launch.MOST_TURNS), "1000000")
    )
    workload = tracegen.OpenCLWorkload(
        source=SOURCE,
        kernel="endless",
        arguments=[np.zeros(128, np.float32)],
        global_size=128,
        local_size=64,
    )
    match = r"endless: its loops took more than \d+ turns: they may not end; work-item \d+ of group [01]"
    with pytest.raises(KernelError, match=match):
        tracegen.trace(workload, context=context)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_hundred_million_accesses_by_one_work_item(context: Any) -> None:
    """3.6 accesses a turn, of which most load `out[i]` again and are left out with reduced=True. The
    columns take 3 GB, on the disk."""
    import resource

    n = 28_000_000
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        trace = tracegen.trace(ragged(n, 0, 1), context=context, reduced=False)
    assert trace.n_access == 3 * n + 3 * n // 5
    # What is mapped of the files on the disk counts too.
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < 5 << 20  # KiB
