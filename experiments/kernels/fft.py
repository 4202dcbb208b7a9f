"""Batched one-dimensional Fourier transforms, one launch for each pass (Stockham, radix 2 to 16).

Pass p of radix R, with s = R^p, takes item j of a transform of n points from x to y (Govindaraju et
al., *High performance discrete Fourier transforms on graphics processors*, SC 2008, figure 2):

    v[r] = x[j + r n / R] exp(-2 pi i r (j mod s) / (s R)),      r = 0 .. R - 1
    y[(j div s) s R + j mod s + q s] = sum over r of v[r] exp(-2 pi i q r / R)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import loopy as lp
import numpy as np

from experiments.kernels.parameters import (
    data,
    require_choice,
    require_group,
    require_indexable,
    require_positive,
)
from memsim.errors import KernelError
from tracegen.workloads import Workload


def fft(
    n: int = 65_536,
    batch: int = 16,
    radix: Literal["2", "4", "8", "16"] = "4",
    block_size: int = 128,
) -> Workload:
    """`batch` forward transforms of n complex64 points: log_radix(n) launches from global memory.

    n : a power of `radix`. In each pass a work-item reads `radix` strided points and writes `radix`
        points. The passes alternate between the arrays `x` and `y`
    """
    require_positive(n=n, batch=batch)
    require_group(block_size)
    require_choice("radix", radix, ("2", "4", "8", "16"))
    size = int(radix)
    passes = 0 if n < size else (n.bit_length() - 1) // (size.bit_length() - 1)
    if size**passes != n or passes == 0:
        raise KernelError(f"n must be a power of the radix {size}, got {n}")
    require_indexable(x=n * batch)
    index = np.arange(size)
    roots = np.exp(-2j * np.pi * np.outer(index, index) / size).astype(np.complex64)
    kernel = lp.make_kernel(
        [
            f"{{[b{p}, j{p}, r{p}, q{p}, k{p}]: 0 <= b{p} < {batch} and 0 <= j{p} < {n // size}"
            f" and 0 <= r{p}, q{p}, k{p} < {size}}}"
            for p in range(passes)
        ],
        "\n... gbarrier\n".join(_pass(p, n, size) for p in range(passes)),
        [
            lp.GlobalArg("x, y", np.complex64, shape=(batch, n), is_input=True, is_output=True),
            lp.ValueArg("turn", np.complex64),
            *(lp.TemporaryVariable(f"v{p}", np.complex64, shape=(size,)) for p in range(passes)),
            lp.TemporaryVariable(
                "roots",
                np.complex64,
                shape=(size, size),
                initializer=roots,
                read_only=True,
                address_space=lp.AddressSpace.PRIVATE,
            ),
        ],
        name="fft",
        lang_version=(2018, 2),
        seq_dependencies=True,
        # Each item writes different places, which Loopy cannot prove.
        silenced_warnings=["write_race(*)"],
    )
    for p in range(passes):
        kernel = lp.split_iname(kernel, f"j{p}", block_size, inner_tag="l.0", outer_tag="g.0")
        kernel = lp.tag_inames(
            kernel, {f"b{p}": "g.1", f"r{p}": "unr", f"q{p}": "unr", f"k{p}": "unr"}
        )
    points = data((batch, n, 2), np.dtype(np.float32)).view(np.complex64)[..., 0]
    last = "y" if passes % 2 else "x"

    def check(outputs: Mapping[str, Any]) -> None:
        """|error| <= 4 log2(n) eps |x| sqrt(n) in the 2-norm, as for any stable FFT (Higham,
        24.2)."""
        expected = np.fft.fft(points.astype(np.complex128), axis=1)
        error = np.linalg.norm(outputs[last] - expected, axis=1)
        bound = 4 * np.log2(n) * np.finfo(np.float32).eps * np.linalg.norm(expected, axis=1)
        assert (error <= bound).all(), f"{last} is off by up to {error.max()} in the 2-norm"

    arguments = {"x": points, "y": np.zeros_like(points), "turn": np.complex64(-2j * np.pi)}
    return Workload(kernel, arguments, check=check, source_file=__file__)


def _pass(p: int, n: int, size: int) -> str:
    """The statements of pass p."""
    source, target = ("y", "x") if p % 2 else ("x", "y")
    step = size**p
    # The angle's numerator is exact in float32: (j mod s) r < n <= 2^24.
    return f"""
    for b{p}, j{p}
        v{p}[r{p}] = {source}[b{p}, j{p} + {n // size} * r{p}] * exp(
            turn * (j{p} % {step} * r{p} / {float(step * size)}f))
        {target}[b{p}, (j{p} // {step}) * {step * size} + j{p} % {step} + {step} * q{p}] = sum(
            k{p}, v{p}[k{p}] * roots[q{p}, k{p}])
    end
    """
