"""How long a sub-group waits for results that take no fixed time, from Volta on.

Such an instruction names one of six barriers in its encoding, and those that need its result wait for the barrier: of
the 128 bits, three from the 110th on are the barrier, 7 for none, and six from the 116th on those that are waited for
(Jia et al., Dissecting the NVIDIA Volta GPU Architecture via Microbenchmarking, arXiv 1804.06826, section 2.1). What
loads of global and private memory take is known from a replay only; here, they take no time.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tracegen.compiled.model import MemoryOperation, Pipe

_STALL_BIT, _BARRIER_BIT, _WAITS_BIT = 105 - 64, 110 - 64, 116 - 64
_N_BARRIERS = 6
_AMPERE = 80
_LOCAL_CYCLES, _LOCAL_CYCLES_OF_VOLTA = 29, 19
"""A100 and H100: Luo et al., Benchmarking and Dissecting the Nvidia Hopper GPU Architecture via Microbenchmarking
(arXiv 2402.13499), table of latencies; V100: Jia et al."""
_CONSTANT_CYCLES = 27
"""A hit in the constant cache: Jia et al., V100."""
_SPECIAL_CYCLES = 20
"""Accel-Sim configuration SM7_QV100: trace_opcode_latency_initiation_sfu."""


def scoreboards(upper_half: int) -> tuple[int, int]:
    """The barrier that an instruction sets, 7 for none, and those that it waits for, as bits."""
    return upper_half >> _BARRIER_BIT & 7, upper_half >> _WAITS_BIT & (1 << _N_BARRIERS) - 1


@dataclass
class ResultWaits:
    """Counts along instructions that follow one another.

    capability : compute capability times ten;  now : cycles since the first;  arrives : when each barrier is free
    """

    capability: int
    now: int = 0
    arrives: list[int] = field(default_factory=lambda: [0] * _N_BARRIERS)

    def cycles(self, base: str, pipe: Pipe, memory: MemoryOperation | None, upper_half: int) -> int:
        """Cycles until the next instruction, with those in which this one waits for results before."""
        begin = self.now
        waited = upper_half >> _WAITS_BIT
        for barrier in range(_N_BARRIERS):
            if waited >> barrier & 1:
                self.now = max(self.now, self.arrives[barrier])
        barrier = upper_half >> _BARRIER_BIT & 7
        if barrier < _N_BARRIERS:
            takes = self._latency(base, pipe, memory)
            self.arrives[barrier] = max(self.arrives[barrier], self.now + takes)
        self.now += max(upper_half >> _STALL_BIT & 15, 1)
        return self.now - begin

    def _latency(self, base: str, pipe: Pipe, memory: MemoryOperation | None) -> int:
        local = _LOCAL_CYCLES if self.capability >= _AMPERE else _LOCAL_CYCLES_OF_VOLTA
        if memory is not None:
            return {"local": local, "constant": _CONSTANT_CYCLES}.get(memory.space, 0)
        if base == "SHFL":
            return local
        return _SPECIAL_CYCLES if pipe == "special" or base == "S2UR" else 0
