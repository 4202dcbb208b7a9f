"""One step of an n-body simulation, all pairs, in CUDA C++ (`n_body.cu`)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np

from experiments.kernels.parameters import real_type
from memsim.errors import KernelError
from tracegen import CudaWorkload

SOURCE = Path(__file__).with_suffix(".cu")
TILE = 256
"""Bodies of a tile, and threads of a block."""
SOFTENING2, DT = 0.01, 0.016


def n_body(
    n: int = 110_592,
    sources: int | None = None,
    dtype: Literal["float32", "float64"] = "float32",
) -> CudaWorkload:
    """Bodies attract each other and move.

    sources : the first of them, which attract; all by default

    Raises KernelError where n or sources is no multiple of 256, or there are more sources than bodies.
    """
    sources = n if sources is None else sources
    real = real_type(dtype)
    if n % TILE or sources % TILE or not 0 < sources <= n:
        raise KernelError(
            f"n and sources must be multiples of {TILE}, sources at most n, got {n}, {sources}"
        )
    rng = np.random.default_rng(0)
    body = rng.uniform(-1, 1, (n, 4)).astype(real)
    body[:, 3] = rng.uniform(0.5, 1, n) / n
    velocity = rng.uniform(-0.1, 0.1, (n, 4)).astype(real)
    started = velocity.copy()

    def check(written: Mapping[str, Any]) -> None:
        """The sums are compared with those of numpy in double precision."""
        at, other = body[:, :3].astype(np.float64), body[:sources].astype(np.float64)
        apart = other[None, :, :3] - at[:, None]
        weight = other[:, 3] * ((apart**2).sum(axis=2) + SOFTENING2) ** -1.5
        speed = started[:, :3] + DT * (apart * weight[:, :, None]).sum(axis=1)
        rtol = 1e-4 if real == np.float32 else 1e-10
        np.testing.assert_allclose(written["velocity"][:, :3], speed, rtol=rtol, atol=rtol)
        np.testing.assert_allclose(written["moved"][:, :3], at + DT * speed, rtol=rtol, atol=rtol)

    return CudaWorkload(
        path=SOURCE,
        kernel=f"step<{'float' if real == np.float32 else 'double'}, {TILE}>",
        arguments={
            "n_tiles": sources // TILE,
            "body": body,
            "moved": np.zeros_like(body),
            "velocity": velocity,
            "softening2": SOFTENING2,
            "dt": DT,
        },
        grid=n // TILE,
        block=TILE,
        build_options="-ftz=true",
        check=check,
    )
