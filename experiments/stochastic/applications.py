"""The eight applications of the paper's section 5.1.

The paper names the applications but not their sizes. These are those of the CUDA SDK 4.0 and Parboil 2, if they have
the application, shortened where more data would only repeat the same pattern.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from experiments.kernels import matrices, merge_sort
from experiments.kernels.black_scholes import black_scholes
from experiments.kernels.fft import fft
from experiments.kernels.lattice_boltzmann import d3q19
from experiments.kernels.matmul import tiled
from experiments.kernels.spmv import spmv_of
from experiments.kernels.stencil import stencil7

PAPER_ENTRIES_PER_ROW = 51
"""Entries per row of the random matrix in section 5.3."""
MERGE_WIDTHS = (1 << 10, 1 << 14, 1 << 18)
"""Widths of three passes that represent a whole sort: an early, a middle and a late one."""


@dataclass(frozen=True, kw_only=True)
class Application:
    """An application at one size.

    build : makes its workloads; the hit ratios are over all launches of all of them
    """

    name: str
    size: str
    build: Callable[[], Sequence[Any]]


def spmv_rows(rows: int, entries_per_row: int = PAPER_ENTRIES_PER_ROW) -> Any:
    """The scalar kernel with a random matrix and 256 work-items a group, which fill the cores of a
    C2050."""
    return spmv_of(matrices.uniform_random(rows, entries_per_row), 256)


def _merge_sort(n: int, *, local: bool) -> list[Any]:
    one_pass = merge_sort.local_pass if local else merge_sort.global_pass
    return [one_pass(n, width) for width in MERGE_WIDTHS]


APPLICATIONS = (
    Application(name="DMM", size="1024 x 1024, tiles of 16 x 16", build=lambda: [tiled(1024, 16)]),
    Application(name="SpMV", size="200,000 rows of 51", build=lambda: [spmv_rows(200_000)]),
    Application(
        name="FFT", size="16 x 65,536 points, radix 4", build=lambda: [fft(65_536, 16, "4")]
    ),
    Application(name="Black-Scholes", size="4,000,000 options", build=lambda: [black_scholes()]),
    Application(name="LBM", size="120 x 120 x 16", build=lambda: [d3q19(120, 120, 16, 120)]),
    Application(
        name="merge sort, global",
        size="4,194,304 keys, three passes",
        build=lambda: _merge_sort(1 << 22, local=False),
    ),
    Application(
        name="merge sort, local",
        size="4,194,304 keys, three passes",
        build=lambda: _merge_sort(1 << 22, local=True),
    ),
    Application(
        name="3-D stencil", size="512 x 512 x 16, 7 points", build=lambda: [stencil7(512, 512, 16)]
    ),
)
