"""Kernels of experiments in CUDA C++ and HIP: what each computes, by its own check, and which settings are refused."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import calib
from experiments.data_files import rows
from experiments.hardware.applications import MACHINE
from experiments.hardware.applications import TABLE as APPLICATIONS
from experiments.hardware.applications import workload as of_application
from experiments.hardware.textbook import TABLE as TEXTBOOK
from experiments.hardware.textbook import workload as of_textbook
from experiments.kernels import (
    applications,
    copies,
    matmul_steps,
    tensor_steps,
    warp_group_steps,
)
from experiments.kernels.common_kernels import KERNELS
from experiments.kernels.convolution import convolution
from experiments.kernels.dedispersion import dedispersion
from experiments.kernels.derivatives import derivatives
from experiments.kernels.marching import march_xyz, march_z
from experiments.kernels.n_body import n_body
from experiments.kernels.star import star, star25_points
from experiments.kernels.textbook import moved, summed
from memsim.errors import KernelError
from memsim.machine import load_machine
from tests.support.compilers import needs_amd, needs_nvidia
from tests.support.cuda_kernels import is_right_and_a_wrong_one_is_seen, needs_both, needs_clang
from tracegen import CudaWorkload, trace
from tracegen.executed.launches import checked
from tracegen.machine_code.binding import bind
from tracegen.options import TraceOptions

STEPS = matmul_steps.product
TENSOR_STEPS = tensor_steps.product
SMALL = {
    "vadd4": {"n": 2048},
    "vadd1": {"n": 512},
    "saxpy_loop": {"n": 1000, "groups": 2},
    "copy_stride8": {"n": 256},
    "transpose_naive": {"n": 64},
    "transpose_tiled": {"n": 64},
    "reduce_tree": {"n": 512},
    "reduce_shuffle": {"n": 1000, "groups": 2},
    "softmax_row": {"rows": 3, "columns": 500},
    "layernorm_warp": {"rows": 8, "columns": 64},
    "dot_atomic": {"n": 512},
    "hist_shared": {"n": 1000, "groups": 2},
    "spmv_scalar": {"rows": 512},
    "spmv_warp": {"rows": 64},
    "gather_small": {"n": 512, "table_size": 1000},
    "gather_large": {"n": 512, "table_size": 5000},
    "scatter_add": {"n": 512, "n_bins": 100},
    "jacobi7": {"nx": 64, "ny": 16, "nz": 4},
    "stencil9_tile": {"nx": 64, "ny": 16},
    "scan_block": {"n": 1024},
    "bmm8": {"batch": 8},
    "gemv_warp": {"rows": 16, "columns": 100},
    "rgb_to_grey": {"n": 32},
    "rgba_to_grey": {"n": 32},
    "mandelbrot": {"n": 32, "limit": 50},
    "options_double": {"n": 256},
    "bitonic_step": {"n": 1024, "distance": 64, "run": 256},
    "conv1d": {"n": 512},
    "lbm_d2q9": {"nx": 256, "ny": 4},
    "embedding": {"tokens": 10, "rows": 20},
    "particles_aos": {"n": 256},
}
DERIVATIVES = {"n": 16, "nz": 9}
MARCHED = {"nz": 5, "window": 2, "filled": True}
WEEKLY = {convolution: 2, TENSOR_STEPS: 4, STEPS: 3, derivatives: 2} | dict.fromkeys(
    KERNELS.values(), 3
)
AMD = (derivatives, march_z, march_xyz)
MACHINES = {TENSOR_STEPS: "h100"} | dict.fromkeys(AMD, "mi250x")
CASES: list[tuple[Callable[..., CudaWorkload], dict[str, Any]]] = [
    *((KERNELS[name], SMALL[name]) for name in KERNELS),
    (convolution, {"image_size": 64}),
    (
        convolution,
        {"block_size_x": 16, "tile_size_x": 2, "tile_size_y": 3, "read_only": 1, "use_padding": 1}
        | {"image_size": 70},
    ),
    (convolution, {"filter_size": 3, "image_size": 33}),
    (dedispersion, {"block_size_x": 8, "tile_size_x": 3, "samples": 100}),
    (
        dedispersion,
        {"block_size_y": 8, "tile_size_x": 2, "tile_size_y": 3, "tile_stride_x": 1, "measures": 50},
    ),
    (dedispersion, {"block_size_x": 1, "tile_size_y": 2, "tile_stride_y": 1, "channels": 9}),
    (n_body, {"n": 256, "dtype": "float64"}),
    (n_body, {"n": 512, "sources": 256, "dtype": "float32"}),
    (star, {"nx": 20, "ny": 6, "nz": 6}),
    (star, {"radius": 2, "points": 4, "nx": 33, "ny": 5, "nz": 8, "pitch": 40, "block_x": 8}),
    (star25_points, {"nx": 32, "ny": 8, "nz": 9, "points_y": 3, "points_z": 2}),
    (derivatives, {"axis": "x", "radius": 3} | DERIVATIVES),
    (derivatives, {"axis": "y", "radius": 1} | DERIVATIVES),
    (derivatives, {"axis": "z", "aligned": True, "wide_groups": True} | DERIVATIVES),
    (derivatives, {"axis": "x", "lanes": 2, "aligned": True} | DERIVATIVES),
    (derivatives, {"axis": "x", "lanes": 4, "aligned": True} | DERIVATIVES),
    (derivatives, {"axis": "y", "lanes": 4, "aligned": True} | DERIVATIVES),
    (derivatives, {"axis": "z", "depth": 5, "aligned": True} | DERIVATIVES),
    (march_z, {"n": 64} | MARCHED),
    (march_xyz, {"n": 256} | MARCHED),
    *((STEPS, {"step": step, "n": 256, "depth": 128}) for step in matmul_steps.STEPS),
    (STEPS, {"step": "tiled", "n": 128, "depth": None}),
    # All numbers are small integers, so sums are exact in any order.
    *((TENSOR_STEPS, {"step": step, "n": 256, "depth": 128}) for step in tensor_steps.STEPS),
]


def title(made: Any) -> str | None:
    return f"{made.__module__.split('.')[-1]}.{made.__name__}" if callable(made) else None


def marked(made: Any, settings: dict[str, Any]) -> Any:
    marks = [needs_amd] if made in AMD else needs_both if made is TENSOR_STEPS else [needs_clang]
    weekly = [pytest.mark.weekly(WEEKLY[made])] if made in WEEKLY else []
    name = " ".join(f"{key}={value}" for key, value in settings.items())
    return pytest.param(made, settings, marks=[*marks, *weekly], id=f"{title(made)} {name}")


@pytest.mark.parametrize(("made", "settings"), [marked(*case) for case in CASES])
def test_each_computes_what_its_check_expects(
    made: Callable[..., CudaWorkload], settings: dict[str, Any]
) -> None:
    is_right_and_a_wrong_one_is_seen(made(**settings), MACHINES.get(made, "a100"))


@pytest.mark.weekly(4)
@pytest.mark.parametrize(
    "row",
    [pytest.param(row, marks=needs_both) for row in rows(TEXTBOOK)],
    ids=lambda row: f"{row['machine']} {row['step']}",
)
def test_each_row_of_the_textbook_computes_what_it_is_called(row: dict[str, str]) -> None:
    made = of_textbook(row, n=128 if row["kernel"] == "moved" else 4096)
    is_right_and_a_wrong_one_is_seen(made, row["machine"])


@needs_clang
@pytest.mark.weekly(4)
@pytest.mark.parametrize("row", rows(APPLICATIONS), ids=lambda row: row["kernel"])
def test_each_kernel_of_applications_computes_what_numpy_does(row: dict[str, str]) -> None:
    small = {"transposed": 128, "convolved": 40, "smoothed": 128, "nearest": 300, "unfolded": 40}
    made = of_application(row, n=small.get(row["kernel"], 512))
    is_right_and_a_wrong_one_is_seen(made, MACHINE)


STEP = "there is no step 'x'"
PARTS = "n and depth must be multiples of 128, depth at most n"
REFUSED: dict[Callable[..., CudaWorkload], dict[str, list[dict[str, Any]]]] = {
    KERNELS["vadd4"]: {"must be a multiple of": [{"n": 1000}]},
    KERNELS["transpose_tiled"]: {"must be a multiple of": [{"n": 40}]},
    KERNELS["bitonic_step"]: {"must be a multiple of": [{"n": 512}]},
    march_xyz: {"n must be a multiple of 256, got 64": [{"n": 64}]},
    star: {"points must divide nz": [{"points": 3}]},
    n_body: {"multiples of": [{"n": 100}, {"sources": 100}, {"n": 256, "sources": 512}]},
    derivatives: {
        "axis must be": [{"axis": "t"}, {"radius": 5}, {"lanes": 3}, {"n": 30, "lanes": 4}],
        "along z alone": [{"depth": 4}],
        "n must be at least 1": [{"n": 0}],
    },
    applications.transposed: {"n must be a multiple of": [{"n": 100}]},
    applications.filtered: {"n must be a multiple of": [{"n": 100, "taps": 3}]},
    applications.convolved: {"side must be at least 1, got 0": [{"n": 64, "side": 0}]},
    moved: {STEP: [{"step": "x"}], "divide n": [{"n": 100}]},
    summed: {STEP: [{"step": "x"}], "n must be a multiple of": [{"n": 100}]},
    STEPS: {STEP: [{"step": "x"}], PARTS: [{"n": 100}, {"n": 256, "depth": 512}]},
    TENSOR_STEPS: {STEP: [{"step": "x"}], PARTS: [{"n": 100}, {"n": 256, "depth": 512}]},
}


@pytest.mark.parametrize("made", REFUSED, ids=title)
def test_other_settings_are_refused(made: Callable[..., CudaWorkload]) -> None:
    for message, refused in REFUSED[made].items():
        for settings in refused:
            with pytest.raises(KernelError, match=message):
                made(**settings)


@needs_clang
def test_loads_of_a_star_follow_one_another_as_measured() -> None:
    """Along x, then z, then y; as ptxas compiles the generated text for the V100, too."""

    def axis(offset_bytes: int) -> str:
        """Of a load at this distance from a thread's point."""
        distance = abs(offset_bytes)
        return "x" if distance <= 4 * 8 else "y" if distance <= 4 * 640 * 8 else "z"

    code = next(bind(star(nx=632, ny=504, nz=504, pitch=640, filled=False), "sm_70")).code
    loads = [line for line in code.listing.splitlines() if "LDG" in line]
    axes = [axis(int(re.search(r"\+(-?0x[0-9a-f]+)\]|$", load)[1] or "0", 16)) for load in loads]
    assert axes[:9] == ["x"] * 9
    assert sorted(axes) == ["x"] * 9 + ["y"] * 8 + ["z"] * 8
    middle = {axis: np.median(np.flatnonzero(np.array(axes) == axis)) for axis in "xyz"}
    assert middle["x"] < middle["z"] < middle["y"]
    assert code.registers_per_item == 32


@needs_amd
def test_only_stores_of_the_fused_march_are_nontemporal() -> None:
    for workload, nontemporal in ((march_z(64, nz=1), False), (march_xyz(256, nz=1), True)):
        sites = trace(workload, "mi250x").sites
        assert {(site.direction, site.nontemporal) for site in sites} == {
            ("load", False),
            ("store", nontemporal),
        }


@needs_nvidia
@pytest.mark.parametrize(
    ("step", "n"),
    [
        pytest.param(*case, marks=pytest.mark.weekly(2))
        for case in [
            ("by warps", 512),
            ("slabs", 512),
            ("goes on", 1024),
            ("two go on", 1024),
            ("two groups", 512),
            ("one arrives", 2048),
            ("pairs", 4096),
        ]
    ],
)
def test_products_of_warp_groups(step: str, n: int) -> None:
    launch = warp_group_steps.product(step, n, depth=256)
    assert checked(launch, load_machine("h100"), TraceOptions())


@needs_nvidia
@pytest.mark.parametrize(
    "launch",
    [
        copies.by_threads(7, 2, 64, 16, total=1 << 20),
        copies.by_threads(9, 4, 32, 4, total=1 << 20),
        copies.of_tiles(7, 3, 8, total=1 << 20),
    ],
)
def test_copies_that_wait_request_all_bytes_once(launch: CudaWorkload) -> None:
    made = trace(launch, "b200", groups=100)
    assert (made.whole, made.n_granule) == (True, (1 << 20) // 32)
    assert len(np.unique(made.granule)) == made.n_granule


@needs_nvidia
def test_four_tiles_on_their_way_are_three_times_as_fast_as_one() -> None:
    """Tiles of 8 KB on a B200 came with 1,894 and 5,868 GB/s; both rates are compared in `b200-copies`."""
    one, four = (
        calib.predict(copies.of_tiles(148, stages, 16, total=1 << 28), "b200").seconds.mean
        for stages in (1, 4)
    )
    assert one / four == pytest.approx(5868 / 1894, rel=0.15)


@needs_nvidia
def test_on_a_gpu_without_them_products_of_warp_groups_are_refused_by_what_they_need() -> None:
    with pytest.raises(KernelError, match=r"requires \.target sm_90"):
        trace(warp_group_steps.product("group", 512), "a100")
