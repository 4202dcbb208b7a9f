"""Issue cycles of machine instructions, against sums by hand."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from calib.prediction.basic_blocks_trace import blocks_from_trace
from calib.prediction.machine_pipes import (
    READS,
    load_store_cycles,
    stalled_cycles,
    throughputs_of,
    unit_cycles,
)
from calib.prediction.throughputs import ThroughputError
from memsim.machine import load_machine
from memsim.trace import Trace
from tests.support.traces import loads

V100 = load_machine("v100")


def issued(**counts: float) -> dict[str, float]:
    return {f"issued_{kind}": count for kind, count in counts.items()}


UNITS: dict[str, tuple[str, dict[str, float], dict[str, float]]] = {
    "16 lanes of FP32, of INT32 and 8 of FP64 in each of Volta's four parts, and four instructions a cycle": (
        "v100", {"fma": 10, "alu": 6, "fp64": 3, "special": 2, "branch": 1},
        {"slots": 22 / 4, "fma": 10 / 2, "alu": 6 / 2, "fp64": 3, "special": 2 * 2},
    ),
    "nothing is issued while operands are read: six of ten instructions read two registers of one bank": (
        "v100", {"fma": 10, "operands": 6}, {"slots": 10 / 4, READS: 16 / 4, "fma": 10 / 2},
    ),
    "vector instructions of AMD share their unit": (
        "mi250x", {"fma": 10, "alu": 6, "fp64": 3, "special": 2, "scalar": 30},
        {"vector": 10 + 6 + 3 + 2 * 4, "slots": pytest.approx(51 / 5), "scalar": 30},
    ),
    "an instruction of AMD takes as long whatever the peak": (
        "mi300x", {"fma": 10}, {"vector": 10, "slots": pytest.approx(2)},
    ),
    "scalar loads are among the instructions of the scalar unit where no rate is known": (
        "mi250x", {"scalar": 7, "scalar_loads": 2}, {"slots": pytest.approx(7 / 5), "scalar": 7},
    ),
    "scalar loads have a rate where one is known": (
        "mi300a", {"scalar": 7, "scalar_loads": 2},
        {"slots": pytest.approx(7 / 5), "scalar": 7,
         "scalar loads": 2 * 64 / load_machine("mi300a").throughputs["scalar_loads"]},
    ),
    "before Volta integers share the unit of floating point": (
        "titan_x", {"fma": 8, "integer_fma": 6, "alu": 8}, {"slots": 16 / 8, "arithmetic": 16 / 4},
    ),
    "products of integers have half of the units of an H200": (
        "h200", {"fma": 8, "integer_fma": 6}, {"slots": 2, "fma": 2, "integer_fma": 3},
    ),
    "products of integers have all units of a V100": (
        "v100", {"fma": 8, "integer_fma": 6}, {"slots": 2, "fma": 4, "integer_fma": 3},
    ),
    **{
        f"one of two halves of a processing block of {name} computes with integers, the other one with floats alone": (
            name, {"fma": 8, "integer_fma": 6, "alu": 5}, {"slots": 13 / 4, "fma": 2, "integer": 11 / 2},
        )
        for name in ("rtx3080", "a6000", "rtx4090", "l40s")
    },
    # HMMA.16816 has 2048 multiply-adds, 64 a lane, of which an A100 does 1024 a cycle; bfloat16 alike.
    "tensor cores work beside the others": (
        "a100", {"tensor": 3, "tensor_f16_f32": 2 * 64, "tensor_bf16_f32": 64, "alu": 1},
        {"slots": 4 / 4, "alu": 1 / 2, "tensor cores": 3 * 2},
    ),
    "passes of local memory are issued once": (
        "v100", {"local_32": 6, "conflict": 2, "wide": 5}, {"slots": 6 / 4},
    ),
}  # fmt: skip
"""What holds -> a machine, instructions, and how long each unit takes by hand."""


@pytest.mark.parametrize("what", UNITS)
def test_cycles_of_units_by_hand(what: str) -> None:
    name, counts, expected = UNITS[what]
    assert unit_cycles(load_machine(name), issued(**counts)) == expected


def test_throughputs_that_a_machine_does_not_list() -> None:
    rates = {name: rate for name, rate in V100.throughputs.items() if name != "instructions"}
    assert unit_cycles(V100.replace(throughputs=rates), issued(fma=10))["slots"] == 0
    with pytest.raises(ThroughputError, match="lists no throughput of tensor_f64_f64"):
        unit_cycles(V100, issued(tensor_f64_f64=1))
    assert throughputs_of(issued(fma=1, local_64=1, branch=1)) == ["fp32_fma", "local_load"]


def test_a_sub_group_of_amd_issues_an_instruction_every_fourth_cycle() -> None:
    """Reciprocals take four turns; a wait takes none, nor do passes of local memory, but `s_nop 2` takes three."""
    counts = {"alu": 4, "fma": 1, "special": 2, "scalar": 7, "branch": 1, "access": 1}
    operations = issued(**counts, wait=2, idle_turns=3, conflict=9)
    assert stalled_cycles(load_machine("mi250x"), operations) == 4 * (16 + 2 * 3 + 3)
    assert stalled_cycles(load_machine("rx7900xtx"), operations) == 0


def test_waits_counted_for_a_later_gpu_are_no_waits_of_an_older_one() -> None:
    """The instructions of a C1060 are those of sm_75."""
    operations = issued(fma=10, operands=6, stalled=40)
    assert stalled_cycles(V100, operations) == 40
    for name in ("c1060", "titan_x", "cpu-pocl"):
        old = load_machine(name)
        assert stalled_cycles(old, operations) == 0
        assert READS not in unit_cycles(old, operations)


def test_wide_accesses_to_local_memory_take_several_passes() -> None:
    """Longer ones where local memory delivers 64 bytes a cycle; what all lanes read alike takes no longer."""
    for kind, passes in (("local_32", 1), ("local_64", 2), ("local_128", 4)):
        assert load_store_cycles(V100, {f"issued_{kind}": 3}) == 3 * passes
    operations = issued(local_32=6, conflict=2, wide=5)
    assert load_store_cycles(V100, operations) == 8
    for name in ("a6000", "rtx4090", "t4"):
        assert load_store_cycles(load_machine(name), operations) == 8 + 5


def with_work(trace: Trace) -> Trace:
    """One instruction before the k-th access of a sub-group more than before the last one."""
    row = np.arange(trace.n_access, dtype=np.int32) - np.repeat(
        trace.subgroup_offset[:-1], np.diff(trace.subgroup_offset)
    ).astype(np.int32)
    table = np.zeros((int(row.max()) + 1, 2))
    table[:, 0] = np.arange(len(table)) + 1
    table[:, 1] = 1
    return dataclasses.replace(trace, work=row, work_table=table, work_kinds=("fma", "access"))


def test_a_program_of_a_trace_counts_its_instructions() -> None:
    trace = with_work(loads([1, 2, 2, 5]))
    result = blocks_from_trace(trace)
    n = int(trace.subgroup_offset[1])
    total = sum(
        times * result.blocks[number].operations.get("issued_fma", 0)
        for number, times in result.occurrences().items()
    )
    assert total == n * (n + 1) / 2
