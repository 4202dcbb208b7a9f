"""The key of a launch: kernel, device, and a hash of the layout of its data.

After Augonnet et al. 2009, figure 4 and footnote 1. The hash is StarPU's: CRC-32C, most significant bit
first, over 32- or 64-bit words in little-endian bytes, folded from the right, h(p1..pk) =
CRC(p1, CRC(p2, .. CRC(pk, 0))): first over the numbers that describe one argument, then over the hashes
of the arguments.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from calib.history.errors import HistoryError
from memsim.visible import visible

POLYNOMIAL = 0x1EDC6F41
"""CRC-32C (Castagnoli), as StarPU's starpu_hash_crc32c_be_n uses it: not reflected, no final xor."""

LONGEST_NAME = 500


@dataclass(frozen=True, kw_only=True, order=True)
class Key:
    """Identifies launches whose times belong together.

    kernel : name of the kernel, with a fingerprint of its source
    device : name of the device
    driver : its driver's version; samples under different drivers are never mixed
    layout : 32-bit hash of the layout of the arguments

    Characters of a name that cannot be printed become escapes. Raises HistoryError for an empty name, or
    a hash beyond 32 bits.
    """

    kernel: str
    device: str
    layout: int
    driver: str = ""

    def __post_init__(self) -> None:
        if not 0 <= self.layout < 2**32:
            raise HistoryError(f"a layout must be a hash of 32 bits, got {self.layout}")
        if not self.kernel or not self.device:
            raise HistoryError("a key needs the names of its kernel and its device")
        for name in ("kernel", "device", "driver"):
            object.__setattr__(self, name, visible(getattr(self, name)))
        longest = max(self.kernel, self.device, self.driver, key=len)
        if len(longest) > LONGEST_NAME:
            raise HistoryError(
                f"a name in a key has at most {LONGEST_NAME} characters, got {len(longest)}:"
                f" {longest[:40]!r}..."
            )


@dataclass(frozen=True, kw_only=True)
class Csr:
    """A sparse matrix in CSR, described by its rows and entries (Augonnet et al. 2009, figure 4)."""

    rows: int
    nnz: int


@functools.cache
def _table() -> tuple[int, ...]:
    entries = []
    for byte in range(256):
        crc = byte << 24
        for _ in range(8):
            crc = (crc << 1) ^ (POLYNOMIAL if crc & 0x80000000 else 0)
        entries.append(crc & 0xFFFFFFFF)
    return tuple(entries)


def crc32c(data: bytes, crc: int = 0) -> int:
    """The CRC-32C of bytes, continued from an earlier CRC."""
    table = _table()
    for byte in data:
        crc = ((crc << 8) & 0xFFFFFFFF) ^ table[(crc >> 24) ^ byte]
    return crc


def fold(parameters: Sequence[int | str]) -> int:
    """The hash h(p1..pk) of Augonnet et al. 2009: the last parameter first, a string by its bytes."""
    crc = 0
    for parameter in reversed(parameters):
        if isinstance(parameter, str):
            crc = crc32c(parameter.encode(), crc)
        else:
            crc = crc32c((parameter & 0xFFFFFFFFFFFFFFFF).to_bytes(8, "little"), crc)
    return crc


def describe(argument: Any) -> tuple[int | str, ...]:
    """The numbers and words that describe an argument's layout, never its content.

    NumPy and PyOpenCL arrays: dtype, dimensions, shape, strides, order. CSR matrices (`Csr`, SciPy's): rows
    and stored entries. Buffers: bytes. Integers: type and value, because they are sizes and bounds. Other
    numbers: their type. Raises HistoryError for anything else.
    """
    if isinstance(argument, Csr):
        return ("csr", argument.rows, argument.nnz)
    if hasattr(argument, "indptr") and hasattr(argument, "nnz"):
        return ("csr", int(argument.shape[0]), int(argument.nnz))
    if isinstance(argument, bool | np.bool_):
        return ("bool", int(argument))
    if isinstance(argument, int | np.integer):
        return (np.dtype(type(argument)).str, int(argument))
    if isinstance(argument, float | complex | np.inexact):
        return (np.dtype(type(argument)).str,)
    if all(hasattr(argument, name) for name in ("dtype", "shape", "strides")):
        return _array(argument)
    size_bytes = getattr(argument, "size", None)
    if isinstance(size_bytes, int):
        return ("buffer", size_bytes)
    if argument is None:
        return ("none",)
    raise HistoryError(f"no layout is known for an argument of type {type(argument).__name__}")


def _array(array: Any) -> tuple[int | str, ...]:
    flags = array.flags
    # A vector is contiguous in both orders; it counts as C.
    order = "C" if flags.c_contiguous else "F" if flags.f_contiguous else "A"
    shape, strides = tuple(map(int, array.shape)), tuple(map(int, array.strides))
    return (np.dtype(array.dtype).str, len(shape), *shape, *strides, order)


def layout_hash(arguments: Iterable[Any]) -> int:
    """The 32-bit hash of the layout of a launch's arguments.

    >>> import numpy as np
    >>> wide, tall = np.empty((512, 1024)), np.empty((1024, 512))
    >>> layout_hash([wide]) == layout_hash([tall])
    False
    """
    return fold([fold(describe(argument)) for argument in arguments])


def total_bytes(arguments: Iterable[Any]) -> int:
    """Bytes of all data together: the size in regressions, as in StarPU."""
    total = 0
    for argument in arguments:
        if hasattr(argument, "indptr") and hasattr(argument, "data"):
            parts = (argument.indptr, argument.indices, argument.data)
            total += sum(int(part.nbytes) for part in parts)
        elif hasattr(argument, "nbytes") and getattr(argument, "shape", ()) != ():
            total += int(argument.nbytes)
        elif isinstance(getattr(argument, "size", None), int) and not np.isscalar(argument):
            total += int(argument.size)
    return total


def fingerprint(name: str, source: str, options: str = "") -> str:
    """A kernel's name and 16 hexadecimal digits that depend on its source and build options."""
    text = "\0".join((name, source, options))
    return f"{name}-{hashlib.sha256(text.encode()).hexdigest()[:16]}"


def kernel_fingerprint(kernel: Any) -> str:
    """A kernel's name with a fingerprint of its program's source and build options."""
    import pyopencl

    program = kernel.program
    try:
        source = program.get_info(pyopencl.program_info.SOURCE)
    except pyopencl.Error:
        source = ""
    if not source:  # the program was made from a binary or from SPIR-V
        binaries = program.get_info(pyopencl.program_info.BINARIES)
        source = "".join(bytes(part).hex() for part in binaries)
    devices = program.get_info(pyopencl.program_info.DEVICES)
    options = program.get_build_info(devices[0], pyopencl.program_build_info.OPTIONS)
    return fingerprint(kernel.function_name, source, options)


def device_title(queue: Any) -> str:
    """The platform, name and compute units of a queue's device; a sub-device thus differs from its parent."""
    device = queue.device
    return f"{device.platform.name}: {device.name} ({device.max_compute_units} units)"
