"""What executed sub-groups issue between their accesses, by the unit that executes it."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from msgspec import structs
from scipy import sparse

from tracegen.compiled.counting.work import KINDS, counted
from tracegen.compiled.model import MachineCode
from tracegen.execution.code import Code
from tracegen.execution.run import Recorded


def instruction_counts(
    code: MachineCode, local_counts: npt.NDArray[np.int64]
) -> npt.NDArray[np.float64]:
    """(n_instruction, n_kind) what one execution of each instruction counts, in the mean over those of the run.

    What a predicate switches off in all lanes is issued all the same, and takes its pass of the banks, without conflicts
    (28.1 us with no lane of a warp and 28.3 us with all, on an H200).

    local_counts : as of Recorded
    """
    rows = []
    for number, one in enumerate(item for block in code.blocks for item in block.instructions):
        if number < len(local_counts) and local_counts[number, 0] and one.memory is not None:
            executed, _, passes = local_counts[number].tolist()
            memory = structs.replace(one.memory, conflict_passes=passes / executed)
            one = structs.replace(one, memory=memory)
        rows.append(counted([one]))
    return np.array(rows).reshape(-1, len(KINDS))


def work_of(
    code: Code, counts: npt.NDArray[np.float64], recorded: Recorded, offset: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.float64]]:
    """The columns work and work_table of a Trace. offset : (n_subgroup + 1,) into the accesses"""
    until = np.concatenate([np.zeros((1, counts.shape[1])), np.cumsum(counts, axis=0)])
    first = np.array([one.first for one in code.segments], np.int64)
    end = np.array([one.end for one in code.segments], np.int64)
    of_segment = until[end] - until[first]
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
