"""What workloads are made of, checked: their fields where they are made, values where they are bound."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from numbers import Integral
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from memsim.errors import KernelError
from memsim.visible import visible

LONGEST_SHOWN = 40
MOST_PER_AXIS = (1 << 62) - 1
MOST_REGISTERS = 1 << 26
MOST_LOCAL_BYTES = 1 << 30


def short(value: Any) -> str:
    """A value in a message: one line, whatever its own text is."""
    if isinstance(value, np.ndarray):
        return f"an array of {_short_text(str(value.dtype))}"
    try:
        text = repr(value)
    except Exception:  # of the user's own class, or an integer of too many digits
        text = f"a value of type {type(value).__name__}"
    return _short_text(text)


def _short_text(text: str) -> str:
    text = visible(text[: 2 * LONGEST_SHOWN])
    return text if len(text) <= LONGEST_SHOWN else f"{text[: LONGEST_SHOWN - 3]}..."


def check_fields(workload: Any, skipped: Sequence[str] = ()) -> None:
    """Raises KernelError for the first field of a workload that is of another kind than documented."""
    is_file = hasattr(workload, "path")
    own = {"kernel": (_is_text, "the name of a kernel")} if is_file else {}
    own |= {"arguments": _NAMED} if hasattr(workload, "origin") else {}
    rules = _RULES | own
    for name, (holds, rule) in rules.items():
        if name not in skipped and hasattr(workload, name) and not holds(getattr(workload, name)):
            raise KernelError(f"{name} must be {rule}, got {short(getattr(workload, name))}")


def _is_size(value: Any) -> bool:
    extents = value if isinstance(value, (tuple, list)) else (value,)
    return all(is_whole(extent, MOST_PER_AXIS, -MOST_PER_AXIS) for extent in extents)


def is_whole(value: Any, most: int, least: int = 0) -> bool:
    """Whether a value is a whole number between these; truth values and times are none."""
    none = isinstance(value, (bool, np.timedelta64))
    return isinstance(value, Integral) and not none and least <= int(value) <= most


def _is_text(value: Any) -> bool:
    return value is None or isinstance(value, str)


def _are_texts(value: Any) -> bool:
    listed = isinstance(value, (tuple, list)) and all(isinstance(one, str) for one in value)
    return listed or (isinstance(value, str) and _can_be_split(value))


def _can_be_split(text: str) -> bool:
    try:
        shlex.split(text)
    except ValueError:
        return False
    return True


def _are_named(value: Any) -> bool:
    return isinstance(value, Mapping) and all(isinstance(name, str) for name in value)


_NAMED = (_are_named, "a mapping from name to value")
_SIZE = (_is_size, f"whole numbers up to {MOST_PER_AXIS}, one for each axis")
_RULES: dict[str, tuple[Callable[[Any], bool], str]] = {
    "path": (lambda value: _is_text(value) or isinstance(value, PathLike), "the path of a file"),
    "source": (_is_text, "a text"),
    "source_file": (_is_text, "the path of a file"),
    "arguments": (
        lambda value: _are_named(value) or isinstance(value, (tuple, list)),
        "a mapping from name to value, or a list of values",
    ),
    "symbols": _NAMED,
    "settings": _NAMED,
    "config": (lambda value: is_whole(value, 1 << 20), "the number of a configuration"),
    "global_size": _SIZE,
    "local_size": _SIZE,
    "grid": _SIZE,
    "block": _SIZE,
    "cluster": _SIZE,
    "shared_bytes": (
        lambda value: is_whole(value, MOST_LOCAL_BYTES),
        f"a whole number of bytes up to {MOST_LOCAL_BYTES}",
    ),
    "build_options": (_are_texts, "a text whose quotation marks are closed, or a list of texts"),
    "check": (lambda value: value is None or callable(value), "a function"),
    "registers_per_item": (
        lambda value: value is None or is_whole(value, MOST_REGISTERS),
        f"a whole number up to {MOST_REGISTERS}",
    ),
}


def by_name(kernel: str, names: Sequence[str], given: Any) -> dict[str, Any]:
    """Parameter -> its argument. names : of the parameters, in order

    given : parameter -> argument, or the arguments in order
    Raises KernelError where they do not fit.
    """
    listed = ", ".join(names) or "none"
    if not isinstance(given, Mapping):
        given = list(given)
        if len(given) != len(names):
            raise KernelError(
                f"kernel {kernel} takes {len(names)} arguments ({listed}), got {len(given)}"
            )
        return dict(zip(names, given, strict=True))
    for name in given:
        if name not in names:
            raise KernelError(f"kernel {kernel} has no argument {name}; it has {listed}")
    missing = ", ".join(name for name in names if name not in given)
    if missing:
        raise KernelError(f"kernel {kernel} needs a value for {missing}; it has {listed}")
    return dict(given)


def check_array(what: str, value: Any, *, objects: bool = False) -> npt.NDArray[Any]:
    """The value, an array whose bytes a kernel can use. objects : whether it may contain pointers"""
    if not isinstance(value, np.ndarray):
        raise KernelError(f"{what} takes a numpy array, got {short(value)}")
    if isinstance(value, np.ma.MaskedArray):
        raise KernelError(f"{what} takes an array without a mask, as .filled(value) makes one")
    if value.dtype.hasobject and not objects:
        raise KernelError(f"{what} takes an array of numbers, got {short(value)}")
    if not value.dtype.isnative:
        raise KernelError(
            f"{what} takes numbers in the order of bytes of this computer, got {short(value)}"
        )
    return value


def check_gaps(what: str, value: npt.NDArray[Any]) -> None:
    if not (value.flags.c_contiguous or value.flags.f_contiguous):
        raise KernelError(f"{what} takes an array without gaps: make a copy of it")


def number(what: str, dtype: np.dtype[Any] | None, value: Any) -> Any:
    """The value as a numpy scalar; as it is where its type is not known.

    what : names the argument in messages
    """
    kinds: tuple[type, ...] = (int, float, np.integer, np.floating, np.bool_)
    kinds += (complex, np.complexfloating) if dtype is None or dtype.kind == "c" else ()
    is_number: bool = isinstance(value, kinds) and not isinstance(value, np.timedelta64)
    if not is_number:
        raise KernelError(f"{what} takes a number, got {short(value)}")
    if dtype is None:
        return value
    if dtype.kind in "iu":
        if isinstance(value, (float, np.floating)) and not float(value).is_integer():
            raise KernelError(f"{what} takes an integer, got {short(value)}")
        limits = np.iinfo(dtype)
        if not limits.min <= int(value) <= limits.max:
            raise KernelError(
                f"{what} takes an integer from {limits.min} to {limits.max}, got {short(value)}"
            )
    try:
        return dtype.type(value)
    except OverflowError as error:
        raise KernelError(f"{what} takes a number of type {dtype}, got {short(value)}") from error


def check_elements(
    what: str, value: npt.NDArray[Any], size_bytes: int, wanted: str | None = None
) -> None:
    """Raises KernelError for an array that has no whole elements of this size, 0 for any, or other numbers than are wanted."""
    dtype = value.dtype
    if size_bytes and value.nbytes % size_bytes:
        raise KernelError(f"{what} takes elements of {size_bytes} bytes, got {value.nbytes} bytes")
    if wanted and dtype.fields is None and not _alike(np.dtype(wanted), dtype):
        raise KernelError(f"{what} takes an array of {np.dtype(wanted)}, got one of {dtype}")


def _alike(wanted: np.dtype[Any], given: np.dtype[Any]) -> bool:
    """Whether a C array may hold a numpy array: signs may differ, and bytes may be of any type."""
    if wanted.itemsize == 1:
        return True
    integers = wanted.kind in "iu" and given.kind in "iu"
    pairs = wanted.kind == "f" and given.kind == "c"
    size = given.itemsize // 2 if pairs else given.itemsize
    return size == wanted.itemsize and (integers or pairs or given.kind == wanted.kind)


def axes(size: Any) -> tuple[int, ...]:
    """Extents along each axis, of which a number is the first."""
    listed = (size,) if isinstance(size, (int, np.integer)) else tuple(size)
    return tuple(int(extent) for extent in listed)


def read_text(path: Path, encoding: str = "utf-8", errors: str = "strict") -> str:
    """The text of a kernel's file. Raises KernelError where it cannot be read."""
    if not path.is_file():
        raise KernelError(f"no such kernel file: {path}")
    try:
        return path.read_text(encoding=encoding, errors=errors)
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise KernelError(f"cannot read {path}: {reason}") from error


def record(what: str, size_bytes: int, value: Any, *, objects: bool = False) -> npt.NDArray[Any]:
    """The value of a struct or vector as an array of one. objects : whether it may contain pointers"""
    if isinstance(value, Mapping) and value:
        value = _laid_out(what, value)
    elif value is None or isinstance(value, Mapping):
        value = (
            np.zeros(size_bytes, np.uint8) if size_bytes == 1 else value
        )  # a class without fields
    if not isinstance(value, (np.generic, np.ndarray)) or value.nbytes != size_bytes:
        raise KernelError(f"{what} takes a numpy value of {size_bytes} bytes, got {short(value)}")
    return check_array(what, np.array(value, copy=True), objects=objects)


def _laid_out(what: str, value: Mapping[str, Any]) -> npt.NDArray[Any]:
    """A struct from its fields and their values, arranged as in C; arrays and None are pointers."""
    kinds: list[Any] = []
    values = []
    for name, one in value.items():
        is_listed = isinstance(one, (list, tuple)) and all(
            isinstance(each, np.generic) for each in one
        )
        if is_listed and len({each.dtype for each in one}) == 1:  # an array in the struct
            one = np.array(one)
            kinds.append((name, one.dtype, one.shape))
        elif one is None or isinstance(one, (np.generic, np.ndarray)):
            kinds.append((name, one.dtype if isinstance(one, np.generic) else np.dtype(object)))
        else:
            raise KernelError(
                f"field {name} of {what} takes an array or None for a pointer, else a numpy scalar, or a list of them for"
                f" an array in the struct, got {short(one)}"
            )
        values.append(one)
    return np.array(tuple(values), np.dtype(kinds, align=True))
