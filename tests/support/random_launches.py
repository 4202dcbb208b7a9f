"""Random kernels with affine accesses, whose launches are several times longer than a snapshot, and small
machines on which the whole launch can be replayed."""

from __future__ import annotations

import dataclasses
import random

import loopy as lp
import numpy as np

from memsim.machine.file import load_machine
from memsim.machine.model import Machine
from tracegen.workloads.workload import Workload

LEAST_GROUPS = 40 * 32
"""40 waves of the largest machine that `small_machine` makes."""


def workload(seed: int) -> Workload:
    """A sum over one to four accesses, which stream, share rows, columns and tables, or overlap."""
    rng = random.Random(seed)
    width = rng.choice((8, 16, 32, 64))
    height = -(-rng.choice((1, 2, 3, 5)) * LEAST_GROUPS // width)
    items, terms = rng.choice((32, 64, 128)), rng.choice((1, 2, 4, 8))
    row = width * items

    def index() -> str:
        return rng.choice(
            (
                f"(g1*{row} + g0*{items} + l)*{terms} + k",  # a stream, transposed
                f"(k*{height} + g1)*{row} + g0*{items} + l",  # a stream
                f"(g1 + k)*{row + 8} + g0*{items} + l + {rng.randrange(5)}",  # a stencil
                f"k*{items * 8} + {rng.choice((1, 2, 8))}*l",  # a table
                f"g1*{terms * items} + k*{items} + l",  # shared by a row of groups
                f"k*{row} + g0*{items} + l",  # shared by a column of groups
                f"(g0*{terms} + k)*{items} + l",  # a tile of a column
                f"(g1*{row} + g0*{items} + l)*{rng.choice((2, 4, 16))} + k",  # strides
                f"g0*{items * rng.choice((1, 2))} + l + k*{rng.choice((items // 2, 3 * items))}",
            )
        )

    names = "abcd"[: rng.randint(1, 4)]
    summed = " + ".join(f"{name}[{index()}]" for name in names)
    unit = lp.make_kernel(
        f"{{[g0, g1, l, k]: 0 <= g0 < {width} and 0 <= g1 < {height} and 0 <= l < {items}"
        f" and 0 <= k < {terms}}}",
        f"out[g1*{row} + g0*{items} + l] = sum(k, {summed})",
        [lp.GlobalArg(",".join([*names, "out"]), np.float32, shape=lp.auto)],
        lang_version=(2018, 2),
        name=f"random{seed}",
    )
    unit = lp.tag_inames(unit, "g0:g.0, g1:g.1, l:l.0")
    sizes = {arg.name: [int(n) for n in arg.shape] for arg in unit.default_entrypoint.args}
    return Workload(unit, {name: np.zeros(sizes[name], np.float32) for name in names})


def small_machine(seed: int) -> Machine:
    """Four cores of a V100 with small caches: an L2 that most launches fill, or that none does."""
    rng = random.Random(seed)
    v100 = load_machine("v100")
    first, second = v100.levels
    first = dataclasses.replace(
        first, size_bytes=1 << 14, storage_bytes=0, local_carveouts_bytes=()
    )
    size_bytes = rng.choice((1 << 17, 1 << 19, 1 << 21))
    second = dataclasses.replace(second, size_bytes=size_bytes, n_slices=4, cores_per_instance=4)
    return v100.replace(
        n_cores=4,
        levels=(first, second),
        residency=dataclasses.replace(v100.residency, max_groups=rng.choice((2, 4, 8))),
        model_error_points={},
    )
