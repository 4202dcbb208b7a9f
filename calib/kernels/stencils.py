"""Stencils: five points in 2-D with tiles in local memory, seven points in 3-D, and a
convolution."""

from __future__ import annotations

import functools
import math
from typing import Any

import loopy as lp
import numpy as np

from calib.kernels.building import (
    DTYPES,
    FIT,
    GROUP,
    assume_multiples,
    computing,
    in_groups,
    loopy_kernel,
    numbers,
    read,
    require_group,
    require_groups,
    require_multiple,
    size,
    tag_loads,
    with_tile,
    without_work,
    written,
)
from calib.kernels.collection import Built, Choice, Number, TagError, generator


@generator("stencil", "application", n=Number((1008, 2016)), dtype=DTYPES, **GROUP)
def finite_diff(*, n: int, dtype: str, lsize_0: int, lsize_1: int) -> Built:
    """Five-point stencil on n x n, a tile of lsize_1 x lsize_0 fetched by group (Stevens and
    Klöckner 2020, section 8.5). Load tagged fdLSIZEu, store of the interior (lsize - 2)^2."""
    _check_tile(n, lsize_0, lsize_1)
    kernel = five_point(dtype, lsize_0, lsize_1)

    def arguments() -> dict[str, Any]:
        return {"u": numbers((n + 2, n + 2), dtype, 1)}

    return computing(_laplacian, kernel, {"n": n}, arguments, terms=6, most=_sum_of_points)


def _laplacian(u: Any, sign: int = -1) -> Any:
    """The neighbours along each axis, and with this sign the point itself, as often as it has neighbours."""
    total = sign * 2 * u.ndim * u[(slice(1, -1),) * u.ndim]
    for axis in range(u.ndim):
        for side in (slice(None, -2), slice(2, None)):
            total += u[tuple(side if k == axis else slice(1, -1) for k in range(u.ndim))]
    return total


_sum_of_points = functools.partial(_laplacian, sign=1)


@generator("mem_access_pattern", "work_removed", n=Number((1008, 2016)), dtype=DTYPES, **GROUP)
def finite_diff_pattern(*, n: int, dtype: str, lsize_0: int, lsize_1: int) -> Built:
    """finite_diff with all work removed except the loads of u."""
    _check_tile(n, lsize_0, lsize_1)
    kernel = without_work(five_point(dtype, lsize_0, lsize_1), "res")

    def arguments() -> dict[str, Any]:
        return {"n": n, "u": numbers((n + 2, n + 2), dtype, 1)}

    return Built(kernel=kernel, env={"n": n}, arguments=arguments)


@generator("stencil", "application", n=Number((64, 128)), dtype=DTYPES, **GROUP, groups_fit=FIT)
def stencil_3d(*, n: int, dtype: str, lsize_0: int, lsize_1: int, groups_fit: bool) -> Built:
    """Seven-point Laplacian on n^3: groups tile x and y, work-items iterate along z."""
    require_groups(groups_fit, lsize_0, lsize_1, n=n)
    kernel = _seven_point(dtype, lsize_0, lsize_1, groups_fit)

    def arguments() -> dict[str, Any]:
        return {"u": numbers((n + 2, n + 2, n + 2), dtype, 1)}

    return computing(_laplacian, kernel, {"n": n}, arguments, terms=8, most=_sum_of_points)


@generator(
    "application",
    n=Number((256, 512)),
    width=Choice((3, 5, 7)),
    dtype=DTYPES,
    **GROUP,
    groups_fit=FIT,
)
def convolution(
    *, n: int, width: int, dtype: str, lsize_0: int, lsize_1: int, groups_fit: bool
) -> Built:
    """A width x width filter over an n x n image; the filter's loads are uniform."""
    require_groups(groups_fit, lsize_0, lsize_1, n=n)
    kernel = _convolution(width, dtype, lsize_0, lsize_1, groups_fit)

    def arguments() -> dict[str, Any]:
        return {
            "image": numbers((n + width - 1, n + width - 1), dtype, 1),
            "weights": numbers((width, width), dtype, 2),
        }

    def filtered(image: Any, weights: Any) -> Any:
        windows = np.lib.stride_tricks.sliding_window_view(image, (width, width))
        return np.einsum("yxab,ab->yx", windows, weights)

    return computing(filtered, kernel, {"n": n}, arguments, terms=width**2 + 1)


@functools.cache
def five_point(dtype: str, lsize_0: int, lsize_1: int) -> Any:
    """The kernel of finite_diff; n, the width of the interior, is a multiple of both tile
    interiors."""
    kernel = loopy_kernel(
        "{[i, j]: 0 <= i, j < n}",
        "res[i, j] = u[i, j + 1] + u[i + 1, j] - 4 * u[i + 1, j + 1] + u[i + 1, j + 2]"
        " + u[i + 2, j + 1]",
        [size("n"), read("u", dtype, "n + 2, n + 2"), written("res", dtype, "n, n")],
        name=f"fd_{lsize_1}x{lsize_0}",
    )
    kernel = assume_multiples(kernel, n=math.lcm(lsize_0 - 2, lsize_1 - 2))
    kernel = in_groups(kernel, i=(lsize_1 - 2, 1), j=(lsize_0 - 2, 0))
    kernel = with_tile(
        kernel,
        "u",
        ["i_inner", "j_inner"],
        ("i_outer", "j_outer"),
        fetch_bounding_box=True,
        default_tag=None,
        dim_arg_names=["u_row", "u_column"],
    )
    kernel = lp.tag_inames(kernel, {"u_row": "l.1", "u_column": "l.0"})
    return tag_loads(kernel, {"u": f"fd{lsize_0}u"})


@functools.cache
def _seven_point(dtype: str, lsize_0: int, lsize_1: int, fit: bool) -> Any:
    kernel = loopy_kernel(
        "{[i, j, k]: 0 <= i, j, k < n}",
        "res[i, j, k] = u[i, j + 1, k + 1] + u[i + 2, j + 1, k + 1] + u[i + 1, j, k + 1]"
        " + u[i + 1, j + 2, k + 1] + u[i + 1, j + 1, k] + u[i + 1, j + 1, k + 2]"
        " - 6 * u[i + 1, j + 1, k + 1]",
        [size("n"), read("u", dtype, "n + 2, n + 2, n + 2"), written("res", dtype, "n, n, n")],
        name="stencil_3d",
        assumptions="n >= 1",
    )
    if fit:
        kernel = assume_multiples(kernel, n=math.lcm(lsize_0, lsize_1))
    return in_groups(kernel, j=(lsize_1, 1), k=(lsize_0, 0))


@functools.cache
def _convolution(width: int, dtype: str, lsize_0: int, lsize_1: int, fit: bool) -> Any:
    halo = width - 1
    kernel = loopy_kernel(
        f"{{[y, x, dy, dx]: 0 <= y, x < n and 0 <= dy, dx < {width}}}",
        "res[y, x] = sum((dy, dx), image[y + dy, x + dx] * weights[dy, dx])",
        [
            size("n"),
            read("image", dtype, f"n + {halo}, n + {halo}"),
            read("weights", dtype, f"{width}, {width}"),
            written("res", dtype, "n, n"),
        ],
        name="convolution",
        assumptions="n >= 1",
    )
    if fit:
        kernel = assume_multiples(kernel, n=math.lcm(lsize_0, lsize_1))
    return in_groups(kernel, y=(lsize_1, 1), x=(lsize_0, 0))


def _check_tile(n: int, lsize_0: int, lsize_1: int) -> None:
    require_group(lsize_0, lsize_1)
    if min(lsize_0, lsize_1) < 3:
        raise TagError(f"a tile of finite_diff is at least 3 x 3, got {lsize_1} x {lsize_0}")
    require_multiple(n=(n, math.lcm(lsize_0 - 2, lsize_1 - 2)))
