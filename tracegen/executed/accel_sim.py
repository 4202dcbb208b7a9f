"""Writes what the machine code of a workload executes as traces for Accel-Sim, version 5: kernelslist.g and a .traceg a launch.

A line an instruction and sub-group, as NVBit's tracer writes it on a GPU, but made without one. Where that tracer
leaves something out, the code decides: a result that is not an instruction's first operand is a result
(`ATOMG PT, R2, ...`), and a copy to local memory is one line, with the addresses that it loads from.
"""

from __future__ import annotations

import contextlib
import math
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np
import numpy.typing as npt

from memsim.errors import KernelError
from memsim.machine import Machine
from memsim.progress import report
from tracegen.compiled.model import Instruction
from tracegen.compiled.nvidia.nvidia_ptx import number as number_of
from tracegen.executed.launches import bound_launches, known
from tracegen.executed.sass_run import Executed, SassRun
from tracegen.executed.targets import OLDEST_READ
from tracegen.execution.operations import LOCAL_WINDOW, PRIVATE_WINDOW
from tracegen.machine_code.bound import BoundKernel
from tracegen.machine_code.sass_log import address_operand
from tracegen.machine_code.sass_text import NO_REGISTER, Operand, read
from tracegen.options import TraceOptions
from tracegen.workloads.load import AnyWorkload

_WARP = 32
_RZ = 255
_SPOOLED_BYTES = 1 << 20
"""Text of a sub-group that is kept in memory until its group has ended; more of it goes to a temporary file."""
_MOST_STRIDE = 1 << 31
_MOST_KNOWN = 1 << 16
"""Pairs of instruction and lanes whose text is kept."""
LIST = "kernelslist.g"


@dataclass(frozen=True, kw_only=True)
class Written:
    """A launch in a file. n_groups : that it has;  written : that the file has, the first ones"""

    file: str
    n_groups: int
    written: int
    instructions: int
    stand_ins: tuple[str, ...]


def write(
    workload: AnyWorkload,
    machine: Machine,
    options: TraceOptions,
    folder: Path,
    groups: int | None = None,
) -> list[Written]:
    """Writes the launches of a workload, or the one that the options name, into an empty folder.

    groups : the most that are written of a launch, its first ones; the simulator sees a grid of as many

    At a time there are in memory the memory of the launch, a log of 32 MiB, and 1 MiB of text for each sub-group of a
    group. Raises KernelError where the code is not NVIDIA's or its sub-groups have not 32 lanes.
    """
    if options.lanes(machine) != _WARP:
        raise KernelError(
            f"Accel-Sim's warps have 32 lanes, sub-groups of {machine.name} have {options.lanes(machine)}"
        )
    if machine.compiler_target.startswith("gfx"):
        raise KernelError(f"Accel-Sim runs NVIDIA's machine code, and {machine.name} is AMD's")
    done: list[Written] = []
    commands: list[str] = []
    for bound in bound_launches(workload, machine, options):
        run = SassRun(bound, known(bound, _WARP))
        bound.restore()
        if options.launch not in (None, bound.index):
            run.rest(0)
            continue
        if not commands:
            extents = bound.memory.extents
            commands = [f"MemcpyHtoD,0x{one.base_bytes:016x},{one.size_bytes}" for one in extents]
        done.append(_write_launch(run, len(done) + 1, folder, groups))
        commands.append(done[-1].file)
        if bound.index == options.launch:
            break
        if bound.index + 1 < len(bound.launch_names):
            run.rest(done[-1].written)
    if not done:
        raise KernelError(f"the kernel has no launch {options.launch}")
    (folder / LIST).write_text("".join(f"{command}\n" for command in commands))
    return done


def _write_launch(run: SassRun, number: int, folder: Path, most: int | None) -> Written:
    bound, name = run.bound, f"kernel-{number}.traceg"
    n_groups = math.prod(bound.grid)
    count = min(n_groups, most or n_groups)
    grid = _three(bound.grid) if count == n_groups else (count, 1, 1)
    lines = _Lines(bound.code.instructions)
    instructions = 0
    with open(folder / name, "wb") as file:
        file.write(_head(bound, number, grid).encode())
        for group in range(count):
            report(f"writing thread blocks of {name}", group, count)
            place = (group % grid[0], group // grid[0] % grid[1], group // (grid[0] * grid[1]))
            file.write(f"\n#BEGIN_TB\n\nthread block = {','.join(map(str, place))}\n".encode())
            instructions += _write_group(run, group, lines, file)
            file.write(b"\n#END_TB\n")
    return Written(
        file=name,
        n_groups=n_groups,
        written=count,
        instructions=instructions,
        stand_ins=bound.code.stand_ins,
    )


def _write_group(run: SassRun, group: int, lines: _Lines, file: IO[bytes]) -> int:
    """The number of instructions of all sub-groups."""
    counts = [0] * run.n_subgroup
    with contextlib.ExitStack() as opened:
        texts = [
            opened.enter_context(tempfile.SpooledTemporaryFile(_SPOOLED_BYTES)) for _ in counts
        ]

        def add(subgroup: int, done: Executed) -> None:
            counts[subgroup] += len(done.number)
            texts[subgroup].writelines(lines.of(done))

        run.group(group, add)
        for subgroup, (count, text) in enumerate(zip(counts, texts, strict=True)):
            file.write(f"\nwarp = {subgroup}\ninsts = {count}\n".encode())
            text.seek(0)
            shutil.copyfileobj(text, file)
    return sum(counts)


def _head(bound: BoundKernel, number: int, grid: tuple[int, ...]) -> str:
    # What nvdisasm does not read has the instructions of the oldest target that it reads.
    values = {
        "kernel name": "".join(c if c.isprintable() else "?" for c in bound.name),
        "kernel id": number,
        "grid dim": "({},{},{})".format(*grid),
        "block dim": "({},{},{})".format(*_three(bound.group_shape)),
        "shmem": bound.local_memory_bytes,
        "nregs": bound.code.registers_per_item,
        "binary version": max(number_of(bound.code.target), number_of(OLDEST_READ)),
        "cuda stream id": 0,
        "shmem base_addr": f"0x{LOCAL_WINDOW:016x}",
        "local mem base_addr": f"0x{PRIVATE_WINDOW:016x}",
        "nvbit version": "none",
        "accelsim tracer version": 5,
        "enable lineinfo": 0,
    }
    form = (
        "#traces format = [line_num] PC mask dest_num [reg_dests] opcode src_num [reg_srcs] mem_width"
        " [adrrescompress?] [mem_addresses] immediate"
    )
    return "".join(f"-{name} = {value}\n" for name, value in values.items()) + f"\n{form}\n"


def _three(shape: tuple[int, ...]) -> tuple[int, int, int]:
    x, y, z = (*shape, 1, 1)[:3]
    return x, y, z


class _Lines:
    """The lines of instructions: what stands before the lanes, between lanes and addresses, and behind."""

    def __init__(self, instructions: list[Instruction]) -> None:
        self.parts = [_parts(one) for one in instructions]
        self.has_address = np.array([bool(one[2]) for one in self.parts])
        self.known: dict[int, str] = {}

    def of(self, done: Executed) -> Iterator[bytes]:
        """A line each, with its end."""
        texts = iter(_address_texts(done.lanes[self.has_address[done.number]], done.addresses))
        keys = done.number.astype(np.uint64) << np.uint64(32) | done.lanes
        for key in keys.tolist():
            line = self.known.get(key) or self._new(key)
            if line[-1] != "\n":
                line = f"{line}{next(texts)}{self.parts[key >> 32][2]}"
            yield line.encode()

    def _new(self, key: int) -> str:
        if len(self.known) == _MOST_KNOWN:
            self.known.clear()
        before, middle, behind = self.parts[key >> 32]
        line = self.known[key] = f"{before}{key & 0xFFFFFFFF:08x}{middle}" + (
            "" if behind else "\n"
        )
        return line


def _parts(instruction: Instruction) -> tuple[str, str, str]:
    """Of an instruction without an address the third one is empty."""
    sass = read(instruction.text)
    opcode = ".".join((sass.base, *sass.parts))
    to, sources = _registers(sass.operands, instruction.writes)
    numbers = [one.number for one in sass.operands if one.kind == "i"]
    immediate = (numbers[-1] if numbers else 0) & 0xFFFFFFFF
    middle = " ".join(["", str(len(to)), *to, opcode, str(len(sources)), *sources, ""])
    before = f"{instruction.address:04x} "
    if address_operand(sass) is None:
        return before, f"{middle}0 {immediate}", ""
    width = instruction.memory.bytes_per_item if instruction.memory else 4
    return before, f"{middle}{width} ", f" {immediate}\n"


def _registers(
    operands: tuple[Operand, ...], written: tuple[str, ...]
) -> tuple[list[str], list[str]]:
    """The register that is written, if any, and those that are read: of each group of registers the first one."""
    to: list[str] = []
    sources: list[str] = []
    for k, operand in enumerate(operands):
        name = f"R{_RZ if operand.number == NO_REGISTER else operand.number}"
        if operand.kind == "[]":
            named = [f"R{part.number}" for part in operand.parts if part.kind == "R"]
            sources += named or [f"R{_RZ}"]
        elif operand.kind == "R" and not to and (name in written or (k == 0 and name == f"R{_RZ}")):
            to.append(name)
        elif operand.kind == "R":
            sources.append(name)
    return to, sources


def _address_texts(lanes: npt.NDArray[np.uint32], addresses: npt.NDArray[np.uint64]) -> list[str]:
    """`1 base stride` where the addresses of neighbouring lanes have one distance, else `0` and each of them.

    Their other form, `2 base distances`, is none: the simulator reads a number too many, and takes the immediate.
    """
    lane = np.arange(_WARP)
    takes_part = (lanes[:, None] >> lane.astype(np.uint32) & np.uint32(1)).astype(bool)
    count, first = takes_part.sum(axis=1), takes_part.argmax(axis=1)
    row = np.arange(len(lanes))
    at = addresses.astype(np.int64)
    base = at[row, first]
    stride = np.where(count > 1, at[row, np.minimum(first + 1, _WARP - 1)] - base, 0)
    expected = base[:, None] + stride[:, None] * (lane - first[:, None])
    neighbours = takes_part == ((lane >= first[:, None]) & (lane < (first + count)[:, None]))
    regular = (neighbours & ((expected == at) | ~takes_part)).all(axis=1)
    regular &= (count > 1) & (np.abs(stride) < _MOST_STRIDE)
    texts = []
    for k, (is_regular, b, s) in enumerate(
        zip(regular.tolist(), base.tolist(), stride.tolist(), strict=True)
    ):
        if is_regular:
            texts.append(f"1 0x{b:x} {s}")
        elif not count[k]:
            texts.append("1 0x0 0")
        else:
            texts.append(" ".join(["0", *(f"0x{one:x}" for one in at[k, takes_part[k]].tolist())]))
    return texts
