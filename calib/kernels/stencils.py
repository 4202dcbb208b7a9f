"""Stencils: five points in 2-D with tiles in local memory, seven points in 3-D, and a
convolution."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import loopy as lp
import numpy as np

from calib.kernels.building import (
    DTYPES,
    FIT,
    LANGUAGE,
    assume_multiples,
    close,
    numbers,
    read,
    require_group,
    require_multiple,
    size,
    tag_loads,
    written,
)
from calib.kernels.collection import Built, Choice, Number, TagError, generator

_TILES = {"lsize_0": Number((16,)), "lsize_1": Number((16,))}


@generator("stencil", "application", n=Number((1008, 2016)), dtype=DTYPES, **_TILES)
def finite_diff(*, n: int, dtype: str, lsize_0: int, lsize_1: int) -> Built:
    """Five-point stencil on n x n, a tile of lsize_1 x lsize_0 fetched by group (Stevens and
    Klöckner 2020, section 8.5). Load tagged fdLSIZEu, store of the interior (lsize - 2)^2."""
    _check_tile(n, lsize_0, lsize_1)
    kernel = five_point(dtype, lsize_0, lsize_1)

    def arguments() -> dict[str, Any]:
        return {"u": numbers((n + 2, n + 2), dtype, 1)}

    def check(outputs: Mapping[str, Any]) -> None:
        u = arguments()["u"].astype(np.float64)
        sides = (u[:-2, 1:-1], u[2:, 1:-1], u[1:-1, :-2], u[1:-1, 2:])
        exact = sum(sides) - 4 * u[1:-1, 1:-1]
        most = sum(np.abs(side) for side in sides) + 4 * np.abs(u[1:-1, 1:-1])
        close(outputs["res"], exact, 6 * np.finfo(dtype).eps * most)

    return Built(kernel=kernel, env={"n": n}, arguments=arguments, check=check)


@generator("mem_access_pattern", "work_removed", n=Number((1008, 2016)), dtype=DTYPES, **_TILES)
def finite_diff_pattern(*, n: int, dtype: str, lsize_0: int, lsize_1: int) -> Built:
    """finite_diff with all work removed except the loads of u."""
    _check_tile(n, lsize_0, lsize_1)
    kernel = _five_point_stripped(dtype, lsize_0, lsize_1)

    def arguments() -> dict[str, Any]:
        return {"n": n, "u": numbers((n + 2, n + 2), dtype, 1)}

    return Built(kernel=kernel, env={"n": n}, arguments=arguments)


@generator("stencil", "application", n=Number((64, 128)), dtype=DTYPES, **_TILES, groups_fit=FIT)
def stencil_3d(*, n: int, dtype: str, lsize_0: int, lsize_1: int, groups_fit: bool) -> Built:
    """Seven-point Laplacian on n^3: groups tile x and y, work-items iterate along z."""
    require_group(lsize_0, lsize_1)
    if groups_fit:
        require_multiple(n=(n, int(np.lcm(lsize_0, lsize_1))))
    kernel = _seven_point(dtype, lsize_0, lsize_1, groups_fit)

    def arguments() -> dict[str, Any]:
        return {"u": numbers((n + 2, n + 2, n + 2), dtype, 1)}

    def check(outputs: Mapping[str, Any]) -> None:
        u = arguments()["u"].astype(np.float64)
        middle = slice(1, -1)
        ends = [slice(None, -2), slice(2, None)]
        sides = [u[end, middle, middle] for end in ends]
        sides += [u[middle, end, middle] for end in ends]
        sides += [u[middle, middle, end] for end in ends]
        centre = 6 * u[middle, middle, middle]
        most = sum(np.abs(side) for side in sides) + np.abs(centre)
        close(outputs["res"], sum(sides) - centre, 8 * np.finfo(dtype).eps * most)

    return Built(kernel=kernel, env={"n": n}, arguments=arguments, check=check)


@generator(
    "application",
    n=Number((256, 512)),
    width=Choice((3, 5, 7)),
    dtype=DTYPES,
    **_TILES,
    groups_fit=FIT,
)
def convolution(
    *, n: int, width: int, dtype: str, lsize_0: int, lsize_1: int, groups_fit: bool
) -> Built:
    """A width x width filter over an n x n image; the filter's loads are uniform."""
    require_group(lsize_0, lsize_1)
    if groups_fit:
        require_multiple(n=(n, int(np.lcm(lsize_0, lsize_1))))
    kernel = _convolution(width, dtype, lsize_0, lsize_1, groups_fit)

    def arguments() -> dict[str, Any]:
        return {
            "image": numbers((n + width - 1, n + width - 1), dtype, 1),
            "weights": numbers((width, width), dtype, 2),
        }

    def check(outputs: Mapping[str, Any]) -> None:
        image, weights = (array.astype(np.float64) for array in arguments().values())
        windows = np.lib.stride_tricks.sliding_window_view(image, (width, width))
        exact = np.einsum("yxab,ab->yx", windows, weights)
        most = np.einsum("yxab,ab->yx", np.abs(windows), np.abs(weights))
        close(outputs["res"], exact, (width**2 + 1) * np.finfo(dtype).eps * most)

    return Built(kernel=kernel, env={"n": n}, arguments=arguments, check=check)


@functools.cache
def five_point(dtype: str, lsize_0: int, lsize_1: int) -> Any:
    """The kernel of finite_diff; n, the width of the interior, is a multiple of both tile
    interiors."""
    kernel = lp.make_kernel(
        "{[i, j]: 0 <= i, j < n}",
        "res[i, j] = u[i, j + 1] + u[i + 1, j] - 4 * u[i + 1, j + 1] + u[i + 1, j + 2]"
        " + u[i + 2, j + 1]",
        [size("n"), read("u", dtype, "n + 2, n + 2"), written("res", dtype, "n, n")],
        name=f"fd_{lsize_1}x{lsize_0}",
        lang_version=LANGUAGE,
    )
    kernel = assume_multiples(kernel, n=int(np.lcm(lsize_0 - 2, lsize_1 - 2)))
    kernel = lp.split_iname(kernel, "i", lsize_1 - 2, outer_tag="g.1", inner_tag="l.1")
    kernel = lp.split_iname(kernel, "j", lsize_0 - 2, outer_tag="g.0", inner_tag="l.0")
    kernel = lp.add_prefetch(
        kernel,
        "u",
        ["i_inner", "j_inner"],
        temporary_name="u_fetch",
        fetch_outer_inames=frozenset({"i_outer", "j_outer"}),
        fetch_bounding_box=True,
        default_tag=None,
        dim_arg_names=["u_row", "u_column"],
    )
    kernel = lp.tag_inames(kernel, {"u_row": "l.1", "u_column": "l.0"})
    return tag_loads(kernel, {"u": f"fd{lsize_0}u"})


@functools.cache
def _five_point_stripped(dtype: str, lsize_0: int, lsize_1: int) -> Any:
    import calib

    return calib.remove_work(five_point(dtype, lsize_0, lsize_1), remove_vars=["res"])


@functools.cache
def _seven_point(dtype: str, lsize_0: int, lsize_1: int, fit: bool) -> Any:
    kernel = lp.make_kernel(
        "{[i, j, k]: 0 <= i, j, k < n}",
        "res[i, j, k] = u[i, j + 1, k + 1] + u[i + 2, j + 1, k + 1] + u[i + 1, j, k + 1]"
        " + u[i + 1, j + 2, k + 1] + u[i + 1, j + 1, k] + u[i + 1, j + 1, k + 2]"
        " - 6 * u[i + 1, j + 1, k + 1]",
        [size("n"), read("u", dtype, "n + 2, n + 2, n + 2"), written("res", dtype, "n, n, n")],
        assumptions="n >= 1",
        name="stencil_3d",
        lang_version=LANGUAGE,
    )
    if fit:
        kernel = assume_multiples(kernel, n=int(np.lcm(lsize_0, lsize_1)))
    kernel = lp.split_iname(kernel, "j", lsize_1, outer_tag="g.1", inner_tag="l.1")
    return lp.split_iname(kernel, "k", lsize_0, outer_tag="g.0", inner_tag="l.0")


@functools.cache
def _convolution(width: int, dtype: str, lsize_0: int, lsize_1: int, fit: bool) -> Any:
    halo = width - 1
    kernel = lp.make_kernel(
        f"{{[y, x, dy, dx]: 0 <= y, x < n and 0 <= dy, dx < {width}}}",
        "res[y, x] = sum((dy, dx), image[y + dy, x + dx] * weights[dy, dx])",
        [
            size("n"),
            read("image", dtype, f"n + {halo}, n + {halo}"),
            read("weights", dtype, f"{width}, {width}"),
            written("res", dtype, "n, n"),
        ],
        assumptions="n >= 1",
        name="convolution",
        lang_version=LANGUAGE,
    )
    if fit:
        kernel = assume_multiples(kernel, n=int(np.lcm(lsize_0, lsize_1)))
    kernel = lp.split_iname(kernel, "y", lsize_1, outer_tag="g.1", inner_tag="l.1")
    return lp.split_iname(kernel, "x", lsize_0, outer_tag="g.0", inner_tag="l.0")


def _check_tile(n: int, lsize_0: int, lsize_1: int) -> None:
    require_group(lsize_0, lsize_1)
    if min(lsize_0, lsize_1) < 3:
        raise TagError(f"a tile of finite_diff is at least 3 x 3, got {lsize_1} x {lsize_0}")
    require_multiple(n=(n, int(np.lcm(lsize_0 - 2, lsize_1 - 2))))
