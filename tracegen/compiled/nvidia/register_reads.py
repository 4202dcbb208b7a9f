"""How long the operands of an instruction keep the register file of a scheduler, from Volta on.

It has two banks, of the even and of the odd registers (Jia et al., Dissecting the NVIDIA Volta GPU Architecture via
Microbenchmarking, arXiv 1804.06826), and each delivers one register of a warp in a cycle: products with both factors
in one bank issue every other cycle, and FFMA with all three operands in one bank every third (Huerta et al.,
Dissecting and Modeling the Architecture of Modern GPU Cores, MICRO 2025, section 5.3, on an RTX A6000). How
instructions that differ share the banks is not known; each is counted by itself.

An operand that is marked `.reuse` stays beside the bank until the next read of that bank by an operand in the same
place (their section 5.3.1), as far as no other warp comes between.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from tracegen.compiled.model import Instruction

_OPERAND = re.compile(r"[-|~!]*R(\d+)((?:\.\w+)*)\|?")
_FIXED = frozenset(("fma", "alu", "fp64", "fp16"))
"""Pipes that take a fixed time; other instructions wait for their operands in a queue."""
_N_BANKS = 2


@dataclass
class RegisterReads:
    """Counts along instructions that follow one another.

    kept : (bank, place of the operand) -> the register that was marked `.reuse` there
    """

    kept: dict[tuple[int, int], int] = field(default_factory=dict)

    def cycles(self, instruction: Instruction) -> int:
        """Cycles of the busier bank, at least 1."""
        if instruction.pipe not in _FIXED:
            return 1
        reads = {int(name[1:]) for name in instruction.reads if name[0] == "R"}
        guard = instruction.text.startswith("@")
        operands = instruction.text.split(" ", 2 if guard else 1)[-1].split(", ")[1:]
        width = 2 if instruction.pipe == "fp64" else 1
        for place, operand in enumerate(operands):
            match = _OPERAND.fullmatch(operand)
            if match is None:
                continue
            for register in range(int(match[1]), int(match[1]) + width):
                at = register % _N_BANKS, place
                if self.kept.get(at) == register:
                    reads.discard(register)
                self.kept[at] = register if ".reuse" in match[2] else -1
        odd = sum(register % _N_BANKS for register in reads)
        return max(odd, len(reads) - odd, 1)
