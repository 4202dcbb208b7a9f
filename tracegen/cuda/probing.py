"""Puts probes into a compiled kernel, and says what they mean."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from memsim.errors import KernelError
from tracegen.cuda.accesses import MARKED, Access, Found, find
from tracegen.cuda.arguments import Arguments
from tracegen.cuda.feeds import Feeds, loads_of
from tracegen.cuda.flow_graph import FlowGraph, Loop
from tracegen.cuda.ir import RESTRICTED, VALUE, Block, Function, Instruction, Module, Place
from tracegen.cuda.pointers import STACK, UNKNOWN, Roots, is_private, pointers
from tracegen.cuda.program import HEADERS, CudaProgram
from tracegen.cuda.quiet_loops import QuietLoop, behind_phis, first_turn, quiet_loops
from tracegen.cuda.variables import Variable, variables
from tracegen.probes.program import Probe, Program

MAX_POSITIONS = 1 << 16
DYNAMIC, LIMITS = "@memsim_dynamic", "@memsim_limits"
_DEBUG_LINE = re.compile(r"^\s*(?:#dbg_|(?:tail )?call void @llvm\.dbg\.)")
_DEBUG = re.compile(r", !dbg !\d+|(?<=\)) !dbg !\d+| !dbg !\d+(?= \{)|, !DIAssignID !\d+")
_TEMPLATE_VALUE = re.compile(r"(?<=DITemplateValueParameter\()(.*?)value: ptr @[^),]+")
_IGNORED = re.compile(r"(?<=@)(?:printf|puts|putchar|vprintf)(?=\()")


@dataclass(frozen=True)
class Check:
    """An access to memory that is not traced.

    names : of the arrays that it may reach
    array_bytes : of the array, if there is one
    is_shared : whether it reaches shared memory, and one array alone
    """

    names: tuple[str, ...]
    array_bytes: int
    size_bytes: int
    place: Place | None
    is_shared: bool = False


@dataclass(frozen=True)
class Probed:
    """A kernel with probes.

    text : LLVM's text
    accesses : by the marks of probes
    arrays : names of the arrays in global memory, by their numbers in probes
    variables : those of the program that lie in global memory, by name
    others : those in shared and then constant memory; several functions may have one of the same name
    waits : whether threads wait for each other
    uniform : places of accesses to shared memory whose address is constant
    loops : those without accesses, whose turns a run can count
    shared_bytes : of static shared memory
    """

    text: str
    program: Program
    accesses: tuple[Access, ...]
    checks: tuple[Check, ...]
    uniform: tuple[Place, ...]
    loops: tuple[QuietLoop, ...]
    arrays: tuple[str, ...]
    variables: Mapping[str, Variable]
    others: tuple[Variable, ...]
    waits: bool
    shared_bytes: int


def probe(
    module: Module,
    kernel: str,
    program: CudaProgram,
    arguments: Arguments,
    dynamic_bytes: int,
) -> Probed:
    """The kernel with probes.

    kernel : its symbol

    dynamic_bytes : of shared memory
    Raises KernelError, with the user's line, for what cannot be traced.
    """
    return _Probing(module, kernel, program, arguments, dynamic_bytes).probed()


@dataclass(frozen=True)
class _Array:
    """An array that is not traced. base : its address in the program"""

    name: str
    base: str
    size_bytes: int


@dataclass
class _Probing:
    module: Module
    kernel: str
    program: CudaProgram
    arguments: Arguments
    dynamic_bytes: int
    before: dict[int, list[str]] = field(default_factory=dict)
    checks: list[Check] = field(default_factory=list)
    uniform: list[Place] = field(default_factory=list)

    def probed(self) -> Probed:
        function = self.module.functions[self.kernel]
        self.variables = variables(self.module)
        used = self._used(function)
        local = frozenset(s for s, v in self.variables.items() if v.memory != "global")
        graph = FlowGraph(function, self._position)
        self.pointers = pointers(self.module, function, graph)
        found = find(self.module, function, graph, self.pointers, local, str(HEADERS))
        self.in_global = {v.name: v for v in used if v.memory == "global"}
        self.arrays = tuple(dict.fromkeys([*self.arguments.arrays, *self.in_global]))
        self.events = _relevant(found.events)
        if len(self.events) > MAX_POSITIONS:
            raise KernelError(f"kernel {self.kernel} has more than {MAX_POSITIONS} accesses")
        self.local = local
        loud = {label for label, event in self.events if not isinstance(event, Loop)}
        self.loops = quiet_loops(self.module, function, graph, loud, self.program.place)
        probes = self._probes(function, graph)
        self._insert(function, graph, found)
        marked = tuple(event for _, event in self.events if isinstance(event, Access))
        shared = sum(v.size_bytes for v in used if v.memory == "shared")
        return Probed(
            text=self._text(function),
            program=Program(self.kernel, tuple(probes), ()),
            accesses=marked,
            checks=tuple(self.checks),
            uniform=tuple(self.uniform),
            loops=self.loops,
            arrays=self.arrays,
            variables=self.in_global,
            others=tuple(self._others),
            waits=found.waits,
            shared_bytes=shared,
        )

    def _position(self, block: Block) -> float:
        """The line of the kernel on which a block begins."""
        for one in block.instructions:
            chain = self.module.chain(one.debug) if one.opcode != "phi" else []
            if chain and chain[-1].line:
                return chain[-1].line + chain[-1].column / 1000
        return math.inf

    @property
    def _others(self) -> list[Variable]:
        return [v for m in ("shared", "constant") for v in self.variables.values() if v.memory == m]

    def _used(self, function: Function) -> list[Variable]:
        names = {
            operand
            for block in function.blocks
            for one in block.instructions
            for operand in one.operands
        }
        return [variable for symbol, variable in self.variables.items() if symbol in names]

    def _array(self, root: str) -> str:
        """The array that a root stands for, "" for one that is not traced."""
        if root in self.variables:
            variable = self.variables[root]
            return variable.name if variable.memory == "global" else ""
        return self.arguments.owners.get(root[1:], "")

    def region(self, access: Access) -> str:
        """The arrays that an access may reach, joined by " or "."""
        roots = {root for root in access.roots if not is_private(root)}
        names = {self._array(root) for root in roots if root != UNKNOWN} - {""}
        if UNKNOWN in roots or not names:
            names = set(self.arrays)
        return " or ".join(sorted(names))

    def _probes(self, function: Function, graph: FlowGraph) -> list[Probe]:
        loads = loads_of(self.events)
        feeds = Feeds(function, graph, self.pointers, loads)
        loop_names = {loop.header: f"L{k}" for k, loop in enumerate(graph.loops)}
        closes = self._closes()
        aliases = self._aliases()
        probes = []
        n_access = 0
        for position, (label, event) in enumerate(self.events):
            if isinstance(event, Loop):
                inside = [
                    k for k, (at, _) in enumerate(self.events[:position]) if at in event.blocks
                ]
                name = loop_names[event.header]
                probes.append(
                    Probe("edge", index=name, first=min(inside), last=max(inside),
                          assigned=frozenset([name]))
                )  # fmt: skip
            elif isinstance(event, Instruction):
                needs = feeds.control_needs(label)
                place = self.program.place(self.module.chain(event.debug))
                probes.append(Probe("barrier", line=place.line if place else 0, feeds=needs))
            else:
                number = self.pointers.number(event.pointer)
                varying = self.pointers.varying.get(number, frozenset())
                words = [f"p{number}", *sorted(loop_names[header] for header in varying)]
                needed = feeds.needs(event)
                place = self.program.place(event.chain)
                probes.append(
                    Probe(
                        event.kind,
                        mark=n_access,
                        instruction=event.chain[0].function if event.chain else "",
                        array=self.region(event),
                        index=" ".join(words),
                        part=f"{event.size_bytes} at {event.offset_bytes}",
                        line=place.line if place else 0,
                        span=self._span(place),
                        closes=closes.get(position, -1),
                        index_feeds=needed.address,
                        feeds=needed.everything,
                        aliases=aliases.get(position, frozenset()),
                    )
                )
                n_access += 1
        return probes

    def _span(self, place: Place | None) -> tuple[int, int] | None:
        """Where the text has a position, which is that of the machine code too."""
        if place is None or not 1 <= place.line <= len(self.line_starts):
            return None
        start = self.line_starts[place.line - 1] + max(place.column - 1, 0)
        return start, start + 1

    @cached_property
    def line_starts(self) -> list[int]:
        lengths = [len(line) for line in self.program.text.splitlines(keepends=True)]
        return [0, *itertools.accumulate(lengths)]

    def _closes(self) -> dict[int, int]:
        """Position of an access that always ends a loop's body -> position of the loop's end."""
        last: dict[str, int] = {}
        for position, (label, event) in enumerate(self.events):
            if isinstance(event, Access):
                last[label] = position if event.is_certain else -1
            elif isinstance(event, Instruction):
                last[label] = -1
        return {
            last[event.latches[0]]: position
            for position, (_, event) in enumerate(self.events)
            if isinstance(event, Loop)
            and len(event.latches) == 1
            and last.get(event.latches[0], -1) >= 0
        }

    def _aliases(self) -> dict[int, frozenset[str]]:
        """Position of a store -> the other regions that it may change, by the language's rules."""
        restricted = {
            self.arguments.owners.get(name, "")
            for name in re.findall(rf"{RESTRICTED}[^,]*%([-\w.$]+)", self._header)
        }
        kinds: dict[str, set[str]] = {}
        accesses = [(k, e) for k, (_, e) in enumerate(self.events) if isinstance(e, Access)]
        for _, event in accesses:
            kinds.setdefault(self.region(event), set()).add(event.type_name)
        found = {}
        for position, event in accesses:
            if event.kind == "load":
                continue
            own = self.region(event)
            found[position] = frozenset(
                other
                for other, types in kinds.items()
                if other != own
                and own not in restricted
                and other not in restricted
                and (not event.type_name or "" in types or event.type_name in types)
            )
        return found

    @property
    def _header(self) -> str:
        return self.module.lines[self.module.functions[self.kernel].header]

    def _insert(self, function: Function, graph: FlowGraph, found: Found) -> None:
        for position, (_, event) in enumerate(self.events):
            if isinstance(event, Access):
                self._probe_access(position, event)
            elif isinstance(event, Instruction):
                self._add(event.line, f"call void @memsim_token(i64 {position << 48})")
        self._count_turns(function)
        closed = set(self._closes().values())
        numbers = {
            event.header: position
            for position, (_, event) in enumerate(self.events)
            if isinstance(event, Loop)
        }
        ends = {block.label: block.terminator for block in function.blocks}
        for loop in graph.loops:
            number = numbers.get(loop.header, -1)
            for latch in loop.latches:
                place = self.program.place(self.module.chain(ends[latch].debug))
                line = place.line if place else 0
                self._add(ends[latch].line, f"call void @memsim_turn(i64 {line})")
                if number >= 0 and number not in closed:
                    self._add(ends[latch].line, f"call void @memsim_token(i64 {number << 48})")
        for access in found.checks:
            self._check(access)

    def _count_turns(self, function: Function) -> None:
        """Counts the turns of loops without accesses, and how often their nests are reached."""
        blocks = {block.label: block for block in function.blocks}
        for number, quiet in enumerate(self.loops):
            header = blocks[quiet.loop.header]
            if quiet.nest == number:
                first = self._new(header.instructions[0].line, first_turn(function, quiet.loop))
                call = f"call void @memsim_nest(i64 {number}, i64 {first})"
                self._add(behind_phis(header).line, call)
            for latch in quiet.loop.latches:
                self._add(blocks[latch].terminator.line, f"call void @memsim_repeat(i64 {number})")

    def _probe_access(self, position: int, access: Access) -> None:
        line = access.instructions[0].line
        pointer = self._shifted(line, access.pointer, access.offset_bytes)
        size, mask = access.size_bytes, _mask(access)
        if access.is_certain and self._array(next(iter(access.roots))):
            number = self.arrays.index(self._array(next(iter(access.roots))))
            arguments = f"ptr {pointer}, i64 {position}, i64 {number}, i64 {size}, i64 {mask}"
            self._add(line, f"call void @memsim_access({arguments})")
        else:
            inside = self._inside(line, pointer, size, self._private_arrays(access.roots))
            arguments = f"ptr {pointer}, i64 {position}, i64 {size}, i64 {mask}, i64 {inside}"
            self._add(line, f"call void @memsim_reach({arguments})")

    def _private_arrays(self, roots: Roots) -> list[_Array]:
        """The arrays in private memory that a pointer may reach."""
        reached = set(roots) | (self.pointers.escaped if UNKNOWN in roots else set())
        found = (self._untraced(root) for root in sorted(reached) if is_private(root))
        return [array for array in found if array is not None]

    def _inside(self, line: int, pointer: str, size: int, arrays: Sequence[_Array]) -> str:
        """A value that says whether an access lies in one of several arrays."""
        inside = "0"
        for array in arrays:
            arguments = f"ptr {pointer}, ptr {array.base}, i64 {array.size_bytes}, i64 {size}"
            one = self._new(line, f"call i64 @memsim_is_inside({arguments})")
            inside = self._new(line, f"or i64 {inside}, {one}")
        return inside

    def _shifted(self, line: int, pointer: str, offset: int) -> str:
        if not offset:
            return pointer
        return self._new(line, f"getelementptr i8, ptr {pointer}, i64 {offset}")

    def _new(self, line: int, text: str) -> str:
        """The value that an instruction computes."""
        name = f"%memsim.{line}.{len(self.before.get(line, ()))}"
        self._add(line, f"{name} = {text}")
        return name

    def _check(self, access: Access) -> None:
        """Checks an access that reaches known arrays only; one at a constant address needs no check, and is noted
        as such."""
        definition = self.pointers.definitions.get(access.pointer)
        arrays = [self._untraced(root) for root in sorted(access.roots)]
        known = [array for array in arrays if array is not None]
        if not known or len(known) < len(arrays):
            return
        place = access.chain[0] if access.chain else None
        root = next(iter(access.roots))
        is_shared = len(known) == 1 and not is_private(root) and self._is_shared(root)
        if definition is None or definition.opcode == "alloca":
            if is_shared and place is not None:
                self.uniform.append(place)
            return
        line, number = access.instructions[0].line, len(self.checks)
        pointer = self._shifted(line, access.pointer, access.offset_bytes)
        if len(known) == 1:
            arguments = f"ptr {pointer}, ptr {known[0].base}, i64 {number}"
            self._add(line, f"call void @memsim_inside({arguments})")
        else:
            inside = self._inside(line, pointer, access.size_bytes, known)
            self._add(line, f"call void @memsim_somewhere(i64 {inside}, i64 {number})")
        names = tuple(array.name for array in known)
        self.checks.append(Check(names, known[0].size_bytes, access.size_bytes, place, is_shared))

    def _is_shared(self, root: str) -> bool:
        return self.variables[root].memory in ("shared", "dynamic")

    def _untraced(self, root: str) -> _Array | None:
        """The array of a root; None for the runtime's own."""
        if not is_private(root):
            variable = self.variables[root]
            is_dynamic = variable.memory == "dynamic"
            size = self.dynamic_bytes if is_dynamic else variable.size_bytes
            return _Array(variable.name, root, size)
        base = root.removeprefix(STACK)
        kind = self.pointers.private.get(base)
        if kind is None:
            return None
        return _Array(base[1:].split(".")[0], base, self.module.layout(kind)[0])

    def _add(self, line: int, text: str) -> None:
        self.before.setdefault(line, []).append(f"  {text}")

    def _text(self, function: Function) -> str:
        lines: list[str] = []
        dynamic = {v.line: v.symbol for v in self.variables.values() if v.memory == "dynamic"}
        left_out = self._left_out(function)
        for number, line in enumerate(self.module.lines):
            if number in left_out or _DEBUG_LINE.match(line) or line.startswith(f"{LIMITS} ="):
                continue
            if number in dynamic:
                lines.append(f"{dynamic[number]} = alias i8, ptr {DYNAMIC}")
                continue
            lines.extend(self.before.get(number, ()))
            inside = function.header < number < function.end
            if inside and ("@memsim_atomic(" in line or "@memsim_loop(" in line):
                continue
            if number == function.header:
                line = re.sub(r" #\d+", "", line)
            line = line.replace(', section "memsim_constant"', "")
            line = _TEMPLATE_VALUE.sub(r"\1value: ptr null", line)
            lines.append(_IGNORED.sub("memsim_ignored", _DEBUG.sub("", line)))
        return "\n".join([*lines, *self._tables(), ""])

    def _left_out(self, kernel: Function) -> set[int]:
        """The lines of functions that the kernel does not call: of the program's other kernels."""
        functions = self.module.functions
        outside = "\n".join(line for line in self.module.lines if line.startswith("@"))
        kept = {name for name in functions if name.startswith(MARKED)}
        waiting = [kernel.name, *kept, *(VALUE.findall(outside))]
        kept = set()
        while waiting:
            name = waiting.pop().removeprefix("@").strip('"')
            if name in functions and name not in kept:
                kept.add(name)
                one = functions[name]
                body = "\n".join(self.module.lines[one.header : one.end])
                waiting.extend(found for found in VALUE.findall(body) if found[0] == "@")
        return {
            line
            for name, one in functions.items()
            if name not in kept
            for line in range(one.header, one.end + 1)
        }

    def _tables(self) -> list[str]:
        """Where variables lie: those in global memory, then all others."""
        bytes_ = max(self.dynamic_bytes, 16)
        traced = list(self.in_global.values())
        room = (max(check.array_bytes - check.size_bytes + 1, 0) for check in self.checks)
        limits = [f"i64 {one}" for one in room] or ["i64 0"]
        return [
            f"{DYNAMIC} = internal global [{bytes_} x i8] zeroinitializer, align 128",
            _table("memsim_variables", [(v.symbol, v.size_bytes) for v in traced]),
            _table("memsim_constants", [(v.symbol, v.size_bytes) for v in self._others]),
            _table("memsim_shared", [(DYNAMIC, self.dynamic_bytes)]),
            f"{LIMITS} = global [{len(limits)} x i64] [{', '.join(limits)}]",
            *(
                f"declare void @{name}({arguments})"
                for name, arguments in _DECLARED.items()
                if f"@{name}"
                not in "\n".join(
                    line for line in self.module.lines if line.startswith(("declare", "define"))
                )
            ),
        ]


_DECLARED = {"memsim_reach": "ptr, i64, i64, i64, i64"}


def _table(name: str, entries: Sequence[tuple[str, int]]) -> str:
    rows = ", ".join(f"{{ptr, i64}} {{ptr {symbol}, i64 {size}}}" for symbol, size in entries)
    if not rows:
        return f"@{name} = global [1 x {{ptr, i64}}] zeroinitializer"
    return f"@{name} = global [{len(entries)} x {{ptr, i64}}] [{rows}]"


def _mask(access: Access) -> int:
    """The bits of the address that must be 0."""
    return access.alignment_bytes - 1


def _relevant(
    events: Sequence[tuple[str, Access | Instruction | Loop]],
) -> list[tuple[str, Access | Instruction | Loop]]:
    """The events without the ends of loops that access nothing and have no barrier."""
    busy = {label for label, event in events if not isinstance(event, Loop)}
    return [
        (label, event)
        for label, event in events
        if not isinstance(event, Loop) or event.blocks & busy
    ]
