"""The memory of a launch: the arrays side by side, as in the address map, and structs of arguments."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from memsim.errors import KernelError
from memsim.trace import ArrayExtent
from tracegen.cuda.arguments import Arguments
from tracegen.cuda.library import shared
from tracegen.recording.sites import FIRST_BASE_BYTES
from tracegen.workloads.checks import short

PIECE_BYTES = 1 << 20
Address = Callable[[Any], int]
"""The address of an array in the kernel's memory, 0 for None."""


class Memory:
    """The arrays of a launch, copied, each as far from the first as in the address map.

    views : name -> the bytes of an array
    """

    def __init__(self, arguments: Arguments, extents: Sequence[ArrayExtent]) -> None:
        self.arguments = arguments
        end = max((extent.base_bytes + extent.size_bytes for extent in extents), default=0)
        size = max(end - FIRST_BASE_BYTES, 1)
        self.whole = shared(size)
        self.base = self.whole.ctypes.data
        self.views: dict[str, npt.NDArray[np.uint8]] = {}
        self.addresses: dict[int, int] = {}
        for extent in extents:
            start = extent.base_bytes - FIRST_BASE_BYTES
            if extent.name in arguments.arrays:
                self.views[extent.name] = self.whole[start : start + extent.size_bytes]
                array = arguments.arrays[extent.name]
                self.addresses[id(array)] = self.base + start
        for name, view in self.views.items():
            _write(view, content(arguments.arrays[name], self.address))
        self._structs = [self._value(value) for value in arguments.values]
        pointers = [struct.ctypes.data for struct in self._structs]
        self.values = (ctypes.c_void_p * max(len(pointers), 1))(*pointers)

    def address(self, array: Any) -> int:
        if array is not None and id(array) not in self.addresses:
            what = "a pointer takes an array of the kernel's arguments, or None"
            raise KernelError(f"{what}, got {short(array)}")
        return 0 if array is None else self.addresses[id(array)]

    def _value(self, value: Any) -> npt.NDArray[np.uint8]:
        if value is None or isinstance(value, str):
            named = None if value is None else self.arguments.arrays[value]
            return np.array([self.address(named)], np.uint64).view(np.uint8)
        return content(value, self.address)

    def array(self, name: str) -> npt.NDArray[Any]:
        """An array as the kernel left it; an uninitialised one where it has pointers."""
        own = self.arguments.arrays[name]
        if not own.size or own.dtype.hasobject:
            return np.empty_like(own)
        return (
            self.views[name].view(own.dtype).reshape(own.shape, order="F" if own.flags.fnc else "C")
        )


def content(array: npt.NDArray[Any], address: Address) -> npt.NDArray[np.uint8]:
    """The bytes of an array, with addresses for the arrays that it contains."""
    flat = array.reshape(-1, order="A")
    if flat.dtype.hasobject:
        plain = np.zeros(flat.shape, _plain(flat.dtype))
        _fill(plain, flat, address)
        flat = plain
    return np.ascontiguousarray(flat).view(np.uint8) if flat.size else np.empty(0, np.uint8)


def _write(view: npt.NDArray[np.uint8], data: npt.NDArray[np.uint8]) -> None:
    """Copies into new memory, which is zero: pieces of zeros need no pages."""
    for first in range(0, len(data), PIECE_BYTES):
        piece = data[first : first + PIECE_BYTES]
        if piece.any():
            view[first : first + PIECE_BYTES] = piece


def _plain(dtype: Any) -> Any:
    """The type with 64-bit integers for pointers."""
    if dtype.kind == "O":
        return np.dtype(np.uint64)
    if dtype.names is None:
        return dtype
    fields: Mapping[str, Any] = dtype.fields
    return np.dtype(
        {
            "names": list(dtype.names),
            "formats": [_plain(fields[name][0]) for name in dtype.names],
            "offsets": [fields[name][1] for name in dtype.names],
            "itemsize": dtype.itemsize,
        }
    )


def _fill(plain: npt.NDArray[Any], array: npt.NDArray[Any], address: Address) -> None:
    if array.dtype.kind == "O":
        plain[...] = np.array([address(value) for value in array.ravel()], np.uint64).reshape(
            plain.shape
        )
    elif array.dtype.names is None:
        plain[...] = array
    else:
        for name in array.dtype.names:
            _fill(plain[name], array[name], address)
