"""Feature tables of real kernels, and the paper's example from end to end."""

from __future__ import annotations

import loopy as lp
import numpy as np
import pytest

import calib
from calib.counting.language import FeatureError
from calib.features.gather import evaluate, feature_arrays
from calib.timing.trials import feature_name
from memsim.errors import MemsimError
from tracegen import Workload

pytestmark = pytest.mark.filterwarnings("ignore::loopy.diagnostic.LoopyWarning")

COLLECTION = calib.KernelCollection(calib.ALL_GENERATORS)


def matmuls(*sizes: int) -> list:
    text = ",".join(map(str, sizes))
    tags = ["matmul_sq", "dtype:float32", "prefetch:True", "groups_fit:True", f"n:{text}"]
    return COLLECTION.generate_kernels(tags)


def test_counts_are_those_of_the_closed_form() -> None:
    kernels = matmuls(64, 128)
    table = calib.gather_feature_values(
        ["f_op_float32_madd", "f_mem_access_tag:mmPFa", "f_sync_barrier_local"], kernels
    )
    n = np.array([64, 128])
    assert table.outputs == pytest.approx(n**3 / 32)
    assert table.values["f_mem_access_tag:mmPFa"] == pytest.approx(n**3 / 16)
    assert table.values["f_sync_barrier_local"] == pytest.approx(2 * n / 16)
    assert table.kernels == tuple(kernel.name for kernel in kernels)


def test_a_tag_of_another_kernel_counts_0_and_an_unknown_one_is_refused() -> None:
    kernels = [*matmuls(64), *COLLECTION.generate_kernels(["axpy", "n:1024", "dtype:float32"])]
    features = ["f_sync_kernel_launch", "f_mem_access_tag:mmPFa"]
    table = calib.gather_feature_values(features, kernels)
    assert table.values["f_mem_access_tag:mmPFa"].tolist() == [64**3 / 16, 0, 0]
    with pytest.raises(FeatureError, match="mmPFa"):
        calib.gather_feature_values(["f_sync_kernel_launch", "f_mem_access_tag:mmPFq"], kernels)


def test_many_sizes_are_the_sizes_one_by_one() -> None:
    (kernel,) = matmuls(64)
    n = 16 * np.arange(1, 40, 6)
    names = ["f_op_float32_madd", "f_mem_access_global_float32_load"]
    together = feature_arrays(names, kernel.kernel, {"n": n})
    for row, size in enumerate(n):
        one = feature_arrays(names, kernel.kernel, {"n": int(size)})
        for name in names:
            assert together[name][row] == one[name]


def test_types_that_only_arguments_determine_are_those_of_the_arguments() -> None:
    kernel = lp.make_kernel("{[i]: 0 <= i < n}", "y[i] = 2 * x[i]", lang_version=(2018, 2))
    workload = Workload(kernel, {"x": np.ones(64, np.float32), "n": 64})
    name = "f_mem_access_global_float32_load"
    assert feature_arrays([name], workload, {"n": 64})[name] == 64
    assert evaluate(name, workload, {"n": 64}) == 64


def test_empty_requests_are_refused() -> None:
    with pytest.raises(MemsimError, match="no kernel"):
        calib.gather_feature_values(["f_thread_groups"], [])
    with pytest.raises(MemsimError, match="no feature"):
        calib.gather_feature_values([], matmuls(64))


def test_the_papers_example_from_end_to_end() -> None:
    """Stevens and Klöckner 2020, section 2.2, with timings of this device."""
    name = feature_name()
    model = calib.Model(name, "p_f32madd * f_op_float32_madd")
    context = calib.EvaluationContext(timing_trials=30, statistic="minimum")
    table = calib.gather_feature_values(
        model.all_features(), matmuls(64, 128, 192), context=context
    )
    parameters = calib.fit_model(model, calib.scale_features_by_output(table))
    (kernel,) = matmuls(128)
    predicted = model.eval_with_kernel(parameters, kernel.kernel, {"n": 128})
    assert predicted == pytest.approx(parameters["p_f32madd"] * 128**3 / 32, rel=1e-12)
    # The error of prediction equals the error that calibration reported.
    measured = table.outputs[1]
    assert predicted / measured - 1 == pytest.approx(parameters.errors[1], rel=1e-9)
    of_all = model.eval_with_kernel(parameters, kernel.kernel, {"n": np.array([64, 128, 192])})
    # One parameter for three sizes of one kernel: within a factor of two of each, busy or not.
    assert np.all(np.abs(np.log2(table.outputs / of_all)) < 1.5)
