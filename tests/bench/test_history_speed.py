"""The cost of recording launches in a history, of writing samples and of a prediction.

Run with `pytest -m bench`.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from calib.history import Key, Sample, Store, answer
from calib.history import hooks as launches
from calib.history.recorder import Recorder
from tracegen.devices import choice as opencl

pytestmark = pytest.mark.bench

cl = pytest.importorskip("pyopencl")

ROUNDS = 30
LAUNCHES = 1000
LIMIT_US = 5.0

SOURCE = """
kernel void one(global float *a, int n) { if (n < 0) a[0] = 0; }
kernel void six(global float *a, global float *b, global float *c, int n, int m, float x)
{ if (n < 0) a[0] = b[0] = c[0] = x; }
"""


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "h.db")


def _us(
    work: Callable[[], object], n: int, clock: Callable[[], float] = time.perf_counter
) -> float:
    start = clock()
    for _ in range(n):
        work()
    return (clock() - start) / n * 1e6


@pytest.mark.parametrize("name", ["one", "six"])
def test_a_launch_costs_less_than_five_microseconds_more(store: Store, name: str) -> None:
    """The hooks alone, around an enqueue that does nothing but return an event.

    A launch itself takes PoCL some 15 us and varies by more than the hooks cost, so they are timed
    without it: the same call, through pyopencl's own invoker, with the last step replaced. The hooks
    never wait, so their cost is this thread's time on a core, which other programs do not lengthen.
    """
    context = opencl.choose()
    profile = cl.command_queue_properties.PROFILING_ENABLE
    queue = cl.CommandQueue(context, properties=profile)
    a = cl.Buffer(context, cl.mem_flags.READ_WRITE, 4096)
    kernel = cl.Kernel(cl.Program(context, SOURCE).build(), name)
    arguments: tuple[Any, ...] = (a, np.int32(1))
    if name == "six":
        arguments = (a, a, a, np.int32(1), np.int32(2), np.float32(3))
        kernel.set_arg_types([None, None, None, np.int32, np.int32, np.float32])
    event = kernel(queue, (1,), None, *arguments)
    event.wait()

    def launch() -> None:
        kernel(queue, (1,), None, *arguments)

    real = cl._cl.enqueue_nd_range_kernel
    cl._cl.enqueue_nd_range_kernel = lambda *_: event
    plain, hooked, query = [], [], []
    try:
        for _ in range(ROUNDS):
            plain.append(_us(launch, LAUNCHES, time.thread_time))
            recorder = Recorder(store)
            launches.listen(recorder)
            try:
                launch()
                hooked.append(_us(launch, LAUNCHES, time.thread_time))
            finally:
                launches.unlisten(recorder)
            query.append(_us(recorder.flush, 1, time.thread_time) / LAUNCHES)
    finally:
        cl._cl.enqueue_nd_range_kernel = real
    extra = [h - p for h, p in zip(hooked, plain, strict=True)]

    def finished() -> None:
        for _ in range(LAUNCHES):
            launch()
        queue.finish()

    whole, recorded = [], []
    for _ in range(9):  # alternately, so that other programs disturb both alike
        whole.append(_us(finished, 1) / LAUNCHES)
        recorder = Recorder(store)
        recorder.start()
        recorded.append(_us(finished, 1) / LAUNCHES)
        recorder.stop()
    longer = statistics.median(r - w for w, r in zip(whole, recorded, strict=True))
    print(
        f"\n{name}: {statistics.median(extra):.2f} us a launch more (quartiles"
        f" {np.quantile(extra, 0.25):.2f} to {np.quantile(extra, 0.75):.2f}); event query and write"
        f" {statistics.median(query):.1f} us, in the background; a whole launch is {statistics.median(whole):.0f} us,"
        f" recorded {longer:.1f} us more by the wall clock, the background's share in it"
    )
    assert statistics.median(extra) < LIMIT_US


def test_store_and_questions(store: Store) -> None:
    key = Key(kernel="k", device="d", layout=1)
    one = [_us(lambda: store.add(key, 1e-6, size_bytes=64), 20) for _ in range(10)]
    many = [Sample(key=key, time_s=1e-6, size_bytes=64)] * 1000
    batch = [_us(lambda: store.add_many(many), 1) / 1000 for _ in range(5)]
    for layout in range(2, 30):
        for _ in range(12):
            store.add(
                Key(kernel="k", device="d", layout=layout), 1e-6 * layout, size_bytes=64 * layout
            )
    known = [_us(lambda: answer(store, key), 20) for _ in range(5)]
    unseen = Key(kernel="k", device="d", layout=99)
    fitted = [_us(lambda: answer(store, unseen, size_bytes=777), 1) for _ in range(5)]
    print(
        f"\none sample on the disk: {statistics.median(one):.0f} us; of a batch of 1000:"
        f" {statistics.median(batch):.0f} us each; a known key answered in {statistics.median(known):.0f}"
        f" us, an unseen one of 29 layouts by regression in {statistics.median(fitted) / 1000:.0f} ms"
    )
    assert statistics.median(batch) < statistics.median(one)
