"""Tensor maps that the host makes for NVIDIA's bulk copies, as cuTensorMapEncodeTiled does."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from memsim.errors import KernelError
from tracegen.execution import tensor_maps as t
from tracegen.workloads.checks import is_whole, short

_SWIZZLES = {None: 0, "32B": 1, "64B": 2, "128B": 3}
MOST_BOX, MOST_STEP, MOST_SIZE, MOST_DISTANCE = 256, 8, 1 << 32, 1 << 40
_RECORD = np.dtype([("elements", object), ("words", np.uint32, (t.MAP_BYTES - 8) // 4)])


def tensor_map(
    array: npt.NDArray[Any],
    box: Sequence[int],
    *,
    swizzle: str | None = None,
    element_strides: Sequence[int] | None = None,
    dtype: str | None = None,
    shape: Sequence[int] | None = None,
    strides_bytes: Sequence[int] | None = None,
) -> npt.NDArray[Any]:
    """A tensor map of an array, for a parameter of type CUtensorMap: a record of 128 bytes with a pointer to the array. For a
    parameter that points to tensor maps, put such records into an array: `np.array([tensor_map(x, (64, 64))])`.

    As in numpy, the last axis is the one whose elements follow each other; CUDA counts axes from that one on.

    array : of 1 to 5 axes, which may be another argument of the kernel, too
    box : elements of a tile along each axis, at most 256; the last axis has a multiple of 16 bytes
    swizzle : `32B`, `64B` or `128B`: parts of 16 bytes of a row change places within so many bytes, which a row does not exceed
    element_strides : of so many elements along an axis one is copied, at most 8; 1 by default
    dtype : of the elements, as numpy calls it, or `bfloat16`; by default the array's
    shape, strides_bytes : of the tensor, where they are not the array's: elements along each axis, and bytes from one to the next

    Elements out of bounds are read as 0, and not written. Interleaved layouts and im2col are not modelled.
    Raises KernelError with the rule that is broken: those of cuTensorMapEncodeTiled (CUDA Driver API, "Tensor Map Object
    Management").
    """
    if not isinstance(array, np.ndarray):
        raise KernelError(f"a tensor map needs a numpy array, got {short(array)}")
    kind = dtype or (array.dtype.names[0] if array.dtype.names else array.dtype.name)
    kind = kind if kind == "bfloat16" else _kind(kind)
    if kind not in t.TYPES:
        raise KernelError(f"a tensor map has no elements of type {short(kind)}")
    number = t.TYPES.index(kind)
    element = t.TYPE_BYTES[number]
    sizes = _numbers("shape", array.shape if shape is None else shape, MOST_SIZE)
    n = len(sizes)
    if not 1 <= n <= t.MOST_AXES:
        raise KernelError(f"a tensor map has 1 to {t.MOST_AXES} axes, got {n}")
    strides = list(array.strides if strides_bytes is None else strides_bytes)
    if strides_bytes is None and shape is not None:
        strides = [element * math.prod(sizes[k + 1 :]) for k in range(n)]
    distances = _numbers("strides_bytes", strides, MOST_DISTANCE - 1, n, least=0)
    boxes = _numbers("box", box, MOST_BOX, n)
    steps = _numbers("element_strides", element_strides or [1] * n, MOST_STEP, n)
    row = -(-boxes[-1] // steps[-1]) * element
    if distances[-1] != element:
        raise KernelError(
            f"the elements of the last axis of a tensor map follow each other, got a distance of {distances[-1]} bytes for {element}"
        )
    if any(one % t.UNIT_BYTES for one in distances[:-1]):
        raise KernelError(
            f"strides_bytes of a tensor map must be multiples of 16 but the last, got {distances}"
        )
    if row % t.UNIT_BYTES:
        raise KernelError(f"a row of the box must be a multiple of 16 bytes, got {row}")
    if swizzle not in _SWIZZLES:
        raise KernelError(f"swizzle must be None, 32B, 64B or 128B, got {short(swizzle)}")
    if swizzle and row > int(swizzle[:-1]):
        raise KernelError(
            f"a row of the box may have {swizzle[:-1]} bytes with swizzle {swizzle}, got {row}"
        )
    record = np.zeros((), _RECORD)
    data = np.zeros(t.MAP_BYTES, np.uint8)
    words = data.view(np.uint32)
    words[t.FORM // 4] = (
        (n - 1) << t.RANK | number << t.TYPE | _SWIZZLES[swizzle] << t.SWIZZLE
    )  # the first axis is the last one of numpy
    for k, (size, distance, extent, step) in enumerate(
        zip(sizes[::-1], distances[::-1], boxes[::-1], steps[::-1], strict=True)
    ):
        words[t.SIZES // 4 + k] = size - 1
        words[t.STEPS // 4] |= np.uint32((step - 1) << 3 * k)
        data[t.BOX + k] = extent - 1
        if k:
            units = distance // t.UNIT_BYTES
            words[t.DISTANCES // 4 + k - 1] = units & 0xFFFFFFFF
            words[t.HIGH_DISTANCES // 4] |= np.uint32(units >> 32 << 4 * (k - 1))
    record[()] = (array, words[2:])
    return record


def _kind(name: Any) -> str:
    """The name in TYPES; of small numbers only the size counts."""
    try:
        kind = np.dtype(name)
    except TypeError:
        return str(name)
    return f"u{kind.itemsize}" if kind.itemsize <= 2 and kind.str[1:] != "f2" else kind.str[1:]


def _numbers(what: str, given: Any, most: int, n: int | None = None, least: int = 1) -> list[int]:
    """One whole number from 1 on an axis."""
    listed = list(given) if isinstance(given, (tuple, list)) else [given]
    if n is not None and len(listed) != n:
        raise KernelError(
            f"{what} of a tensor map needs {n} numbers, one an axis, got {len(listed)}"
        )
    for one in listed:
        if not is_whole(one, most, least):
            raise KernelError(
                f"{what} of a tensor map must be from {least} to {most}, got {short(one)}"
            )
    return [int(one) for one in listed]
