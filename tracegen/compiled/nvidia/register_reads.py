"""How long the operands of an instruction keep the register file of a scheduler, from Volta on.

It has two banks, of the even and of the odd registers (Jia et al., Dissecting the NVIDIA Volta GPU Architecture via
Microbenchmarking, arXiv 1804.06826), and each delivers one register of a warp in a cycle: products with both factors
in one bank issue every other cycle, and FFMA with all three operands in one bank every third (Huerta et al.,
Dissecting and Modeling the Architecture of Modern GPU Cores, MICRO 2025, section 5.3, on an RTX A6000). How
instructions that differ share the banks is not known. Each is counted by itself, and not, as in their best
approximation, with reads that are interleaved within three cycles: this was chosen by the rate and the issue slots of an
n-body simulation on an H200. It is checked on what did not choose it (experiments/hardware/README.md).

An operand that is marked `.reuse` stays beside the bank until the next read of that bank by an operand in the same
place (their section 5.3.1), as far as no other warp comes between.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from tracegen.compiled.model import Pipe

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

    def cycles(self, pipe: Pipe, reads: Sequence[str], operands: Sequence[str]) -> int:
        """Cycles of the busier bank for the next instruction, at least 1.

        reads : names of single registers;  operands : as written, the result first
        """
        if pipe not in _FIXED:
            return 1
        registers = {int(name[1:]) for name in reads if name[0] == "R"}
        if self.kept or any(".reuse" in operand for operand in operands):
            registers -= self._kept(operands[1:], 2 if pipe == "fp64" else 1)
        odd = sum(register % _N_BANKS for register in registers)
        return max(odd, len(registers) - odd, 1)

    def _kept(self, sources: Sequence[str], width: int) -> set[int]:
        """The registers that need not be read; what is kept is then as after the instruction."""
        found = set()
        for place, operand in enumerate(sources):
            match = _OPERAND.fullmatch(operand)
            if match is None:
                continue
            for register in range(int(match[1]), int(match[1]) + width):
                at = register % _N_BANKS, place
                if self.kept.pop(at, None) == register:
                    found.add(register)
                if ".reuse" in match[2]:
                    self.kept[at] = register
        return found
