"""Prepares a workload in CUDA C++ or HIP, and runs its launch on this computer's processor."""

from __future__ import annotations

import contextlib
import dataclasses
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from memsim.errors import KernelError
from memsim.trace import Trace
from tracegen.cuda.arguments import Arguments, Parameter, bound, parameters_of, values_of
from tracegen.cuda.front_end import host_clang, to_library, to_llvm
from tracegen.cuda.ir import Module
from tracegen.cuda.launch import CudaLaunch
from tracegen.cuda.library import MOST_THREADS, Library, shared
from tracegen.cuda.probing import Probed, probe
from tracegen.cuda.program import CudaProgram, read_program
from tracegen.cuda.quiet_loops import turns_by_place
from tracegen.cuda.shared_memory import Notes
from tracegen.cuda.variables import variables
from tracegen.options import DEFAULT_SUBGROUP_SIZE
from tracegen.probes.tokens import TokenEncoding
from tracegen.recording import snapshot
from tracegen.recording.launch import Observer, fault_of
from tracegen.recording.passes import Batch, LaunchRun
from tracegen.recording.room import Lengths
from tracegen.recording.traces import GroupsOf
from tracegen.tools.toolchain import Tool
from tracegen.workloads.cuda import CudaWorkload

Shape = tuple[tuple[int, ...], tuple[int, ...]]
WORTH_A_SAMPLE, SAMPLED_GROUPS = 12, 3
"""So many groups are recorded with the room that a few of them need."""
COUNTED_GROUPS = 256
"""Groups of a launch in which turns of loops without accesses are counted."""


@dataclass(frozen=True)
class PreparedCuda:
    """A kernel with probes, its arguments and the shape of its launch."""

    program: CudaProgram
    probed: Probed
    library: Library
    arguments: Arguments
    symbols: Mapping[str, Any]
    shape: Shape
    workload: CudaWorkload
    clang: Tool
    warp: int
    context: None = None

    @property
    def name(self) -> str:
        return self.program.kernel

    @property
    def source(self) -> str:
        return self.program.text

    @property
    def build_options(self) -> list[str]:
        return list(self.program.options.language)

    @property
    def registers_per_item(self) -> int | None:
        return self.workload.registers_per_item

    @property
    def symbol(self) -> str:
        """The kernel in the compiled program."""
        return self.probed.program.name

    @property
    def pointers(self) -> list[str]:
        """The array of each parameter, "" for one that is no pointer."""
        owners = self.arguments.owners
        return [owners.get(parameter.name, "") for parameter in self.arguments.parameters]

    @property
    def launch_names(self) -> tuple[str, ...]:
        return (self.name,)

    def user_place(self, line: int) -> str:
        return f"{self.program.file}:{line}"

    def run(self, observer: Observer) -> dict[str, Any]:
        """Calls observer with the launch; returns the arrays that the kernel may write."""
        launch = CudaLaunch(
            self.program,
            self.probed,
            self.library,
            self.arguments,
            self.shape,
            self.workload.shared_bytes,
            self.warp,
        )
        launch.set_symbols(self.symbols)
        observer(launch)
        return launch.outputs()


@dataclass(frozen=True)
class Parsed:
    """A program that was compiled for this computer, without probes. symbol : the kernel in it"""

    program: CudaProgram
    module: Module
    symbol: str
    parameters: list[Parameter]
    shape: Shape
    clang: Tool


def parsed(workload: CudaWorkload, warp: int = DEFAULT_SUBGROUP_SIZE) -> Parsed:
    """Reads and compiles a workload's program. Arguments are not looked at; else as `prepare`."""
    program = read_program(workload)
    shape = _shape(workload, program.kernel)
    clang = host_clang()
    llvm, program = to_llvm(program, clang, warp)
    module = Module(llvm)
    symbol = _symbol(module)
    if symbol not in module.functions:
        raise KernelError(
            f"{program.file} declares kernel {program.kernel}, but does not define it"
        )
    threads, most = math.prod(shape[1]), module.launch_bound(symbol)
    if most is not None and threads > most:
        raise KernelError(
            f"block of kernel {program.kernel} may have {most} threads (__launch_bounds__), got {threads}"
        )
    return Parsed(program, module, symbol, parameters_of(module, symbol), shape, clang)


def prepare(workload: CudaWorkload, warp: int) -> PreparedCuda:
    """Compiles a workload's kernel with probes and binds its arguments.

    warp : lanes of a warp
    Raises KernelError for a program that does not compile, with the user's line; an unknown kernel;
    arguments that do not fit; what cannot be traced.
    """
    found = parsed(workload, warp)
    program, clang = found.program, found.clang
    arguments = bound(program.kernel, found.parameters, workload.arguments)
    symbols = values_of(workload.symbols, variables(found.module).values())
    arguments.add_pointers(symbols)
    probed = probe(found.module, found.symbol, program, arguments, workload.shared_bytes)
    library = Library(to_library(probed.text, program, clang))
    return PreparedCuda(
        program, probed, library, arguments, symbols, found.shape, workload, clang, warp
    )


def _symbol(module: Module) -> str:
    """The kernel's name in the program."""
    line = next(one for one in module.lines if one.startswith("@memsim_kernel ="))
    return line.split("ptr @", 1)[1].split(",")[0].strip('"')


def _shape(workload: CudaWorkload, name: str) -> Shape:
    """Blocks along each axis, and threads along each axis of a block; as many axes each."""
    grid, block = _axes(workload.grid), _axes(workload.block)
    n_axes = max(len(grid), len(block))
    for what, extents in (("grid", grid), ("block", block)):
        if not 1 <= len(extents) <= 3 or min(extents) < 1:
            raise KernelError(
                f"{what} of kernel {name} must have one to three axes of at least 1, got {extents}"
            )
    if math.prod(block) > MOST_THREADS:
        raise KernelError(
            f"block of kernel {name} may have {MOST_THREADS} threads, got {math.prod(block)}"
        )
    return (*grid, *[1] * (n_axes - len(grid))), (*block, *[1] * (n_axes - len(block)))


def _axes(size: Any) -> tuple[int, ...]:
    listed = (size,) if isinstance(size, (int, np.integer)) else tuple(size)
    return tuple(int(extent) for extent in listed)


class CudaRun(LaunchRun):
    """One launch on this computer's processor."""

    prepared: PreparedCuda
    launch: CudaLaunch
    libraries = ("numba", "numpy")

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.arrays: dict[str, npt.NDArray[Any]] = {}
        self.reached = shared(8 * max(len(self.launch.program.probes), 1)).view(np.uint64)
        self.turned = np.zeros((0, 2), np.uint64)

    def _reserve(self, name: str, size_bytes: int) -> None:
        have = self.arrays.get(name)
        if have is None or have.nbytes < size_bytes:
            self.arrays.pop(name, None)
            self.arrays[name] = shared(max(size_bytes, 64))

    @contextlib.contextmanager
    def _mapped(self, name: str, count: int, dtype: Any) -> Iterator[npt.NDArray[Any]]:
        size = count * np.dtype(dtype).itemsize
        yield self.arrays[name][:size].view(dtype)

    def _run(
        self, groups: snapshot.Groups, places: npt.NDArray[np.int64], encoding: TokenEncoding | None
    ) -> None:
        launch = self.launch
        self._reserve("counts", len(groups) * launch.group_items * 4)
        tokens = self.arrays["tokens"] if encoding is not None else np.empty(0, np.uint8)
        grid, block = ((*shape, 1, 1)[:3] for shape in (launch.grid, launch.group_shape))
        notes = launch.notes = Notes(launch.probed.checks, launch.group_items, encoding is not None)
        fault = launch.library.run(
            (grid, block),
            launch.warp,
            launch.probed.waits,
            launch.memory.values,
            {
                "regions": launch.regions,
                "untraced": launch.untraced,
                "groups": groups.astype(np.uint32),
                "places": np.ascontiguousarray(places),
                "tokens": tokens,
                "counts": self.arrays["counts"],
                "reached": self.reached,
                "noted": notes.noted,
                "times": notes.times,
                "nests": np.array([loop.nest for loop in launch.probed.loops], np.uint32),
                "counted": self.turned,
            },
        )
        if fault[0]:
            raise fault_of(launch, fault, int(fault[5]), ("thread", "block"))

    def _new_batches(self, groups: snapshot.Groups) -> Iterator[Batch]:
        """Records without having counted all: most groups write no more tokens than a few of them do.

        A run can be repeated here. From the first batch on that needs more room, groups are counted.
        """
        first, n, room = 0, len(groups), self._expected(groups)
        step = self._most_tokens // max(int(room.sum(dtype=np.int64)), 1) if len(room) else 0
        while step and first < n:
            part = groups[first : first + step]
            first += len(part)
            before, rooms = self._before(), np.tile(room, len(part))
            took = self._record(part, rooms, np.zeros(len(rooms), np.int64), self.layout.encoding)
            if (took <= rooms).all():
                yield Batch(part, took, rooms)
            else:
                self._paste(before)
                yield from self._exact_batches(Batch(part, took))
                step = 0
        if first < n:
            before = self._before()
            counts = self._count(groups[first:])
            self._paste(before)
            yield from self._exact_batches(Batch(groups[first:], counts))

    def _expected(self, groups: snapshot.Groups) -> Lengths:
        """The tokens that each thread of a group may need; none where that is worth no sample of groups."""
        if len(groups) < WORTH_A_SAMPLE:
            return np.zeros(0, np.uint32)
        parts = (
            np.arange(1, SAMPLED_GROUPS + 1) * snapshot.GOLDEN % 1
        )  # seldom at an edge of the grid
        places = np.sort(parts * len(groups)).astype(np.int64)
        counts = self._counts(groups[places])
        self._from_start()
        return np.asarray(counts.max(axis=0), np.uint32)

    def _copies(self, name: str) -> list[tuple[Any, Any]]:
        return [(view, view.copy()) for view in self.launch.written_and_read()]

    def _paste(self, copies: list[tuple[Any, Any]]) -> None:
        for view, copy in copies:
            view[:] = copy

    def traces(self, n_snapshots: int = 1, groups_of: GroupsOf | None = None) -> list[Trace]:
        """Accesses of unclear origin are named after the arrays that they reached in any snapshot."""
        self.count_turns()
        return [self._named(trace) for trace in super().traces(n_snapshots, groups_of)]

    def count_turns(self) -> None:
        """Counts the turns of loops that neither accesses nor the text determine, in groups from all over the launch."""
        loops, n_groups = self.launch.probed.loops, self.launch.n_groups
        if isinstance(self.compiled, str) or not self.compiled.unknown_loops & {
            loop.at for loop in loops
        }:
            return
        chosen = np.arange(min(n_groups, COUNTED_GROUPS), dtype=np.int64)
        if n_groups > COUNTED_GROUPS:
            chosen = np.unique((chosen * snapshot.GOLDEN % 1 * n_groups).astype(np.int64))
        self.turned = shared(16 * len(loops)).view(np.uint64).reshape(-1, 2)
        self._from_start()
        with contextlib.suppress(KernelError):  # what is wrong here is wrong where it is recorded
            self._count(chosen)
            self.launch.turns = turns_by_place(loops, self.turned.tolist())
        self.turned = self.turned[:0]

    def _named(self, trace: Trace) -> Trace:
        sites = self.layout.sites
        reached: dict[int, int] = {}
        for position, bits in enumerate(self.reached[: len(sites.site_of)]):
            site = sites.site_of[position]
            if bits and site >= 0:
                reached[site] = reached.get(site, 0) | int(bits)
        if not reached:
            return trace
        named = [
            dataclasses.replace(site, array=self._arrays(reached[number]))
            if number in reached
            else site
            for number, site in enumerate(trace.sites)
        ]
        return dataclasses.replace(trace, sites=tuple(named))

    def _arrays(self, bits: int) -> str:
        arrays = self.launch.probed.arrays
        return " or ".join(sorted(name for k, name in enumerate(arrays) if bits >> k & 1))

    def device(self) -> Mapping[str, Any]:
        return {"clang": self.prepared.clang.version}
