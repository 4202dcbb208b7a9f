"""Memory traces of PPT-GPU: a file per thread block, `kernel_K_block_B.mem`.

A record is `OPCODE address ...`, addresses in hexadecimal, one per active lane; lines of `=` may
separate records. Some versions write the warp's number after the opcode; a number below 4096 is taken
as one. Instructions are not recorded, so a site is a memory space (global or local) and a direction.
Without warp numbers, a block is one sub-group that makes its accesses in the order of the file. The launch's shape comes from app_config.py beside the folder memory_traces, which is
searched for its numbers and never run.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from memsim.errors import TraceError
from memsim.formats.accel_sim.opcodes import DIRECTIONS, decode
from memsim.formats.builder import TraceBuilder, name_arrays
from memsim.formats.text import Text, check_launch
from memsim.trace.launches import Launches
from memsim.trace.model import Direction, Launch, Trace

_NAME = re.compile(r"kernel_(\d{1,9})_block_(\d{1,9})\.mem(\.gz|\.xz|\.zst)?")
_LOCAL: dict[str, Direction] = {"LDL": "load", "STL": "store"}
_WARP_BELOW = 4096
_MOST_CONFIG_BYTES = 1 << 22
_MOST_WORDS = 2 * 32 + 2
_MOST_NUMBERS = 1 << 23
_MOST = (1 << 31) - 1


@dataclass
class _Kernel:
    """files : by block;  values : those that app_config.py gives for it."""

    files: dict[int, Path] = field(default_factory=dict)
    values: dict[str, str] = field(default_factory=dict)

    def number(self, name: str) -> int:
        return min(int(self.values.get(name, "0")), _MOST)


def read(path: Path, *, launch: int | None = None) -> Launches:
    """The kernels of a folder, or of one .mem file; launch chooses one, from 0.

    Raises TraceError, with file and line, where a record is damaged.
    """
    kernels = sorted(_kernels(path).items())
    if launch is not None:
        check_launch(launch, len(kernels), path)
        kernels = kernels[launch : launch + 1]
    builders = [_read(kernel) for _, kernel in kernels]
    seen = [site for builder in builders for site in builder.sites.values()]
    arrays = name_arrays(seen)
    traces: list[Trace] = []
    for (number, kernel), builder in zip(kernels, builders, strict=True):
        try:
            traces.append(
                builder.trace(
                    launch=_launch(number, kernel, builder),
                    subgroup_size=32,
                    arrays=arrays,
                    provenance={"format": "ppt-gpu", "file": path.name, "kernel": number},
                )
            )
        except TraceError as error:
            raise TraceError(f"{path}: kernel {number}: {error}") from None
    return Launches(launches=tuple(traces))


def kernel_names(path: Path) -> list[str]:
    return [
        kernel.values.get("kernel_name", f"kernel {number}")
        for number, kernel in sorted(_kernels(path).items())
    ]


def _launch(number: int, kernel: _Kernel, builder: TraceBuilder) -> Launch:
    traced = max(group for group, _ in builder.keys) + 1 if builder.keys else 1
    warps = max((subgroup for _, subgroup in builder.keys), default=0) + 1
    return Launch(
        kernel=kernel.values.get("kernel_name", f"kernel {number}"),
        n_groups=max(kernel.number("grid_size"), traced),
        group_items=kernel.number("block_size") or 32 * warps,
        local_memory_bytes=kernel.number("shared_mem_bytes"),
        registers_per_item=kernel.number("num_registers") or None,
    )


def _read(kernel: _Kernel) -> TraceBuilder:
    builder = TraceBuilder()
    for block, file in sorted(kernel.files.items()):
        with Text(file, buffer_bytes=1 << 20) as text:
            try:
                _block(text, block, builder)
            except TraceError:
                builder.columns.close()
                raise
    return builder


def _block(text: Text, block: int, builder: TraceBuilder) -> None:
    """Collects a block's records until its end, because numbered warps interleave."""
    warps: dict[int, list[tuple[str, list[int]]]] = {}
    n_numbers = 0
    for opcode, words in _records(text):
        numbers = [int(word, 16) for word in words]
        warp = 0
        if numbers and numbers[0] < _WARP_BELOW:
            warp, numbers = numbers[0], numbers[1:]
        n_numbers += 4 + len(numbers)
        if n_numbers > _MOST_NUMBERS:
            raise text.fail(f"a thread block must contain at most {_MOST_NUMBERS} addresses")
        warps.setdefault(warp, []).append((opcode, numbers))
    for subgroup, (_, records) in enumerate(sorted(warps.items())):
        builder.begin_subgroup(block, subgroup)
        for opcode, numbers in records:
            _access(builder, opcode, numbers)


def _access(builder: TraceBuilder, opcode: str, addresses: list[int]) -> None:
    kind = decode(opcode)
    local = _LOCAL.get(opcode.split(".")[0])
    direction = local or DIRECTIONS.get(kind.kind)
    if direction is None:
        raise TraceError(f"an opcode must load or store, got {opcode[:72]!r}")
    size = kind.size_bytes
    name = f"{'local' if local else 'global'} {direction}"
    site = builder.site(name if size == 4 else f"{name}, {size} bytes", direction, size)
    # A copy from global to shared memory lists two addresses a lane.
    for first in range(0, len(addresses), 32):
        lanes = addresses[first : first + 32]
        builder.access(site, range(len(lanes)), lanes)


def _records(text: Text) -> Iterator[tuple[str, list[str]]]:
    while (line := text.line()) is not None:
        record = line.decode("ascii", "replace").strip()
        if not record or set(record) == {"="}:
            continue
        opcode, *words = record.split(maxsplit=_MOST_WORDS)
        if not re.fullmatch(r"[A-Z][A-Z0-9._a-z]{0,62}", opcode):
            raise text.fail(f"a record must begin with an opcode, got {opcode[:72]!r}")
        wrong = next((w for w in words if not re.fullmatch(r"(0x)?[0-9a-fA-F]{1,16}", w)), None)
        if wrong is not None or len(words) > _MOST_WORDS - 1:
            raise text.fail(
                f"addresses must be hexadecimal, at most 64, got {wrong or record!r:.80}"
            )
        yield opcode, words


def _kernels(path: Path) -> dict[int, _Kernel]:
    kernels: dict[int, _Kernel] = {}
    if not path.is_dir():
        named = _NAME.fullmatch(path.name)
        number, block = (int(named[1]), int(named[2])) if named else (1, 0)
        kernels[number] = _Kernel({block: path})
        folder = path.parent
    else:
        inner = path / "memory_traces"
        folder = inner if inner.is_dir() else path
        for file in folder.iterdir():
            named = _NAME.fullmatch(file.name)
            if named:
                kernels.setdefault(int(named[1]), _Kernel()).files[int(named[2])] = file
        if not kernels:
            raise TraceError(f"{path}: must contain files kernel_K_block_B.mem")
    _configure(folder.parent / "app_config.py", kernels)
    return kernels


def _configure(config: Path, kernels: dict[int, _Kernel]) -> None:
    """Takes `"name" : value` from each `kernel_K = {...}`."""
    try:
        if not config.is_file() or config.stat().st_size > _MOST_CONFIG_BYTES:
            return
        text = config.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return
    for number, body in re.findall(r"kernel_(\d{1,9})\s*=\s*\{([^}]*)\}", text):
        kernel = kernels.get(int(number))
        if kernel is not None:
            pairs = re.findall(r"\"(\w+)\"\s*:\s*(\d{1,12}|\"([^\"]*)\")", body)
            for name, value, quoted in pairs:
                if name == "kernel_name":
                    kernel.values[name] = quoted or value
                elif value.isdigit():
                    kernel.values[name] = value
