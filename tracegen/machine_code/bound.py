"""A launch of a kernel, bound to its machine code and its memory."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from memsim.trace import ArrayExtent, SourceLocation
from tracegen.compiled.model import MachineCode
from tracegen.machine_code.binding_memory import WORD_BYTES, Bytes, Memory
from tracegen.machine_code.binding_values import Machine

if TYPE_CHECKING:
    from tracegen.execution.run import Launch


class KnownAccess(NamedTuple):
    """An access in a text that a program generated: what it is in the user's terms.

    direction : load, store or atomic;  line : 1-based, of the text;  instruction : its id in the user's program
    """

    array: str
    direction: str
    label: str
    instruction: str
    line: int
    source: SourceLocation


@dataclass(kw_only=True)
class BoundKernel:
    """A launch of a kernel.

    name : as the user writes it;  index : number of the launch;  launch_names : of all of the workload, where there are several
    code : whose `kernel` is the symbol in the machine code
    grid, group_shape : groups, and work-items of a group, along one to three axes
    memory : the arrays of the address map; those of the user are copied before they are written
    machine : what the driver prepares
    symbols : of a variable of the program in memory -> the name of its array
    writable : names of arrays that the kernel may write
    local_memory_bytes : that the launch and the kernel ask for, of a group
    settings : integers among the arguments, by name
    text : of the program, as it is compiled;  included : of its files behind, whose lines count on;  source : 1-based line of it -> where the user wrote it
    accesses : those in the text that are known, where a program generated it
    named_outputs : what `outputs` returns: name -> array of `memory`
    """

    name: str
    index: int = 0
    launch_names: tuple[str, ...] = ()
    code: MachineCode
    grid: tuple[int, ...]
    group_shape: tuple[int, ...]
    memory: Memory
    machine: Machine
    symbols: Mapping[str, str] = field(default_factory=dict)
    writable: frozenset[str]
    local_memory_bytes: int
    settings: Mapping[str, int] = field(default_factory=dict)
    text: str
    included: str = ""
    source: Callable[[int], SourceLocation]
    accesses: tuple[KnownAccess, ...] = ()
    named_outputs: Mapping[str, str] = field(default_factory=dict)
    _before: dict[str, Bytes] | None = None

    @property
    def cluster(self) -> tuple[int, ...]:
        """Groups of a cluster along each axis."""
        return self.machine.cluster

    @property
    def n_groups(self) -> int:
        return math.prod(self.grid)

    @property
    def group_items(self) -> int:
        """Work-items of a group."""
        return math.prod(self.group_shape)

    @property
    def lines(self) -> list[str]:
        """Of the program, and of its files behind; none of code whose text is not there."""
        return f"{self.text}\n{self.included}".split("\n")[:-1] if self.text else []

    def place(self, line: int) -> str:
        """Where the user wrote a 1-based line of the text, in words: `file:line`."""
        source = self.source(line)
        if source.user_line is None:
            return f"line {line} of the generated code"
        return f"{source.user_file}:{source.user_line}"

    @property
    def symbol_addresses(self) -> dict[str, int]:
        """The addresses of variables; code names them as `32@lo(x)` in SASS, and `x@rel32@lo` on AMD's GPUs."""
        return {symbol: self.memory.bases[name] for symbol, name in self.symbols.items()}

    @property
    def launch(self) -> Launch:
        """The launch as the interpreter takes it, to be run by code that writes arrays; memory is shared with this object."""
        if self._before is None:
            # Behind earlier launches, arrays have what those left; those of the first one are the user's.
            names = self.memory.bases if self.index else ()
            self._before = self.memory.copies(names)
        return self._launch(lambda name: self.memory.views[name])

    @property
    def launch_to_read(self) -> Launch:
        """The launch for code that writes no array: large arrays of the user need not be copied."""
        return self._launch(self.memory.read)

    def _launch(self, content: Callable[[str], Bytes]) -> Launch:
        from tracegen.execution.run import Launch, Region

        halves = {
            f"{symbol}@{half}": address >> bits & 0xFFFFFFFF
            for symbol, address in self.symbol_addresses.items()
            for half, bits in (("lo", 0), ("hi", 32))
        }
        views = [(whole_words(one), content(one.name)) for one in self.memory.extents]
        regions = [
            *(Region(extent=one, content=data, hidden=True) for one, data in self.machine.hidden),
            *(Region(extent=one, content=data) for one, data in views),
        ]
        return Launch(
            grid=self.grid,
            group_shape=self.group_shape,
            cluster=self.cluster,
            local_start=self.machine.local_start,
            regions=sorted(regions, key=lambda one: one.extent.base_bytes),
            banks=self.machine.banks,
            specials={**self.machine.specials, **halves},
            pointers=self.machine.pointers,
            local_bytes=self.machine.local_bytes,
            private_bytes=self.machine.private_bytes,
        )

    def restore(self) -> None:
        """Gives all arrays the values that they had before this launch."""
        if self._before:
            self.memory.paste(self._before)
        elif not self.index:
            self.memory.fill()

    def outputs(self) -> dict[str, Any]:
        """Copies of the arrays that the kernel may write, by name; variables of the program as bytes."""
        memory = self.memory
        return {name: memory.array(array) for name, array in self.named_outputs.items()}


def whole_words(extent: ArrayExtent) -> ArrayExtent:
    """With the rest of its last word, which is the array's, too: an atomic operation on a half is one on its word."""
    return replace(extent, size_bytes=-(-extent.size_bytes // WORD_BYTES) * WORD_BYTES)
