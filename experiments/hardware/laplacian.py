"""The 7-point fp64 Laplacian of amd/amd-lab-notes (MIT), in the variants that were measured on an
MI250X.

The source of the variants is in finite-difference/examples of that repository:

1. plain
2. unrolled over y, loads in the order of rows
3. unrolled over y, loads in the order of planes
4. as 3, with launch bounds (the addresses are the same)
5. as 4, with nontemporal stores
6. as 4, with a grid in the order y, z, x
7. as 6, in four launches, each of a quarter of y

Variants that spill registers (m = 16 of kernels 2 and 3) are left out: they also move scratch
memory, which the source does not show.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass

from experiments.hardware.affine import AffineAccess, AffineKernel, Triple
from experiments.hardware.volumes import Snapshot
from memsim.machine import Machine

SNAPSHOT = Snapshot(waves=9, warmup=6)
REGISTERS = {
    (1, 1): 24,
    (3, 1): 18,
    (3, 2): 28,
    (3, 4): 54,
    (3, 8): 90,
    (4, 1): 18,
    (4, 2): 28,
    (4, 4): 54,
    (4, 8): 94,
    (4, 16): 170,
}
"""Vector registers of (kernel, rows): two tables of the compiler's counts in part 3 of the notes.
Assumed: kernel 2 uses as many as kernel 3; kernels 5 to 7, which have the loads and launch bounds
of kernel 4, use as many as kernel 4."""
BLOCKS = (("z_minus",), ("y_minus",), ("x_minus", "centre", "x_plus"), ("y_plus",), ("z_plus",))
"""Loads of kernels 3 to 7, by basic block. Each of the loads at y - 1 and y + 1 has a condition of
its own (`j > 0 ? u[pos - nx] * invhy2 : 0`), and the compiler moves no load across it. A block ends
where its loads are added up, so the wavefront waits for them there. Kernels 1 and 2 load without
conditions, in one block."""
EVERYWHERE = (-(1 << 30), 1 << 30)


@dataclass(frozen=True, kw_only=True)
class Variant:
    """A kernel of the notes; `rows` is their tiling factor m."""

    kernel: int
    n: int = 512
    rows: int = 1
    group: Triple = (256, 1, 1)
    nontemporal: bool = False

    @property
    def name(self) -> str:
        stores = " nt" if self.nontemporal else ""
        shape = "x".join(map(str, self.group))
        return f"kernel{self.kernel} m={self.rows} {shape} {self.n}^3{stores}"


def laplacian(variant: Variant) -> AffineKernel:
    """The variant as a kernel. The four launches of kernel 7 have the same volume; this is the
    second."""
    n, m = variant.n, variant.rows
    bx, by, bz = variant.group
    ny = n // 4 if variant.kernel == 7 else n
    groups = ((n - 1) // bx + 1, (ny - 1) // (by * m) + 1, (n - 1) // bz + 1)
    axes = (1, 2, 0) if variant.kernel == 6 else (0, 1, 2)
    grid = tuple(groups[axis] for axis in axes)
    return AffineKernel(
        name=variant.name,
        accesses=tuple(_accesses(variant)),
        elements={"u": n**3, "f": n**3},
        strides=(1, n, n * n),
        low=(1, 1 if m == 1 and variant.kernel == 1 else 0, 1),
        high=(n - 2, n - 2 if variant.kernel == 1 else n - 1, n - 2),
        grid=(grid[0], grid[1], grid[2]),
        grid_axes=axes,
        group=variant.group,
        tile=(1, m, 1),
        origin=(0, n // 4 if variant.kernel == 7 else 0, 0),
        registers_per_item=_registers(variant),
    )


def _accesses(variant: Variant) -> list[AffineAccess]:
    """The loads in program order, then the stores; a bulk sequence ends with its basic block."""
    n = variant.n
    order = _plain if variant.kernel == 1 else _by_row if variant.kernel == 2 else _by_plane
    points = [*order(n, variant.rows), *(("f", at, (1, n - 2)) for at in range(variant.rows))]
    offsets = {
        "centre": 0,
        "x_minus": -1,
        "x_plus": 1,
        "f": 0,
        "y_minus": -n,
        "y_plus": n,
        "z_minus": -n * n,
        "z_plus": n * n,
    }
    accesses = []
    blocks: set[int] = set()
    for name, row, rows in points:
        block = _block(variant, name)
        accesses.append(
            AffineAccess(
                name=f"{name}[{row}]",
                array="f" if name == "f" else "u",
                direction="store" if name == "f" else "load",
                first=offsets[name],
                row=row,
                rows=rows,
                starts_sequence=block not in blocks,
            )
        )
        blocks.add(block)
    return accesses


Points = Iterator[tuple[str, int, tuple[int, int]]]
"""Neighbour, row of the unrolled loop, and the lowest and highest y at which it is loaded."""


def _plain(n: int, m: int) -> Points:
    """Kernel 1: every point loads its neighbours."""
    names = ("centre", "x_minus", "x_plus", "y_minus", "y_plus", "z_minus", "z_plus")
    yield from ((name, 0, (1, n - 2)) for name in names)


def _by_row(n: int, m: int) -> Points:
    """Kernel 2: row by row; the rows above and below are loaded once for all rows."""
    for at in range(m):
        yield from ((name, at, EVERYWHERE) for name in ("centre", "x_minus", "x_plus"))
        if at == 0:
            yield "y_minus", at, (1, n - 1)
        if at == m - 1:
            yield "y_plus", at, (0, n - 2)
        yield from ((name, at, EVERYWHERE) for name in ("z_minus", "z_plus"))


def _by_plane(n: int, m: int) -> Points:
    """Kernels 3 to 7: plane z - 1, then plane z, then plane z + 1."""
    yield from (("z_minus", at, EVERYWHERE) for at in range(m))
    yield "y_minus", 0, (1, n - 1)
    for at in range(m):
        yield from ((name, at, EVERYWHERE) for name in ("x_minus", "centre", "x_plus"))
    yield "y_plus", m - 1, (0, n - 2)
    yield from (("z_plus", at, EVERYWHERE) for at in range(m))


def _block(variant: Variant, name: str) -> int:
    """The number of the basic block that contains an access."""
    if name == "f":
        return len(BLOCKS)
    if variant.kernel <= 2:
        return 0
    return next(k for k, names in enumerate(BLOCKS) if name in names)


def _registers(variant: Variant) -> int:
    like = {2: 3}.get(variant.kernel, min(variant.kernel, 4))
    return REGISTERS[like, variant.rows]


def machine_for(variant: Variant, machine: Machine) -> Machine:
    """The machine; nontemporal stores do not allocate in its last cache."""
    if not variant.nontemporal:
        return machine
    last = dataclasses.replace(machine.levels[-1], write_allocate="none")
    return machine.replace(levels=(*machine.levels[:-1], last))
