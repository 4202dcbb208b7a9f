"""One step of the lattice-Boltzmann method in three dimensions, 19 velocities (D3Q19, BGK)."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any, Literal

import loopy as lp
import numpy as np
import numpy.typing as npt

from experiments.kernels.parameters import (
    data,
    real_type,
    require_choice,
    require_group,
    require_indexable,
    require_positive,
)
from tracegen.workloads import Workload

VELOCITIES = tuple(
    sorted(
        (c for c in itertools.product((-1, 0, 1), repeat=3) if sum(map(abs, c)) <= 2),
        key=lambda c: (sum(map(abs, c)), c),
    )
)
"""(x, y, z) of the 19 directions: rest, the 6 axes, the 12 diagonals of the planes."""

WEIGHTS = tuple((1 / 3, 1 / 18, 1 / 36)[sum(map(abs, c))] for c in VELOCITIES)


def d3q19(
    nx: int = 128,
    ny: int = 128,
    nz: int = 32,
    block_x: int = 128,
    block_y: int = 1,
    layout: Literal["soa", "aos"] = "soa",
    dtype: Literal["float32", "float64"] = "float32",
) -> Workload:
    """Stream and collide on a periodic lattice: each site pulls 19 values and stores 19.

    layout : `soa` stores the values of a direction together, which coalesces on a GPU; `aos` those
        of a site
    """
    require_positive(nx=nx, ny=ny, nz=nz)
    require_group(block_x, block_y)
    require_choice("layout", layout, ("soa", "aos"))
    require_indexable(f=19 * nx * ny * nz)
    real = real_type(dtype)
    shape = (19, nz, ny, nx) if layout == "soa" else (nz, ny, nx, 19)
    kernel = lp.make_kernel(
        f"{{[x, y, z]: 0 <= x < {nx} and 0 <= y < {ny} and 0 <= z < {nz}}}",
        _step({"x": nx, "y": ny, "z": nz}, layout, "f" if dtype == "float32" else ""),
        [
            lp.ValueArg("omega", real),
            lp.GlobalArg("f", real, shape=shape),
            lp.GlobalArg("f_next", real, shape=shape, is_input=False, is_output=True),
        ],
        name="d3q19",
        lang_version=(2018, 2),
    )
    kernel = lp.split_iname(kernel, "x", block_x, inner_tag="l.0", outer_tag="g.0")
    kernel = lp.split_iname(kernel, "y", block_y, inner_tag="l.1", outer_tag="g.1")
    kernel = lp.tag_inames(kernel, {"z": "g.2"})
    weights = np.array(WEIGHTS).reshape(19, 1, 1, 1)
    f = (weights * (1 + 0.1 * data((19, nz, ny, nx), real))).astype(real)
    omega = 1.2
    arguments = {
        "f": _laid_out(f, layout),
        "omega": real.type(omega),
    }

    def check(outputs: Mapping[str, Any]) -> None:
        """Errors are at most 64 roundings of the largest value."""
        result = outputs["f_next"]
        result = result if layout == "soa" else np.moveaxis(result, -1, 0)
        expected = _reference(f.astype(np.float64), float(real.type(omega)))
        np.testing.assert_allclose(result, expected, rtol=0, atol=64 * np.finfo(real).eps / 3)

    return Workload(kernel, arguments, check=check, source_file=__file__)


def _laid_out(f: npt.NDArray[Any], layout: str) -> npt.NDArray[Any]:
    return f if layout == "soa" else np.ascontiguousarray(np.moveaxis(f, 0, -1))


def _step(extent: Mapping[str, int], layout: str, suffix: str) -> str:
    """The statements of one step, written out for every direction."""

    def place(q: int, x: str, y: str, z: str) -> str:
        return f"[{q}, {z}, {y}, {x}]" if layout == "soa" else f"[{z}, {y}, {x}, {q}]"

    def from_(name: str, c: int) -> str:
        n = extent[name]
        return {0: name, 1: f"({name} + {n - 1}) % {n}", -1: f"({name} + 1) % {n}"}[c]

    def moment(axis: int) -> str:
        terms = [f"{'+-'[c[axis] < 0]} f{q}" for q, c in enumerate(VELOCITIES) if c[axis]]
        return " ".join(terms).removeprefix("+ ")

    lines = [
        f"<> f{q} = f{place(q, from_('x', c[0]), from_('y', c[1]), from_('z', c[2]))}"
        for q, c in enumerate(VELOCITIES)
    ]
    lines.append("<> rho = " + " + ".join(f"f{q}" for q in range(19)))
    lines += [f"<> u{name} = ({moment(axis)}) / rho" for axis, name in enumerate("xyz")]
    lines.append(f"<> rest = 1 - 1.5{suffix} * (ux * ux + uy * uy + uz * uz)")
    for q, c in enumerate(VELOCITIES):
        along = " + ".join(
            f"({sign}) * u{name}" for sign, name in zip(c, "xyz", strict=True) if sign
        )
        equilibrium = (
            f"{WEIGHTS[q]}{suffix} * rho * (rest + ({along}) * (3 + 4.5{suffix} * ({along})))"
            if along
            else f"{WEIGHTS[q]}{suffix} * rho * rest"
        )
        lines.append(f"f_next{place(q, 'x', 'y', 'z')} = f{q} + omega * ({equilibrium} - f{q})")
    return "for x, y, z\n" + "\n".join(lines) + "\nend"


def _reference(f: npt.NDArray[np.float64], omega: float) -> npt.NDArray[np.float64]:
    """The same step on whole arrays, (19, nz, ny, nx)."""
    velocity = np.array(VELOCITIES, np.float64)
    pulled = np.stack([np.roll(f[q], c[::-1], axis=(0, 1, 2)) for q, c in enumerate(VELOCITIES)])
    rho = pulled.sum(axis=0)
    u = np.einsum("qd,qzyx->dzyx", velocity, pulled) / rho
    along = np.einsum("qd,dzyx->qzyx", velocity, u)
    weights = np.array(WEIGHTS).reshape(19, 1, 1, 1)
    equilibrium = weights * rho * (1 + 3 * along + 4.5 * along**2 - 1.5 * (u * u).sum(axis=0))
    return np.asarray(pulled + omega * (equilibrium - pulled))
