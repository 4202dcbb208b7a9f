"""Dedispersion in CUDA C++ with the parameters of a measured tuning run.

On the command line: `dedispersion.cu:dedispersion --args dedispersion.py:dedispersion`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from experiments.kernels.parameters import require_positive
from tracegen import CudaWorkload

SOURCE = Path(__file__).with_suffix(".cu")
MEASURE_STEP = np.float32(0.02)
"""Distance of two dispersion measures, in parsec a cubic centimetre."""


def delays_in_samples(channels: int) -> np.ndarray:
    """Delay of each channel in samples, for one unit of dispersion measure: (channels,), float32.

    The channels are 0.1953125 MHz wide and begin at 1425 MHz; a sample takes 40.96 microseconds. The constant
    is that of the dispersion equation, in MHz^2 s.
    """
    frequency_mhz = 1425.0 + 0.1953125 * np.arange(channels)
    delay_s = 4148.808 * (frequency_mhz**-2 - frequency_mhz[-1] ** -2)
    return np.asarray(delay_s / 40.96e-6, np.float32)


def dedispersion(
    block_size_x: int = 16,
    block_size_y: int = 32,
    tile_size_x: int = 1,
    tile_size_y: int = 1,
    tile_stride_x: int = 0,
    tile_stride_y: int = 0,
    samples: int = 400,
    measures: int = 64,
    channels: int = 64,
) -> CudaWorkload:
    """Of a signal of bytes, a row of `samples` for each channel and what the longest delay needs.

    block_size_x, block_size_y : threads of a group
    tile_size_x, tile_size_y : samples and dispersion measures of a thread
    tile_stride_x, tile_stride_y : 0 where a thread's are neighbours, 1 where they lie a group apart
    """
    macros = dict(locals())
    delays = delays_in_samples(channels)
    measured = np.arange(measures, dtype=np.float32) * MEASURE_STEP
    macros["longest_delay"] = longest_delay = int(measured[-1] * delays[0]) + 1
    require_positive(**{**macros, "tile_stride_x": 1, "tile_stride_y": 1})
    rng = np.random.default_rng(0)
    signal = rng.integers(0, 256, (channels, samples + longest_delay), np.uint8)

    def check(written: Mapping[str, Any]) -> None:
        shifts = (measured[:, None] * delays).astype(np.uint32)
        expected = np.zeros((measures, samples))
        for measure, of_channel in enumerate(shifts.tolist()):
            for channel, shift in enumerate(of_channel):
                expected[measure] += signal[channel, shift : shift + samples]
        assert np.allclose(written["sums"], expected, rtol=1e-5)

    return CudaWorkload(
        path=SOURCE,
        kernel="dedispersion",
        arguments={
            "signal": signal,
            "sums": np.zeros((measures, samples), np.float32),
            "delays": delays,
        },
        grid=(
            -(-samples // (block_size_x * tile_size_x)),
            -(-measures // (block_size_y * tile_size_y)),
        ),
        block=(block_size_x, block_size_y),
        build_options=[f"-D{name}={value}" for name, value in macros.items()],
        check=check,
    )
