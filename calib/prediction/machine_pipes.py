"""Issue cycles of a block of machine instructions, counted by the unit that executes them.

The units of a core work at the same time, so a block lasts as long as its busiest unit or its issue
slots, whichever takes longer, and not their sum. On NVIDIA's GPUs since Volta, 32-bit floating-point,
integer, 64-bit floating-point and special-function instructions have units of their own, each narrower
than a warp: a scheduler issues to the next one while a unit is busy (Jia et al., Dissecting the NVIDIA
Volta GPU Architecture via Microbenchmarking, arXiv 1804.06826, section 2.1; NVIDIA Tesla V100 GPU
Architecture whitepaper, section "Volta SM": independent FP32 and INT32 units). Their rates are those
of the table of arithmetic throughputs in the CUDA C++ Programming Guide. From compute capability 8.6 on half of the FP32 units
multiply integers, too: at the rate of int32_add, as that table says (clpeak, an RTX 4090: 63 a cycle and core). On GA10x and
AD10x this half is the one that computes with integers at all (NVIDIA Ampere GA102 GPU Architecture whitepaper, "2x FP32
throughput"), so products and sums of integers take turns there. Before Volta the
same units compute with floating-point numbers and integers (NVIDIA Maxwell and Pascal Tuning Guides).
On AMD's GPUs all vector arithmetic shares the SIMD units, beside which the scalar unit, the local
data share and the memory unit issue (AMD, Graphics Core Next architecture whitepaper, 2012: at most
five instructions a cycle, each of another kind). Up to CDNA a core has one scalar unit, which scalar loads use, too (ROCm
Compute Profiler documentation, pipeline descriptions), and a SIMD unit has its turn every fourth cycle, in which a
sub-group issues one instruction: one by itself takes as many cycles as its instructions' turns. On an MI300A, iterations of 11,
13 and 15 instructions around a load from L1 take 173, 176 and 190 cycles where a SIMD unit has one sub-group (sarchlab/mgpusim,
gpu_perf_scripts: kmeans, simpleconvolution, fir), of which the load takes 120.

The load/store unit is counted apart, because the global accesses of a block use it as well. Matrix instructions are counted twice:
as instructions that are issued, and by the multiply-adds of a lane, at the rate of the types of their numbers.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from calib.prediction.throughputs import MATRIX_RATES, STANDS_IN, cycles_of
from memsim.machine import Machine
from memsim.report import TENSOR

PREFIX = "issued_"
"""Marks an operation that is a count of machine instructions: `issued_fma`."""
SLOTS = "instructions"
"""The throughput that limits all instructions together, in lanes: instructions a cycle times lanes."""
SLOTS_UNIT = "slots"
READS = "reads of operands"
"""A unit that is no lower bound: how instructions share the banks of registers was fitted."""
_FIRST_SPLIT = 70
"""The compute capability from which integer instructions have units of their own."""

_ONE_INTEGER_PATH = ("sm_86", "sm_87", "sm_89")
"""GA10x and AD10x: the half of a processing block's 32 lanes that computes with integers also multiplies them."""

_THROUGHPUT = {
    "fma": "fp32_fma",
    "alu": "int32_add",
    "integer_fma": "int32_add",
    "fp64": "fp64_fma",
    "fp16": "fp16_fma",
    "special": "fp32_special",
    "barrier": "barrier",
}
_VECTOR = ("fma", "alu", "fp64", "fp16", "special")
_CONFLICT, _STALLED, _OPERANDS, _PASSES = "conflict", "stalled", "operands", "passes"
_WIDE, _WIDE_BYTES = "wide", 128
"""Passes that deliver 128 bytes, and take longer where local memory delivers less a cycle."""
_LOAD_STORE = {
    "local_32": 1.0,
    "local_64": 2.0,
    "local_128": 4.0,
    "paired_64": 1.0,
    "paired_128": 2.0,
    "exchange": 1.0,
    _CONFLICT: 1.0,
    _PASSES: 1.0,
}
"""Passes of the local memory's banks, 4 bytes a lane each; those that conflicts add are counted apart."""
_SCALAR_LOADS = "scalar_loads"
_NO_INSTRUCTIONS = (
    *(_CONFLICT, _WIDE, _STALLED, _OPERANDS, _PASSES, _SCALAR_LOADS),
    *("copies", "integer_fma", "idle_turns"),
)
_TAKE_NO_TURN = frozenset((*_NO_INSTRUCTIONS, *MATRIX_RATES, "wait")) - {"idle_turns"}
LOCAL_BYTES = "local_bytes"
"""The throughput of local memory in bytes that differ; what several lanes read counts once."""

RATES = frozenset(
    {
        *_THROUGHPUT.values(),
        *STANDS_IN,
        *STANDS_IN.values(),
        *MATRIX_RATES,
        SLOTS,
        LOCAL_BYTES,
        "scattered_lanes",
        _SCALAR_LOADS,
    }
)
"""The [throughputs] of a machine that decide a predicted time; a machine file may list others."""


def is_issued(operations: Iterable[str]) -> bool:
    """Whether operations are counts of machine instructions."""
    return any(name.startswith(PREFIX) for name in operations)


def throughputs_of(operations: Iterable[str]) -> list[str]:
    """The throughputs that counts of machine instructions need, as operations."""
    kinds = {name.removeprefix(PREFIX) for name in operations if name.startswith(PREFIX)}
    needed = [name for kind, name in _THROUGHPUT.items() if kind in kinds]
    needed += sorted(kinds & MATRIX_RATES)
    return needed + ["local_load"] * bool(kinds & _LOAD_STORE.keys())


def unit_cycles(machine: Machine, operations: Mapping[str, float]) -> dict[str, float]:
    """Unit -> cycles that a block's instructions occupy it; SLOTS_UNIT for the issue slots, READS for these and those
    that pass while operands are read.

    Raises ThroughputError where the machine lacks a throughput.
    """
    counts = _counts(operations)
    matrices = {kind: n for kind, n in counts.items() if kind in MATRIX_RATES}
    issued = sum(n for k, n in counts.items() if k not in _NO_INSTRUCTIONS and k not in matrices)
    cycles: dict[str, float] = {SLOTS_UNIT: issued * _slot_cycles(machine)}
    if counts.get(_OPERANDS) and _is_split(machine):
        cycles[READS] = (issued + counts[_OPERANDS]) * _slot_cycles(machine)
    unit_of = _shared_units(machine)
    for kind, throughput in _THROUGHPUT.items():
        if counts.get(kind) and (kind != "integer_fma" or _is_split(machine)):
            unit = unit_of.get(kind, kind)
            each = cycles_of(machine, throughput)
            if unit == "vector" and is_gcn(machine):
                each = max(each, 1.0)  # a turn; a peak twice as high is that of packed instructions
            cycles[unit] = cycles.get(unit, 0.0) + counts[kind] * each
    if counts.get("scalar") and is_gcn(machine):
        cycles["scalar"] = counts["scalar"]
    if counts.get(_SCALAR_LOADS) and machine.throughputs.get(_SCALAR_LOADS):
        cycles["scalar loads"] = counts[_SCALAR_LOADS] * cycles_of(machine, _SCALAR_LOADS)
    if matrices:
        cycles[TENSOR] = sum(n * cycles_of(machine, kind) for kind, n in matrices.items())
    return cycles


def stalled_cycles(machine: Machine, operations: Mapping[str, float]) -> float:
    """Cycles in which a sub-group issues a block, if nothing else delays it.

    On NVIDIA's GPUs since Volta, results that following instructions need take a fixed time to arrive, which the compiler has
    counted; 0 where no compiler has: the instructions of an older GPU are those of a later one. On AMD's up to CDNA, each
    instruction takes a turn of its SIMD unit, or several.
    """
    counts = _counts(operations)
    if is_gcn(machine):
        turn = machine.n_schedulers
        issued = sum(n for kind, n in counts.items() if kind not in _TAKE_NO_TURN)
        longer = {
            kind: max(turn * cycles_of(machine, throughput) - turn, 0.0)
            for kind, throughput in _THROUGHPUT.items()
            if counts.get(kind) and kind in _VECTOR
        }
        return turn * issued + sum(counts[kind] * cycles for kind, cycles in longer.items())
    return counts.get(_STALLED, 0.0) if _is_split(machine) else 0.0


def is_of_tensor_memory(operation: str) -> bool:
    return operation.startswith(f"{PREFIX}tcgen05")


def load_store_cycles(machine: Machine, operations: Mapping[str, float]) -> float:
    """Cycles that a block's accesses to local memory occupy the load/store unit."""
    counts = _counts(operations)
    passes = sum(_LOAD_STORE.get(kind, 0.0) * n for kind, n in counts.items())
    if not passes:
        return 0.0
    each = cycles_of(machine, "local_load")
    bytes_per_cycle = machine.throughputs.get(LOCAL_BYTES, 0.0)
    wide = max(_WIDE_BYTES / bytes_per_cycle - each, 0.0) if bytes_per_cycle else 0.0
    return passes * each + counts.get(_WIDE, 0.0) * wide


def _counts(operations: Mapping[str, float]) -> dict[str, float]:
    return {
        name.removeprefix(PREFIX): count
        for name, count in operations.items()
        if name.startswith(PREFIX)
    }


def _slot_cycles(machine: Machine) -> float:
    """Cycles an instruction; 0 where the machine file does not limit them."""
    return cycles_of(machine, SLOTS) if SLOTS in machine.throughputs else 0.0


def _shared_units(machine: Machine) -> dict[str, str]:
    """Kind -> the unit that it shares with others."""
    if machine.compiler_target.startswith("gfx"):
        return dict.fromkeys(_VECTOR, "vector")
    if machine.compiler_target in _ONE_INTEGER_PATH:
        return {"alu": "integer", "integer_fma": "integer"}
    return {} if _is_split(machine) else {"fma": "arithmetic", "alu": "arithmetic"}


def _is_split(machine: Machine) -> bool:
    """Whether it is one of NVIDIA's GPUs since Volta."""
    target = machine.compiler_target
    return target.startswith("sm_") and int(target[3:].rstrip("af")) >= _FIRST_SPLIT


def is_gcn(machine: Machine) -> bool:
    """Whether it is one of AMD's GPUs up to CDNA, before gfx10."""
    return re.fullmatch("gfx[0-9]..", machine.compiler_target) is not None
