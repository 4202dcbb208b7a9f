"""Times of workloads from a history: their keys, recent wall times, and priors from other models."""

import dataclasses
from functools import partial

import numpy as np
import pytest

from calib.history import HistoryError, hooks, record
from calib.history.workloads import ask_workload, launch_of, wall_time
from calib.timing.trials import device_title, time_kernel
from memsim.errors import KernelError
from memsim.machine.file import load_machine
from tests.support.histories import twice
from tests.support.loopy_kernels import two_launches
from tracegen.workloads.workload import Workload

cl = pytest.importorskip("pyopencl")
lp = pytest.importorskip("loopy")


def saved_model(device, time_s=1e-5, scatter=0.05):
    """A model of one parameter, fitted to times that scatter about proportionality to the loads."""
    from calib.counting.kernel_arguments import sizes_of
    from calib.features.gather import feature_arrays
    from calib.features.table import FeatureTable, scale_features_by_output
    from calib.fitting.fit import fit_model
    from calib.fitting.performance_model import Model
    from calib.fitting.saved_model import SavedModel

    feature = "f_mem_access_global_float32_load"
    workload = twice()
    count = float(feature_arrays([feature], workload, sizes_of(workload))[feature])
    counts = count * 2.0 ** np.arange(-4, 4)
    noise = 1 + scatter * np.array([1, -1, 1, -1, 1, -1, 1, -1])
    model = Model("f_cl_wall_time", f"p_load * {feature}")
    table = FeatureTable(
        output=model.output,
        kernels=tuple(map(str, range(8))),
        values={model.output: time_s * counts / count * noise, feature: counts},
    )
    scaled = scale_features_by_output(table)
    return SavedModel(fit=fit_model(model, scaled), table=table, name="one-load", device=device)


def test_the_key_is_the_one_that_a_recording_gives(context, store):
    for n in (4096, 8192):
        workload = twice(n)
        launch = launch_of(workload, context)
        assert store.get(launch.key) is None
        with record(store):
            time_kernel(workload.kernel, workload.arguments, trials=5, context=context)
        known = store.get(launch.key)
        assert known.seen == 5 + 3  # with the warm-up
        assert known.size_bytes == launch.size_bytes == 2 * 4 * n
    assert len(store.records()) == 2


def test_launches_of_a_dry_run_are_neither_executed_nor_recorded(context, store):
    source = "kernel void one(global float *a) { a[0] = 1; }"
    kernel = cl.Kernel(cl.Program(context, source).build(), "one")
    before = cl._cl.enqueue_nd_range_kernel
    host = np.zeros(1, np.float32)
    with record(store) as recorder:
        queue = cl.CommandQueue(context)
        a = cl.Buffer(context, cl.mem_flags.COPY_HOST_PTR, hostbuf=host)
        with hooks.dry_run() as noted:
            kernel(queue, (1,), None, a).wait()
        cl.enqueue_copy(queue, host, a)
        assert host[0] == 0.0
        kernel(queue, (1,), None, a)
        cl.enqueue_copy(queue, host, a)
        assert host[0] == 1.0
    assert len(noted) == 1
    assert recorder.counts().launched == 1
    assert cl._cl.enqueue_nd_range_kernel is before


def test_what_has_no_key_says_so_and_is_timed_each_time(context, store):
    workload = two_launches(64)
    with pytest.raises(HistoryError, match="has 2 launches"):
        launch_of(workload, context)
    assert wall_time(store, workload, context=context, trials=3) > 0
    with pytest.raises(KernelError, match=r"kernel twice: .*missing required array"):
        launch_of(Workload(twice().kernel, {}), context)
    with pytest.raises(KernelError, match="only a Loopy kernel"):
        launch_of(Workload("kernel void k() {}", {}), context)


def test_an_unseen_workload_is_answered_by_the_calibrated_model(context, store):
    model = saved_model(device_title(context))
    found = ask_workload(store, twice(), context=context, model=model)
    assert found.kind == "calibrated model one-load"
    assert found.n_samples == 0
    assert found.time_s == pytest.approx(1e-5, rel=0.1)
    # The model's own interval, the 5 % that its measurements scatter by.
    assert 1.05 < found.high_s / found.time_s < 1.25


def test_a_model_of_another_device_is_passed_over(context, store):
    other = saved_model("NVIDIA CUDA: Tesla V100")
    with pytest.raises(HistoryError, match="nothing is known"):
        ask_workload(store, twice(), context=context, model=other)
    machine = load_machine("v100")
    found = ask_workload(store, twice(), context=context, model=other, machine=machine)
    assert found.kind == "uncalibrated model of v100"
    assert not found.calibrated
    # The assumed deviation, a factor of two: 95 % is 2^1.96.
    assert found.high_s / found.time_s == pytest.approx(2**1.959964, rel=1e-5)
    from calib.prediction.prediction import predict
    from tracegen import trace_snapshots

    traces = trace_snapshots(twice(), machine, snapshots=1)
    assert found.time_s == pytest.approx(predict(traces, machine).timing.estimate.mean)


def test_sizes_on_either_side_go_before_an_uncalibrated_model(context, store, monkeypatch):
    """Recorded at 4096 and 16384 work-items, asked at 8192: nothing is traced for it."""
    for n, time_s in ((4096, 1e-5), (16384, 4e-5)):
        launch = launch_of(twice(n), context)
        for _ in range(3):
            store.add(launch.key, time_s, size_bytes=launch.size_bytes)
    monkeypatch.setattr("calib.prediction.prediction.predict", None)
    found = ask_workload(store, twice(8192), context=context, machine=load_machine("v100"))
    assert (found.kind, found.calibrated) == ("neighbours in size", False)
    assert found.time_s == pytest.approx(2e-5, rel=1e-9)
    assert found.low_s < 2e-5 < found.high_s
    with pytest.raises(TypeError):  # 1024 is beyond the recorded sizes: it would be traced
        ask_workload(store, twice(1024), context=context, machine=load_machine("v100"))


def test_the_wall_time_feature_comes_from_the_store(context, store, monkeypatch):
    from calib.features import EvaluationContext, evaluate

    on = EvaluationContext(cl_context=context, timer=partial(wall_time, store), timing_trials=12)
    measured = evaluate("f_cl_wall_time", twice(), {}, context=on)
    key = launch_of(twice(), context).key
    assert store.get(key).seen == 12 + 3
    assert measured > 0
    store.prune(keys=[key])
    for _ in range(10):
        store.add(key, 3e-5)
    monkeypatch.setattr("calib.timing.trials.time_kernel", None)
    assert evaluate("f_cl_wall_time", twice(), {}, context=on) == pytest.approx(3e-5)
    stale = dataclasses.replace(on, timer=partial(wall_time, store, max_age_s=-1.0))
    with pytest.raises(TypeError):  # it would be timed
        evaluate("f_cl_wall_time", twice(), {}, context=stale)
