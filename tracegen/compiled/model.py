"""Machine code as data: basic blocks of instructions, and what a kernel needs of a core.

SASS (NVIDIA) and GCN or CDNA assembly (AMD) are both read into these classes. Those of which a kernel has thousands are
Structs, which are kept as rows of their fields and read from the cache in a sixth of the time.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, get_args

import msgspec

_UNITS = re.compile(r"UMOV (UR\d+), (0x[0-9a-f]+)")
Pipe = Literal[
    "fma",
    "alu",
    "fp64",
    "fp16",
    "special",
    "tensor",
    "scalar",
    "load_store",
    "branch",
    "barrier",
    "wait",
    "other",
]
"""What executes an instruction.

fma : 32-bit floating-point arithmetic, and integer multiplications that share its unit
alu : integer and logic operations, comparisons, moves, conversions that run at their rate
fp64, fp16 : 64-bit and packed 16-bit floating-point arithmetic
special : reciprocals, roots, sine, exponential, and conversions that run at their rate
tensor : matrix instructions
scalar : the scalar or uniform unit, scalar loads included
load_store : loads, stores and atomics of global, local, private and constant memory
branch : jumps, calls, exits, and the instructions that manage divergence
barrier : barriers of a work-group
wait : only waits (`s_waitcnt`, `DEPBAR`) or does nothing (`NOP`)
other : an opcode that the tables do not list
"""
PIPES: tuple[Pipe, ...] = get_args(Pipe)

Space = Literal["global", "local", "private", "constant"]
"""As OpenCL names them: `local` is shared by a group, `private` belongs to a work-item."""

Direction = Literal["load", "store", "atomic"]


class Location(msgspec.Struct, frozen=True, order=True, gc=False, array_like=True):
    """A position in the compiled text: 1-based line and column; column 0 if unknown.

    Lines of files that a CUDA or HIP program includes count on behind its own: `CudaProgram.place` says where they are.
    """

    line: int
    column: int = 0


class MemoryOperation(msgspec.Struct, frozen=True, kw_only=True, gc=False, array_like=True):
    """A load, store or atomic.

    bytes_per_item : bytes that each active work-item accesses
    spill : True where the compiler moved a register's value to private memory or back
    """

    space: Space
    direction: Direction
    bytes_per_item: int
    spill: bool = False


class Instruction(msgspec.Struct, frozen=True, kw_only=True, gc=False, array_like=True):
    """One machine instruction.

    opcode : with its modifiers, `LDG.E.64.CONSTANT`;  text : the whole instruction
    predicated : True if a predicate decides whether it runs
    reads, writes : names of single registers (`R8`, `R9`, `v3`, `s4`, `P0`, `vcc_lo`)
    origin : number of the intermediate instruction (PTX) that it implements, None if unknown
    location : position in the compiled text, None if unknown
    stall_cycles : until its sub-group can issue the next instruction, as the compiler has set it (NVIDIA, from
        Volta on); 0 if unknown
    read_cycles : in which its operands are read from the register file, while nothing else is issued (see
        tracegen.compiled.nvidia.register_reads); 1 if unknown
    address : in bytes from the begin of the kernel's section, -1 if unknown
    targets : addresses in bytes of the instructions that it may jump to
    waits : scoreboards that it waits for, as bits;  slot : scoreboard that is set when its result is there, 7 for none
        (NVIDIA, from Volta on)
    """

    opcode: str
    text: str
    pipe: Pipe
    predicated: bool = False
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    memory: MemoryOperation | None = None
    origin: int | None = None
    location: Location | None = None
    stall_cycles: int = 0
    read_cycles: int = 1
    address: int = -1
    targets: tuple[int, ...] = ()
    waits: int = 0
    slot: int = 7


@dataclass(frozen=True, kw_only=True)
class BasicBlock:
    """Instructions that run one after another.

    label : "" if it has none
    successors : indices of the blocks that may run next
    """

    label: str
    instructions: tuple[Instruction, ...]
    successors: tuple[int, ...] = ()

    def with_each(self, change: Callable[[Instruction], Instruction]) -> BasicBlock:
        """The block with its instructions as a function changes them."""
        return replace(self, instructions=tuple(map(change, self.instructions)))


@dataclass(frozen=True, kw_only=True)
class MachineCode:
    """A compiled kernel.

    target : `sm_80`, `gfx90a`
    blocks : in the order of the code; the first one is the entry
    registers_per_item : 32-bit vector registers that a work-item occupies
    scalar_registers : scalar registers of a sub-group, 0 where the target has none
    local_memory_bytes : static local memory of a group
    private_bytes : private memory of a work-item: spilled registers and arrays
    spill_store_bytes, spill_load_bytes : as the compiler reports them, for the whole text
    listing : the assembly text
    intermediate : the intermediate text (PTX), "" where there is none
    binary : the file that the listing shows (a cubin), empty where the listing says all
    tools : name -> version of the programs that made it
    stand_ins : what is used instead of what the machine would run, one sentence each
    notes : what else is unknown or approximate, one sentence each
    """

    kernel: str
    target: str
    blocks: tuple[BasicBlock, ...]
    registers_per_item: int
    scalar_registers: int = 0
    local_memory_bytes: int = 0
    private_bytes: int = 0
    spill_store_bytes: int = 0
    spill_load_bytes: int = 0
    listing: str = ""
    intermediate: str = ""
    binary: bytes = b""
    tools: Mapping[str, str] = field(default_factory=dict)
    stand_ins: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def instructions(self) -> list[Instruction]:
        """Of all blocks; their places are the numbers of instructions."""
        return [one for block in self.blocks for one in block.instructions]

    @property
    def tensor_columns(self) -> int:
        """Of tensor memory, that a group asks for at once at most, 32 for each unit that its code gives; 0 where the number is computed."""
        if "UTCATOMSWS" not in self.listing:
            return 0
        moved: dict[str, int] = {}
        most = 0
        for one in self.instructions:
            if match := _UNITS.match(one.text):
                moved[match[1]] = int(match[2], 0)
            elif one.opcode.startswith("UTCATOMSWS.FIND_AND_SET"):
                most = max(most, 32 * moved.get(one.text.split()[-1].strip(" ;"), 0))
        return most
