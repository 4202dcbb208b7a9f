"""Integers and pointers to local memory, of all work-items of a group at once.

An integer is a Python int where all work-items agree, and an array (n_item,) of int64 otherwise. None
stands for what only a run determines: values from memory, real numbers, results of other functions.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

Mask = npt.NDArray[np.bool_]
Integer = Any
"""An int, an array (n_item,) of int64, or None."""

_LARGEST = (1 << 63) - 1
_BYTES = {
    **dict.fromkeys(("bool", "char", "uchar", "int8_t", "uint8_t"), 1),
    **dict.fromkeys(("short", "ushort", "half", "int16_t", "uint16_t"), 2),
    **dict.fromkeys(("int", "uint", "unsigned", "signed", "float", "int32_t", "uint32_t"), 4),
    **dict.fromkeys(("long", "ulong", "double", "int64_t", "uint64_t"), 8),
    **dict.fromkeys(("size_t", "ptrdiff_t", "intptr_t", "uintptr_t", "cfloat_t"), 8),
    "cdouble_t": 16,
}
_REALS = ("float", "double", "half", "cfloat_t", "cdouble_t")
_VECTOR = re.compile(r"([a-z]+?)(2|3|4|8|16)")
_TYPE_SUFFIX = re.compile(r"_(?:u?int(?:8|16|32|64)|char|short|int|long)$")


@dataclass(frozen=True)
class Pointer:
    """A pointer into an array in local memory; without extents, the element that it points to.

    byte : offset in the array;  item_bytes : of an element, 0 if that is unknown
    extents : of the array of arrays that it points into; the first one does not matter
    """

    array: str
    byte: Integer
    item_bytes: int
    extents: tuple[int, ...] = (1,)

    def moved(self, index: Integer) -> Pointer:
        step = math.prod(self.extents[1:]) * self.item_bytes
        return replace(self, byte=calculated("+", self.byte, calculated("*", index, step)))

    def element(self, index: Integer) -> Pointer:
        return replace(self.moved(index), extents=self.extents[1:])

    def address(self) -> Pointer:
        """The pointer to what this one stands for."""
        return replace(self, extents=(1, *self.extents))


def type_bytes(words: str) -> int:
    """Bytes of a value of a type, given with its qualifiers; 0 for types that are not OpenCL C's own."""
    for word in reversed(words.replace("*", " ").split()):
        if word in _BYTES:
            return _BYTES["long"] if "long" in words.split() else _BYTES[word]
        vector = _VECTOR.fullmatch(word)
        if vector and vector[1] in _BYTES:
            return _BYTES[vector[1]] * (4 if vector[2] == "3" else int(vector[2]))
    return 0


def converted(value: Integer, words: str) -> Integer:
    """An integer as a variable of a type has it."""
    names = words.split()
    size = type_bytes(words)
    if value is None or isinstance(value, Pointer) or any(name in _REALS for name in names):
        return None if not isinstance(value, Pointer) else value
    if any(_VECTOR.fullmatch(name) for name in names):
        return None
    if size not in (1, 2, 4) or "bool" in names:
        return value
    bits = 8 * size
    is_unsigned = any(name.startswith("u") for name in names)
    if isinstance(value, int):
        low = value & ((1 << bits) - 1)
        return low - (1 << bits) if low >> (bits - 1) and not is_unsigned else low
    return value.astype(f"{'u' if is_unsigned else 'i'}{size}").astype(np.int64)


def holds(value: Integer, mask: Mask) -> Mask | None:
    """Of some work-items, those for which a condition holds; None if that is unknown."""
    if value is None or isinstance(value, Pointer):
        return None
    if isinstance(value, int):
        return mask if value else np.zeros_like(mask)
    return np.asarray(mask & (value != 0))


def chosen(mask: Mask, then: Integer, other: Integer) -> Integer:
    """`then` where the mask is set, else `other`."""
    if mask.all() or then is other:
        return then
    if then is None or other is None or isinstance(then, Pointer) or isinstance(other, Pointer):
        return None
    return np.where(mask, then, other)


def calculated(sign: str, *values: Integer) -> Integer:
    """The result of an operator or a built-in function; None where an operand is unknown."""
    function = _OPERATIONS.get((sign, len(values)))
    if function is None or any(value is None for value in values):
        return None
    if any(isinstance(value, Pointer) for value in values):
        return _pointer(sign, values)
    result = function(*values)
    if isinstance(result, (bool, np.bool_)) or getattr(result, "dtype", None) == np.bool_:
        return int(result) if isinstance(result, (bool, np.bool_)) else result.astype(np.int64)
    return None if isinstance(result, int) and abs(result) > _LARGEST else result


def function_result(name: str, values: Sequence[Integer]) -> Integer:
    """The result of a built-in function of integers; None where it is not one of those."""
    return calculated(_TYPE_SUFFIX.sub("", name), *values)


def _pointer(sign: str, values: Sequence[Integer]) -> Integer:
    left, right = (*values, None)[:2]
    if sign == "+" and isinstance(right, Pointer):
        left, right = right, left
    if sign not in ("+", "-") or not isinstance(left, Pointer) or isinstance(right, Pointer):
        return None
    if not left.extents or not left.item_bytes or right is None:
        return None
    return left.moved(right if sign == "+" else calculated("-", right))


def _divided(a: Integer, b: Integer) -> Integer:
    """The quotient, rounded towards zero."""
    b = _not_zero(b)
    quotient = abs(a) // abs(b)
    if isinstance(quotient, int):
        return quotient if (a < 0) == (b < 0) else -quotient
    return np.where(np.less(a, 0) == np.less(b, 0), quotient, -quotient)


def _not_zero(b: Integer) -> Integer:
    """A divisor; work-items that are masked out may have 0."""
    return (b or 1) if isinstance(b, int) else np.where(b == 0, 1, b)


def _shift(b: Integer) -> Integer:
    return min(max(b, 0), 63) if isinstance(b, int) else np.clip(b, 0, 63)


def _least(a: Integer, b: Integer) -> Integer:
    return min(a, b) if isinstance(a, int) and isinstance(b, int) else np.minimum(a, b)


def _greatest(a: Integer, b: Integer) -> Integer:
    return max(a, b) if isinstance(a, int) and isinstance(b, int) else np.maximum(a, b)


_FLOOR_DIVISIONS = ("loopy_floor_div", "loopy_floor_div_pos_b")
_MODULI = ("loopy_mod", "loopy_mod_pos_b")
_OPERATIONS: dict[tuple[str, int], Callable[..., Integer]] = {
    ("+", 2): operator.add,
    ("-", 2): operator.sub,
    ("*", 2): operator.mul,
    ("/", 2): _divided,
    ("%", 2): lambda a, b: a - _not_zero(b) * _divided(a, b),
    ("&", 2): operator.and_,
    ("|", 2): operator.or_,
    ("^", 2): operator.xor,
    ("<<", 2): lambda a, b: a << _shift(b),
    (">>", 2): lambda a, b: a >> _shift(b),
    ("<", 2): operator.lt,
    ("<=", 2): operator.le,
    (">", 2): operator.gt,
    (">=", 2): operator.ge,
    ("==", 2): operator.eq,
    ("!=", 2): operator.ne,
    ("+", 1): lambda a: a,
    ("-", 1): operator.neg,
    ("~", 1): operator.invert,
    ("!", 1): lambda a: a == 0,
    ("abs", 1): abs,
    ("mul24", 2): operator.mul,
    ("mad24", 3): lambda a, b, c: a * b + c,
    **dict.fromkeys(((name, 2) for name in _FLOOR_DIVISIONS), lambda a, b: a // _not_zero(b)),
    **dict.fromkeys(((name, 2) for name in _MODULI), lambda a, b: a % _not_zero(b)),
    **dict.fromkeys((("min", 2), ("lpy_min", 2)), _least),
    **dict.fromkeys((("max", 2), ("lpy_max", 2)), _greatest),
}
