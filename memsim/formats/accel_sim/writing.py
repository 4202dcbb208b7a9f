"""Writes launches in Accel-Sim's format: kernelslist.g and a .traceg per kernel, version 4.

What a Trace does not contain is made up: lanes (see `memsim.formats.accel_sim.lanes`), registers that express the
waits, PCs (site k lies at 0x100 * (k + 1)), a NOP at PC 0 where a sequence begins for no other
reason, and an EXIT at the end. A snapshot from inside a launch is written as a separate launch
with its groups numbered from 0, because the simulator reads as many thread blocks as the grid has.
"""

from __future__ import annotations

import math
import secrets
import shutil
from pathlib import Path
from typing import BinaryIO

import numpy as np

from memsim.errors import TraceError
from memsim.formats.accel_sim import instruction_text as text_of
from memsim.trace.launches import Event, Launches
from memsim.trace.model import AccessSite, Trace

_TEXT_BYTES = 1 << 22
_COUNT_LETTERS = 12
_KINDS = {"load": text_of.LOAD, "store": text_of.STORE, "atomic": text_of.ATOMIC}
_OPCODES = {"load": "LDG.E", "store": "STG.E", "atomic": "RED.E.ADD"}
_WIDTHS = (".U8", ".U16", "", ".64", ".128")
_OPCODE_BYTES = 24
_BAR, _NOP, _EXIT = "BAR.SYNC ", "NOP ", "EXIT "


def write(launches: Launches, folder: Path) -> list[Path]:
    """Writes a folder, whole or not at all; returns its files, the list first.

    Raises TraceError where the folder holds anything, cannot be written, or the traces are not of
    sub-groups of 32.
    """
    for trace in launches.launches:
        _check(trace)
    if folder.exists() and not (folder.is_dir() and not any(folder.iterdir())):
        raise TraceError(f"{folder}: must be a new or an empty folder")
    temporary = folder.with_name(f".{folder.name}-{secrets.token_hex(4)}")
    try:
        try:
            temporary.mkdir()
            names = ["kernelslist.g", *_write_all(launches, temporary)]
            if folder.exists():
                folder.rmdir()
            temporary.rename(folder)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
    except OSError as error:
        raise TraceError(f"{folder}: cannot be written: {error.strerror or error}") from None
    return [folder / name for name in names]


def _check(trace: Trace) -> None:
    if trace.subgroup_size != 32:
        raise TraceError(
            f"Accel-Sim's warps have 32 lanes, the trace's sub-groups {trace.subgroup_size}"
        )
    most = int(np.diff(trace.granule_offset).max(initial=0))
    if most > text_of.MOST_GRANULES:
        raise TraceError(
            f"an access may have at most {text_of.MOST_GRANULES} granules there, got {most}"
        )


def _write_all(launches: Launches, folder: Path) -> list[str]:
    arrays = launches.arrays
    names: list[str] = []
    commands = [f"MemcpyHtoD,0x{at:016x},{size}" for at, size in _before(launches.launches[0])]
    for k, trace in enumerate(launches.launches):
        events: tuple[Event, ...] = launches.between[k - 1] if k else ()
        # There is but one kind of write: what a fill or a copy on the device leaves in L2 is alike.
        commands += [
            f"MemcpyHtoD,0x{arrays[event.array].base_bytes:016x},{event.size_bytes}"
            for event in events
        ]
        name = f"kernel-{k + 1}.traceg"
        commands.append(name)
        names.append(name)
        with open(folder / name, "wb") as file:
            _write_kernel(trace, k + 1, file)
    (folder / "kernelslist.g").write_text("".join(f"{line}\n" for line in commands))
    return names


def _before(trace: Trace) -> list[tuple[int, int]]:
    """What the reader of this format noted of copies before the first kernel."""
    noted = trace.provenance.get("copied_before")
    pairs = noted if isinstance(noted, list) else []
    return [
        (int(pair[0]), int(pair[1]))
        for pair in pairs
        if isinstance(pair, list) and len(pair) == 2 and all(type(part) is int for part in pair)
    ]


def _write_kernel(trace: Trace, number: int, file: BinaryIO) -> None:
    changes = np.flatnonzero(np.diff(trace.workgroup)) + 1
    bounds = [0, *changes.tolist(), trace.n_subgroup] if trace.n_subgroup else [0]
    n_groups = len(bounds) - 1
    whole = trace.whole and n_groups == trace.launch.n_groups
    most_warps = int(np.diff(bounds).max(initial=1))
    grid, block = _shapes(trace, n_groups, whole, most_warps)
    file.write(_head(trace, number, grid, block).encode())
    writer = _KernelWriter(trace, file)
    for group in range(n_groups):
        index = int(trace.workgroup[bounds[group]]) if whole else group
        x, y, z = index % grid[0], index // grid[0] % grid[1], index // (grid[0] * grid[1])
        writer.put(f"\n#BEGIN_TB\n\nthread block = {x},{y},{z}\n")
        for subgroup in range(bounds[group], bounds[group + 1]):
            writer.subgroup(subgroup, subgroup - bounds[group])
        writer.put("\n#END_TB\n")
    writer.flush()


def _shapes(
    trace: Trace, n_groups: int, whole: bool, most_warps: int
) -> tuple[tuple[int, int, int], tuple[int, int, int]]:
    """Grid and block as three numbers; flat ones where the launch's own do not fit the trace."""
    launch = trace.launch
    grid, block = _three(launch.grid), _three(launch.group_shape)
    if not whole or math.prod(grid) != launch.n_groups:
        grid = (n_groups, 1, 1)
    if math.prod(block) != launch.group_items:
        block = (launch.group_items, 1, 1)
    if -(-math.prod(block) // 32) < most_warps:
        block = (32 * most_warps, 1, 1)
    return grid, block


def _three(shape: tuple[int, ...]) -> tuple[int, int, int]:
    x, y, z, *rest = (*shape, 1, 1, 1)
    return x, y, z * math.prod(rest)


def _head(
    trace: Trace, number: int, grid: tuple[int, int, int], block: tuple[int, int, int]
) -> str:
    launch = trace.launch
    name = "".join(c if c.isprintable() else "?" for c in launch.kernel).strip() or "kernel"
    lines = [
        f"-kernel name = {name}",
        f"-kernel id = {number}",
        f"-grid dim = ({grid[0]},{grid[1]},{grid[2]})",
        f"-block dim = ({block[0]},{block[1]},{block[2]})",
        f"-shmem = {launch.local_memory_bytes}",
        f"-nregs = {launch.registers_per_item or 0}",
        "-binary version = 70",
        "-cuda stream id = 0",
        "-shmem base_addr = 0x0000000000000000",
        "-local mem base_addr = 0x0000000000000000",
        "-nvbit version = none",
        "-accelsim tracer version = 4",
        "",
        "#traces format = PC mask dest_num [reg_dests] opcode src_num [reg_srcs] mem_width"
        " [adrrescompress?] [mem_addresses] immediate",
    ]
    return "".join(f"{line}\n" for line in lines)


class _KernelWriter:
    def __init__(self, trace: Trace, file: BinaryIO) -> None:
        self.trace, self.file = trace, file
        self.text = np.empty(_TEXT_BYTES, np.uint8)
        self.state = np.zeros(text_of.STATE_WORDS, np.int64)
        most = int(np.diff(trace.granule_offset).max(initial=1))
        self.scratch = text_of.new_scratch(most)
        self.source = _source(trace)
        self.words = tuple(np.frombuffer(word.encode(), np.uint8) for word in (_BAR, _NOP))

    def put(self, text: str) -> None:
        data = np.frombuffer(text.encode(), np.uint8)
        at = int(self.state[text_of.BYTES])
        if at + len(data) > len(self.text):
            self.flush()
            at = 0
        self.text[at : at + len(data)] = data
        self.state[text_of.BYTES] = at + len(data)

    def flush(self) -> None:
        self.file.write(self.text[: int(self.state[text_of.BYTES])].data)
        self.state[text_of.BYTES] = 0

    def subgroup(self, subgroup: int, warp: int) -> None:
        self.put(f"\nwarp = {warp}\ninsts = ")
        # The number of instructions is known only after them, so space is left for it.
        hole = self.file.tell() + int(self.state[text_of.BYTES])
        self.put(" " * _COUNT_LETTERS + "\n")
        first, end = (int(self.trace.subgroup_offset[subgroup + k]) for k in range(2))
        at, instructions = first, 0
        self.state[text_of.INSTRUCTIONS] = 0
        while True:
            at = text_of.write_accesses(
                *(self.text, self.state, self.source, self.scratch, first, at, end),
                *(*self.words, self.trace.lane_hits is not None),
            )
            if at == end:
                break
            self.flush()
        instructions = int(self.state[text_of.INSTRUCTIONS]) + 1
        exit_pc = text_of.PC_OF_SITE * (len(self.trace.sites) + 2)
        self.put(f"{exit_pc:04x} ffffffff 0 {_EXIT}0 0 0\n")
        self._fill(hole, str(instructions))

    def _fill(self, place: int, number: str) -> None:
        data = number.encode()
        written = self.file.tell()
        if place >= written:
            at = place - written
            self.text[at : at + len(data)] = np.frombuffer(data, np.uint8)
            return
        if place + _COUNT_LETTERS > written:  # the hole straddles what is written and what is not
            self.flush()
            written = self.file.tell()
        self.file.seek(place)
        self.file.write(data)
        self.file.seek(written)


def _source(trace: Trace) -> text_of.AccessColumns:
    n = max(len(trace.sites), 1)
    opcode = np.zeros((n, len(_WIDTHS), _OPCODE_BYTES), np.uint8)
    opcode_bytes = np.zeros((n, len(_WIDTHS)), np.int64)
    for k, site in enumerate(trace.sites):
        for power in range(len(_WIDTHS)):
            word = np.frombuffer(f"{_opcode(site, power)} ".encode(), np.uint8)
            opcode[k, power, : len(word)] = word
            opcode_bytes[k, power] = len(word)
    return text_of.AccessColumns(
        *(trace.site, trace.starts_sequence, trace.waits, trace.lanes),
        *(trace.granule_offset, trace.granule, trace.byte_mask, trace.lane_groups),
        trace.lane_hits if trace.lane_hits is not None else np.empty(0, np.uint8),
        np.array([_KINDS[site.direction] for site in trace.sites] or [0], np.uint8),
        np.array([max(site.itemsize_bytes, 1) for site in trace.sites] or [1], np.int64),
        opcode,
        opcode_bytes,
    )


def _opcode(site: AccessSite, power: int) -> str:
    scope = ".STRONG.GPU" if site.bypasses_l1 else ""
    return f"{_OPCODES[site.direction]}{_WIDTHS[power]}{scope}"
