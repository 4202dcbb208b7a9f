"""Further benchmark workloads at small sizes, run on OpenCL and compared with numpy and scipy."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracegen
from experiments.kernels import (
    black_scholes,
    laplacian,
    lattice_boltzmann,
    matrices,
    merge_sort,
    spmv_vectorised,
)
from memsim.machine import load_machine
from tests.experiments.test_kernels import run, title
from tests.support.compilers import needs_nvidia
from tracegen import OpenCLWorkload
from tracegen.devices import choice as opencl
from tracegen.executed.launches import checked
from tracegen.executed.on_device import device_outputs
from tracegen.options import TraceOptions

OPENCL_C: list[tuple[Callable[..., OpenCLWorkload], dict[str, Any]]] = [
    (merge_sort.global_pass, {"n": 5000, "width": 1024, "per_item": 4, "block_size": 32}),
    (merge_sort.global_pass, {"n": 1000, "width": 1, "block_size": 16}),
    (merge_sort.global_pass, {"n": 1, "width": 4}),
    (merge_sort.local_pass, {"n": 5003, "width": 256, "tile": 512, "per_item": 8}),
    (merge_sort.local_pass, {"n": 100, "width": 1024, "tile": 64, "per_item": 1}),
    (merge_sort.sort_tiles, {"n": 5003, "tile": 256}),
    (spmv_vectorised.spmv_vectorised, {"matrix": "U", "n": 900}),
    (spmv_vectorised.spmv_vectorised, {"matrix": "B", "n": 901, "block_size": 32}),
    (spmv_vectorised.spmv_vectorised, {"matrix": "fem-tri-p1", "n": 700}),
    (laplacian.laplacian, {"n": 8}),
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
