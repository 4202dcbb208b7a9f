"""Reads the assembly that clang writes for AMD's GPUs, with the positions of `-gline-tables-only`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from memsim.errors import KernelError
from tracegen.compiled.amd.gcn_opcodes import memory, names, pipe, split_operands
from tracegen.compiled.block_graph import Line, basic_blocks, call_notes
from tracegen.compiled.model import BasicBlock, Instruction, Location
from tracegen.compiled.source_files import user_files, user_location

_LABEL = re.compile(r"^([\w.$]+):")
_POSITION = re.compile(r"^\s+\.loc\s+([^;]*)")
_INSTRUCTION = re.compile(r"^\s+([a-z]\w*)\s*([^;]*?)\s*(?:;\s*(.*))?$")
_FAR_TARGET = re.compile(r"(\.LBB\w+)-\.Lpost_getpc")
_FUNCTION_ADDRESS = re.compile(r"([\w$.]+)@(?:rel32|gotpcrel32)@lo")
_ENDS = frozenset(["s_branch", "s_endpgm", "s_endpgm_saved", "s_setpc_b64"])


def read_gcn(
    text: str, kernel: str, before: Mapping[str, int] | None = None
) -> tuple[tuple[BasicBlock, ...], tuple[str, ...]]:
    """The blocks of a kernel and the functions that it calls, and notes on what is approximate.

    Scalar loads count as constant: most of them bring arguments.

    before : of the user's files, see `user_files`

    Raises KernelError if the assembly has no such kernel.
    """
    reader = _GcnReader(user_files(text, before))
    reader.read_function(text, kernel)
    if not reader.lines:
        raise KernelError(f"the assembly contains no kernel {kernel!r}")
    blocks, _ = basic_blocks(reader.lines)
    return blocks, tuple(_notes(blocks, reader))


def _body(text: str, function: str) -> Iterator[str]:
    start = re.search(rf"^{re.escape(function)}:", text, re.MULTILINE)
    for line in text[start.start() :].splitlines() if start else ():
        if line.startswith(".Lfunc_end"):
            return
        yield line


@dataclass
class _GcnReader:
    """Collects instructions line by line, of a kernel and then of the functions that it calls.

    pointers : scalar register -> the function whose address it was given last
    """

    files: Mapping[str, int]
    function: str = ""
    lines: list[Line] = field(default_factory=list)
    labels: list[str] = field(default_factory=list)
    location: Location | None = None
    far_target: str = ""
    pointers: dict[str, str] = field(default_factory=dict)
    called: list[str] = field(default_factory=list)

    def read_function(self, text: str, function: str) -> None:
        """Reads a function and those that it calls and that are not read yet."""
        known = set(self.called)
        self.function, self.location, self.pointers = function, None, {}
        for line in _body(text, function):
            self.read(line)
        for callee in dict.fromkeys(self.called):
            if callee not in known:
                self.read_function(text, callee)

    def read(self, line: str) -> None:
        if match := _LABEL.match(line):
            self.labels.append(match[1])
        elif match := _POSITION.match(line):
            self.location = user_location(match[1], self.files)
        elif match := _INSTRUCTION.match(line):
            self._add(match[1], " ".join(match[2].split()), match[3] or "")

    def _add(self, opcode: str, operands: str, comment: str) -> None:
        if match := _FAR_TARGET.search(operands):
            self.far_target = match[1]
        first, second = ([*names(one), ""][0] for one in (*split_operands(operands), "", "")[:2])
        self._follow_pointers(opcode, operands, first, second)
        instruction = Instruction(
            opcode=opcode,
            text=f"{opcode} {operands}".rstrip(),
            pipe=pipe(opcode),
            predicated=opcode.startswith("s_cbranch"),
            memory=memory(opcode, comment),
            location=self.location,
        )
        targets = self._targets(opcode, operands)
        callee = self.pointers.get(second, "") if opcode == "s_swappc_b64" else None
        if callee:
            self.called.append(callee)
        self.lines.append(
            Line(
                instruction=instruction,
                labels=tuple(self.labels),
                targets=targets,
                falls_through=opcode not in _ENDS,
                function=self.function,
                callee=callee,
                returns=opcode == "s_setpc_b64" and not targets,
            )
        )
        self.labels = []

    def _follow_pointers(self, opcode: str, operands: str, to: str, source: str) -> None:
        """`s_add_u32 s8, s8, helper@rel32@lo+4` gives s8 the low half of a function's address; what is selected is unknown."""
        if match := _FUNCTION_ADDRESS.search(operands):
            self.pointers[to] = match[1]
        elif "cndmask" in opcode or "cselect" in opcode:
            self.pointers.pop(to, None)
        elif to and source in self.pointers:
            self.pointers[to] = self.pointers[source]

    def _targets(self, opcode: str, operands: str) -> tuple[str, ...]:
        """A branch that is too far for its offset adds the distance to the program counter."""
        if opcode.startswith(("s_branch", "s_cbranch")):
            return (operands.split()[-1],)
        if opcode == "s_setpc_b64" and self.far_target:
            target, self.far_target = self.far_target, ""
            return (target,)
        return ()


def _notes(blocks: Sequence[BasicBlock], reader: _GcnReader) -> Iterator[str]:
    used = [instruction for block in blocks for instruction in block.instructions]
    unknown = sorted({instruction.opcode for instruction in used if instruction.pipe == "other"})
    if unknown:
        count = sum(instruction.pipe == "other" for instruction in used)
        yield f"Instructions of unknown opcode: {count} ({', '.join(unknown)})."
    if any(instruction.opcode.startswith("flat_") for instruction in used):
        yield "Flat accesses count as accesses to global memory."
    yield from call_notes(reader.lines)
