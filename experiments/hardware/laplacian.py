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
"""Vector registers of (kernel, rows): the notes' part 3, two tables of the compiler's own counts. Assumed:
kernel 2 has kernel 3's, 5 to 7 have kernel 4's, whose loads and bounds are theirs."""
BLOCKS = (("z_minus",), ("y_minus",), ("x_minus", "centre", "x_plus"), ("y_plus",), ("z_plus",))
"""Loads of kernels 3 to 7 by the basic block that they stand in: whether y - 1 and y + 1 are loaded hangs on
a condition of its own (`j > 0 ? u[pos - nx] * invhy2 : 0`), and no load is moved across it. Each block ends
where its loads are added up: the wavefront waits for them. Kernels 1 and 2 load without conditions, all in
one block."""
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
    blocks: set[int] = set()

    def add(name: str, first: int, at: int, rows: tuple[int, int] = EVERYWHERE) -> None:
        array = "f" if name == "f" else "u"
        block = _block(variant, name)
        accesses.append(
            AffineAccess(
                name=f"{name}[{at}]",
                array=array,
                direction="store" if array == "f" else "load",
                first=first,
                row=at,
                rows=rows,
                starts_sequence=block not in blocks,
            )
        )
        blocks.add(block)

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
        registers_per_item=_registers(variant),
    )


def _block(variant: Variant, name: str) -> int:
    """The number of the basic block of an access."""
    if name == "f":
        return len(BLOCKS)
    if variant.kernel <= 2:
        return 0
    return next(k for k, names in enumerate(BLOCKS) if name in names)


def _registers(variant: Variant) -> int:
    like = {2: 3}.get(variant.kernel, min(variant.kernel, 4))
    return REGISTERS[like, variant.rows]


def waiting(kernel: AffineKernel, machine: Machine) -> AffineKernel:
    """The kernel whose wavefronts wait for memory before they store, as long as the machine says.

    A turn is what a block takes whose loads the L2 serves, as all but the last: its latency. The last
    block's loads come from memory, and behind the store the group waits for its end, and its room for
    the next group's start: so many turns more than the two that the last block and the store take.
    """
    dram = machine.dram
    cycles = dram.latency_cycles + dram.row_conflict_cycles
    cycles += machine.store_wait_cycles + machine.group_start_cycles
    turns = max(0, round(cycles / machine.levels[1].latency_cycles) - 2)
    stored = [access.name for access in kernel.accesses if access.direction == "store"]
    accesses = [
        dataclasses.replace(access, idle_turns=turns) if access.name == stored[0] else access
        for access in kernel.accesses
    ]
    return dataclasses.replace(kernel, accesses=tuple(accesses))


def machine_for(variant: Variant, machine: Machine) -> Machine:
    """Nontemporal stores pass by the last cache; the machine is otherwise as it is."""
    if not variant.nontemporal:
        return machine
    last = dataclasses.replace(machine.levels[-1], write_allocate="none")
    return machine.replace(levels=(*machine.levels[:-1], last))
