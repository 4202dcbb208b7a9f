"""Recording: unchanged programs are timed, and PyOpenCL is restored afterwards."""

import contextlib
import threading

import numpy as np
import pytest

from calib.history import HistoryError, HistoryWarning, RecordingQueue, Store, hooks, record
from calib.history.key import layout_hash
from calib.history.recorder import WAITING, Recorder
from tests.support.histories import twice

cl = pytest.importorskip("pyopencl")

SOURCE = """
kernel void scale(global float *a, int n, float by)
{ int i = get_global_id(0); if (i < n) a[i] *= by; }
kernel void add(global float *a, global const float *b)
{ int i = get_global_id(0); a[i] += b[i]; }
"""


@pytest.fixture(scope="module")
def program(context):
    return cl.Program(context, SOURCE).build()


def buffer(context, n):
    return cl.Buffer(context, cl.mem_flags.READ_WRITE, 4 * n)


def scale(program, queue, a, n=1024, by=2, **options):
    arguments = (a, np.int32(n), np.float32(by))
    return cl.Kernel(program, "scale")(queue, (1024,), None, *arguments, **options)


def test_every_launch_is_timed_by_its_own_profile(context, program, store):
    a, events = buffer(context, 1024), []
    with record(store) as recorder:
        queue = cl.CommandQueue(context)
        for n in range(1, 16):
            events.append(scale(program, queue, a))
            if n < 4:
                recorder.flush()
                assert sum(r.seen for r in store.records()) == n, "a flush makes safe"
    counts = recorder.counts()
    assert (counts.launched, counts.stored) == (15, 15)
    (entry,) = store.records()
    want = [(e.profile.end - e.profile.start) * 1e-9 for e in events]
    assert sorted(store.samples(entry.key)) == pytest.approx(sorted(want), rel=1e-12)
    assert entry.size_bytes == 4096
    assert entry.key.driver == context.devices[0].driver_version
    assert context.devices[0].name in entry.key.device


def test_arguments_tell_layouts_apart(context, program, store):
    small, large = buffer(context, 1024), buffer(context, 2048)
    with record(store):
        queue = cl.CommandQueue(context)
        kernel = cl.Kernel(program, "scale")
        scale(program, queue, small)
        scale(program, queue, small, by=3)  # content: the same key
        scale(program, queue, small, n=512)  # a bound
        scale(program, queue, large)  # a size
        kernel(queue, (512,), None, small, np.int32(512), np.float32(2))  # a grid
        kernel(queue, (512,), (64,), small, np.int32(512), np.float32(2))  # a group
        cl.Kernel(program, "add")(queue, (1024,), None, small, large)
    seen = [(r.key.kernel.partition("-")[0], r.seen) for r in store.records()]
    assert sorted(seen) == [("add", 1), *[("scale", 1)] * 4, ("scale", 2)]
    assert 3 * 4096 in [r.size_bytes for r in store.records()], "of both buffers together"


def test_all_ways_to_launch_are_one_kind(context, program, store):
    a = buffer(context, 1024)
    with record(store):
        queue = cl.CommandQueue(context)
        kernel = cl.Kernel(program, "scale")
        kernel(queue, (1024,), None, a, np.int32(1024), np.float32(2))
        kernel.set_args(a, np.int32(1024), np.float32(2))
        cl.enqueue_nd_range_kernel(queue, kernel, (1024,), None)
        for index, value in enumerate((a, np.int32(1024), np.float32(2))):
            kernel.set_arg(index, value)
        cl.enqueue_nd_range_kernel(queue, kernel, (1024,), None)
        typed = cl.Kernel(program, "scale")
        typed.set_arg_types([None, np.int32, np.float32])
        typed(queue, [1024], None, a, 1024, 2.0)
    (entry,) = store.records()
    assert entry.seen == 4


def test_loopy_programs_are_recorded(context, store):
    executor = twice().kernel.executor(context)
    with record(store):
        queue = cl.CommandQueue(context)
        for n in (100, 100, 200):
            executor(queue, x=np.ones(n, np.float32))
    assert sorted(r.seen for r in store.records()) == [1, 2]
    assert all(r.key.kernel.startswith("twice-") for r in store.records())


def test_pyopencl_is_left_as_it_was(context, program, store):
    def replaced():
        """What a recording puts something else in the place of."""
        of_kernels = cl.Kernel.set_arg, cl.Kernel._set_arg_multi
        launches = cl.enqueue_nd_range_kernel, cl._cl.enqueue_nd_range_kernel
        return (*launches, cl.CommandQueue, *of_kernels)

    before = replaced()
    with contextlib.suppress(ZeroDivisionError), record(store), record(store):
        assert cl.CommandQueue is not before[2]
        assert isinstance(cl.CommandQueue(context), cl.CommandQueue)
        _ = 1 / 0
    assert all(a is b for a, b in zip(before, replaced(), strict=True))


def test_launches_without_profiling_and_those_that_wait_forever_are_said(context, program, store):
    recorder, gate = Recorder(store), cl.UserEvent(context)
    queue = cl.CommandQueue(context)
    recorder.start()
    scale(program, queue, buffer(context, 1024))
    queue.finish()
    event = scale(program, cl.CommandQueue(context), buffer(context, 1024), wait_for=[gate])
    recorder.flush(longest_s=0.05)
    assert recorder.counts().lost == 1
    gate.set_status(cl.command_execution_status.COMPLETE)
    event.wait()
    with pytest.warns(HistoryWarning) as warned:
        recorder.stop()
    said = " ".join(str(one.message) for one in warned)
    assert "1 launches were on queues without profiling" in said
    assert "1 were unfinished at the end" in said
    assert store.records() == []


def test_a_recording_queue_records_itself_alone(context, program, store):
    a = buffer(context, 1024)
    profile = cl.command_queue_properties.PROFILING_ENABLE
    other = cl.CommandQueue(context, properties=profile)
    with RecordingQueue(context, store=store, device_name=lambda q: "worker 0") as queue:
        assert isinstance(queue, cl.CommandQueue)
        for where in (queue, other, queue):
            scale(program, where, a)
        # It may be ended before its queue is left.
        assert queue.recorder.stop().stored == 2
        scale(program, queue, a)
    assert queue.recorder.counts().launched == 2
    (entry,) = store.records()
    assert (entry.seen, entry.key.device) == (2, "worker 0")


def test_what_is_laid_out_by_hand(context, program, store):
    matrix = np.zeros((32, 32), np.float32)
    a = buffer(context, 1024)
    with record(store, kernel_name=lambda k: k.function_name) as recorder:
        queue = cl.CommandQueue(context)
        with recorder.laid_out(matrix, terms={"rows": 32}):
            scale(program, queue, a)
    (entry,) = store.records()
    assert entry.key.layout == layout_hash([matrix])
    assert (entry.key.kernel, entry.size_bytes, entry.terms) == ("scale", 4096, {"rows": 32})


def test_threads_launch_at_once(context, program, store):
    with record(store) as recorder:

        def work():
            queue = cl.CommandQueue(context)
            a = buffer(context, 1024)
            for _ in range(50):
                scale(program, queue, a)
            queue.finish()

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sum(r.seen for r in store.records()) == recorder.counts().stored
    # `launched` is counted without a lock: it may miss, the samples may not.
    assert recorder.counts().stored + recorder.counts().failed == 200


def test_memory_is_bounded(context, program, store, monkeypatch):
    monkeypatch.setattr("calib.history.recorder.WAITING", 3)
    assert WAITING > 3
    recorder = Recorder(store)
    hooks.listen(recorder)  # no thread: nothing leaves the ring
    try:
        queue = cl.CommandQueue(context)
        for _ in range(5):
            scale(program, queue, buffer(context, 1024))
    finally:
        hooks.unlisten(recorder)
    recorder.flush()
    assert (recorder.counts().stored, recorder.counts().lost) == (3, 2)


def test_a_store_that_refuses_is_said_in_the_programs_thread(context, program, tmp_path):
    store = Store(tmp_path / "h.db")
    recorder = Recorder(store)
    recorder.start()
    queue = cl.CommandQueue(context)
    store.close()
    scale(program, queue, buffer(context, 1024))
    with pytest.raises(HistoryError, match="is closed"):
        recorder.stop()
    assert recorder.counts().lost == 1
