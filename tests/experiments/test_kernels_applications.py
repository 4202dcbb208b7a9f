"""Further benchmark workloads at small sizes, run on OpenCL and compared with numpy and scipy."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import typing
from collections.abc import Callable
from typing import Any

import loopy as lp
import numpy as np
import pyopencl as cl
import pytest

import tracegen
from experiments.kernels import (
    black_scholes,
    fft,
    laplacian,
    lattice_boltzmann,
    matrices,
    merge_sort,
    spmv_vectorised,
)
from memsim.errors import KernelError
from memsim.machine import load_machine
from tests.support.compilers import needs_nvidia
from tracegen import OpenCLWorkload
from tracegen.devices import choice as opencl
from tracegen.executed.launches import checked
from tracegen.executed.on_device import device_outputs
from tracegen.options import TraceOptions
from tracegen.workloads.workload import Workload

Case = tuple[Callable[..., Workload], dict[str, Any]]

CASES: list[Case] = [
    (fft.fft, {"n": 256, "batch": 3, "block_size": 32}),
    (fft.fft, {"n": 512, "batch": 2, "radix": "8", "block_size": 48}),
    (fft.fft, {"n": 64, "batch": 5, "radix": "2", "block_size": 16}),
    (fft.fft, {"n": 16, "batch": 2, "radix": "16", "block_size": 1}),
    (black_scholes.black_scholes, {"n": 5000, "groups": 6}),
    (black_scholes.black_scholes, {"n": 1000, "groups": 0, "dtype": "float64"}),
    (lattice_boltzmann.d3q19, {"nx": 16, "ny": 8, "nz": 4, "block_x": 16}),
    (
        lattice_boltzmann.d3q19,
        {"nx": 10, "ny": 6, "nz": 5, "block_x": 8, "block_y": 2, "layout": "aos"},
    ),
    (lattice_boltzmann.d3q19, {"nx": 8, "ny": 4, "nz": 3, "block_x": 8, "dtype": "float64"}),
]


def title(case: Case) -> str:
    return case[0].__name__ + "".join(f" {key}={value}" for key, value in case[1].items())


def run(workload: Workload) -> dict[str, Any]:
    """The outputs of the workload without instrumentation; its arguments are unchanged."""
    context = opencl.choose()
    kernel = lp.set_options(workload.kernel, return_dict=True)
    arguments = {
        name: value.copy() if isinstance(value, np.ndarray) else value
        for name, value in workload.arguments.items()
    }
    _, outputs = kernel.executor(context)(cl.CommandQueue(context), **arguments)
    return dict(outputs)


@pytest.mark.parametrize("case", CASES, ids=title)
def test_result_is_right_and_a_wrong_one_is_seen(case: Case) -> None:
    builder, parameters = case
    workload = builder(**parameters)
    assert workload.check is not None
    outputs = run(workload)
    workload.check(outputs)
    passes = {"2": 6, "4": 4, "8": 3, "16": 1}[parameters.get("radix", "4")]
    name = {"fft": "xy"[passes % 2], "black_scholes": "put"}.get(builder.__name__)
    wrong = outputs[name] if name is not None else next(iter(outputs.values()))
    wrong[tuple(extent // 2 for extent in wrong.shape)] += 1
    with pytest.raises(AssertionError):
        workload.check(outputs)


OPENCL_C: list[tuple[Callable[..., OpenCLWorkload], dict[str, Any]]] = [
    (merge_sort.global_pass, {"n": 4096, "width": 64}),
    (merge_sort.global_pass, {"n": 5000, "width": 1024, "per_item": 4, "block_size": 32}),
    (merge_sort.global_pass, {"n": 1000, "width": 1, "block_size": 16}),
    (merge_sort.global_pass, {"n": 1, "width": 4}),
    (merge_sort.local_pass, {"n": 4096, "width": 512, "tile": 256}),
    (merge_sort.local_pass, {"n": 5003, "width": 256, "tile": 512, "per_item": 8}),
    (merge_sort.local_pass, {"n": 100, "width": 1024, "tile": 64, "per_item": 1}),
    (merge_sort.sort_tiles, {"n": 5003, "tile": 256}),
    *((spmv_vectorised.spmv_vectorised, {"matrix": m, "n": 900}) for m in ("fem", "u", "b", "U")),
    (spmv_vectorised.spmv_vectorised, {"matrix": "B", "n": 901, "block_size": 32}),
    (spmv_vectorised.spmv_vectorised, {"matrix": "fem-tri-p1", "n": 700}),
    (laplacian.laplacian, {"n": 16}),
    (laplacian.laplacian, {"kernel": 2, "n": 16, "rows": 4, "block_x": 8}),
    (laplacian.laplacian, {"kernel": 3, "n": 16, "rows": 2, "block_x": 8, "block_z": 4, "nz": 8}),
    (laplacian.laplacian, {"kernel": 6, "n": 16, "rows": 4, "block_x": 8}),
    (laplacian.laplacian, {"kernel": 7, "n": 32, "rows": 4, "block_x": 16}),
]


def run_plain(workload: OpenCLWorkload) -> dict[str, Any]:
    """The outputs of the kernel on an OpenCL device; its arguments are unchanged."""
    return device_outputs(workload, opencl.choose())


@needs_nvidia
@pytest.mark.weekly(2)
@pytest.mark.parametrize("case", OPENCL_C, ids=title)
def test_opencl_c_result_is_right_on_a_device_and_as_machine_code(case: Any) -> None:
    builder, parameters = case
    workload = builder(**parameters)
    assert workload.check is not None
    outputs = run_plain(workload)
    workload.check(outputs)
    by_check = checked(workload, load_machine("a100"), TraceOptions())
    assert by_check == "the workload's own check"
    names = {spmv_vectorised.spmv_vectorised: "y", laplacian.laplacian: "f"}
    name = names.get(builder, "target")
    outputs[name][tuple(extent * 3 // 8 for extent in outputs[name].shape)] += 1e6
    with pytest.raises(AssertionError):
        workload.check(outputs)


@pytest.mark.parametrize(
    "one_pass",
    [merge_sort.global_pass, functools.partial(merge_sort.local_pass, tile=128)],
    ids=["global", "local"],
)
def test_passes_one_after_another_sort(one_pass: Callable[..., OpenCLWorkload]) -> None:
    """Sorted tiles and then all passes, each on the output of the one before, give numpy's sort."""
    n, tile = 3000, 64
    first = merge_sort.sort_tiles(n, tile)
    keys = dict(first.arguments)["source"]
    sorted_so_far = run_plain(first)["target"]
    width = tile
    while width < n:
        workload = one_pass(n, width)
        given = {**dict(workload.arguments), "source": sorted_so_far}
        sorted_so_far = run_plain(dataclasses.replace(workload, arguments=given))["target"]
        width *= 2
    np.testing.assert_array_equal(sorted_so_far, np.sort(keys))


@needs_nvidia
def test_vectors_are_loaded_from_multiples_of_16_bytes() -> None:
    """Rows with any alignment: every entry is read once, by a vector load, the prologue or the
    epilogue."""
    workload = spmv_vectorised.spmv_vectorised("u", 500)
    row_start = workload.arguments["row_start"]
    lb, ub = row_start[:-1], row_start[1:]
    new_lb = np.minimum(-(-lb // 4) * 4, ub)
    new_ub = np.maximum(ub // 4 * 4, new_lb)
    trace = tracegen.trace(workload, "a100")
    lanes = dict(zip(trace.site_names, np.bincount(trace.site, trace.lanes), strict=False))
    single = {name: count for name, count in lanes.items() if "values[j]" in name}
    vector = [count for name, count in lanes.items() if "values" in name and name not in single]
    assert sorted(single.values()) == sorted(
        [float((new_lb - lb).sum()), float((ub - new_ub).sum())]
    )
    assert vector == [float((new_ub - new_lb).sum() / 4)]


@pytest.mark.parametrize("builder", dict.fromkeys(case[0] for case in CASES))
def test_parameters_have_defaults_and_plain_types(builder: Callable[..., Workload]) -> None:
    hints = typing.get_type_hints(builder)
    for name, parameter in inspect.signature(builder).parameters.items():
        assert parameter.default is not parameter.empty, name
        hint = hints[name]
        assert hint in (int, float, str) or typing.get_origin(hint) is typing.Literal, name


@pytest.mark.weekly(3)
@pytest.mark.slow
@pytest.mark.parametrize("builder", dict.fromkeys(case[0] for case in CASES))
def test_default_is_right(builder: Callable[..., Workload]) -> None:
    workload = builder()
    assert workload.check is not None
    workload.check(run(workload))


def test_the_lattice_has_its_velocities() -> None:
    """The weights of D3Q19 are isotropic to fourth order: sum w c c = 1/3, and so on."""
    c = np.array(lattice_boltzmann.VELOCITIES, np.float64)
    w = np.array(lattice_boltzmann.WEIGHTS)
    assert len(set(lattice_boltzmann.VELOCITIES)) == 19
    assert w.sum() == pytest.approx(1)
    np.testing.assert_allclose(w @ c, 0, atol=1e-15)
    np.testing.assert_allclose(np.einsum("q,qa,qb", w, c, c), np.eye(3) / 3, atol=1e-15)
    delta = np.eye(3)
    fourth = sum(np.einsum(f"{pairs}->abcd", delta, delta) for pairs in ("ab,cd", "ac,bd", "ad,bc"))
    np.testing.assert_allclose(np.einsum("q,qa,qb,qc,qd", w, c, c, c, c), fourth / 9, atol=1e-15)


def test_a_lattice_step_keeps_mass_and_momentum() -> None:
    workload = lattice_boltzmann.d3q19(nx=8, ny=4, nz=4, block_x=8, dtype="float64")
    before, after = workload.arguments["f"], run(workload)["f_next"]
    velocity = np.array(lattice_boltzmann.VELOCITIES, np.float64)
    assert after.sum() == pytest.approx(before.sum(), rel=1e-13)
    momenta = [np.einsum("qd,qzyx->d", velocity, f) for f in (before, after)]
    np.testing.assert_allclose(*momenta, atol=1e-12)


def test_options_keep_parity() -> None:
    """call - put = price - strike exp(-rate years), whatever the volatility."""
    workload = black_scholes.black_scholes(n=1000, dtype="float64", rate=0.1, volatility=0.7)
    outputs = run(workload)
    given = workload.arguments
    forward = given["price"] - given["strike"] * np.exp(-0.1 * given["years"])
    np.testing.assert_allclose(outputs["call"] - outputs["put"], forward, atol=1e-12)


def test_rmat_graph() -> None:
    """The quadrants have their probabilities, few rows are very long, and the matrix is
    reproducible."""
    graph = matrices.csr("graph", 3000)
    assert graph.shape == (4096, 4096)
    assert graph.has_canonical_format
    assert graph.indices.dtype == graph.indptr.dtype == np.int32
    assert (matrices.csr("graph", 3000) != graph).nnz == 0
    lengths = np.diff(graph.indptr)
    assert 8 < lengths.mean() < 16
    assert lengths.max() > 20 * lengths.mean()
    # A row of k one-bits is drawn with probability 0.76^(12 - k) 0.24^k: rows of 12 zeros get
    # 0.76^12 of all draws, most of which are drawn anew; the longest row cannot have more.
    assert lengths.max() <= 16 * 4096 * 0.76**12 + 5 * (16 * 4096 * 0.76**12) ** 0.5


@pytest.mark.parametrize(
    ("build", "culprit"),
    [
        (functools.partial(fft.fft, n=100), "power of the radix 4"),
        (functools.partial(fft.fft, n=2), "power of the radix 4"),
        (functools.partial(fft.fft, radix="5"), "radix"),
        (functools.partial(fft.fft, block_size=2048), "2048"),
        (functools.partial(black_scholes.black_scholes, n=0), "n must"),
        (functools.partial(black_scholes.black_scholes, dtype="half"), "half"),
        (functools.partial(lattice_boltzmann.d3q19, nz=0), "nz"),
        (functools.partial(lattice_boltzmann.d3q19, layout="soaos"), "soaos"),
        (functools.partial(merge_sort.global_pass, width=48), "width"),
        (functools.partial(merge_sort.local_pass, width=64, tile=256), "tile"),
        (functools.partial(merge_sort.sort_tiles, tile=4, per_item=4), "tile"),
        (functools.partial(spmv_vectorised.spmv_vectorised, block_size=0), "work-group"),
    ],
)
def test_wrong_parameter_is_named(build: Callable[[], Workload], culprit: str) -> None:
    with pytest.raises(KernelError, match=culprit) as caught:
        build()
    assert "\n" not in str(caught.value)
