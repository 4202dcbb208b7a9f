"""Values that an argument or a field of a workload may have by mistake, or in bad faith."""

from __future__ import annotations

import decimal
import fractions
from collections.abc import Callable
from typing import Any

import numpy as np


class Own(np.ndarray):
    """An array of a class of one's own."""


class Silent:
    """Raises whatever one does with it."""

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        raise RuntimeError("no\narray")

    def __repr__(self) -> str:
        raise ValueError("no text")


class Loud(float):
    def __repr__(self) -> str:
        return "a\nb\x1b[31m"


def ones(*shape: int) -> Any:
    return np.ones(shape or 64, np.float32)


def _read_only() -> Any:
    array = ones()
    array.setflags(write=False)
    return array


TYPES = (
    "f8", "f2", "i4", "i8", "u1", "?", "c8", "c16", ">f4", ">i4", "g", "S4", "U1", "M8[s]",
    "m8[s]",
)  # fmt: skip
RECORDS: dict[str, Any] = {"record": [("a", "f4")], "pair": [("a", "f4"), ("b", "i4")]}
RECORDS |= {"pointer": [("a", "O")], "swapped": [("a", ">f4")], "nothing": []}
VALUES: dict[str, Callable[[], Any]] = {
    **{name: lambda name=name: np.zeros(64, name) for name in (*TYPES, "V4", "O")},  # type: ignore[misc]
    **{name: lambda of=of: np.zeros(64, of) for name, of in RECORDS.items()},  # type: ignore[misc]
    "one record": lambda: np.zeros((), RECORDS["pair"]),
    "arrays": lambda: np.array([ones(), None] * 32, object),
    "objects": lambda: np.array([object()] * 64),
    "every second": lambda: ones(128)[::2],
    "backwards": lambda: ones()[::-1],
    "transposed": lambda: ones(8, 8).T,
    "with gaps": lambda: ones(8, 16)[:, :8],
    "permuted": lambda: ones(2, 4, 8).transpose(1, 0, 2),
    "repeated": lambda: np.broadcast_to(np.float32(1), (64,)),
    "repeated without end": lambda: np.broadcast_to(np.float32(1), (1 << 40,)),
    "empty": lambda: ones(0),
    "empty rows": lambda: ones(3, 0),
    "without axes": lambda: np.array(1, np.float32),
    "32 axes": lambda: ones(*[1] * 32),
    "read only": _read_only,
    "nans": lambda: np.full(64, np.nan, np.float32),
    "infinite": lambda: np.full(64, np.inf, np.float32),
    "one": lambda: ones(1),
    "too short": lambda: ones(63),
    "between words": lambda: np.frombuffer(bytes(257), np.uint8)[1:].view(np.float32),
    "masked": lambda: np.ma.masked_array(ones(), mask=True),
    "own class": lambda: ones().view(Own),
    "list": lambda: [1.0] * 64,
    "tuple": lambda: (1.0,) * 64,
    "text": lambda: "abc",
    "bytes": lambda: b"abc",
    "none": lambda: None,
    "mapping": dict,
    "numbered mapping": lambda: {1: 2},
    "set": lambda: {1},
    "function": lambda: print,
    "generator": lambda: (k for k in range(3)),
    "memory": lambda: memoryview(ones()),
    "silent": Silent,
    "loud": lambda: Loud(1.5),
    "loud nan": lambda: Loud("nan"),
    **{str(k): lambda k=k: k for k in (0, 1, -1, 64, 1 << 31, 1 << 40, 1 << 62, 1 << 70)},  # type: ignore[misc]
    "5000 digits": lambda: 10**5000,
    **{str(x): lambda x=x: x for x in (1.5, float("nan"), float("inf"), 1e300)},  # type: ignore[misc]
    "true": lambda: True,
    "imaginary": lambda: 1j,
    "numpy's integer": lambda: np.int64(64),
    "numpy's nan": lambda: np.float32("nan"),
    "numpy's imaginary": lambda: np.complex64(1j),
    "numpy's text": lambda: np.str_("x"),
    "date": lambda: np.datetime64("2020"),
    "time": lambda: np.timedelta64(3, "s"),
    "decimal": lambda: decimal.Decimal("1.5"),
    "fraction": lambda: fractions.Fraction(1, 3),
    "bytes of a struct": lambda: np.void(b"abcdefgh"),
}
