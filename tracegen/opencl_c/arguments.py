"""A workload's arguments, checked against the kernel's parameters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from memsim.errors import KernelError
from tracegen.opencl_c.cursors import TypeKind
from tracegen.opencl_c.instrument import points_to
from tracegen.workloads.checks import (
    MOST_LOCAL_BYTES,
    by_name,
    check_array,
    check_gaps,
    is_whole,
    number,
    record,
    short,
)

_SCALARS: dict[Any, str] = {
    TypeKind.CHAR_S: "int8",
    TypeKind.SCHAR: "int8",
    TypeKind.UCHAR: "uint8",
    TypeKind.SHORT: "int16",
    TypeKind.USHORT: "uint16",
    TypeKind.INT: "int32",
    TypeKind.UINT: "uint32",
    TypeKind.LONG: "int64",
    TypeKind.ULONG: "uint64",
    TypeKind.HALF: "float16",
    TypeKind.FLOAT: "float32",
    TypeKind.DOUBLE: "float64",
    TypeKind.BOOL: "bool",
}


@dataclass(frozen=True)
class Argument:
    """One parameter with its value.

    kind : global, constant, local, or "" for a value
    value : the array, bytes of local memory, or a numpy scalar; None for a null pointer
    writable : whether the kernel may write to it
    """

    name: str
    kind: str
    value: Any
    writable: bool = False

    @property
    def near_bytes(self) -> int:
        """Bytes of an argument in local or constant memory."""
        if self.kind == "local" or self.value is None:
            return int(self.value or 0)
        return int(self.value.nbytes)


def bound(
    kernel: Any, given: Mapping[str, Any] | Sequence[Any]
) -> tuple[list[Argument], dict[str, str]]:
    """The kernel's arguments in order, and parameter -> the first one with the same array.

    Raises KernelError that names the parameter and the rule.
    """
    parameters = list(kernel.get_arguments())
    values = by_name(kernel.spelling, [one.spelling for one in parameters], given)
    arguments, buffers = [], {}
    first: dict[int, str] = {}
    for parameter in parameters:
        name = parameter.spelling
        kind = points_to(parameter)
        what = f"argument {name} of kernel {kernel.spelling} ({_readable(parameter.type)})"
        value = _value(what, parameter.type, kind, values[name])
        writable = kind == "global" and not _pointee(parameter).is_const_qualified()
        arguments.append(Argument(name, kind, value, writable))
        if kind == "global":
            key = id(value) if value is not None else id(parameter)
            buffers[name] = first.setdefault(key, name)
    return arguments, buffers


def _value(what: str, kind_of: Any, kind: str, value: Any) -> Any:
    if kind == "local":
        if not is_whole(value, MOST_LOCAL_BYTES, 1):
            raise KernelError(f"{what} takes a number of bytes of local memory, got {short(value)}")
        return int(value)
    if kind:
        return None if value is None else _array(what, kind_of, value)
    canonical = kind_of.get_canonical()
    name = _SCALARS.get(canonical.kind)
    if name is not None:
        return number(what, np.dtype(name), value)
    if canonical.kind not in (TypeKind.RECORD, TypeKind.EXTVECTOR, TypeKind.VECTOR):
        raise KernelError(f"{what} cannot be traced: it is not a number, struct, vector or pointer")
    return np.ascontiguousarray(record(what, canonical.get_size(), value))


def _array(what: str, kind_of: Any, given: Any) -> npt.NDArray[Any]:
    value = check_array(what, given)
    check_gaps(what, value)
    element = kind_of.get_canonical().get_pointee().get_canonical()
    if element.kind in (TypeKind.EXTVECTOR, TypeKind.VECTOR):
        size = element.get_size()
        element = element.element_type
        if value.dtype.fields is None and value.nbytes % size:
            raise KernelError(f"{what} takes elements of {size} bytes, got {value.nbytes} bytes")
    wanted = _SCALARS.get(element.kind)
    if wanted is None:
        size = element.get_size()
        if size > 0 and value.nbytes % size:
            raise KernelError(f"{what} takes elements of {size} bytes, got {value.nbytes} bytes")
    elif value.dtype.fields is None and not _alike(np.dtype(wanted), value.dtype):
        raise KernelError(f"{what} takes an array of {wanted}, got one of {value.dtype}")
    return value


def _alike(wanted: Any, given: Any) -> bool:
    """Whether a C array may hold a numpy array: signs may differ, and bytes may be of any type."""
    if wanted.itemsize == 1:
        return True
    integers = wanted.kind in "iu" and given.kind in "iu"
    pairs = wanted.kind == "f" and given.kind == "c"
    size = given.itemsize // 2 if pairs else given.itemsize
    return bool(size == wanted.itemsize and (integers or pairs or given.kind == wanted.kind))


def _pointee(parameter: Any) -> Any:
    return parameter.type.get_canonical().get_pointee()


def _readable(kind_of: Any) -> str:
    return str(kind_of.spelling).replace("__private", "").strip()
