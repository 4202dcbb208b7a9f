"""gpgpusim.config of GPGPU-Sim and Accel-Sim: its options, and the meaning of a cache's option.

A file consists of options and values, as on a command line: `-name value`. Comments extend from `#` to
the end of the line; a value that continues on the next line is quoted. A later option overrides an
earlier one.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from memsim.errors import MachineError
from memsim.machine.file import read_small
from memsim.visible import shown, visible

SECTOR_BYTES = 32
"""The sector of every sectored cache of that simulator; a line has four."""
_LARGEST = 1 << 40
_NUMBER = r"[0-9]{1,12}"


@dataclass(frozen=True, kw_only=True)
class Option:
    """An option's value and its place in the file."""

    file: str
    name: str
    value: str
    line: int

    def fail(self, rule: str) -> NoReturn:
        raise MachineError(
            f"{self.file}:{self.line}: -{self.name} must {rule}, got {shown(self.value)}"
        )

    @property
    def source(self) -> str:
        """The source that is recorded for a value of this option."""
        return f"{self.file}: -{self.name} {self.value}"

    def numbers(self, separator: str, least: int = 1) -> list[float]:
        """Numbers with a separator between; at least so many."""
        words = [word.strip() for word in self.value.split(separator)]
        if len(words) < least or not all(
            re.fullmatch(rf"{_NUMBER}(\.[0-9]{{1,12}})?", w) for w in words
        ):
            self.fail(
                f"be {least} or more numbers with '{separator}' between"
                if least > 1
                else "be a number"
            )
        return [float(word) for word in words]

    def integer(self, least: int = 0, most: int = _LARGEST) -> int:
        """A whole number in a range."""
        if not re.fullmatch(_NUMBER, self.value) or not least <= int(self.value) <= most:
            self.fail(f"be a whole number from {least} to {most}")
        return int(self.value)


def read_options(path: str | os.PathLike[str]) -> dict[str, Option]:
    """The options of a file, without their dash; raises MachineError, with file and line."""
    target = Path(path)
    content = read_small(target, "a configuration")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = content.decode("latin-1")  # names in comments; options are ASCII
    return parse_options(text, target.name)


def parse_options(text: str, file: str) -> dict[str, Option]:
    """As read_options, of text."""
    options: dict[str, Option] = {}
    name, line, words = "", 0, list[str]()

    def done() -> None:
        if name:
            value = visible(" ".join(words))
            options[name] = Option(file=file, name=name, value=value, line=line)

    for word, number, quoted in _words(text, file):
        if not quoted and re.match(r"-[A-Za-z_]", word):
            done()
            name, line, words = visible(word[1:]), number, []
        elif not name:
            raise MachineError(
                f"{file}:{number}: not a configuration of GPGPU-Sim: there must be an option,"
                f" -name value, got {shown(word)}"
            )
        else:
            words.append(word)
    done()
    if not options:
        raise MachineError(f"{file}:1: not a configuration of GPGPU-Sim: there is no option")
    return options


def _words(text: str, file: str) -> list[tuple[str, int, bool]]:
    """(word, line, was quoted); what is quoted loses its line breaks."""
    words = []
    at, number = 0, 1
    pattern = re.compile(
        r'(?P<space>[ \t\r\n\f\v]+)|(?P<note>#[^\n]*)|"(?P<quoted>[^"]*)"|(?P<word>[^ \t\r\n\f\v#"]+)'
    )
    while at < len(text):
        match = pattern.match(text, at)
        if match is None:
            raise MachineError(f'{file}:{number}: a quoted value must end with "')
        if match["quoted"] is not None:
            words.append(("".join(match["quoted"].split()), number, True))
        elif match["word"] is not None:
            words.append((match["word"], number, False))
        number += text.count("\n", at, match.end())
        at = match.end()
    return words


@dataclass(frozen=True, kw_only=True)
class CacheLine:
    """The fields of a cache's option, as the simulator parses them.

    kind : N (a tag a line) or S (four sectors a tag)
    replacement : L (LRU), F (FIFO)
    write : R (read only), B (back), T (through), E (evict), L (local back, global evict)
    allocate : m (on miss), f (on fill), s (streaming: on fill, MSHRs as many as lines)
    write_allocate : N (none), W (write and fetch), F (fetch on write), L (lazy fetch on read)
    index : L (linear), P (polynomial), H (Fermi's hash), X (bitwise xor), C (custom)
    mshr : A, S (associative), F, T (FIFO of a texture cache)
    port_bytes : of the data port, None for a whole line
    """

    kind: str
    n_sets: int
    line_bytes: int
    ways: int
    replacement: str
    write: str
    allocate: str
    write_allocate: str
    index: str
    mshr: str
    mshr_entries: int
    mshr_merge: int
    miss_queue: int
    port_bytes: int | None

    @property
    def size_bytes(self) -> int:
        return self.n_sets * self.line_bytes * self.ways

    @property
    def sector_bytes(self) -> int:
        return SECTOR_BYTES if self.kind == "S" else self.line_bytes


_FIELDS: Mapping[str, tuple[str, str]] = {
    "kind": ("N or S", "NS"),
    "replacement": ("L or F", "LF"),
    "write": ("R, B, T, E or L", "RBTEL"),
    "allocate": ("m, f or s", "mfs"),
    "write_allocate": ("N, W, F or L", "NWFL"),
    "index": ("L, P, H, X or C", "LPHXC"),
    "mshr": ("A, S, F or T", "ASFT"),
}


def parse_cache(option: Option) -> CacheLine | None:
    """A cache's line, such as `S:4:128:64,L:T:m:L:L,A:512:8,16:0,32`; None where it says `none`.

    The older form without N or S is read as N. Raises MachineError naming what is wrong.
    """
    if option.value == "none":
        return None
    number = _NUMBER
    match = re.fullmatch(
        rf"(?:(?P<kind>[A-Za-z]):)?(?P<n_sets>{number}):(?P<line_bytes>{number}):(?P<ways>{number}),"
        r"(?P<replacement>[A-Za-z]):(?P<write>[A-Za-z]):(?P<allocate>[A-Za-z]):"
        r"(?P<write_allocate>[A-Za-z]):(?P<index>[A-Za-z]),"
        rf"(?P<mshr>[A-Za-z]):(?P<mshr_entries>{number}):(?P<mshr_merge>{number})"
        rf"(?:,(?P<miss_queue>{number})(?::(?P<fifo>{number}))?(?:,(?P<port_bytes>{number}))?)?",
        re.sub(r"\s", "", option.value),
    )
    if match is None:
        option.fail(
            "be <N|S>:<sets>:<line>:<ways>,<rep>:<write>:<alloc>:<write alloc>:<index>,"
            "<mshr>:<entries>:<merge>,<miss queue>[:<fifo>][,<port>]"
        )
    letters = {name: match[name] or "N" for name in _FIELDS}
    for name, (rule, allowed) in _FIELDS.items():
        if letters[name] not in allowed:
            option.fail(f"have {rule} for {name.replace('_', ' ')}, not {letters[name]}")
    sizes = {
        name: int(match[name])
        for name in ("n_sets", "line_bytes", "ways", "mshr_entries", "mshr_merge")
    }
    for name, value in sizes.items():
        if not 0 < value <= 1 << 24:
            option.fail(f"have 1 to {1 << 24} for {name.replace('_', ' ')}, not {value}")
    if letters["kind"] == "S" and sizes["line_bytes"] != 4 * SECTOR_BYTES:
        option.fail(f"have lines of {4 * SECTOR_BYTES} bytes where they have sectors")
    port = int(match["port_bytes"] or 0)
    fields: dict[str, Any] = {**letters, **sizes}
    return CacheLine(**fields, miss_queue=int(match["miss_queue"] or 0), port_bytes=port or None)
