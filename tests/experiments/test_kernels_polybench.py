"""The kernels of PolyBench and Rodinia, and three on random data, compared with numpy and scipy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.linalg

from experiments.kernels import graphs
from experiments.kernels.polybench import factorisations, moments, products, vectors
from experiments.kernels.polybench.building import near
from experiments.kernels.rodinia import elimination, paths
from memsim.errors import KernelError
from memsim.machine import load_machine
from tests.support.compilers import needs_nvidia
from tests.support.instrumented_runs import run_traced
from tracegen.devices import choice as opencl
from tracegen.executed.launches import checked
from tracegen.instrumented.host import prepare
from tracegen.instrumented.launch import LoopyLaunch
from tracegen.instrumented.run import DeviceRun
from tracegen.options import TraceOptions

CASES: list[tuple[Callable[..., Any], dict[str, Any], int]] = [
    (products.two_mm, {"ni": 20, "nj": 37, "nk": 17, "nl": 40}, 2, "d"),
    (products.gemm, {"ni": 20, "nj": 37, "nk": 17}, 1, "c"),
    (products.syrk, {"n": 33, "m": 20}, 1, "c"),
    (products.doitgen, {"nr": 3, "nq": 9, "np_": 35}, 6, "a"),
    (vectors.atax, {"nx": 300, "ny": 70}, 2, "y"),
    (vectors.bicg, {"nx": 300, "ny": 70}, 2, "q"),
    (vectors.gesummv, {"n": 270}, 1, "y"),
    (vectors.mvt, {"n": 270}, 2, "x2"),
    (moments.covariance, {"m": 30, "n": 40}, 3, "c"),
    (moments.correlation, {"m": 30, "n": 40}, 5, "c"),
    (factorisations.lu, {"n": 40}, 78, "a"),
    (factorisations.gramschmidt, {"n": 35}, 105, "q"),
    (elimination.gaussian, {"n": 40}, 78, "a"),
    (elimination.lud, {"n": 64}, 12, "a"),
    (paths.nw, {"n": 64}, 7, "score"),
    (paths.pathfinder, {"rows": 9, "cols": 150, "height": 3}, 3, "cost"),
]


def run(workload: Any) -> tuple[int, dict[str, Any]]:
    """The number of launches and the outputs."""
    prepared = prepare(workload, opencl.choose())
    launches = []

    def observer(launch: LoopyLaunch) -> None:
        launches.append(launch.name)
        DeviceRun(prepared, launch, TraceOptions()).whole()

    outputs = prepared.run(observer)
    return len(launches), outputs


@pytest.mark.parametrize(("make", "settings", "launches", "name"), CASES)
def test_results_are_those_of_numpy(
    make: Callable[..., Any], settings: dict[str, Any], launches: int, name: str
) -> None:
    workload = make(**settings)
    n, outputs = run(workload)
    assert n == launches
    workload.check(outputs)
    # The check can fail: the result off by 1.
    wrong = dict(outputs)
    wrong[name] = outputs[name] + np.asarray(1, outputs[name].dtype)
    with pytest.raises(AssertionError):
        workload.check(wrong)


def test_factors_are_those_of_scipy() -> None:
    workload = factorisations.lu(48, dtype="float64")
    _, outputs = run(workload)
    a = workload.arguments["a"]
    permutation, lower, upper = scipy.linalg.lu(a)
    assert np.array_equal(permutation, np.eye(48))  # dominant: no pivots
    near("l", np.tril(outputs["a"], -1) + np.eye(48), lower, np.abs(lower) + 1, 48, "float64")
    near("u", np.triu(outputs["a"]), upper, np.abs(upper) + 48, 48, "float64")


def test_graphs() -> None:
    for workload in (
        graphs.spmv(n=300, degrees="power"),
        graphs.bfs_level(n=300, degrees="geometric", level=1),
    ):
        assert workload.check is not None
        workload.check(run_traced(workload)[1])


@needs_nvidia
def test_merged_runs() -> None:
    """In OpenCL C, whose machine code is run."""
    checked(graphs.merge_pass(n=3000), load_machine("a100"), TraceOptions())


def test_degrees_have_the_specified_mean() -> None:
    for degrees in ("poisson", "geometric"):
        drawn = np.diff(graphs.random_graph(20_000, 6, degrees).indptr)
        error = drawn.std() / np.sqrt(len(drawn))
        assert abs(drawn.mean() - 6) < 5 * error
        assert drawn.std() > 0


@pytest.mark.parametrize(
    ("make", "settings", "words"),
    [
        (elimination.lud, {"n": 40}, "n must be a multiple of 16, got 40"),
        (paths.nw, {"n": 17}, "n must be a multiple of 16"),
        (paths.pathfinder, {"height": 128}, "height must be below 128"),
        (moments.correlation, {"m": 1}, "m must be at least 2"),
        (factorisations.lu, {"n": 1}, "n must be at least 2"),
        (products.gemm, {"nk": 0}, "nk must be at least 1"),
        (graphs.bfs_level, {"level": -1}, "level must not be negative"),
        (graphs.random_graph, {"n": 10, "degree": 2, "degrees": "even"}, "degrees must be one of"),
    ],
)
def test_bad_sizes_are_named(make: Callable[..., Any], settings: Any, words: str) -> None:
    with pytest.raises(KernelError, match=words):
        make(**settings)
