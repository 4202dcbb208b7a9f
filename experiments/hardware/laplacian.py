"""MI250X (one die): fetched volume of the 7-point fp64 Laplacian of amd/amd-lab-notes (MIT).

The variants are those whose source stands in finite-difference/examples of that repository: 1 plain;
2 unrolled over y in the order of rows; 3 the same with loads ordered by plane, 4 with launch bounds
(the same addresses); 5 with nontemporal stores; 6 the grid walks y, z, x; 7 four launches, each a
quarter of y. Variants that spill registers (m = 16 of 2 and 3) also move scratch, which no source
shows: they are left out.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from experiments.hardware.affine import AffineAccess, AffineKernel, Triple
from experiments.hardware.volumes import Snapshot
from memsim.machine import Machine
from memsim.plan import Sampler

SNAPSHOT = Snapshot(waves=9, warmup=6)
SAMPLER: Sampler = "gto"
LOADS_IN_TURN = 1
"""Assumed: of a unit's wavefronts the oldest whose data are there issues its next load. That the order of
loads in a thread matters (kernel 3 is kernel 2 with the same loads in another order, and fetches a third less)
says that wavefronts take turns load by load; that eight rows a thread fetch nothing twice, though the groups
on the device then cover seven planes, says that the old go first."""
OTHER_REGISTERS = 12
"""Assumed: each loaded value and each sum has two registers, and 12 are left for the rest. So m = 16
does not fit into the 128 that a kernel without launch bounds may have: the notes saw it spill."""
EVERYWHERE = (-(1 << 30), 1 << 30)


@dataclass(frozen=True, kw_only=True)
class Variant:
    """A kernel of the notes; `rows` is their tiling factor m, `quarter` of y for kernel 7."""

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
    """The variant as a kernel; every launch of kernel 7 moves alike, and its second is taken."""
    n, m = variant.n, variant.rows
    row, plane = n, n * n
    accesses: list[AffineAccess] = []

    def add(name: str, first: int, at: int, rows: tuple[int, int] = EVERYWHERE) -> None:
        array = "f" if name == "f" else "u"
        accesses.append(
            AffineAccess(
                name=f"{name}[{at}]",
                array=array,
                direction="store" if array == "f" else "load",
                first=first,
                row=at,
                rows=rows,
                starts_sequence=array == "f" and at == 0,
            )
        )

    inside = (1, n - 2)
    if variant.kernel == 1:
        for name, first in (
            *(("centre", 0), ("x_minus", -1), ("x_plus", 1)),
            *(("y_minus", -row), ("y_plus", row), ("z_minus", -plane), ("z_plus", plane)),
        ):
            add(name, first, 0, inside)
    elif variant.kernel == 2:
        for at in range(m):
            add("centre", 0, at)
            add("x_minus", -1, at)
            add("x_plus", 1, at)
            if at == 0:
                add("y_minus", -row, at, (1, n - 1))
            if at == m - 1:
                add("y_plus", row, at, (0, n - 2))
            add("z_minus", -plane, at)
            add("z_plus", plane, at)
    else:
        for at in range(m):
            add("z_minus", -plane, at)
        add("y_minus", -row, 0, (1, n - 1))
        for at in range(m):
            add("x_minus", -1, at)
            add("centre", 0, at)
            add("x_plus", 1, at)
        add("y_plus", row, m - 1, (0, n - 2))
        for at in range(m):
            add("z_plus", plane, at)
    for at in range(m):
        add("f", 0, at, inside)
    bx, by, bz = variant.group
    ny = n // 4 if variant.kernel == 7 else n
    groups = ((n - 1) // bx + 1, (ny - 1) // (by * m) + 1, (n - 1) // bz + 1)
    axes = (1, 2, 0) if variant.kernel == 6 else (0, 1, 2)
    grid = tuple(groups[axis] for axis in axes)
    return AffineKernel(
        name=variant.name,
        accesses=tuple(accesses),
        elements={"u": n**3, "f": n**3},
        strides=(1, row, plane),
        low=(1, 1 if m == 1 and variant.kernel == 1 else 0, 1),
        high=(n - 2, n - 2 if variant.kernel == 1 else n - 1, n - 2),
        grid=(grid[0], grid[1], grid[2]),
        grid_axes=axes,
        group=variant.group,
        tile=(1, m, 1),
        origin=(0, n // 4 if variant.kernel == 7 else 0, 0),
        registers_per_item=2 * len(accesses) + OTHER_REGISTERS,
    )


def machine_for(variant: Variant, machine: Machine) -> Machine:
    """Nontemporal stores pass by the last cache; the machine is otherwise as it is."""
    if not variant.nontemporal:
        return machine
    last = dataclasses.replace(machine.levels[-1], write_allocate="none")
    return machine.replace(levels=(*machine.levels[:-1], last))
