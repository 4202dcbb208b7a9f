"""The launch of a kernel in CUDA C++ or HIP: its sites, its address map, and its error messages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from memsim.errors import KernelError
from memsim.trace import SourceLocation
from tracegen.cuda.arguments import Arguments
from tracegen.cuda.ir import Place
from tracegen.cuda.labels import label
from tracegen.cuda.library import MOST_THREADS, MOST_TURNS, Library
from tracegen.cuda.memory import Memory, content
from tracegen.cuda.probing import Probed
from tracegen.cuda.program import CudaProgram
from tracegen.cuda.quiet_loops import Position, Turns
from tracegen.cuda.shared_memory import Notes, conflicts_at_one_address
from tracegen.cuda.variables import Variable
from tracegen.execution.banks import Conflicts
from tracegen.probes.tokens import TokenEncoding
from tracegen.recording.launch import BoundLaunch, Layout
from tracegen.recording.sites import FIRST_BASE_BYTES, StaticAccess, allocate, site_map, tables
from tracegen.workloads.checks import check_array, number

POSITION_SHIFT = 48
ENDLESS, BEYOND, NOWHERE, STOPPED = -1, -2, -3, -4
"""What `runtime/run.c` reports instead of a position."""


class CudaLaunch(BoundLaunch):
    """The launch of a CudaWorkload. The index of a token is the byte in the address map.

    shared_bytes : dynamic shared memory of a block
    warp : lanes of a warp
    turns : of loops without accesses, where they have been counted
    """

    front_end = "numpy"

    def __init__(
        self,
        program: CudaProgram,
        probed: Probed,
        library: Library,
        arguments: Arguments,
        shape: tuple[tuple[int, ...], tuple[int, ...]],
        shared_bytes: int,
        warp: int,
    ) -> None:
        self.text, self.probed, self.library = program, probed, library
        self.arguments, self.warp, self.shared_bytes = arguments, warp, shared_bytes
        self.grid, self.group_shape = shape
        self.index = 0
        self.name, self.program = program.kernel, probed.program
        self.notes: Notes | None = None
        self.turns: Mapping[Position, Turns] = {}
        self.memory = Memory(arguments, self.extents)
        self._read_variables()

    def _read_variables(self) -> None:
        probed, library = self.probed, self.library
        variables = list(probed.variables.values())
        rows = library.table("memsim_variables", len(variables))
        for variable, (base, size) in zip(variables, rows, strict=True):
            self.memory.views[variable.name] = library.bytes_at(int(base), int(size))
        library.variables = [self.memory.views[variable.name] for variable in variables]
        base = {extent.name: extent.base_bytes for extent in self.extents}
        self.regions = np.array(
            [
                [
                    self.memory.views[name].ctypes.data,
                    len(self.memory.views[name]),
                    base[name] - FIRST_BASE_BYTES,
                ]
                for name in probed.arrays
            ],
            np.uint64,
        ).reshape(-1, 3)
        others = library.table("memsim_constants", len(probed.others))
        dynamic = library.table("memsim_shared", 1)
        untraced = np.concatenate([others, dynamic])
        self.untraced = np.concatenate(
            [untraced, np.zeros((len(untraced), 1), np.uint64)], axis=1
        ).astype(np.uint64)
        self.others = {
            variable.name: library.bytes_at(int(row[0]), int(row[1]))
            for variable, row in zip(probed.others, others, strict=True)
        }

    def set_symbols(self, symbols: Mapping[str, Any]) -> None:
        """Gives variables their values. Raises KernelError for one that the kernel does not use."""
        others = {variable.name: variable for variable in self.probed.others}
        for name, value in symbols.items():
            view = self.memory.views.get(name) if name in self.probed.variables else None
            view = self.others.get(name) if view is None else view
            if view is None:
                known = ", ".join([*self.probed.variables, *others]) or "none"
                raise KernelError(
                    f"kernel {self.text.kernel} uses no variable {name}; it has {known}"
                )
            what = f"variable {name} of kernel {self.text.kernel}"
            variable = self.probed.variables.get(name) or others[name]
            if not isinstance(value, (np.ndarray, np.generic)):
                value = number(what, _dtype(variable, value), value)
            array = check_array(what, np.asarray(value), objects=True)
            if array.nbytes > len(view):
                raise KernelError(
                    f"variable {name} has {len(view)} bytes, its value has {array.nbytes}"
                )
            view[: array.nbytes] = content(array, self.memory.address)

    @property
    def settings(self) -> dict[str, int]:
        """Integers among the arguments of the kernel and of its template, by name."""
        named = zip(self.arguments.parameters, self.arguments.values, strict=True)
        return self.text.template_integers | {
            parameter.name: int(value[0])
            for parameter, value in named
            if parameter.kind in ("i", "u") and value is not None
        }

    def bank_conflicts(self, size_bytes: int) -> dict[Place, Conflicts]:
        """See `Notes`; of the last run that recorded, and of accesses with a constant address."""
        alike = dict.fromkeys(self.probed.uniform, conflicts_at_one_address(self.warp, size_bytes))
        noted = self.notes.bank_conflicts(self.warp, size_bytes) if self.notes is not None else {}
        return alike | noted

    @property
    def local_memory_bytes(self) -> int:
        return self.probed.shared_bytes + self.shared_bytes

    @cached_property
    def extents(self) -> Any:
        sizes = {
            name: self.arguments.arrays[name].nbytes
            if name in self.arguments.arrays
            else self.probed.variables[name].size_bytes
            for name in self.probed.arrays
        }
        return allocate(sizes)

    @cached_property
    def layout(self) -> Layout:
        probes = self.program.probes
        sites = site_map(probes, self._static_accesses())
        regions = {probe.array for probe in probes if probe.mark >= 0}
        made = tables(
            probes, sites, dict.fromkeys(regions, FIRST_BASE_BYTES), dict.fromkeys(regions, 1)
        )
        # Addresses are multiples of what the program assumes; see `_mask` in probing.py.
        most = max((_granules(access) for access in self.probed.accesses), default=1)
        return Layout(
            extents=self.extents,
            elements=dict.fromkeys(regions, 1),
            sites=sites,
            tables=made._replace(most_granules=most),
            sizes=(),
            encoding=TokenEncoding(8, POSITION_SHIFT),
            user_source=self._user_source(sites.sites),
        )

    def _static_accesses(self) -> list[StaticAccess | None]:
        static: list[StaticAccess | None] = []
        for probe in self.program.probes:
            if probe.mark < 0:
                static.append(None)
                continue
            access = self.probed.accesses[probe.mark]
            place = access.chain[0] if access.chain else None
            main = self.text.place(access.chain)
            text = self._label(place, probe.kind)
            static.append(
                StaticAccess(
                    key=(place, probe.kind, probe.array, access.size_bytes),
                    label=text,
                    offset_bytes=0,
                    size_bytes=access.size_bytes,
                    source=SourceLocation(
                        generated_line=main.line if main else None,
                        user_file=place.file if place else None,
                        user_line=place.line if place else None,
                    ),
                )
            )
        return static

    def _label(self, place: Place | None, kind: str) -> str:
        lines = self._lines(place.file) if place else []
        if place is None or not 1 <= place.line <= len(lines):
            return (
                f"store of {self.text.kernel}"
                if kind == "store"
                else f"{kind} of {self.text.kernel}"
            )
        return label(lines[place.line - 1], place.column, kind)

    def _lines(self, file: str) -> list[str]:
        if file == self.text.file:
            return self.text.text.splitlines()
        if file not in self._read:
            try:
                self._read[file] = Path(file).read_text("utf-8", errors="replace").splitlines()
            except OSError:
                self._read[file] = []
        return self._read[file]

    @cached_property
    def _read(self) -> dict[str, list[str]]:
        return {}

    def _user_source(self, sites: Sequence[Any]) -> str:
        """The text of the file with the most sites."""
        files = Counter(site.source.user_file for site in sites)
        name = files.most_common(1)[0][0] if files else self.text.file
        if name in (None, self.text.file):
            return self.text.text
        return "\n".join(self._lines(name)) + "\n"

    def out_of_bounds(self, position: int, index: int, axis: int, at: int) -> KernelError:
        """As the runtime reports it: see `fail` in `runtime/run.c`."""
        if position == ENDLESS:
            where = f":{at}" if at else ""
            return KernelError(
                f"{self.text.file}{where}: the loops of thread {axis} of block {index} took more than"
                f" {MOST_TURNS} turns: this one may not end, or waits for a thread that runs later"
            )
        if position == STOPPED:
            block, thread = divmod(at, MOST_THREADS)
            file = self.library.text_at(index)
            what = (
                f"{file}:{axis}: an assertion failed"
                if file
                else f"{self.text.file}: __trap was called"
            )
            return KernelError(f"{what} in thread {thread} of block {block}")
        if position == BEYOND:
            check = self.probed.checks[axis]
            place = check.place
            where = f"{place.file}:{place.line}: " if place else ""
            if len(check.names) > 1:
                return KernelError(
                    f"{where}an access through a pointer is out of bounds: it lies in none of the arrays"
                    f" {', '.join(check.names)}"
                )
            extent = check.array_bytes // check.size_bytes
            signed = int(np.int64(index)) // check.size_bytes
            return KernelError(
                f"{where}index {signed} is out of bounds: array {check.names[0]} has {extent} elements"
                f" of {check.size_bytes} bytes"
            )
        sites = self.layout.sites
        site = sites.sites[sites.site_of[axis if position == NOWHERE else position]]
        where = f"{site.source.user_file}:{site.source.user_line}"
        if position == NOWHERE:
            return KernelError(
                f"{where}: access {site.name} is out of bounds: its address {index & (1 << 64) - 1:#x}"
                " lies in no array"
            )
        name = self.probed.arrays[axis]
        if at:
            return KernelError(
                f"{where}: access {site.name} is misaligned: byte {index} of array {name} is not a"
                f" multiple of {self._alignment(position)}"
            )
        if not len(self.memory.views[name]) and name in self.arguments.arrays:
            return KernelError(
                f"{where}: access {site.name} is through {name}, which is empty or None"
            )
        shape, element = self._shape(name)
        place_text = f"index {index // element}" if index % element == 0 else f"byte {index}"
        return KernelError(
            f"{where}: access {site.name} is out of bounds: {place_text} in array {name} of shape"
            f" {shape} ({site.itemsize_bytes} bytes, {site.direction})"
        )

    def _alignment(self, position: int) -> int:
        return self.probed.accesses[self.program.probes[position].mark].alignment_bytes

    def _shape(self, name: str) -> tuple[Any, int]:
        """The shape of an array, and the bytes of an element."""
        array = self.arguments.arrays.get(name)
        if array is None:
            return (self.probed.variables[name].size_bytes,), 1
        return tuple(array.shape), max(array.dtype.itemsize, 1)

    def _arrays_with(self, kinds: tuple[str, ...]) -> set[str]:
        regions = [probe.array for probe in self.program.probes if probe.kind in kinds]
        return {name for region in regions for name in region.split(" or ")} - {""}

    @property
    def repeatable(self) -> bool:
        return False

    def written_and_read(self) -> list[npt.NDArray[np.uint8]]:
        """The memory of arrays whose content before the launch matters to a second run."""
        read = self._arrays_with(("load", "atomic"))
        written = self._arrays_with(("store", "atomic"))
        return [self.memory.views[name] for name in sorted(read & written)]

    def outputs(self) -> dict[str, Any]:
        """The arrays that the kernel may write, as it left them, by name; variables as bytes."""
        made = {
            parameter: self.memory.array(name)
            for parameter, name in self.arguments.owners.items()
            if name in self.arguments.writable
        }
        others = self.arguments.writable - set(self.arguments.owners.values())
        made |= {name: self.memory.array(name) for name in others}
        return made | {name: self.memory.views[name].copy() for name in self.probed.variables}


def _dtype(variable: Variable, value: Any) -> np.dtype[Any] | None:
    """The type of a variable that is a single number."""
    if variable.number in ("", "p"):
        return None
    is_unsigned = variable.number[0] == "i" and isinstance(value, int) and value >= 0
    return np.dtype(f"u{variable.number[1:]}" if is_unsigned else variable.number)


def _granules(access: Any) -> int:
    """The most granules of 32 bytes that one thread's access touches."""
    aligned = access.alignment_bytes >= access.size_bytes
    return 1 if aligned else (access.size_bytes + 62) // 32
