"""Every benchmark workload at a small size, run by Loopy on OpenCL and compared with numpy and
scipy."""

from __future__ import annotations

import functools
import inspect
import typing
from collections.abc import Callable
from typing import Any

import loopy as lp
import numpy as np
import pyopencl as cl
import pytest

from experiments.kernels import (
    black_scholes,
    fft,
    histogram,
    lattice_boltzmann,
    matmul,
    merge_sort,
    spmv,
    spmv_vectorised,
    stencil,
    stream,
    transpose,
)  # fmt: skip
from memsim.errors import KernelError
from tracegen.devices import choice as opencl
from tracegen.workloads.workload import Workload

# islpy's own deprecation, raised inside Loopy where a loop's last tile is not full.
pytestmark = pytest.mark.filterwarnings("ignore:Aff.is_equal with implicit:DeprecationWarning")


def title(case: tuple[Callable[..., Workload], dict[str, Any]]) -> str:
    builder, parameters = case
    name = f"{builder.__module__.rsplit('.', 1)[-1]}.{builder.__name__}"
    return name + "".join(f" {key}={value}" for key, value in parameters.items())


CASES: list[tuple[Callable[..., Workload], dict[str, Any]]] = [
    *((spmv.spmv, {"matrix": matrix, "n": 900}) for matrix in ("fem", "U")),
    (spmv.spmv, {"matrix": "fem-tri-p1", "n": 500, "block_size": 64, "dtype": "float64"}),
    (spmv.spmv_vector, {"matrix": "fem", "n": 300}),
    (spmv.spmv_vector, {"matrix": "U", "n": 130, "subgroup_size": 64, "dtype": "float64"}),
    (matmul.naive, {"n": 50, "tile": 8, "dtype": "float64"}),
    (matmul.tiled, {"n": 64}),
    (matmul.tiled, {"n": 50, "tile": 8, "dtype": "float64"}),
    (stencil.stencil7, {"nx": 33, "ny": 7, "nz": 5, "block_z": 2, "dtype": "float64"}),
    (transpose.naive, {"n": 50, "dtype": "float64"}),
    (transpose.tiled, {"n": 64}),
    (transpose.tiled, {"n": 50, "tile": 8, "dtype": "float64"}),
    (histogram.histogram, {"n": 5000, "bins": 13}),
    (histogram.histogram, {"n": 4096, "distribution": "zipf", "dtype": "float32"}),
    (stream.copy, {"n": 1000, "stride": 7, "dtype": "float64"}),
    (stream.triad, {"n": 1000, "stride": 3, "block_size": 64, "dtype": "float64"}),
    (fft.fft, {"n": 256, "batch": 3, "block_size": 32}),
    (fft.fft, {"n": 512, "batch": 2, "radix": "8", "block_size": 48}),
    (fft.fft, {"n": 64, "batch": 5, "radix": "2", "block_size": 16}),
    (black_scholes.black_scholes, {"n": 5000, "groups": 6}),
    (black_scholes.black_scholes, {"n": 1000, "groups": 0, "dtype": "float64"}),
    (
        lattice_boltzmann.d3q19,
        {"nx": 10, "ny": 6, "nz": 5, "block_x": 8, "block_y": 2, "layout": "aos"},
    ),
    (lattice_boltzmann.d3q19, {"nx": 8, "ny": 4, "nz": 3, "block_x": 8, "dtype": "float64"}),
]


BUILDERS = dict.fromkeys(builder for builder, _ in CASES)


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
def test_result_is_right_and_a_wrong_one_is_seen(
    case: tuple[Callable[..., Workload], dict[str, Any]],
) -> None:
    builder, parameters = case
    workload = builder(**parameters)
    assert workload.check is not None
    outputs = run(workload)
    workload.check(outputs)
    for output in outputs.values():
        computed = np.flatnonzero(output)  # the halo of a stencil is not
        output.flat[computed[len(computed) // 2]] += 1
    with pytest.raises(AssertionError):
        workload.check(outputs)


@pytest.mark.parametrize("builder", BUILDERS, ids=lambda b: f"{b.__module__[20:]}.{b.__name__}")
def test_parameters_have_defaults_and_plain_types(builder: Callable[..., Workload]) -> None:
    hints = typing.get_type_hints(builder)
    for name, parameter in inspect.signature(builder).parameters.items():
        assert parameter.default is not parameter.empty, name
        hint = hints[name]
        assert hint in (int, float, str, bool) or typing.get_origin(hint) is typing.Literal, name


@pytest.mark.weekly(3)
@pytest.mark.slow
@pytest.mark.parametrize("builder", BUILDERS, ids=lambda b: f"{b.__module__[20:]}.{b.__name__}")
def test_default_is_right(builder: Callable[..., Workload]) -> None:
    workload = builder()
    assert workload.check is not None
    workload.check(run(workload))


def generated(workload: Workload) -> str:
    return str(lp.generate_code_v2(workload.kernel).device_code())


def test_spmv_reads_like_the_published_listing() -> None:
    text = generated(spmv.spmv(matrix="b", n=256))
    for line in (
        "row_begin = row_start[128 * gid(0) + lid(0)];",
        "row_end = row_start[1 + 128 * gid(0) + lid(0)];",
        "for (int j = row_begin; j <= -1 + row_end; ++j)",
        "values[j] * x[indices[j]];",
    ):
        assert line in text


def test_padding_adds_one_element_to_each_row_of_the_tile() -> None:
    assert "a_tile[16 * 17]" in generated(transpose.tiled(n=64))
    assert "a_tile[16 * 16]" in generated(transpose.tiled(n=64, pad=False))


@pytest.mark.parametrize(
    ("build", "culprit"),
    [
        (functools.partial(spmv.spmv, n=900, block_size=0), "work-group"),
        (functools.partial(spmv.spmv, n=900, block_size=2048), "2048"),
        (functools.partial(spmv.spmv, n=900, dtype="int8"), "dtype"),
        (functools.partial(spmv.spmv, n=-1), "n must be"),
        (functools.partial(matmul.naive, n=0), "n must be at least 1"),
        (functools.partial(matmul.tiled, tile=33), "33x33"),
        (functools.partial(matmul.naive, n=50_000), "2147483647"),
        (functools.partial(stencil.stencil7, nx=0), "nx"),
        (functools.partial(histogram.histogram, bins=0), "bins"),
        (functools.partial(histogram.histogram, distribution="normal"), "normal"),
        (functools.partial(histogram.histogram, dtype="float32", n=2**25), "float32"),
        (functools.partial(stream.copy, stride=0), "stride"),
        (functools.partial(fft.fft, n=100), "power of the radix 4"),
        (functools.partial(fft.fft, radix="5"), "radix"),
        (functools.partial(fft.fft, block_size=2048), "2048"),
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
