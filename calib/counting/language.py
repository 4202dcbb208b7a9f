"""The feature language: texts such as `f_op_float32_madd` as values, one class per kind.

    f_op_<type>_<operation>
    f_mem_access[_tag:<tag>][_global|_local][_<type>][_load|_store|_atomic]
        [_lstrides:{<axis>:<constraint>;...}][_gstrides:{...}][_afr:<constraint>]
    f_sync_barrier_local   f_sync_kernel_launch   f_thread_groups
    f_cl_wall_time_<platform>_<device>
    f_sim_<quantity>[_tag:... and the other fields of f_mem_access]
    f_<name> for a function passed to `register_feature`

A constraint is =, !=, <, <=, > or >= (= may be omitted) and an integer expression, which may name
size parameters: `0:1`, `1:>15`, `1:16*n`. Fields are optional and keep this order (Stevens and
Klöckner 2020, section 6.1). A tag ends before the first field after it, so no tag may contain
`_load` or another field's name.
"""

from __future__ import annotations

import enum
import operator
import re
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal, NoReturn

from calib.polynomials.quasi_polynomial import QuasiPolynomial
from calib.words import near
from memsim.errors import MemsimError

Comparison = Literal["=", "!=", "<", "<=", ">", ">="]
_COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}

TYPES = tuple(
    [f"float{n}" for n in (16, 32, 64)]
    + [f"{sign}int{n}" for sign in ("", "u") for n in (8, 16, 32, 64)]
    + ["complex64", "complex128"]
)
# fmt: off
OPERATIONS = (
    "add", "mul", "madd", "div", "pow", "floordiv", "mod", "shift", "bitwise", "minmax",
    "exp", "exp2", "exp10", "expm1", "log", "log2", "log10", "log1p", "sqrt", "rsqrt", "cbrt",
    "sin", "cos", "tan", "asin", "acos", "atan", "atan2", "sinh", "cosh", "tanh", "asinh", "acosh",
    "atanh", "erf", "erfc", "fabs", "abs", "floor", "ceil", "round", "trunc", "fmin", "fmax",
    "fmod", "hypot", "isnan", "real", "imag", "conj",
)
# fmt: on
SIMULATED = {
    "dram_bytes": "bytes that DRAM moves, reads and writes",
    "dram_read_bytes": "bytes read from DRAM",
    "dram_write_bytes": "bytes written to DRAM",
    "l1_sectors": "sectors requested from the first level",
    "l1_miss_sectors": "sectors that miss in the first level",
    "l2_sectors": "sectors requested from the second level",
    "l2_miss_sectors": "sectors that miss in the second level",
    "latency_cycles": "expected cycles of latency, summed over sub-group loads",
    "latency": "expected seconds of latency, summed over sub-group loads",
}
"""Quantities of `f_sim_...`, with their descriptions."""


class FeatureError(MemsimError):
    """A feature's text is wrong, or names something that the kernel does not contain."""


@dataclass(frozen=True)
class Constraint:
    """`value <comparison> limit`, where the limit may name size parameters."""

    comparison: Comparison
    limit: QuasiPolynomial

    def holds(self, value: Any, limit: Any) -> bool:
        return bool(_COMPARE[self.comparison](value, limit))

    def __str__(self) -> str:
        sign = "" if self.comparison == "=" else self.comparison
        return f"{sign}{str(self.limit).replace(' ', '')}"


AxisConstraints = tuple[tuple[int, Constraint], ...]


@dataclass(frozen=True)
class OpFeature:
    """f_op_<dtype>_<operation>: operations, counted once per sub-group."""

    dtype: str
    operation: str

    def __str__(self) -> str:
        return f"f_op_{self.dtype}_{self.operation}"


@dataclass(frozen=True)
class MemAccessFeature:
    """f_mem_access_...: accesses that match every given field."""

    tag: str | None = None
    memory: str | None = None
    dtype: str | None = None
    direction: str | None = None
    local_strides: AxisConstraints = ()
    group_strides: AxisConstraints = ()
    afr: Constraint | None = None

    def __str__(self) -> str:
        return f"f_mem_access{fields_text(self)}"


class PlainFeature(enum.StrEnum):
    """Features without fields."""

    BARRIERS = "f_sync_barrier_local"
    """Barriers that one work-item executes."""
    LAUNCHES = "f_sync_kernel_launch"
    """Kernel functions that the host launches."""
    GROUPS = "f_thread_groups"
    """Work-groups of all launches."""


@dataclass(frozen=True)
class WallTimeFeature:
    """f_cl_wall_time_<platform>_<device>: measured seconds; without names, on the default
    device."""

    platform: str = ""
    device: str = ""

    def __str__(self) -> str:
        return f"f_cl_wall_time_{self.platform}_{self.device}".rstrip("_")


@dataclass(frozen=True)
class SimulatedFeature:
    """f_sim_<quantity>_...: a quantity of the matching accesses in a replay."""

    quantity: str
    accesses: MemAccessFeature

    def __str__(self) -> str:
        return f"f_sim_{self.quantity}{fields_text(self.accesses)}"


@dataclass(frozen=True)
class UserFeature:
    """f_<name>: the value of a registered function."""

    name: str

    def __str__(self) -> str:
        return f"f_{self.name}"


Feature = (
    OpFeature | MemAccessFeature | PlainFeature | WallTimeFeature | SimulatedFeature | UserFeature
)

_REGISTERED: dict[str, Callable[..., float]] = {}
_EXACT: dict[str, Feature] = {str(each): each for each in (*PlainFeature, WallTimeFeature())}
_PREFIXES = ("f_op_", "f_mem_access", "f_sync_", "f_thread_groups", "f_cl_wall_time_", "f_sim_")


def register_feature(name: str, function: Callable[..., float]) -> None:
    """Makes `f_<name>` a feature: function(kernel, sizes, context) returns its value.

    name may begin with `f_`. Raises FeatureError if it is not an identifier or begins like a
    built-in feature.
    """
    name = name.removeprefix("f_")
    if not re.fullmatch(r"[A-Za-z]\w*", name):
        raise FeatureError(f"a feature's name must be letters, digits and _, got {name!r}")
    if any(f"f_{name}".startswith(prefix) for prefix in _PREFIXES):
        raise FeatureError(f"f_{name} begins like a built-in feature")
    _REGISTERED[name] = function


def registered(name: str) -> Callable[..., float]:
    """The function of a user's feature."""
    return _REGISTERED[name]


def parse_feature(text: str) -> Feature:
    """The feature that a text names.

    Raises FeatureError, with the text and a caret under the wrong character as a note.
    """
    if text in _EXACT:
        return _EXACT[text]
    for prefix, kind in (
        ("f_op_", _operation),
        ("f_mem_access", _fields),
        ("f_cl_wall_time_", _wall_time),
        ("f_sim_", _simulated),
    ):
        if text.startswith(prefix):
            return kind(_FeatureReader(text, len(prefix)))
    name = text.removeprefix("f_")
    if text.startswith("f_") and name in _REGISTERED:
        return UserFeature(name)
    known = [*_EXACT, "f_op_", "f_mem_access", "f_sim_", *(f"f_{n}" for n in _REGISTERED)]
    equal = ([a == b for a, b in zip(text, each, strict=False)] for each in known)
    reader = _FeatureReader(text, max([*letters, False].index(False) for letters in equal))
    reader.fail(f"unknown feature{near(text, known)}")


def fields_text(access: MemAccessFeature) -> str:
    """The fields of a memory access as written in a feature's text."""
    parts = [] if access.tag is None else [f"tag:{access.tag}"]
    parts += [part for part in (access.memory, access.dtype, access.direction) if part]
    for name, strides in (("lstrides", access.local_strides), ("gstrides", access.group_strides)):
        if strides:
            inner = ";".join(f"{axis}:{constraint}" for axis, constraint in strides)
            parts.append(f"{name}:{{{inner}}}")
    if access.afr is not None:
        parts.append(f"afr:{access.afr}")
    return "".join(f"_{part}" for part in parts)


class _FeatureReader:
    """A text and the position up to which it has been read."""

    def __init__(self, text: str, at: int) -> None:
        self.text, self.at = text, at

    @property
    def rest(self) -> str:
        return self.text[self.at :]

    def take(self, pattern: str) -> str | None:
        match = re.compile(pattern).match(self.text, self.at)
        if match is None:
            return None
        self.at = match.end()
        return match.group()

    def fail(self, message: str, at: int | None = None) -> NoReturn:
        error = FeatureError(f"feature {self.text!r}: {message}")
        error.add_note(f"  {self.text}\n  {' ' * (self.at if at is None else at)}^")
        raise error


def _operation(reader: _FeatureReader) -> OpFeature:
    dtype = _word(reader, TYPES, "a type")
    if reader.take("_") is None:
        reader.fail("an operation must follow, as in f_op_float32_madd")
    operation = _word(reader, OPERATIONS, "an operation")
    if reader.rest:
        reader.fail("nothing may follow the operation")
    return OpFeature(dtype, operation)


def _simulated(reader: _FeatureReader) -> SimulatedFeature:
    for quantity in sorted(SIMULATED, key=len, reverse=True):
        if re.match(rf"{quantity}(?![A-Za-z0-9])", reader.rest):
            reader.at += len(quantity)
            return SimulatedFeature(quantity, _fields(reader))
    word = re.match(r"[a-z0-9_]*", reader.rest)
    assert word is not None
    reader.fail(f"unknown quantity{near(word.group(), tuple(SIMULATED))}")


def _wall_time(reader: _FeatureReader) -> WallTimeFeature:
    platform = reader.take(r"[A-Za-z0-9.]+")
    if platform is None:
        reader.fail("a platform and a device must follow, as in f_cl_wall_time_nvidia_geforce")
    if reader.take("_") is None or not reader.rest:
        reader.fail("_ and a device must follow the platform")
    device = reader.take(r"[A-Za-z0-9_.]+")
    if device is None or reader.rest:
        reader.fail("a device is letters, digits, _ and .")
    return WallTimeFeature(platform, device)


_WORDS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("memory", ("global", "local")),
    ("dtype", TYPES),
    ("direction", ("load", "store", "atomic")),
)
_NAMED = ("lstrides", "gstrides", "afr")
_FIELD = re.compile(
    r"_(?:(?:global|local|load|store|atomic|" + "|".join(TYPES) + r")(?![A-Za-z0-9])"
    r"|(?:lstrides|gstrides|afr|tag):)"
)
_ORDER = {
    "tag": "tag",
    "memory": "memory",
    "dtype": "dtype",
    "direction": "direction",
    "lstrides": "local_strides",
    "gstrides": "group_strides",
    "afr": "afr",
}
"""Fields of a memory access in the order in which they are written -> those of MemAccessFeature."""


def _fields(reader: _FeatureReader) -> MemAccessFeature:
    fields: dict[str, Any] = {}
    while reader.rest:
        if reader.take("_") is None:
            reader.fail("a field begins with _")
        start = reader.at
        name, value = _field(reader)
        if name in fields:
            reader.fail(f"the field {name} occurs twice", start)
        order = list(_ORDER)
        later = [each for each in fields if order.index(each) > order.index(name)]
        if later:
            reader.fail(f"{name} must come before {later[0]}", start)
        fields[name] = value
    return MemAccessFeature(**{_ORDER[name]: value for name, value in fields.items()})


def _field(reader: _FeatureReader) -> tuple[str, Any]:
    start = reader.at
    if reader.take("tag:") is not None:
        end = _FIELD.search(reader.text, reader.at)
        tag = reader.text[reader.at : end.start() if end else len(reader.text)]
        match = re.match(r"[A-Za-z0-9_.,-]+", tag)
        if match is None or len(match.group()) < len(tag):
            reader.fail(
                "a tag is letters, digits, _ . , and -", reader.at + (match.end() if match else 0)
            )
        reader.at += len(tag)
        return "tag", tag
    for name in ("lstrides", "gstrides"):
        if reader.take(f"{name}:") is not None:
            return name, _strides(reader)
    if reader.take("afr:") is not None:
        return "afr", _constraint(reader, fractions=True)
    word = reader.take(r"[A-Za-z][A-Za-z0-9]*") or ""
    for name, words in _WORDS:
        if word in words:
            return name, word
    known = [each for _, group in _WORDS for each in group]
    close = near(word, [*known, "tag:", *(f"{each}:" for each in _NAMED)])
    reader.fail(f"unknown field {word!r}{close}" if word else "a field must follow _", start)


def _strides(reader: _FeatureReader) -> AxisConstraints:
    if reader.take(r"\{") is None:
        reader.fail("{ must follow, as in lstrides:{0:1;1:>15}")
    constraints: dict[int, Constraint] = {}
    while True:
        start = reader.at
        axis = reader.take(r"\d")
        if axis is None:
            reader.fail("expected an axis (0, 1 or 2)")
        if int(axis) in constraints:
            reader.fail(f"axis {axis} occurs twice", start)
        if reader.take(":") is None:
            reader.fail(": must follow the axis")
        constraints[int(axis)] = _constraint(reader, fractions=False)
        if reader.take(r"\}") is not None:
            return tuple(sorted(constraints.items()))
        if reader.take(";") is None:
            reader.fail("; or } must follow a constraint")


def _constraint(reader: _FeatureReader, *, fractions: bool) -> Constraint:
    sign = reader.take("!=|<=|>=|=|<|>") or "="
    limit = _sum(reader, fractions)
    return Constraint(sign, limit)  # type: ignore[arg-type]


def _sum(reader: _FeatureReader, fractions: bool) -> QuasiPolynomial:
    total = _product(reader, fractions)
    while (sign := reader.take(r"[+-]")) is not None:
        term = _product(reader, fractions)
        total = total + (term if sign == "+" else term * -1)
    return total


def _product(reader: _FeatureReader, fractions: bool) -> QuasiPolynomial:
    value = _factor(reader, fractions)
    while reader.take(r"\*") is not None:
        value = value * _factor(reader, fractions)
    return value


def _factor(reader: _FeatureReader, fractions: bool) -> QuasiPolynomial:
    if reader.take("-") is not None:
        return _factor(reader, fractions) * -1
    number = reader.take(r"\d+(?:\.\d+)?" if fractions else r"\d+")
    if number is not None:
        return QuasiPolynomial.number(Fraction(number))
    name = reader.take(r"[A-Za-z]\w*")
    if name is not None:
        return QuasiPolynomial.atom(name)
    reader.fail("expected a number or a size parameter")


def _word(reader: _FeatureReader, known: tuple[str, ...], what: str) -> str:
    start = reader.at
    word = reader.take(r"[A-Za-z0-9]+") or ""
    if word not in known:
        reader.fail(f"{word!r} is not {what}{near(word, known)}", start)
    return word
