"""One kernel of an Accel-Sim trace: its header, and its thread blocks as the columns of a Trace."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from memsim.errors import TraceError
from memsim.formats.accel_sim import tables
from memsim.formats.accel_sim.opcodes import Opcode, decode
from memsim.formats.text import Text
from memsim.trace.columns import Columns, GrowingColumns, in_order, room
from memsim.trace.model import Launch

VERSIONS = (3, 4, 5, 6)
"""Version 6 is of a fork that writes values after the immediates; they are not read."""
_MOST_REGISTERS = 255
_MOST_HEAD_LINES, _MOST_HEAD_BYTES = 4096, 1 << 20
_MOST_NAME = 4096
_MOST_ITEMS, _MOST_GROUPS = 1 << 16, (1 << 31) - 1
_ACCESSES, _GRANULES, _SUBGROUPS = 1 << 16, 1 << 18, 1 << 14
"""The size of one batch: 4 MB."""


@dataclass(frozen=True, kw_only=True)
class Head:
    """The lines before the first thread block; values that they do not state are 0.

    launch : its registers are unknown also if the stated number exceeds the hardware's, because tracers that
        were built for another version of CUDA wrote 21955
    """

    launch: Launch
    version: int
    shared_base: int
    local_base: int
    has_lines: bool

    @property
    def n_warp(self) -> int:
        return -(-self.launch.group_items // 32)


@dataclass(frozen=True)
class InstructionSite:
    """An instruction, identified by pc and opcode; low, high : granules it accessed, inclusive"""

    pc: int
    text: str
    opcode: Opcode
    line: int | None
    feed: int
    low: int
    high: int


@dataclass(frozen=True)
class Kernel:
    """columns : of a Trace, in order of group and warp;  workgroup : (n_subgroup,) int32
    skipped : kind of memory -> accesses left out
    """

    head: Head
    sites: list[InstructionSite]
    columns: dict[str, Any]
    workgroup: npt.NDArray[np.int32]
    n_blocks: int
    skipped: dict[str, int]


def read_head(path: Path) -> Head:
    with Text(path, buffer_bytes=1 << 16) as text:
        return _head(text)


def read_kernel(path: Path, memory_bytes: int) -> Kernel:
    """Reads one .traceg; columns beyond memory_bytes go to temporary files.

    Raises TraceError, with file and line, where it is damaged.
    """
    with Text(path) as text:
        head = _head(text)
        reading = _KernelReader(text, head, memory_bytes)
        try:
            return reading.kernel()
        except OSError as error:
            raise TraceError(
                f"{path}: its content cannot be written to a temporary file:"
                f" {error.strerror or error}"
            ) from None
        finally:
            reading.columns.close()


class _KernelReader:
    def __init__(self, text: Text, head: Head, memory_bytes: int) -> None:
        self.text, self.head, self.memory_bytes = text, head, memory_bytes
        self.opcodes: list[tuple[str, Opcode]] = []
        self.tables = tables.new_tables()
        self.out: Columns = room(_SUBGROUPS, _ACCESSES, _GRANULES)
        self.group_of = np.empty(_SUBGROUPS, np.int32)
        self.warp_of = np.empty(_SUBGROUPS, np.int32)
        self.keys: list[npt.NDArray[np.int64]] = []
        self.columns = GrowingColumns(memory_bytes=memory_bytes, keep_hits=True)
        self.state = np.zeros(tables.STATE_WORDS, np.int64)
        self.state[tables.WARP] = -1
        self.state[tables.HAS_LINES] = head.has_lines
        self.state[[tables.GRID_X, tables.GRID_Y, tables.GRID_Z]] = head.launch.grid
        self.state[tables.N_WARP] = head.n_warp
        self.state[tables.SHARED_BASE] = head.shared_base
        self.state[tables.LOCAL_BASE] = head.local_base

    def kernel(self) -> Kernel:
        text, state = self.text, self.state
        state[tables.LINE] = text.number
        while text.begin < text.end or text.more():
            state[tables.AT] = text.begin
            self._block()
            text.begin, text.number = text.end, int(state[tables.LINE])
        if state[tables.IN_BLOCK]:
            raise text.fail("the file ends inside a thread block: it was cut short")
        self._flush()
        key = np.concatenate(self.keys)
        if not len(key):
            raise text.fail("the file ends without a thread block")
        columns = self.columns.finish()
        columns, key = in_order(columns, key, self.memory_bytes)
        twice = np.flatnonzero(key[1:] == key[:-1])
        if len(twice):
            group, warp = divmod(int(key[twice[0]]), self.head.n_warp)
            raise TraceError(
                f"{text.path}: warp {warp} of thread block {group} must occur once, got it twice"
            )
        workgroup = (key // self.head.n_warp).astype(np.int32)
        skipped = {
            name: int(n) for name, n in zip(tables.KINDS, self.tables.skipped, strict=True) if n
        }
        n_blocks = 1 + int(np.count_nonzero(np.diff(workgroup)))
        return Kernel(self.head, self._sites(), columns, workgroup, n_blocks, skipped)

    def _block(self) -> None:
        """Scans the lines in the buffer, with pauses for new opcodes and full columns."""
        from memsim.formats.accel_sim.scan import scan

        while True:
            status = scan(
                self.text.buffer, self.text.end, self.state, self.tables, self.out,
                self.group_of, self.warp_of,
            )  # fmt: skip
            if status == tables.DONE:
                return
            if status == tables.FULL:
                self._flush()
            elif status == tables.NEW_OPCODE:
                self._learn()
            else:
                raise self._error(tables.MESSAGES[int(status)])

    def _learn(self) -> None:
        state = self.state
        if state[tables.N_OPCODE] == tables.MAX_OPCODES:
            raise self._error(f"a trace may have at most {tables.MAX_OPCODES} opcodes")
        begin, end = int(state[tables.TEXT]), int(state[tables.TEXT_END])
        try:
            name = self.text.buffer[begin:end].tobytes().decode("ascii")
        except UnicodeDecodeError:
            raise self._error("an opcode must be ASCII") from None
        if not re.fullmatch(r"[A-Za-z_][\w.:@!-]*", name):
            raise self._error(f"an opcode must be letters, digits and dots, got {name!r}")
        opcode = decode(name)
        self.opcodes.append((name, opcode))
        tables.learn_opcode(
            self.text.buffer, state, self.tables, opcode.kind, opcode.generic, opcode.size_bytes
        )

    def _flush(self) -> None:
        state = self.state
        n_subgroup, n_access, n_granule = (
            int(state[word]) for word in (tables.N_SUBGROUP, tables.N_ACCESS, tables.N_GRANULE)
        )
        self.columns.append(self.out, n_subgroup, n_access, n_granule)
        group = self.group_of[:n_subgroup].astype(np.int64)
        self.keys.append(group * self.head.n_warp + self.warp_of[:n_subgroup])
        state[[tables.N_SUBGROUP, tables.N_ACCESS, tables.N_GRANULE]] = 0

    def _sites(self) -> list[InstructionSite]:
        t, n = self.tables, int(self.state[tables.N_SITE])
        return [
            InstructionSite(
                int(t.site_pc[k]),
                *self.opcodes[int(t.site_opcode[k])],
                int(t.site_line[k]) if t.site_line[k] > 0 else None,
                int(t.site_feed[k]),
                int(t.site_low[k]),
                int(t.site_high[k]),
            )
            for k in range(n)
        ]

    def _error(self, rule: str) -> TraceError:
        at = int(self.state[tables.AT])
        line = self.text.buffer[at : min(at + 72, self.text.end)].tobytes().split(b"\n")[0]
        shown = line.decode("ascii", "backslashreplace")
        return self.text.fail(f"{rule}: {shown!r}", int(self.state[tables.LINE]) + 1)


def _head(text: Text) -> Head:
    """Reads up to the first thread block, which is left to be read."""
    values: dict[str, str] = {}
    at_line: dict[str, int] = {}
    n_bytes = 0
    while (line := text.line()) is not None:
        n_bytes += len(line) + 1
        if text.number > _MOST_HEAD_LINES or n_bytes > _MOST_HEAD_BYTES:
            raise text.fail(
                f"a header must have at most {_MOST_HEAD_LINES} lines and {_MOST_HEAD_BYTES} bytes"
            )
        if line.startswith(b"#BEGIN_TB"):
            text.back()  # the scanner reads this line too
            break
        stripped = line.strip()
        if not stripped or stripped.startswith(b"#"):
            continue
        key, equals, value = stripped.partition(b"=")
        if not stripped.startswith(b"-") or not equals:
            raise text.fail(
                f"a line of the header must be '-name = value', got"
                f" {stripped[:72].decode('ascii', 'backslashreplace')!r}"
            )
        name = key[1:].strip().decode("ascii", "replace")
        values[name] = value.strip().decode("utf-8", "replace")
        at_line[name] = text.number
    return _as_head(text, values, at_line)


def _as_head(text: Text, values: dict[str, str], at_line: dict[str, int]) -> Head:
    def fail(name: str, rule: str) -> TraceError:
        if name not in values:
            return TraceError(f"{text.path}: the header must have '-{name} = ...'")
        return text.fail(f"{name} must be {rule}, got {values[name][:72]!r}", at_line[name])

    def number(name: str, base: int = 10, most: int = 1 << 57) -> int:
        value = values.get(name, "0")
        if not re.fullmatch(r"\d{1,18}" if base == 10 else r"(0[xX])?[0-9a-fA-F]{1,16}", value):
            raise fail(name, "a number" if base == 10 else "a hexadecimal number")
        if int(value, base) > most:
            raise fail(name, f"at most {most}")
        return int(value, base)

    def shape(name: str, most: int) -> tuple[int, int, int]:
        match = re.fullmatch(
            r"\(\s*(\d{1,10})\s*,\s*(\d{1,10})\s*,\s*(\d{1,10})\s*\)", values.get(name, "")
        )
        if not match:
            raise fail(name, "(x,y,z)")
        x, y, z = (int(part) for part in match.groups())
        if not 0 < x * y * z <= most:
            raise fail(name, f"a shape of 1 to {most}")
        return x, y, z

    if "kernel name" not in values:
        raise fail("kernel name", "there")
    version = number("accelsim tracer version")
    if version not in VERSIONS:
        raise fail("accelsim tracer version", "3 to 6")
    name = "".join(c if c.isprintable() else "?" for c in values["kernel name"])
    registers = number("nregs", most=1 << 16)
    grid, block = shape("grid dim", _MOST_GROUPS), shape("block dim", _MOST_ITEMS)
    return Head(
        launch=Launch(
            kernel=name[:_MOST_NAME],
            n_groups=math.prod(grid),
            group_items=math.prod(block),
            grid=grid,
            group_shape=block,
            local_memory_bytes=number("shmem", most=1 << 30),
            registers_per_item=registers if 0 < registers <= _MOST_REGISTERS else None,
        ),
        version=version,
        shared_base=number("shmem base_addr", 16),
        local_base=number("local mem base_addr", 16),
        has_lines=number("enable lineinfo") > 0,
    )
