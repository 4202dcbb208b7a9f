"""Executed machine code of kernels in OpenCL C against Oclgrind, which interprets what another compiler makes of them
without optimising: results byte for byte, and for each group the bytes that it stores and loads.

What is stored must be stored; a compiler may leave loads out whose values it knows or nobody needs, or narrow them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection
from random import Random
from typing import Any

import numpy as np
import pytest

import tracegen
from memsim.machine import load_machine
from memsim.trace import Trace
from tests.support.compilers import needs_amd, needs_nvidia
from tests.support.oclgrind import raw_kernels
from tests.support.oclgrind.harness import Oclgrind, Run, project_atomics
from tests.support.oclgrind.random_opencl_c import random_opencl_c
from tracegen import OpenCLWorkload
from tracegen.executed.launches import checked
from tracegen.options import TraceOptions

pytestmark = pytest.mark.filterwarnings("ignore:Non-empty compiler output")
MACHINES = (pytest.param("a100", marks=needs_nvidia), pytest.param("mi250x", marks=needs_amd))
Touched = dict[tuple[str, str], set[tuple[int, int]]]
"""(direction, array) -> (group, byte of the array) of each access."""
LEFT_OUT = {
    "structs": {"c"},  # just stored; of a vector one component is used
    "mathematics": {"exponent"},  # just stored
}
"""The arrays that a compiler loads less of than the text says."""
UNSEEN = ("scale", "table", "private memory")
"""What Oclgrind does not report: constant memory, which is global memory on AMD's GPUs, and private memory."""


def touched(trace: Trace) -> Touched:
    """By global accesses to the arguments, each group of one sub-group or several."""
    found: Touched = {}
    for subgroup, group in enumerate(trace.workgroup.tolist()):
        for k in range(*trace.subgroup_offset[subgroup : subgroup + 2].tolist()):
            if trace.site[k] < 0:
                continue
            site = trace.sites[trace.site[k]]
            for p in range(*trace.granule_offset[k : k + 2].tolist()):
                bits = np.flatnonzero(int(trace.byte_mask[p]) >> np.arange(32) & 1)
                for at in (int(trace.granule[p]) * 32 + bits).tolist():
                    for one in trace.arrays:  # a load whose lanes meet several arrays is one access
                        if one.base_bytes <= at < one.base_bytes + one.size_bytes:
                            place = group, at - one.base_bytes
                            found.setdefault((site.direction, one.name), set()).add(place)
    return found


def interpreted(run: Run, workload: OpenCLWorkload) -> Touched:
    """By Oclgrind. An array that is given twice is called by its first name."""
    arguments: dict[str, Any] = dict(workload.arguments)
    found: Touched = {}
    for (_, group, _), accesses in run.accesses.items():
        for direction, name, offset, size in project_atomics(accesses):
            first = next(one for one, value in arguments.items() if value is arguments[name])
            places = ((group, byte) for byte in range(offset, offset + size))
            found.setdefault((direction, first), set()).update(places)
    return found


def assert_agreement(
    workload: OpenCLWorkload,
    machine: str,
    oclgrind: Oclgrind,
    left_out: Collection[str],
    more: Collection[str] = (),
    unseen: Collection[str] = (),
) -> None:
    """left_out : arrays of which less may be loaded;  more : of which more may be stored;  unseen : by Oclgrind"""
    run = oclgrind.run(workload, optimised=False)
    expected, found = interpreted(run, workload), touched(tracegen.trace(workload, machine))
    not_compared = {(how, what) for how in ("load", "store") for what in unseen}
    for direction, array in (found.keys() | expected.keys()) - not_compared:
        own, places = (of.get((direction, array), set()) for of in (found, expected))
        what = f"{direction} {array}\n{workload.source}"
        if direction == "load" and array in left_out:
            assert own <= places or array in more, what
        else:
            assert own == places or (array in more and own >= places), what
    caught: dict[str, Any] = {}
    made = dataclasses.replace(workload, check=caught.update)
    checked(made, load_machine(machine), TraceOptions())
    assert caught
    for name, values in caught.items():
        assert values.tobytes() == run.outputs[name].tobytes(), f"{name}\n{workload.source}"


@pytest.mark.weekly(3)
@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("case", raw_kernels.CASES)
def test_machine_code_does_what_oclgrind_sees(case: str, machine: str, oclgrind: Oclgrind) -> None:
    workload = raw_kernels.CASES[case]()
    assert_agreement(workload, machine, oclgrind, LEFT_OUT.get(case, ()), unseen=UNSEEN)


SEEDS = [*range(2), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(100, 200))]


@pytest.mark.weekly(2)
@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("seed", SEEDS)
def test_random_kernel(seed: int, machine: str, oclgrind: Oclgrind) -> None:
    """New compilers store whole vectors where one component is assigned."""
    workload = random_opencl_c(Random(seed))
    assert_agreement(workload, machine, oclgrind, workload.arguments, more="v")
