"""Reads NVIDIA's machine code (SASS) as `nvdisasm -c` prints it, with or without `-g` and `-hex`.

With `-g`, the line of each instruction is the number of the PTX instruction that it implements, if
`ptx.number_instructions` prepared the text. With `-hex`, the encoding follows each instruction. From Volta on it has
128 bits, of which 4 from the 105th on are the cycles until the next instruction of the warp (Jia et al., Dissecting
the NVIDIA Volta GPU Architecture via Microbenchmarking, arXiv 1804.06826, section 2.1).
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from msgspec import structs

from memsim.errors import KernelError
from tracegen.compiled.block_graph import Line, basic_blocks, call_notes
from tracegen.compiled.model import BasicBlock, Direction, Instruction, MemoryOperation, Pipe, Space
from tracegen.compiled.nvidia.register_reads import RegisterReads
from tracegen.compiled.nvidia.result_waits import ResultWaits, scoreboards
from tracegen.compiled.nvidia.sass_opcodes import BULK_COPIES, PIPE_OF, words
from tracegen.compiled.nvidia.sass_operands import access_bytes, registers

VOLTA = 70
"""The compute capability from which each instruction's encoding has its stall cycles, and registers lie in two banks.
What older GPUs run may be shown in the code of a later one, whose latencies are others."""
_SECTION = re.compile(r"^\s*\.section\s+([^,\s]+)")
_ORIGIN = re.compile(r'^\s*//## File "[^"]*", line (\d+)')
_FUNCTION = re.compile(r"^\s*\.type\s+([^,\s]+),\s*@function")
_LABEL = re.compile(r"^([\w.$]+):\s*$")
_INSTRUCTION = re.compile(
    r"^\s+/\*(?P<address>[0-9a-f]{4,})\*/\s+(?:@(?P<guard>!?U?P[\dT])\s+)?"
    r"(?P<opcode>[A-Z][\w.]*)\s*(?P<operands>.*?)\s*;"
)
_ENCODING = re.compile(r"[ \t]*/\* 0x[0-9a-f]{16} \*/")
_LOWER_HALF = re.compile(r"/\* 0x([0-9a-f]{16}) \*/")
_NOT_A_NUMBER = re.compile(r"[+-][QS]NAN")
_UPPER_HALF = re.compile(r"^\s+/\* 0x([0-9a-f]{16}) \*/\s*$")
_TABLE = re.compile(r"BRANCH_TARGETS ([^\"]*)")
_REMARK = re.compile(r'\(\*"[^"]*"\*\)|\s[&?]\S+')
_TARGET = re.compile(r"`\(([^)]+)\)")
_OPERAND = re.compile(r"(?:\[[^\]]*\]|\([^)]*\)|[^,\[(])+")
_PREDICATE = re.compile(r"!?U?P\d")
_SPACES: dict[str, Space] = {
    **dict.fromkeys(words("LD LDG ST STG ATOM ATOMG RED REDG LDGSTS LDGMC"), "global"),
    **dict.fromkeys(words("LDS STS ATOMS LDSM STSM STAS REDAS"), "local"),
    **dict.fromkeys(words("LDL STL"), "private"),
    **dict.fromkeys(words("LDC ULDC LDCU"), "constant"),
}
_JUMPS = words("BRA JMP BRX BRXU JMX JMXU")
_ENDS = words("EXIT RET KILL")
_TABLE_JUMPS = words("BRX BRXU JMX JMXU")


def read_sass(
    text: str, kernel: str, capability: int = VOLTA
) -> tuple[tuple[BasicBlock, ...], tuple[str, ...]]:
    """The blocks of a kernel and the functions that it calls, and notes on what is approximate.

    Code that cannot be reached is left out. A call goes on in the called function, and that function
    returns to all its calls. Generic accesses (`LD`, `ST`, `ATOM`) count as global.

    capability : compute capability times ten. From Volta on, encodings have cycles and barriers, and registers lie in
        two banks

    Raises KernelError if the listing has no such kernel.
    """
    since_volta = capability >= VOLTA
    reader = _SassReader(capability, ResultWaits(capability))
    for line, following in itertools.pairwise([*_section(text, kernel), ""]):
        reader.read(line, following if since_volta else "")
    if not reader.lines:
        raise KernelError(f"the disassembly contains no kernel {kernel!r}")
    blocks, missing = basic_blocks(reader.linked())
    return blocks, tuple(_notes(blocks, reader, missing))


def without_encodings(text: str) -> str:
    """A listing as it would be without `-hex`."""
    lines = (_ENCODING.sub("", line) for line in text.splitlines() if not _UPPER_HALF.match(line))
    return "".join(f"{line}\n" for line in lines)


def _section(text: str, kernel: str) -> Iterator[str]:
    inside = False
    for line in text.splitlines():
        if match := _SECTION.match(line):
            inside = match[1] == f".text.{kernel}"
        elif inside:
            yield line


@dataclass
class _SassReader:
    """Collects instructions line by line."""

    capability: int
    waits: ResultWaits
    operands: RegisterReads = field(default_factory=RegisterReads)
    lines: list[Line] = field(default_factory=list)
    function: str = ""
    functions: set[str] = field(default_factory=set)
    labels: list[str] = field(default_factory=list)
    origin: int | None = None
    origin_is_fresh: bool = False
    addresses: dict[str, int] = field(default_factory=dict)
    """Of labels."""

    def read(self, line: str, following: str) -> None:
        if match := _ORIGIN.match(line):
            # Of several lines before an instruction, the first is where it was written; the others
            # are where that place was inlined.
            if not self.origin_is_fresh:
                self.origin, self.origin_is_fresh = int(match[1]), True
        elif match := _INSTRUCTION.match(line):
            self._add(match, _upper_half(following))
        elif match := _LABEL.match(line):
            self.labels.append(match[1])
            self.operands = RegisterReads()
            if match[1] in self.functions:
                self.function = match[1]
        elif match := _FUNCTION.match(line):
            self.functions.add(match[1])

    def _add(self, match: re.Match[str], upper_half: int | None) -> None:
        table = _TABLE.search(match["operands"])
        listed = _REMARK.sub("", match["operands"])
        operands = [part.strip() for part in _OPERAND.findall(listed) if part.strip()]
        if "NAN" in listed:
            operands = _with_payload(operands, match)
        is_spill = "SpillRefill" in match["operands"]
        registers_read = self.operands if self.capability >= VOLTA else None
        instruction = _instruction(
            *(match["guard"] or "", match["opcode"], operands, self.origin),
            *(is_spill, registers_read),
        )
        if upper_half is not None:
            base, pipe = instruction.opcode.partition(".")[0], instruction.pipe
            cycles = self.waits.cycles(base, pipe, instruction.memory, upper_half)
            slot, waits = scoreboards(upper_half)
            instruction = structs.replace(instruction, stall_cycles=cycles, slot=slot, waits=waits)
        named = table[1].split(",") if table else _TARGET.findall(listed)[-1:]
        if match["opcode"].startswith("CALL") and named and named[0].startswith(".L"):
            # A far jump: functions have names of their own.
            instruction = structs.replace(instruction, opcode="BRA", pipe=PIPE_OF["BRA"])
        address = int(match["address"], 16)
        instruction = structs.replace(instruction, address=address)
        self.addresses.update(dict.fromkeys(self.labels, address))
        base = instruction.opcode.partition(".")[0]
        callee = None
        if base == "CALL":  # `CALL R2 \`(base)` calls through a register.
            callee = named[0] if named and not instruction.reads else ""
        stops = base in _JUMPS or base in _ENDS
        self.lines.append(
            Line(
                instruction=instruction,
                labels=tuple(self.labels),
                targets=tuple(name.strip() for name in named) if base in _JUMPS else (),
                falls_through=not stops or instruction.predicated,
                ends_block=stops,
                function=self.function,
                callee=callee,
                returns=base == "RET",
                named=tuple(name.strip() for name in named),
            )
        )
        self.labels = []
        self.origin_is_fresh = False

    def linked(self) -> list[Line]:
        """The lines; a jump through a table that the listing does not show may go to every label."""
        labels = (label for line in self.lines for label in line.labels)
        anywhere = tuple(label for label in labels if label.startswith(".L"))
        return [
            replace(line, targets=anywhere) if _is_unknown_jump(line) else line
            for line in map(self._placed, self.lines)
        ]

    def _placed(self, line: Line) -> Line:
        """The line with the addresses of the labels that its instruction names."""
        if not line.named:
            return line
        places = tuple(self.addresses[name] for name in line.named if name in self.addresses)
        return replace(line, instruction=structs.replace(line.instruction, targets=places))


def _is_unknown_jump(line: Line) -> bool:
    return line.instruction.opcode.split(".")[0] in _TABLE_JUMPS and not line.targets


def _instruction(
    guard: str,
    opcode: str,
    operands: Sequence[str],
    origin: int | None,
    is_spill: bool,
    registers_read: RegisterReads | None,
) -> Instruction:
    base = opcode.partition(".")[0]
    text = f"{'@' + guard + ' ' if guard else ''}{opcode} {', '.join(operands)}".rstrip()
    never = guard == "!PT"
    decided = bool(guard) or (base in _JUMPS and _is_conditional(opcode, operands))
    reads, writes = registers(opcode, operands, guard)
    pipe = _pipe(base, never)
    return Instruction(
        opcode=opcode,
        text=text,
        pipe=pipe,
        predicated=decided,
        reads=reads,
        writes=writes,
        memory=None if never else _memory(base, opcode, is_spill),
        origin=origin,
        read_cycles=registers_read.cycles(pipe, reads, operands) if registers_read else 1,
    )


def _with_payload(operands: list[str], match: re.Match[str]) -> list[str]:
    """Immediates that are not a number as the 32 bits that the encoding has: nvdisasm writes all of them alike, and they may be
    the upper half of a double."""
    encoding = _LOWER_HALF.search(match.string, match.end())
    if encoding is None or match["opcode"].startswith("H"):  # of halves there are two in 32 bits
        return operands
    bits = f"0x{encoding[1][:8]}"
    return [bits if _NOT_A_NUMBER.fullmatch(one) else one for one in operands]


def _upper_half(line: str) -> int | None:
    """The upper half of an encoding; None if the line has none."""
    match = _UPPER_HALF.match(line)
    return int(match[1], 16) if match else None


def _pipe(base: str, never: bool) -> Pipe:
    """`@!PT LDS RZ, [RZ]` never runs: ptxas fills time with it."""
    return "wait" if never else PIPE_OF.get(base, "other")


def _is_conditional(opcode: str, operands: Sequence[str]) -> bool:
    """`BRA P1, target` and `BRA.DIV UR4, target` depend on an operand, with no guard."""
    return ".DIV" in opcode or any(_PREDICATE.fullmatch(operand) for operand in operands)


def _memory(base: str, opcode: str, is_spill: bool) -> MemoryOperation | None:
    space = _SPACES.get(base)
    if space is None:
        return None
    direction: Direction = "load"
    if base.startswith(("ATOM", "RED")):
        direction = "atomic"
    elif base.startswith("ST"):
        direction = "store"
    return MemoryOperation(
        space=space, direction=direction, bytes_per_item=access_bytes(opcode), spill=is_spill
    )


def _notes(
    blocks: Sequence[BasicBlock], reader: _SassReader, missing: Sequence[str]
) -> Iterator[str]:
    used = Counter(
        instruction.opcode.partition(".")[0]
        for block in blocks
        for instruction in block.instructions
    )
    unknown = sorted(set(used) - PIPE_OF.keys() - BULK_COPIES)
    if unknown:
        count = sum(used[base] for base in unknown)
        yield f"Instructions of unknown opcode: {count} ({', '.join(unknown)})."
    if bulk := sorted(set(used) & BULK_COPIES):
        yield f"Copies of whole tiles are recorded in equal parts for the group's sub-groups: {', '.join(bulk)}."
    if used["LDGSTS"]:
        yield "Asynchronous copies (LDGSTS) count as loads from global memory."
    yield from call_notes(reader.lines)
    if any(_is_unknown_jump(line) for line in reader.lines):
        yield "A jump through a table may go to every label."
    if missing:
        yield f"Jumps out of the kernel's code are left out: {', '.join(missing)}."
