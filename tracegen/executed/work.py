"""What executed sub-groups issue between their accesses, counted by the unit that executes it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
from scipy import sparse

from tracegen.compiled.model import PIPES, Instruction, MachineCode
from tracegen.executed.matrix_work import matrix_work, measured_work, tensor_memory_kinds
from tracegen.execution.code import Code
from tracegen.execution.recorded import Recorded

_ACCESS, _CONSTANT = "access", "constant"
MOST_LINES = 3
"""Lines that a sentence names."""
_LOCAL_BITS = (32, 64, 128)
KINDS: tuple[str, ...] = (
    *(pipe for pipe in PIPES if pipe != "load_store"),
    _ACCESS,
    _CONSTANT,
    *(f"local_{bits}" for bits in _LOCAL_BITS),
    *(f"paired_{bits}" for bits in _LOCAL_BITS[1:]),
    "exchange",
    "conflict",
    "wide",
    "stalled",
    "operands",
)
"""The pipes (`tracegen.compiled.model.PIPES`), with `load_store` divided by what is accessed:

access : global and private memory, whose further costs a replay gives;  constant : constant memory
local_32, local_64, local_128 : local memory, by the bits that each work-item accesses
paired_64, paired_128 : the same where lanes are paired, which takes half as long (see tracegen.execution.banks)
exchange : other instructions of the load/store unit, such as `SHFL`
conflict : no instructions, but further passes of local memory's banks, which conflicts cause
wide : no instructions, but those passes that deliver more than 64 bytes
stalled : no instructions, but cycles until the next one of a sub-group that has a core to itself
operands : no instructions, but further cycles in which operands are read, and nothing is issued

Behind these, of code that has them (see `kinds_of`): what matrix instructions compute, in multiply-adds of a lane, by the rate
that a machine's file has for them (see matrix_work); passes : no instructions, but passes of local memory's banks, in which
products of four sub-groups, or in tensor memory, read; copies : of `access`, those that are asynchronous copies to local memory; integer_fma : of
`fma`, those of integers, for which NVIDIA's GPUs since compute capability 8.6 have half as many units; scalar_loads : of `scalar`,
loads; idle_turns : of `wait`, those for which an `s_nop` takes its sub-group's turn.
"""
PASSES, COPIES, INTEGER_FMA = "passes", "copies", "integer_fma"
SCALAR_LOADS, IDLE_TURNS = "scalar_loads", "idle_turns"
_NUMBER = {kind: number for number, kind in enumerate(KINDS)}


def kind_of(instruction: Instruction) -> str:
    """The kind under which an instruction is counted."""
    if instruction.pipe != "load_store":
        return instruction.pipe
    memory = instruction.memory
    if memory is None:
        return "exchange"
    if memory.space == "local":
        return _local_kind(memory.bytes_per_item)
    return _CONSTANT if memory.space == "constant" else _ACCESS


def _local_kind(bytes_per_item: int) -> str:
    return f"local_{next((width for width in _LOCAL_BITS if 8 * bytes_per_item <= width), 128)}"


def _is_generic(instruction: Instruction) -> bool:
    return instruction.opcode.partition(".")[0] in ("LD", "ST", "ATOM") or (
        instruction.opcode.startswith("flat_")
    )


def executions_of(code: Code, recorded: Recorded) -> npt.NDArray[np.int64]:
    """(n_instruction,) executions by sub-groups."""
    changes = np.zeros(max((one.end for one in code.segments), default=0) + 1, np.int64)
    np.add.at(changes, [one.first for one in code.segments], recorded.segment_count)
    np.subtract.at(changes, [one.end for one in code.segments], recorded.segment_count)
    return np.cumsum(changes)[:-1]


def kinds_of(code: MachineCode) -> tuple[str, ...]:
    """The kinds under which the instructions of a kernel are counted."""
    found = {kind for one in code.instructions for kind in _more(one)}
    return (*KINDS, *sorted(found))


def _more(instruction: Instruction) -> dict[str, float]:
    """What an instruction counts beside its own kind."""
    if instruction.opcode.startswith(("LDGSTS", "UTMALDG", "UBLKCP.S.G")):
        return {COPIES: 1.0}
    if instruction.pipe == "fma" and instruction.opcode.startswith(("IMAD", "IMUL", "IDP")):
        return {INTEGER_FMA: 1.0}
    if instruction.opcode.startswith(("s_load", "s_buffer_load")):
        return {SCALAR_LOADS: 1.0}
    if instruction.opcode == "s_nop":
        return {IDLE_TURNS: 1.0 + int(instruction.text.split()[1], 0)}
    if kinds := tensor_memory_kinds(instruction.opcode):  # what its operands say is added later
        return dict.fromkeys((*kinds, PASSES), 0.0)
    work = matrix_work(instruction)
    return {work.kind: work.fused} | ({PASSES: work.passes} if work.passes else {}) if work else {}


def instruction_counts(
    code: MachineCode,
    local_counts: npt.NDArray[np.int64],
    executions: npt.NDArray[np.int64],
) -> npt.NDArray[np.float64]:
    """(n_instruction, n_kind of `kinds_of`) what one execution of each instruction counts, in the mean over those of the run.

    An access through a generic pointer counts as one of local memory in those executions in which it went there. What a predicate switches off in all lanes is issued all the same, and takes its pass of the banks, without conflicts
    (28.1 us with no lane of a warp and 28.3 us with all, on an H200).

    local_counts : as of Recorded;  executions : see `executions_of`
    """
    instructions, added, wide = _conflicts(code, local_counts)
    kinds = kinds_of(code)
    counts = np.zeros((len(instructions), len(kinds)))
    given = zip(counts, instructions, added, wide, strict=True)
    for number, (row, one, conflicts, wide_passes) in enumerate(given):
        kind = kind_of(one)
        row[_NUMBER[kind]] += 1
        row[_NUMBER["stalled"]] += one.stall_cycles
        row[_NUMBER["operands"]] += one.read_cycles - 1
        for more, count in _more(one).items():
            row[kinds.index(more)] += count
        if number < len(local_counts) and tensor_memory_kinds(one.opcode):
            work = measured_work(one.opcode, local_counts[number])
            row[kinds.index(work.kind)] += work.fused
            row[kinds.index(PASSES)] += work.passes
        if one.memory is not None:
            if _is_generic(one) and number < len(local_counts):
                share = min(float(local_counts[number, 0]) / max(int(executions[number]), 1), 1.0)
                conflicts, wide_passes = share * conflicts, share * wide_passes
                row[_NUMBER[kind]] -= share
                kind = _local_kind(one.memory.bytes_per_item)
                row[_NUMBER[kind]] += share
            row[_NUMBER["conflict"]] += max(conflicts, 0.0)
            row[_NUMBER["wide"]] += wide_passes
            # Where lanes are paired, half of the passes are saved.
            bits = kind.removeprefix("local_")
            if conflicts < 0 and f"paired_{bits}" in _NUMBER:
                share = -conflicts / (int(bits) / 64)
                row[_NUMBER[kind]] -= share
                row[_NUMBER[f"paired_{bits}"]] += share
    return counts


def _conflicts(
    code: MachineCode, local_counts: npt.NDArray[np.int64]
) -> tuple[list[Instruction], list[float], list[float]]:
    """All instructions, the passes that conflicts add to an execution of each, and its wide passes."""
    instructions = code.instructions
    executed, _, passes, wide = local_counts[: len(instructions)].T
    each = np.zeros((2, len(instructions)))
    np.divide((passes, wide), executed, out=each[:, : len(passes)], where=executed > 0)
    for k, one in enumerate(instructions):
        if tensor_memory_kinds(one.opcode):
            each[:, k] = 0
        elif one.memory is not None and one.opcode.startswith(("LDSM", "STSM")):
            # Each of its matrices is one access of 4 bytes a lane, or if it is transposed two of 2 bytes.
            each[:, k] *= one.memory.bytes_per_item // 4 * (2 if "MT88" in one.opcode else 1)
    return instructions, each[0].tolist(), each[1].tolist()


def conflict_notes(
    code: MachineCode,
    local_counts: npt.NDArray[np.int64],
    user_line: Callable[[int], int | None],
) -> list[str]:
    """A sentence on the lines whose accesses to local memory conflict most, the worst first.

    user_line : 1-based line of the compiled text -> that of the user's file, None where it is generated
    """
    by_line: dict[int, float] = {}
    for one, passes, _ in zip(*_conflicts(code, local_counts), strict=True):
        line = user_line(one.location.line) if one.location is not None and passes > 0 else None
        if line is not None:
            by_line[line] = max(by_line.get(line, 0.0), passes)
    worst = sorted((-passes, line) for line, passes in by_line.items())
    if not worst:
        return []
    listed = ", ".join(f"{-passes:.3g} on line {line}" for passes, line in worst[:MOST_LINES])
    rest = f", less on {len(worst) - MOST_LINES} further lines" if len(worst) > MOST_LINES else ""
    return [f"Bank conflicts of shared memory add passes to each access: {listed}{rest}."]


def segment_counts(code: Code, counts: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """(n_segment, n_kind) what one execution of each segment of the code counts. counts : see instruction_counts"""
    until = np.concatenate([np.zeros((1, counts.shape[1])), np.cumsum(counts, axis=0)])
    first = np.array([one.first for one in code.segments], np.int64)
    end = np.array([one.end for one in code.segments], np.int64)
    return np.asarray(until[end] - until[first])


def work_of(
    code: Code, counts: npt.NDArray[np.float64], recorded: Recorded, offset: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.float64]]:
    """The columns work and work_table of a Trace. offset : (n_subgroup + 1,) into the accesses"""
    of_segment = segment_counts(code, counts)
    starts = np.concatenate([[0], recorded.row_end])
    rows = sparse.csr_matrix(
        (recorded.row_count.astype(np.float64), recorded.row_segment, starts),
        shape=(len(recorded.row_end), len(code.segments)),
    )
    table = np.maximum(np.asarray(rows @ of_segment), 0.0)
    # What follows the last access of a sub-group is counted with it.
    work = recorded.work.astype(np.int64)
    some = offset[1:] > offset[:-1]
    last = offset[1:][some] - 1
    pairs, number = np.unique(work[last] * len(table) + recorded.tail[some], return_inverse=True)
    sums = table[pairs // len(table)] + table[pairs % len(table)]
    work[last] = len(table) + number
    return work.astype(np.int32), np.concatenate([table, sums])
