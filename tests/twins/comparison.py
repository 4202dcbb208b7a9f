"""Runs code with the interpreter and with its twin, and says where they differ."""

from __future__ import annotations

import copy
import ctypes
from collections.abc import Collection
from typing import Any

import numpy as np

from memsim.errors import KernelError
from memsim.trace import ArrayExtent
from tests.twins import execution as twin
from tracegen.execution import operations as o
from tracegen.execution import run
from tracegen.execution.code import Code
from tracegen.execution.state import Size


def interpreted(
    code: Code, launch: twin.Launch, memory: twin.Memory
) -> tuple[run.Execution, run.Recorded]:
    """One group in the interpreter; `memory` is changed."""
    regions = [
        run.Region(
            extent=ArrayExtent(name=name, base_bytes=base, size_bytes=len(data)), content=data
        )
        for name, base, data in memory.arrays
    ]
    execution = run.Execution(
        code,
        run.Launch(
            grid=(1, 1, 1), group_shape=launch.group_size, regions=regions, banks=memory.banks,
            local_bytes=memory.local_bytes, private_bytes=memory.private_bytes,
        ),
    )  # fmt: skip
    return execution, execution.run(np.zeros(1, np.int64))


def rows_of(execution: run.Execution, warp: int) -> np.ndarray:
    """(n_rows, lanes) uint32 that a sub-group ended with."""
    code, stride = execution.code, int(execution.state.sizes[Size.ROW_BYTES]) // 4
    words = ctypes.cast(
        int(execution.state.rows[warp]), ctypes.POINTER(ctypes.c_uint32 * (code.n_rows * stride))
    )
    return np.array(words.contents, np.uint32).reshape(-1, stride)[:, : code.lanes]


def masks_of(execution: run.Execution, warp: int) -> np.ndarray:
    """(n_masks, lanes) bool that a sub-group ended with."""
    words = execution.state.masks[warp, : execution.code.n_masks].astype(np.uint64)
    return (words[:, None] >> np.arange(execution.code.lanes, dtype=np.uint64) & np.uint64(1)) != 0


def granules(event: twin.Event) -> dict[int, int]:
    """Sectors of 32 bytes that an access touches, with a bit for each byte."""
    found: dict[int, int] = {}
    for address in event.addresses.values():
        for byte in range(address, address + event.bytes):
            found[byte >> 5] = found.get(byte >> 5, 0) | 1 << (byte & 31)
    return found


def recorded(execution: run.Execution, result: run.Recorded) -> list[tuple[Any, ...]]:
    """Accesses as the twin's events are described by `described`."""
    n_places = len(execution.launch.regions) + 1
    out = []
    begin = 0
    for k, place in enumerate(result.access.tolist()):
        end = int(result.granule_end[k])
        number, region = divmod(place, n_places)
        rows, masks = (one[begin:end].tolist() for one in (result.granule, result.byte_mask))
        touched = dict(zip(rows, masks, strict=True))
        private = region == n_places - 1
        where = "barrier" if place < 0 else "private" if private else touched
        number = -1 if place < 0 else execution.places[number]
        out.append((number, where, int(result.lanes[k]), int(result.waits[k])))
        begin = end
    return out


def described(group: twin.Group) -> list[tuple[Any, ...]]:
    out: list[tuple[Any, ...]] = []
    for event in (event for warp in group.warps for event in warp.events if event.kind != "arrive"):
        barrier, private = event.kind == "barrier", event.space == o.PRIVATE
        touched = granules(event)
        n_lanes = min(2 * len(touched), 32) if event.space == o.BULK else len(event.addresses)
        where = "barrier" if barrier else "private" if private else touched
        out.append((-1 if barrier else event.instruction, where, n_lanes, event.waits))
    return out


INFINITIES = {"f16": 0x7C00, "bf16": 0x7F80}


def one_nan(rows: np.ndarray, formats: dict[int, str]) -> np.ndarray:
    """Rows where everything that is not a number is the same one. formats : see programs.result_format"""
    rows = rows.copy()
    for row, form in formats.items():
        if form in INFINITIES:
            for shift in (0, 16):
                nan = rows[row] >> shift & 0x7FFF > INFINITIES[form]
                rows[row] = np.where(nan, rows[row] | 0xFFFF << shift, rows[row])
        elif form == "f64":
            wide = rows[row].astype(np.uint64) | rows[row + 1].astype(np.uint64) << np.uint64(32)
            rows[row : row + 2, np.isnan(wide.view(np.float64))] = 0xFFFFFFFF
        else:
            infinity = 0x7F800000 if form == "f32" else 0x7FF00000
            rows[row, rows[row] & 0x7FFFFFFF > infinity] = 0xFFFFFFFF
    return rows


def near(theirs: np.ndarray, ours: np.ndarray) -> np.ndarray:
    """Of floats: equal to 1e-6 of their size, or as subnormal numbers to the last digit."""
    a, b = (row.view(np.float32).astype(np.float64) for row in (theirs, ours))
    with np.errstate(invalid="ignore"):
        return (theirs == ours) | (abs(a - b) <= np.maximum(1e-6 * abs(b), 2.0**-149))


def differences(
    code: Code,
    group_size: tuple[int, int, int],
    memory: twin.Memory,
    formats: dict[int, str] | None = None,
    approximate: Collection[int] = (),
) -> list[str]:
    """What the interpreter does otherwise than the twin: rows and masks of existing lanes, memory, accesses, segments.

    formats : of rows that hold floating-point numbers;  approximate : rows of floats that need not be equal bit by bit
    """
    ours, theirs = copy.deepcopy(memory), copy.deepcopy(memory)
    launch = twin.Launch(group_size)
    found: list[str] = []
    try:
        group = twin.run_group(code, launch, (0, 0, 0), ours)
    except KernelError as error:
        try:
            interpreted(code, launch, theirs)
        except run.Fault:
            return []
        return [f"only the twin says: {error}"]
    try:
        execution, result = interpreted(code, launch, theirs)
    except run.Fault as error:
        return [f"only the interpreter says: {error} at {error.address:#x}, {error.waiting}"]
    for warp in group.warps:
        masks = masks_of(execution, warp.number)
        rows, wanted = (
            one_nan(one, formats or {}) for one in (rows_of(execution, warp.number), warp.rows)
        )
        for row in range(o.FIRST_ROW, code.n_rows):
            equal = (near if row in approximate else np.equal)(rows[row], wanted[row])
            found += [
                f"sub-group {warp.number} row {row} lane {lane}: {rows[row, lane]:#x}, not {wanted[row, lane]:#x}"
                for lane in np.flatnonzero(~equal & warp.exists)
            ]
        for mask in range(o.FIRST_MASK, code.n_masks):
            for lane in np.flatnonzero((masks[mask] != warp.masks[mask]) & warp.exists):
                found.append(
                    f"sub-group {warp.number} mask {mask} lane {lane}: {masks[mask, lane]}, not {warp.masks[mask, lane]}"
                )
    for (name, _, a), (_, _, b) in zip(theirs.arrays, ours.arrays, strict=True):
        found += [f"{name}[{k}]: {a[k]}, not {b[k]}" for k in np.flatnonzero(a != b)]
    found += [
        f"access {k}: {a}, not {b}"
        for k, (a, b) in enumerate(zip(recorded(execution, result), described(group), strict=False))
        if a != b
    ]
    if len(result.access) != len(described(group)):
        found.append(f"{len(result.access)} accesses, not {len(described(group))}")
    found += [
        f"segment {k}: {a} times, not {b}"
        for k, (a, b) in enumerate(zip(result.segment_count, group.segments, strict=False))
        if a != b
    ]
    return found
