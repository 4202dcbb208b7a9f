"""Copies of tiles: the interpreter does what its readable twin does, on random tensor maps."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.twins import execution as twin
from tests.twins.comparison import differences
from tracegen.execution import operations as o
from tracegen.execution import run
from tracegen.execution import tensor_maps as t
from tracegen.execution.code import Assembler
from tracegen.workloads.tensor_map import tensor_map

DATA, MAPS, OUT, LOCAL_BYTES = 1 << 20, 1 << 22, 1 << 23, 1 << 15
KINDS = ("load", "store", "add", "max", "prefetch")


def random_map(rng: np.random.Generator) -> tuple[Any, int, list[int]]:
    """The 128 bytes of a map of a tensor at DATA, its axes, and the corner of a tile that may lie beside it."""
    n = int(rng.integers(1, 6))
    number = int(rng.choice([0, 1, 2, 3, 5, 6, 7, 9, 10]))
    element = t.TYPE_BYTES[number]
    sizes = [int(rng.integers(2, 9)) for _ in range(n - 1)] + [int(rng.integers(8, 60))]
    pitch = (sizes[-1] * element + 15) // 16 * 16 + 16 * int(rng.integers(0, 3))
    strides = [element]
    for size in [0, *sizes[1:-1]][::-1][: n - 1]:
        strides.insert(0, pitch if len(strides) == 1 else strides[0] * (size or 1))
    if n > 2 and rng.integers(4) == 0:
        strides[0], strides[1] = strides[1], strides[0]  # rows that do not ascend
    swizzle = [None, "32B", "64B", "128B"][int(rng.integers(4))]
    step = int(rng.choice([1, 1, 1, 2, 3]))
    most = int(swizzle[:-1]) if swizzle else 128
    most = min(most, 256 // step * element)
    row = 16 * int(rng.integers(1, most // 16 + 1)) // element
    box = [int(rng.integers(1, 5)) for _ in range(n - 1)] + [row * step]
    made = tensor_map(
        np.zeros(1, np.uint8),
        box,
        dtype=t.TYPES[number],
        shape=sizes,
        strides_bytes=strides,
        swizzle=swizzle,
        element_strides=[*(int(rng.integers(1, 3)) for _ in range(n - 1)), step],
    )
    data = np.zeros(128, np.uint8)
    data[8:] = made["words"].view(np.uint8)
    data[:8] = np.array([DATA], np.uint64).view(np.uint8)
    return data, n, [int(rng.integers(-3, size)) for size in sizes[::-1]]


def program(rng: np.random.Generator, kind: str) -> tuple[Any, twin.Memory]:
    """Three sub-groups, of which one ends before; of another some lane starts the copies. What local memory holds is stored at OUT."""
    values = rng.integers(0, 256, 1 << 18).astype(np.uint8)
    made, maps = Assembler(), []
    made.block()
    made.instruction(0)
    is_first, is_last = made.mask("first"), made.mask("last")
    subgroup, lane = made.special("subgroup"), made.special("lane")
    made.emit("COMPARE_U", d=is_last, a=subgroup, b=made.constant(2), x=o.EQUAL)
    made.emit("EXIT", guard=2 * is_last)
    made.emit("COMPARE_U", d=is_first, a=subgroup, b=made.constant(int(rng.integers(2))), x=o.EQUAL)
    made.emit("COMPARE_U", d=is_first, a=lane, b=made.constant(5), m=2 * is_first, x=o.GREATER)
    made.emit("REST")
    for k in range(6):
        data, n, corner = random_map(rng)
        maps.append(data)
        made.instruction(k + 1)
        source = made.constant(MAPS + 128 * k, 0)
        place = made.constant(*corner) if any(corner) or n > 2 else made.rows(f"zeros {k}", n)
        to = made.constant(128 * int(rng.integers(0, 4)))
        fields = {"guard": 2 * is_first, "a": source, "b": place, "c": to}
        fields["x"] = 16 << o.BYTES | o.BULK
        if kind in ("load", "prefetch"):
            came, y = made.rows(f"came {k}", 1), n | (o.PREFETCH if kind == "prefetch" else 0)
            barrier = made.constant(64 * k, int(rng.integers(2)))  # and the group, or none named
            made.emit("LOAD", d=came, e=barrier, y=y, **fields)
            x = int(rng.choice([1, 3]))
            made.emit("WAIT_COPIES", a=made.constant(64 * int(rng.integers(0, k + 1))), x=x)
        elif kind == "store":
            made.emit("STORE", y=n, **fields)
        else:
            what = o.ATOMIC_ADD if kind == "add" else o.ATOMIC_MAX_U
            x = fields.pop("x") | what << o.ATOMIC_OPERATION | o.NO_RESULT
            made.emit("ATOMIC", y=n, x=x, **fields)
    made.instruction(7)
    count = made.constant(LOCAL_BYTES)
    fields = {"guard": 2 * is_first, "b": count, "x": 4 << o.BYTES | o.BULK, "y": 0}
    if kind != "load":  # the sum of all bytes, too, by an operation on words
        x = fields.pop("x") | o.ATOMIC_XOR << o.ATOMIC_OPERATION | o.NO_RESULT
        made.emit("ATOMIC", a=made.constant(OUT, 0), x=x, **fields)
    else:
        made.emit("STORE", a=made.constant(OUT, 0), **fields)
    made.emit("REST")
    made.emit("EXIT")
    arrays = [("data", DATA, values), ("maps", MAPS, np.concatenate(maps))]
    arrays += [("out", OUT, values[:LOCAL_BYTES].copy())]
    return made.finish(), twin.Memory(arrays=arrays, local_bytes=LOCAL_BYTES)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(3))
def test_the_interpreter_copies_as_its_twin(
    kind: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "BATCH", 1)  # sub-groups run one after another, as in the twin
    rng = np.random.default_rng((seed, KINDS.index(kind)))
    code, memory = program(rng, kind)
    found = differences(code, (96, 1, 1), memory)
    assert not found, "\n".join(line[:200] for line in found[:20])
