"""Traces of real CUDA programs, as NVBit's tracer writes them for Accel-Sim (versions 3 to 6).

A folder holds kernelslist.g (the kernels and copies, in order) and a .traceg per kernel, plain or
packed. Accesses to global memory are kept: LDG, STG, ATOM, RED, LDGSTS, and LD, ST and ATOM whose
first address lies outside the shared and local windows given in the header. Shared, local and
constant accesses, textures and bulk copies are counted in the provenance (`skipped`). A site is an
instruction by PC; its width comes from its opcode. Loads that L1 may not serve (`.STRONG.GPU`,
volatile) are separate sites, which bypass the first level in a replay. Warps issue in order, so an
access waits for every loaded value that was used before it. A bulk sequence ends there, at a barrier,
and where the PC decreases. Arrays have no names: see `memsim.formats.extents`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

from memsim.errors import TraceError
from memsim.formats.accel_sim.kernel import InstructionSite, Kernel, read_head, read_kernel
from memsim.formats.accel_sim.opcodes import DIRECTIONS
from memsim.formats.extents import AddressMap, address_map
from memsim.formats.text import Text, check_launch
from memsim.trace.launches import Copy, Launches
from memsim.trace.model import AccessSite, SourceLocation, Trace

MEMORY_BYTES = 1 << 28
_MOST_COMMANDS = 1 << 20
_LEAST_BYTES = 1 << 20
_MOST_ADDRESS = 1 << 57
_SUFFIXES = ("", ".xz", ".gz", ".zst")
Written = tuple[int, int]
"""A copy from the host: address, bytes."""


def read(path: Path, *, launch: int | None = None, memory_bytes: int = MEMORY_BYTES) -> Launches:
    """The kernels of a folder, a kernelslist.g or one .traceg, with the copies between them.

    launch : only this kernel, from 0
    memory_bytes : columns beyond this size, divided evenly among the files, go to temporary files

    Raises TraceError where anything is missing or damaged.
    """
    commands = _commands(path)
    files = [command for command in commands if isinstance(command, Path)]
    if launch is not None:
        check_launch(launch, len(files), path)
        commands = _up_to(commands, launch)
        files = files[launch : launch + 1]
    # A list may name a file any number of times.
    bytes_per_file = max(memory_bytes // len(set(files)), _LEAST_BYTES)
    read_once = {file: read_kernel(file, bytes_per_file) for file in dict.fromkeys(files)}
    kernels = [read_once[file] for file in files]
    written = [command for command in commands if not isinstance(command, Path)]
    touched = [
        (site.low * 32, site.high * 32 + 31)
        for kernel in read_once.values()
        for site in kernel.sites
    ]
    arrays = address_map(written, touched)
    waiting: list[Written] = []
    between: list[tuple[Copy, ...]] = []
    traces: list[Trace] = []
    for command in commands:
        if not isinstance(command, Path):
            waiting.append(command)
            continue
        if traces:
            between.append(tuple(copy for one in waiting for copy in arrays.copies(*one)))
        traces.append(_trace(kernels[len(traces)], command, arrays))
        waiting = []
    return Launches(launches=tuple(traces), between=tuple(between))


def kernel_names(path: Path) -> list[str]:
    """The kernels in order, from their headers alone."""
    files = (command for command in _commands(path) if isinstance(command, Path))
    return [read_head(file).launch.kernel for file in files]


def _up_to(commands: Sequence[Path | Written], launch: int) -> list[Path | Written]:
    """One kernel, and all the copies before it."""
    places = [k for k, command in enumerate(commands) if isinstance(command, Path)]
    before = [command for command in commands[: places[launch]] if not isinstance(command, Path)]
    return [*before, commands[places[launch]]]


def _trace(kernel: Kernel, path: Path, arrays: AddressMap) -> Trace:
    head, columns = kernel.head, kernel.columns
    sites = _sites(kernel.sites, arrays)
    if not any(site.direction == "atomic" for site in sites):
        columns = {name: column for name, column in columns.items() if name != "lane_hits"}
    return Trace(
        sites=sites,
        arrays=arrays.arrays,
        launch=head.launch,
        subgroup_size=32,
        workgroup=kernel.workgroup,
        whole=kernel.n_blocks == head.launch.n_groups,
        provenance={
            "format": "accel-sim",
            "version": head.version,
            "file": path.name,
            "skipped": kernel.skipped,
        },
        **columns,
    )


def _sites(instructions: Sequence[InstructionSite], arrays: AddressMap) -> tuple[AccessSite, ...]:
    names = [f"{site.pc:04x} {site.text}" for site in instructions]
    return tuple(
        AccessSite(
            name=name,
            array=arrays.name_at(site.low * 32),
            direction=DIRECTIONS[site.opcode.kind],
            itemsize_bytes=site.opcode.size_bytes,
            instruction=site.text,
            source=SourceLocation(user_line=site.line),
            depends_on=(names[site.feed],) if site.feed >= 0 else (),
            bypasses_l1=site.opcode.bypasses_l1,
        )
        for name, site in zip(names, instructions, strict=True)
    )


def _commands(path: Path) -> list[Path | Written]:
    """Kernel files and copies in order."""
    if path.is_dir():
        listed = [path / f"kernelslist.g{suffix}" for suffix in _SUFFIXES]
        kernel_list = next((name for name in listed if name.is_file()), None)
        return _listed(kernel_list) if kernel_list else _unlisted(path)
    return _listed(path) if path.name.startswith("kernelslist") else [path]


def _unlisted(folder: Path) -> list[Path | Written]:
    """The kernels of a folder without a list, by the first number in their names."""
    files = [file for file in folder.iterdir() if re.search(r"\.traceg(\.\w+)?$", file.name)]
    if not files:
        raise TraceError(f"{folder}: must contain a kernelslist.g or .traceg files")

    def order(file: Path) -> tuple[int, str]:
        number = re.search(r"\d{1,18}", file.name)
        return (int(number.group()) if number else 0, file.name)

    return [*sorted(files, key=order)]


def _listed(path: Path) -> list[Path | Written]:
    commands: list[Path | Written] = []
    with Text(path, buffer_bytes=1 << 16) as text:
        while (line := text.line()) is not None:
            command = line.decode("utf-8", "replace").strip()
            if text.number > _MOST_COMMANDS:
                raise text.fail(f"a list must have at most {_MOST_COMMANDS} lines")
            if command.startswith("MemcpyHtoD"):
                commands.append(_written(text, command))
            elif ".traceg" in command or command.startswith("kernel"):
                commands.append(_named(text, path.parent, command))
            elif command and not command.startswith(("#", "Memcpy", "Memset")):
                raise text.fail(
                    f"must be a .traceg or 'MemcpyHtoD,address,bytes', got {command[:72]!r}"
                )
    if not any(isinstance(command, Path) for command in commands):
        raise TraceError(f"{path}: lists no kernel")
    return commands


def _written(text: Text, command: str) -> Written:
    parts = [part.strip() for part in command.split(",")]
    shaped = len(parts) == 3 and re.fullmatch(r"(0[xX])?[0-9a-fA-F]{1,16}", parts[1])
    if not shaped or not re.fullmatch(r"\d{1,17}", parts[2]):
        raise text.fail(f"a copy must be 'MemcpyHtoD,address,bytes', got {command[:72]!r}")
    base, size = int(parts[1], 16), int(parts[2])
    if base + size > _MOST_ADDRESS:
        raise text.fail(f"a copy must end below 2^57, got {command[:72]!r}")
    return base, size


def _named(text: Text, folder: Path, name: str) -> Path:
    relative = Path(name)
    if relative.is_absolute() or ".." in relative.parts or "\0" in name:
        raise text.fail(f"a kernel's file must be in the folder of the list, got {name[:72]!r}")
    for suffix in _SUFFIXES:
        file = folder / f"{name}{suffix}"
        if os.path.isfile(file):  # False too for a name that no file can have
            return file
    raise text.fail(f"lists {name[:72]!r}, which does not exist")
