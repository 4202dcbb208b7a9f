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
MI250X = load_machine("mi250x")


def issued(**counts: float) -> dict[str, float]:
    return {f"issued_{kind}": count for kind, count in counts.items()}


def test_units_of_volta_work_at_once() -> None:
    """16 lanes of FP32, of INT32 and 8 of FP64 in each of four parts; four instructions a cycle."""
    cycles = unit_cycles(V100, issued(fma=10, alu=6, fp64=3, special=2, branch=1))
    assert cycles == {
        "slots": 22 / 4, "fma": 10 * 32 / 64, "alu": 6 * 32 / 64, "fp64": 3 * 32 / 32,
        "special": 2 * 32 / 16,
    }  # fmt: skip


def test_nothing_is_issued_while_operands_are_read() -> None:
    """Six of ten instructions read two registers of one bank; half of a cycle each in `fma` all the same."""
    cycles = unit_cycles(V100, issued(fma=10, operands=6))
    assert cycles == {"slots": 10 / 4, READS: 16 / 4, "fma": 10 * 32 / 64}
    assert cycles[READS] < cycles["fma"] < unit_cycles(V100, issued(fma=10, operands=20))[READS]


def test_vector_instructions_of_amd_share_their_unit() -> None:
    cycles = unit_cycles(MI250X, issued(fma=10, alu=6, fp64=3, special=2, scalar=30))
    assert cycles["vector"] == 10 + 6 + 3 + 2 * 4
    assert cycles["slots"] == pytest.approx(51 / 5)
    assert cycles["scalar"] == 30
    assert unit_cycles(load_machine("mi300x"), issued(fma=10))["vector"] == 10  # whatever its peak
    assert set(cycles) == {"vector", "slots", "scalar"}


def test_a_sub_group_of_amd_issues_an_instruction_every_fourth_cycle() -> None:
    """Reciprocals take four turns; a wait takes none, nor do passes of local memory, but `s_nop 2` takes three."""
    counts = {"alu": 4, "fma": 1, "special": 2, "scalar": 7, "branch": 1, "access": 1}
    operations = issued(**counts, wait=2, idle_turns=3, conflict=9)
    assert stalled_cycles(MI250X, operations) == 4 * (16 + 2 * 3 + 3)
    assert stalled_cycles(load_machine("rx7900xtx"), operations) == 0


def test_scalar_loads_have_a_rate_where_one_is_known() -> None:
    """They are counted among the instructions of the scalar unit, and are no further ones."""
    operations = issued(scalar=7, scalar_loads=2)
    assert "scalar loads" not in unit_cycles(MI250X, operations)
    mi300a = load_machine("mi300a")
    assert unit_cycles(mi300a, operations) == {
        "slots": pytest.approx(7 / 5),
        "scalar": 7,
        "scalar loads": 2 * 64 / mi300a.throughputs["scalar_loads"],
    }


def test_before_volta_integers_share_the_unit_of_floating_point() -> None:
    cycles = unit_cycles(load_machine("titan_x"), issued(fma=8, alu=8))
    assert cycles["arithmetic"] == 16 * 32 / 128


def test_waits_counted_for_a_later_gpu_are_no_waits_of_an_older_one() -> None:
    """The instructions of a C1060 are those of sm_75."""
    operations = issued(fma=10, operands=6, stalled=40)
    assert stalled_cycles(V100, operations) == 40
    for name in ("c1060", "titan_x", "cpu-pocl"):
        old = load_machine(name)
        assert stalled_cycles(old, operations) == 0
        assert READS not in unit_cycles(old, operations)


def test_a_machine_that_does_not_list_instructions_has_no_limit_of_slots() -> None:
    rates = {name: rate for name, rate in V100.throughputs.items() if name != "instructions"}
    assert unit_cycles(V100.replace(throughputs=rates), issued(fma=10))["slots"] == 0


def test_products_of_integers_have_half_of_the_units_of_an_h200() -> None:
    """Of 8 multiply-adds 6 of integers, at 64 a cycle where floating-point numbers have 128; on a V100 both have 64."""
    operations = issued(fma=8, integer_fma=6)
    assert unit_cycles(load_machine("h200"), operations) == {"slots": 2, "fma": 2, "integer_fma": 3}
    assert unit_cycles(V100, operations) == {"slots": 2, "fma": 4, "integer_fma": 3}
    assert unit_cycles(load_machine("titan_x"), operations)["arithmetic"] == 8 / 4


@pytest.mark.parametrize("name", ["rtx3080", "a6000", "rtx4090", "l40s"])
def test_products_and_sums_of_integers_take_turns_on_ga10x_and_ad10x(name: str) -> None:
    """One of two halves of a processing block computes with integers, the other one with floating-point numbers alone."""
    cycles = unit_cycles(load_machine(name), issued(fma=8, integer_fma=6, alu=5))
    assert cycles == {"slots": 13 / 4, "fma": 2, "integer": 11 / 2}
    assert unit_cycles(load_machine("a100"), issued(fma=8, integer_fma=6, alu=5))["alu"] == 5 / 2


def test_tensor_cores_work_beside_the_others() -> None:
    """HMMA.16816 has 2048 multiply-adds, 64 a lane, of which an A100 does 1024 a cycle; bfloat16 alike."""
    a100 = load_machine("a100")
    cycles = unit_cycles(a100, issued(tensor=3, tensor_f16_f32=2 * 64, tensor_bf16_f32=64, alu=1))
    assert cycles == {"slots": 4 / 4, "alu": 32 / 64, "tensor cores": 3 * 2}
    with pytest.raises(ThroughputError, match="lists no throughput of tensor_f64_f64"):
        unit_cycles(V100, issued(tensor_f64_f64=1))


@pytest.mark.parametrize(("kind", "passes"), [("local_32", 1), ("local_64", 2), ("local_128", 4)])
def test_wide_accesses_to_local_memory_take_several_passes(kind: str, passes: int) -> None:
    assert load_store_cycles(V100, {f"issued_{kind}": 3}) == 3 * passes


def test_wide_passes_take_longer_where_local_memory_delivers_64_bytes_a_cycle() -> None:
    """Eight passes, of which five are wide; what all lanes read alike takes no longer."""
    operations = issued(local_32=6, conflict=2, wide=5)
    assert load_store_cycles(V100, operations) == 8
    for name in ("a6000", "rtx4090", "t4"):
        assert load_store_cycles(load_machine(name), operations) == 8 + 5
    assert unit_cycles(V100, operations)["slots"] == 6 / 4


def test_the_throughputs_that_instructions_need() -> None:
    assert throughputs_of(issued(fma=1, local_64=1, branch=1)) == ["fp32_fma", "local_load"]


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
