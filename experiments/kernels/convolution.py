"""A two-dimensional convolution in CUDA C++ with the parameters of a measured tuning run.

On the command line: `convolution.cu:convolution --args convolution.py:convolution`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from experiments.kernels.parameters import require_positive
from tracegen import CudaWorkload

SOURCE = Path(__file__).with_suffix(".cu")
RANDOM = 512
"""Rows and columns of the image that are random; the others are zero, for random numbers take longer than a trace of the kernel."""


def convolution(
    block_size_x: int = 32,
    block_size_y: int = 4,
    tile_size_x: int = 1,
    tile_size_y: int = 1,
    read_only: int = 0,
    use_padding: int = 0,
    image_size: int = 256,
    filter_size: int = 15,
) -> CudaWorkload:
    """Of a square image with a square filter, both in single precision.

    block_size_x, block_size_y : threads of a group
    tile_size_x, tile_size_y : points of a thread along each axis
    read_only : whether the image is loaded through the read-only cache
    use_padding : whether rows in shared memory are padded against bank conflicts
    """
    macros = dict(locals())
    require_positive(**{**macros, "read_only": 1, "use_padding": 1})
    pitch = image_size + filter_size // 2 * 2
    rng = np.random.default_rng(0)
    image = np.zeros((pitch, pitch), np.float32)
    image[:RANDOM, :RANDOM] = rng.random((min(pitch, RANDOM),) * 2, np.float32)
    weights = rng.random((filter_size, filter_size), np.float32)

    def check(written: Mapping[str, Any]) -> None:
        from scipy.signal import correlate2d

        expected = correlate2d(image, weights, mode="valid")
        assert np.allclose(written["result"], expected, rtol=1e-4)

    return CudaWorkload(
        path=SOURCE,
        kernel="convolution",
        arguments={"result": np.zeros((image_size, image_size), np.float32), "image": image},
        grid=(
            -(-image_size // (block_size_x * tile_size_x)),
            -(-image_size // (block_size_y * tile_size_y)),
        ),
        block=(block_size_x, block_size_y),
        symbols={"weights": weights},
        build_options=[f"-D{name}={value}" for name, value in macros.items()],
        check=check,
    )
