"""Plain kernels of applications in HIP C++ (`applications.hip`), with the groups of those that sarchlab/mgpusim timed on an MI300A.

Each function makes one kernel of the size that its settings say; values are zero above `MOST` numbers, which takes no memory
where nobody looks at them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from experiments.kernels.parameters import data, require_positive
from memsim.errors import KernelError
from tracegen import CudaWorkload

SOURCE = Path(__file__).with_suffix(".hip")
MOST = 1 << 18
"""Numbers of an array that has values."""
_THREADS = 256
Floats = npt.NDArray[np.float32]


def _values(*shape: int) -> Floats:
    n = int(np.prod(shape))
    return (data(n, np.float32) if n <= MOST else np.zeros(n, np.float32)).reshape(shape)


def _made(
    kernel: str,
    arguments: Mapping[str, Any],
    items: int,
    expected: Callable[[], Any],
    out: str = "out",
    block: tuple[int, ...] = (_THREADS,),
    grid: tuple[int, ...] = (),
) -> CudaWorkload:
    """A kernel that leaves what `expected` gives in `out`, to six digits."""

    def check(written: Mapping[str, Any]) -> None:
        wanted = np.asarray(expected())
        np.testing.assert_allclose(
            written[out].reshape(wanted.shape), wanted, rtol=1e-6, atol=1e-6 * np.abs(wanted).max()
        )

    return CudaWorkload(
        path=SOURCE,
        kernel=kernel,
        arguments=arguments,
        grid=grid or -(-items // block[0]),
        block=block,
        check=check,
    )


def _multiples(of: int, **sizes: int) -> None:
    for name, size in sizes.items():
        if size < of or size % of:
            raise KernelError(f"{name} must be a multiple of {of}, got {size}")


def added(n: int) -> CudaWorkload:
    """The sum of two vectors of n numbers."""
    require_positive(n=n)
    a, b = _values(n), _values(n)
    arguments = {"a": a, "b": b, "sum": np.zeros(n, np.float32), "n": n}
    return _made("added", arguments, n, lambda: a + b, out="sum")


def rectified(n: int) -> CudaWorkload:
    """n numbers, zero where they are negative."""
    require_positive(n=n)
    x = _values(n)
    return _made(
        "rectified",
        {"x": x, "out": np.zeros(n, np.float32), "n": n},
        n,
        lambda: np.maximum(x, 0),
    )


def transposed(n: int) -> CudaWorkload:
    """A matrix of n x n numbers, transposed in tiles of 64 x 64."""
    _multiples(64, n=n)
    x = _values(n, n)
    return _made(
        "transposed",
        {"x": x, "out": np.zeros((n, n), np.float32), "row": n // 4},
        0,
        lambda: x.T,
        block=(16, 16),
        grid=(n // 64, n // 64),
    )


def convolved(n: int, side: int) -> CudaWorkload:
    """An image of n x n pixels, weighted sums of side x side, in groups of 64."""
    require_positive(n=n, side=side)
    padded = n + side - 1
    image = (100 * np.abs(_values(padded, padded))).astype(np.uint32)
    mask = np.full((side, side), 0.5, np.float32)

    def expected() -> Any:
        summed = sum(image[j : j + n, k : k + n] for j in range(side) for k in range(side))
        return (0.5 * np.asarray(summed) + 0.5).astype(np.int32)

    return _made(
        "convolved",
        {
            "image": image,
            "mask": mask,
            "out": np.zeros((n, n), np.int32),
            "width": n,
            "height": n,
            "side": side,
        },
        n * n,
        expected,
        block=(64,),
    )


def filtered(n: int, taps: int) -> CudaWorkload:
    """Weighted sums of n numbers with the ones before them."""
    _multiples(_THREADS, n=n)
    weights, x, before = _values(taps), _values(n), np.zeros(taps, np.float32)
    return _made(
        "filtered",
        {
            "out": np.zeros(n, np.float32),
            "weights": weights,
            "x": x,
            "before": before,
            "taps": taps,
        },
        n,
        lambda: np.convolve(x, weights)[:n],
    )


def smoothed(n: int) -> CudaWorkload:
    """n x n points, each with its eight neighbours, from tiles of 16 x 64 in local memory."""
    _multiples(64, n=n)
    row = n + 2 + -(n + 2) % 16
    x = _values(n + 2, row)
    centre, beside, diagonal = 0.25, 0.15, 0.05

    def expected() -> Any:
        def moved(i: int, j: int) -> Any:
            return x[1 + i : 1 + i + n, 1 + j : 1 + j + n]

        out = np.zeros((n + 2, row), np.float32)
        out[1:-1, 1 : n + 1] = (
            centre * moved(0, 0)
            + beside * (moved(-1, 0) + moved(1, 0) + moved(0, -1) + moved(0, 1))
            + diagonal * (moved(-1, -1) + moved(-1, 1) + moved(1, -1) + moved(1, 1))
        )
        return out

    return _made(
        "smoothed",
        {
            "x": x,
            "out": np.zeros((n + 2, row), np.float32),
            "row": row,
            "centre": np.float32(centre),
            "beside": np.float32(beside),
            "diagonal": np.float32(diagonal),
        },
        0,
        expected,
        block=(1, 64),
        grid=(n // 16, n // 64),
    )


def nearest(n: int, features: int, centres: int = 5) -> CudaWorkload:
    """The nearest of some centres to each of n points."""
    require_positive(n=n, features=features, centres=centres)
    points, middles = _values(features, n), _values(centres, features)[:, ::-1].copy()
    return _made(
        "nearest",
        {
            "points": points,
            "centres": middles,
            "chosen": np.zeros(n, np.int32),
            "n": n,
            "n_centre": centres,
            "n_feature": features,
        },
        n,
        lambda: ((points.T[:, None] - middles) ** 2).sum(2).argmin(1),
        out="chosen",
    )


def multiplied(n: int, each: int) -> CudaWorkload:
    """A sparse matrix of n rows with `each` numbers next to the diagonal, times a vector; a thread works on a row."""
    require_positive(n=n, each=each)
    values, x = _values(n * each), _values(n)
    columns = ((np.arange(n)[:, None] + np.arange(each)) % n).astype(np.int32)
    return _made(
        "multiplied",
        {
            "values": values,
            "x": x,
            "columns": columns,
            "starts": (np.arange(n + 1) * each).astype(np.int32),
            "n": n,
            "out": np.zeros(n, np.float32),
        },
        n,
        lambda: (values.reshape(n, each) * x[columns]).sum(1),
    )


def unfolded(n: int, side: int) -> CudaWorkload:
    """The patches of side x side pixels of an image of n x n, as columns of a matrix."""
    require_positive(n=n, side=side)
    image, patches = _values(n, n), n - side + 1
    pair = {
        name: {"x": np.uint32(value), "y": np.uint32(value)}
        for name, value in (("size", n), ("side", side), ("step", 1), ("border", 0), ("gap", 1))
    }
    return _made(
        "unfolded",
        {
            "image": image,
            "out": np.zeros(side * side * patches * patches, np.float32),
            **pair,
            "n_channel": 1,
            "n_image": 1,
        },
        patches * patches,
        lambda: [image[j : j + patches, k : k + patches] for j in range(side) for k in range(side)],
    )


def moved(n: int) -> CudaWorkload:
    """One step of n bodies that attract each other, staged in global memory."""
    _multiples(_THREADS, n=n)
    at, velocity = _values(n, 4), np.zeros((n, 4), np.float32)
    seconds, softening = np.float32(0.005), np.float32(0.5)

    def expected() -> Any:
        apart = at[None, :, :3] - at[:, None, :3]
        inverse = 1 / np.sqrt((apart**2).sum(2) + softening)
        return np.column_stack(
            [seconds * ((at[:, 3] * inverse**3)[..., None] * apart).sum(1), np.zeros(n)]
        )

    return _made(
        "moved",
        {
            "at": at,
            "velocity": velocity,
            "n": n,
            "seconds": seconds,
            "softening": softening,
            "staged": np.zeros((_THREADS, 4), np.float32),
            "to": np.zeros((n, 4), np.float32),
            "faster": np.zeros((n, 4), np.float32),
        },
        n,
        expected,
        out="faster",
    )
