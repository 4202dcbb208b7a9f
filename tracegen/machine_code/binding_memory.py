"""The memory of a launch: the arrays of its arguments at the addresses of the address map, copied before they are written."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from memsim.errors import KernelError
from memsim.trace import ArrayExtent
from tracegen.recording.sites import BASE_ALIGNMENT_BYTES, allocate
from tracegen.workloads.checks import short

Bytes = npt.NDArray[np.uint8]
PIECE_BYTES = 1 << 20
WORD_BYTES = 4
Address = Callable[[Any], int]
"""The address of an array in the address map, 0 for None."""


class Memory:
    """The arrays of an address map.

    arrays : name -> the user's array, which is not changed
    raw : name -> initial bytes, of what is no array of the user's, as variables of the program; a number for so many zeros
    order : of all names, by default as in arrays, then raw
    layouts : name -> shape, type and strides, of those of raw that are arrays
    views : name -> the bytes of each, which may be written; made when they are first asked for
    """

    def __init__(
        self,
        arrays: Mapping[str, npt.NDArray[Any]],
        raw: Mapping[str, bytes | int],
        order: Sequence[str] = (),
        layouts: Mapping[str, tuple[Any, Any, Any]] | None = None,
    ) -> None:
        self.arrays, self.raw, self.layouts = dict(arrays), dict(raw), dict(layouts or {})
        sizes = {name: int(array.nbytes) for name, array in arrays.items()}
        sizes |= {name: one if isinstance(one, int) else len(one) for name, one in raw.items()}
        self.extents: tuple[ArrayExtent, ...] = allocate(
            {name: sizes[name] for name in order or sizes}
        )
        self.bases = {one.name: one.base_bytes for one in self.extents}
        self._sizes = {one.name: one.size_bytes for one in self.extents}
        self._addresses = {id(array): self.bases[name] for name, array in self.arrays.items()}
        self.views: dict[str, Bytes] = _MadeWhenAskedFor(self._made)

    def read(self, name: str) -> Bytes:
        """The present bytes of an array, which must not be written: the user's own until there is a copy."""
        array = self.arrays.get(name)
        if name in self.views or array is None or array.dtype.hasobject:
            return self.views[name]
        if not (array.flags.forc and array.size) or array.nbytes % WORD_BYTES:
            return self.views[name]
        own = array.reshape(-1, order="A").view(np.uint8)
        own.flags.writeable = False
        return own

    def fill(self) -> None:
        """Gives all arrays their initial values."""
        for name in self.views:
            self._write(name, fresh=False)

    def _made(self, name: str) -> Bytes:
        size = self._sizes[name]
        try:
            whole = np.zeros(size + BASE_ALIGNMENT_BYTES, np.uint8)
        except (MemoryError, ValueError):
            raise KernelError(f"there is no memory for the {size} bytes of array {name}") from None
        self.views[name] = whole[:size]
        self._write(name, fresh=True)
        return self.views[name]

    def _write(self, name: str, *, fresh: bool) -> None:
        """Gives an array its initial values. fresh : its memory is zero, so that zeros need no pages"""
        if name in self.arrays:
            _write(self.views[name], content(self.arrays[name], self.address), fresh)
            return
        data = self.raw[name]
        if isinstance(data, bytes):
            _write(self.views[name], np.frombuffer(data, np.uint8), fresh)
        elif not fresh:
            self.views[name][:] = 0

    def address(self, array: Any) -> int:
        """The address of an array, 0 for None. Raises KernelError for one that is not in this memory."""
        if array is not None and id(array) not in self._addresses:
            what = "a pointer takes an array of the kernel's arguments, or None"
            raise KernelError(f"{what}, got {short(array)}")
        return 0 if array is None else self._addresses[id(array)]

    def array(self, name: str) -> npt.NDArray[Any]:
        """A copy of an array as kernels left it, or bytes; the user's own where it has pointers."""
        if name in self.layouts:
            shape, dtype, strides = self.layouts[name]
            whole = np.ndarray(shape, dtype, self.views[name].data, strides=strides)
            return whole.copy(order="K")
        if name not in self.arrays:
            return self.views[name].copy()
        own = self.arrays[name]
        if not own.size or own.dtype.hasobject:
            return own.copy()
        flat = self.views[name].view(own.dtype)
        return flat.reshape(own.shape, order="F" if own.flags.fnc else "C").copy(order="K")

    def copies(self, names: Iterable[str]) -> dict[str, Bytes]:
        """The present bytes of arrays, for `paste`."""
        return {name: self.views[name].copy() for name in names}

    def paste(self, copies: Mapping[str, Bytes]) -> None:
        for name, data in copies.items():
            self.views[name][:] = data


class _MadeWhenAskedFor(dict[str, Bytes]):
    def __init__(self, made: Callable[[str], Bytes]) -> None:
        super().__init__()
        self._made = made

    def __missing__(self, name: str) -> Bytes:
        return self._made(name)


def content(array: npt.NDArray[Any], address: Address) -> Bytes:
    """The bytes of an array, with addresses for the arrays that it contains."""
    flat = array.reshape(-1, order="A")
    if flat.dtype.hasobject:
        plain = np.zeros(flat.shape, _plain(flat.dtype))
        _fill(plain, flat, address)
        flat = plain
    return np.ascontiguousarray(flat).view(np.uint8) if flat.size else np.empty(0, np.uint8)


def _write(view: Bytes, data: Bytes, fresh: bool) -> None:
    for first in range(0, len(data), PIECE_BYTES):
        piece = data[first : first + PIECE_BYTES]
        if not fresh or piece.any():
            view[first : first + PIECE_BYTES] = piece


def _plain(dtype: Any) -> Any:
    """The type with 64-bit integers for pointers."""
    if dtype.kind == "O":
        return np.dtype(np.uint64)
    if dtype.names is None:
        return dtype
    return np.dtype(
        {
            "names": list(dtype.names),
            "formats": [_plain(dtype.fields[name][0]) for name in dtype.names],
            "offsets": [dtype.fields[name][1] for name in dtype.names],
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
