"""Reads and writes StarPU's performance models, which it stores in codelets/45/SYMBOL.HOST.

The format was derived from files that StarPU 1.3.10 writes (Debian 12; the format's number is 45) and from
the output of its tools: comment lines begin with `#`, numbers have a fixed order, times are in
microseconds, footprints are 32-bit CRCs in hexadecimal.

    version, number of combinations; each: number of devices; each: type, id, cores; number of
    implementations; each: number of entries; the sums of a*n^b with alpha, beta, n, least and
    largest size; a, b, c of a*n^b+c; coefficients of the multiple linear regression; the entries.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from calib.history.errors import HistoryError
from memsim.files import write_text
from memsim.visible import visible

VERSION = 45
DEVICE_TYPES = {0: "cpu", 1: "cuda", 2: "opencl", 3: "mic", 5: "mpi_ms"}
MOST = 100_000
"""Most entries of any list in a file; a greater number means that the file is damaged."""

LARGEST = 2**63
_SUMS = ("sum_lnx", "sum_lnx2", "sum_lny", "sum_lnxlny", "alpha", "beta")
_SIZES = ("n", "min_x", "max_x")
_TIMES = ("flops", "mean", "deviation", "sum", "sum2")
"""Fields of an implementation and of an entry, in the order of a line."""


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One line of history; times are in microseconds.

    deviation : of the population (with n), as StarPU computes it
    sum, sum2 : sums of the samples and of their squares
    """

    footprint: int
    size: int
    flops: float
    mean: float
    deviation: float
    sum: float
    sum2: float
    n: int


@dataclass(frozen=True, kw_only=True)
class Implementation:
    """The model of one implementation of a codelet; nan where a regression is not calibrated.

    sum_lnx .. max_x : the running sums of alpha * size^beta, over samples in microseconds
    a, b, c : of a * size^b + c, in microseconds
    coefficients : of the multiple linear regression, the intercept first; empty where there is none
    terms : their names, such as `N^2*M`
    """

    entries: Sequence[Entry] = ()
    sum_lnx: float = 0.0
    sum_lnx2: float = 0.0
    sum_lny: float = 0.0
    sum_lnxlny: float = 0.0
    alpha: float = math.nan
    beta: float = math.nan
    n: int = 0
    min_x: int = 0
    max_x: int = 0
    a: float = math.nan
    b: float = math.nan
    c: float = math.nan
    coefficients: Sequence[float] = ()
    terms: Sequence[str] = ()


@dataclass(frozen=True, kw_only=True)
class Device:
    """A device; type : a key of DEVICE_TYPES."""

    type: int
    id: int
    cores: int

    def __str__(self) -> str:
        return f"{DEVICE_TYPES.get(self.type, f'type{self.type}')}{self.id}"


@dataclass(frozen=True, kw_only=True)
class Combination:
    """Devices that run a task together, usually one, with a model for each implementation."""

    devices: Sequence[Device]
    implementations: Sequence[Implementation] = field(default_factory=tuple)

    @property
    def name(self) -> str:
        return "_".join(map(str, self.devices))


@dataclass(frozen=True, kw_only=True)
class StarpuModel:
    """The contents of a file."""

    combinations: Sequence[Combination]
    version: int = VERSION


def read(path: Path) -> StarpuModel:
    """The model in a file. Raises HistoryError where it has another version or is not a model."""
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise HistoryError(f"{path} is not a StarPU performance model: it is not text") from None
    except OSError as error:
        raise HistoryError(f"{path} cannot be read: {error.strerror}") from error
    return parse(text, str(path))


def parse(text: str, name: str = "text") -> StarpuModel:
    """The model in a text. Raises HistoryError, which names the line, where it is invalid or truncated."""
    lines = _Lines(text, name)
    version = lines.alone("the version")
    if version != VERSION:
        raise HistoryError(
            f"{name} is a StarPU performance model of version {version}: this memsim reads and writes"
            f" version {VERSION}"
        )
    n_combinations = lines.count("combinations")
    model = StarpuModel(combinations=[_combination(lines) for _ in range(n_combinations)])
    lines.end()
    return model


def _combination(lines: _Lines) -> Combination:
    parts = ("type", "id", "cores")
    devices = [
        Device(**{name: lines.alone(f"a device's {name}") for name in parts})
        for _ in range(lines.count("devices"))
    ]
    n_implementations = lines.count("implementations")
    return Combination(
        devices=devices,
        implementations=[_implementation(lines) for _ in range(n_implementations)],
    )


def _implementation(lines: _Lines) -> Implementation:
    n_entries = lines.count("entries")
    words = lines.words(9, "the sums of the linear regression")
    sums: dict[str, Any] = dict(zip(_SUMS, map(lines.number, words[:6]), strict=True))
    sums |= zip(_SIZES, map(lines.integer, words[6:]), strict=True)
    a, b, c = map(lines.number, lines.words(3, "a, b and c"))
    coefficients, terms = _coefficients(lines)
    return Implementation(
        **sums,
        a=a,
        b=b,
        c=c,
        coefficients=coefficients,
        terms=terms,
        entries=[_entry(lines) for _ in range(n_entries)],
    )


def _coefficients(lines: _Lines) -> tuple[list[float], list[str]]:
    words = lines.words(None, "the multiple regression")
    n = lines.integer(words[0])
    if n != len(words) - 1:
        raise lines.wrong(f"{n} coefficients are announced, got {len(words) - 1}")
    # The preceding comment names them: `# n  intercept  N  N^2*M`.
    names = lines.last_comment.split()[3:]
    return [lines.number(word) for word in words[1:]], names if n else []


def _entry(lines: _Lines) -> Entry:
    words = lines.words(8, "an entry")
    try:
        footprint = int(words[0], 16)
    except ValueError:
        raise lines.wrong(f"a footprint must be hexadecimal, got {words[0][:40]!r}") from None
    if not 0 <= footprint < 2**32:
        raise lines.wrong(f"a footprint must have 32 bits, got {words[0][:40]}")
    return Entry(
        footprint=footprint,
        size=lines.integer(words[1]),
        **dict(zip(_TIMES, map(lines.number, words[2:7]), strict=True)),
        n=lines.integer(words[7]),
    )


class _Lines:
    """Reads the lines with numbers one after another, and remembers the latest comment."""

    def __init__(self, text: str, name: str) -> None:
        self._lines = text.splitlines()
        self._name = name
        self._at = 0
        self.last_comment = ""

    def wrong(self, why: str) -> HistoryError:
        return HistoryError(
            f"{self._name} is not a StarPU performance model, or is damaged: {why} (line {self._at})"
        )

    def words(self, n: int | None, what: str) -> list[str]:
        while self._at < len(self._lines):
            line = self._lines[self._at].strip()
            self._at += 1
            if line.startswith("#"):
                self.last_comment = line
            elif line:
                words = line.split()
                if n is not None and len(words) != n:
                    raise self.wrong(f"{what} should be {n} numbers, got {line[:60]!r}")
                return words
        raise self.wrong(f"it ends before {what}")

    def number(self, word: str) -> float:
        try:
            return float(word)
        except ValueError:
            raise self.wrong(f"not a number: {word[:40]!r}") from None

    def integer(self, word: str) -> int:
        try:
            value = int(word)
        except ValueError:
            raise self.wrong(f"not a whole number: {word[:40]!r}") from None
        if not 0 <= value < LARGEST:
            raise self.wrong(f"a whole number must be from 0 to 2^63 - 1, got {word[:40]}")
        return value

    def alone(self, what: str) -> int:
        """The whole number of a line that has nothing else."""
        return self.integer(self.words(1, what)[0])

    def count(self, what: str) -> int:
        value = self.alone(f"the number of {what}")
        if value > MOST:
            raise self.wrong(f"{value} {what}")
        return value

    def end(self) -> None:
        for line in self._lines[self._at :]:
            self._at += 1
            if line.strip() and not line.strip().startswith("#"):
                raise self.wrong(f"more lines than announced: {line[:60]!r}")


def write(model: StarpuModel, path: Path) -> None:
    """Writes a file that StarPU and its tools read, completely or not at all."""
    write_text(path, render(model))


def render(model: StarpuModel) -> str:
    """The text of a file. Numbers have all their digits; StarPU itself writes six."""
    lines = ["##################", "# Performance Model Version", str(model.version), ""]
    lines += ["####################", "# COMBs", "# number of combinations"]
    lines.append(str(len(model.combinations)))
    for number, combination in enumerate(model.combinations):
        lines += ["####################", f"# COMB_{number}", "# number of types devices"]
        lines.append(str(len(combination.devices)))
        types = ", ".join(f"{name.upper()} - {code}" for code, name in DEVICE_TYPES.items())
        for index, device in enumerate(combination.devices):
            for what, value in (
                (f"device type ({types})", device.type),
                ("device id", device.id),
                ("number of cores", device.cores),
            ):
                lines += ["####################", f"# DEV_{index}", f"# {what}", str(value)]
        lines += ["##########", "# number of implementations"]
        lines.append(str(len(combination.implementations)))
        for index, implementation in enumerate(combination.implementations):
            lines += ["#####", f"# Model for {combination.name}_impl{index} (Comb{number})"]
            lines += _render(implementation)
    return "\n".join([*lines, ""])


def _render(model: Implementation) -> list[str]:
    sums = [_text(getattr(model, name)) for name in _SUMS]
    lines = [
        "# number of entries",
        str(len(model.entries)),
        "# sumlnx\tsumlnx2\tsumlny\tsumlnxlny\talpha\tbeta\tn\tminx\tmaxx",
        "\t".join([*sums, *(str(getattr(model, name)) for name in _SIZES)]),
        "# a\tb\tc",
        "\t".join(map(_text, (model.a, model.b, model.c))),
    ]
    if model.coefficients:
        terms = ("_".join(visible(term).split()) for term in model.terms)  # each is one word
        lines.append("\t".join(["# n", "intercept", *terms]))
        lines.append("\t".join([str(len(model.coefficients)), *map(_text, model.coefficients)]))
    else:
        lines += ["# not multiple-regression-base", "0"]
    lines.append("# hash\tsize\tflops\tmean (us)\tdev (us)\tsum\tsum2\tn")
    for entry in model.entries:
        times = [_text(getattr(entry, name)) for name in _TIMES]
        lines.append("\t".join([f"{entry.footprint:08x}", str(entry.size), *times, str(entry.n)]))
    return [*lines, ""]


def _text(value: float) -> str:
    return "nan" if math.isnan(value) else f"{value:.17g}"
