"""The results of one walk through a kernel: probes by position, values, and the flow between them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from memsim.errors import KernelError
from tracegen.opencl_c.edits import Edits
from tracegen.opencl_c.near_pointers import Near
from tracegen.opencl_c.numbers import LOAD, Numbers
from tracegen.opencl_c.pointers import Arrays, Pointers
from tracegen.opencl_c.preprocess import Text
from tracegen.probes.flow import Flow, Need, union
from tracegen.probes.program import Probe, ProbeKind

MAX_POSITIONS = 1 << 16
NOTHING = Need()


@dataclass(frozen=True)
class Value:
    """An expression's value: its number, and the variables and loads that it depends on."""

    number: int
    need: Need = NOTHING


@dataclass(frozen=True)
class ProbedAccess:
    """A static access in the text, in one call of its function.

    start, end : its span
    arrays : those that it may reach
    align_bytes : its address is a multiple of this
    label : its name in reports
    offset_bytes : from the address that its probe takes
    """

    kind: ProbeKind
    start: int
    end: int
    arrays: Arrays
    size_bytes: int
    align_bytes: int
    function: str
    label: str
    offset_bytes: int = 0


@dataclass
class Frame:
    """One call of a function.

    usr : the function
    base : position of its first probe
    instance : number of the call
    """

    usr: str
    name: str
    base: int
    instance: int
    is_kernel: bool
    pointers: Pointers
    exposed: frozenset[int]


@dataclass
class Recorder:
    """The state of a walk.

    environment : variable -> number of its value
    jumps : what each jump so far depends on, and whether it leaves the function ("return") or a loop
        ("loop")
    stateful : functions with probes, or that read the id of their group
    reached : all functions that are called
    subscripts : (offset, extent) of a subscript that is checked -> its array, in words, and its line
    near : the kernel's arrays in other than global memory
    where : (function's number, offset of an access in it) -> its positions in all calls
    """

    text: Text
    near: Near
    numbers: Numbers = field(default_factory=Numbers)
    flow: Flow = field(default_factory=Flow)
    edits: Edits = field(default_factory=Edits)
    probes: list[Probe] = field(default_factory=list)
    accesses: list[ProbedAccess] = field(default_factory=list)
    environment: dict[str, int] = field(default_factory=dict)
    jumps: list[tuple[str, Need]] = field(default_factory=list)
    frames: list[Frame] = field(default_factory=list)
    depths: dict[str, list[int]] = field(default_factory=lambda: {"return": [0], "loop": [0]})
    stateful: set[str] = field(default_factory=set)
    reached: dict[str, Any] = field(default_factory=dict)
    subscripts: dict[tuple[int, int], tuple[str, int]] = field(default_factory=dict)
    where: dict[tuple[int, int], list[int]] = field(default_factory=dict)

    @property
    def frame(self) -> Frame:
        return self.frames[-1]

    def refuse(self, cursor: Any, what: str) -> KernelError:
        """The error that names what cannot be traced, and its line."""
        place = self.text.place(cursor.extent.start.line)
        return KernelError(f"{place}: {what} cannot be traced")

    def add(self, probe: Probe, index: Need = NOTHING, value: Need = NOTHING) -> int:
        """The position of a new probe."""
        if len(self.probes) >= MAX_POSITIONS:
            raise KernelError(
                f"kernel {self.frames[0].name} has more than {MAX_POSITIONS} accesses, loops and"
                " barriers, counted in each call of a helper function"
            )
        self.probes.append(probe)
        self.flow.use(index, value)
        for frame in self.frames:
            self.stateful.add(frame.usr)
        return len(self.probes) - 1

    def access(self, access: ProbedAccess, line: int, address: Value, value: Need = NOTHING) -> int:
        """Add an access; returns its position. value : what a store waits for besides its address"""
        self.accesses.append(access)
        number = address.number
        probe = Probe(
            access.kind,
            mark=len(self.accesses) - 1,
            instruction=access.function,
            array=" or ".join(sorted(access.arrays)),
            index=self.numbers.text(number),
            part=f"{access.size_bytes} at {access.offset_bytes}",
            gathers=self.numbers.is_loaded(number),
            line=line,
            span=(access.start, access.end),
        )
        position = self.add(probe, address.need, value)
        function = list(self.reached).index(self.frame.usr)
        self.where.setdefault((function, position - self.frame.base), []).append(position)
        return position

    def loaded(self, position: int, address: Value) -> Value:
        """The value that a load returns."""
        number = self.numbers.of(
            f"load {self.probes[position].part}", address.number, varies=[LOAD]
        )
        return Value(number, Need(positions=(position,)))

    def here(self, position: int) -> str:
        """A position in the probed text: relative to the first position of the call."""
        return f"TG_AT(_tg_b + {position - self.frame.base})"

    def name(self, declaration: int) -> str:
        """A variable of the innermost call."""
        return f"d{declaration}_{self.frame.instance}"

    def assign(self, name: str, value: Value) -> None:
        self.environment[name] = value.number
        self.flow.assign(name, value.need.names, value.need.positions)

    def change(self, name: str, need: Need) -> None:
        """Record that a part of a variable changes: its value is unknown from now on."""
        self.environment[name] = self.numbers.fresh()
        self.flow.assign(name, need.names, need.positions)

    def lookup(self, name: str) -> int:
        if name not in self.environment:
            self.environment[name] = self.numbers.of(f"start {name}")
        return self.environment[name]

    @contextmanager
    def under(self, need: Need) -> Iterator[None]:
        """Context in which everything depends on this condition, as does all code after a jump in it."""
        depth, met = len(self.flow.control), len(self.jumps)
        self.flow.control.append(need)
        try:
            yield
        finally:
            del self.flow.control[depth:]
            if len(self.jumps) > met:
                self.flow.control.append(union(need for _, need in self.jumps[met:]))

    @contextmanager
    def within(self, kind: str) -> Iterator[None]:
        """Context of a function or a loop, which a jump of that kind leaves."""
        depth, met = len(self.flow.control), len(self.jumps)
        self.depths[kind].append(depth)
        if kind == "return":
            self.depths["loop"].append(depth)
        try:
            yield
        finally:
            self.depths[kind].pop()
            if kind == "return":
                self.depths["loop"].pop()
                del self.jumps[met:]
            else:
                self.jumps[met:] = [jump for jump in self.jumps[met:] if jump[0] != kind]
            del self.flow.control[depth:]
            if len(self.jumps) > met:
                self.flow.control.append(union(need for _, need in self.jumps[met:]))

    def jump(self, kind: str) -> None:
        """Record a return, break or continue under the present conditions."""
        self.jumps.append((kind, union(self.flow.control[self.depths[kind][-1] :])))

    @contextmanager
    def perhaps(self) -> Iterator[None]:
        """Context of code that may not run: variables that it changes are unknown afterwards."""
        before = dict(self.environment)
        yield
        self.join(before)

    def join(self, other: dict[str, int]) -> None:
        """Make variables unknown that differ between the present environment and another."""
        for name in self.environment.keys() | other.keys():
            if self.lookup(name) != other.get(name, self.numbers.of(f"start {name}")):
                self.environment[name] = self.numbers.fresh()
