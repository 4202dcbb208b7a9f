"""AMD's assembly lowered to micro-operations.

Vector registers are rows; scalar registers are rows whose lanes are all equal, so that scalar instructions are those of
vectors, of all lanes. `exec`, `vcc` and `scc` are masks; other scalar registers that hold masks are rows, and are made masks
where a vector instruction reads them. The flow of control is that of the sub-group: all its lanes branch together, and exec says
which of them work.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable

from tracegen.compiled.model import Instruction, MachineCode
from tracegen.execution.code import Code
from tracegen.machine_code.gcn_arithmetic import arithmetic
from tracegen.machine_code.gcn_control import control
from tracegen.machine_code.gcn_indexed import indexed
from tracegen.machine_code.gcn_lanes import LANES
from tracegen.machine_code.gcn_launch import directives, set_registers
from tracegen.machine_code.gcn_matrices import matrices
from tracegen.machine_code.gcn_memory import access
from tracegen.machine_code.gcn_packed import packed
from tracegen.machine_code.gcn_scalar import IGNORED, scalar
from tracegen.machine_code.gcn_small_floats import small_floats
from tracegen.machine_code.gcn_special import special
from tracegen.machine_code.gcn_text import Parsed, parse
from tracegen.machine_code.gcn_wave import UnknownInstruction, Wave


def lower(code: MachineCode) -> Code:
    """The micro-operations of a kernel that clang compiled for AMD; its blocks are named by their numbers.

    Raises KernelError for an instruction that is not known, and where the assembly has no descriptor of the kernel.
    """
    wave = Wave(code)
    given, number = directives(code), 0
    for index, block in enumerate(code.blocks):
        wave.out.block([str(index)])
        wave.successors = block.successors
        for instruction in block.instructions:
            wave.out.instruction(number, 16 * number)
            wave.number = number
            if number == 0:
                wave.begin(parse(instruction.text)[0])
                set_registers(wave, given)
            _lower(wave, instruction)
            number += 1
    return wave.out.finish()


def _lower(wave: Wave, instruction: Instruction) -> None:
    pair = parse(instruction.text)
    kept: dict[str, int] = {}
    if len(pair) == 2:
        kept = _keep(wave, *pair)
    try:
        for parsed in pair:
            wave.begin(parsed)
            wave.names = kept if parsed is not pair[0] else {}
            _lower_one(wave)
            wave.end()
    except UnknownInstruction as error:
        reason = f" ({error})" if str(error) else ""
        wave.out.unknown[wave.number] = f"{instruction.text}{reason}"
        wave.out.emit("TRAP", y=2)


def _keep(wave: Wave, first: Parsed, second: Parsed) -> dict[str, int]:
    """Both instructions of a pair read before one writes: the register that the first one writes, where the second one reads it."""
    result = first.operands[0]
    if result not in second.operands[1:]:
        return {}
    copy = wave.out.rows("kept of a pair", 1)
    wave.begin(first)
    wave.emit("MOVE", d=copy, a=wave.read(result))
    return {result: copy}


def _lower_one(wave: Wave) -> None:
    opcode = wave.parsed.opcode
    if IGNORED.match(opcode):
        return
    if opcode in LANES:
        LANES[opcode](wave)
    elif not any(stage(wave) for stage in _STAGES[opcode[0]]):
        raise wave.unknown()


_STAGES: defaultdict[str, tuple[Callable[[Wave], bool], ...]] = defaultdict(
    lambda: (access,),
    {
        "s": (control, access, scalar, arithmetic, indexed),
        "v": (indexed, packed, matrices, small_floats, special, arithmetic),
    },
)
"""First letter of an opcode -> what may know it, in this order."""
