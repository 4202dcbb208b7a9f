"""Lanes that diverge line up as on a machine in lockstep; the fast merge equals its readable twin."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import tracegen
from memsim.trace.model import BARRIER_SITE, Trace
from tests.support import loopy_kernels as kernels
from tests.twins.lockstep import Step, lockstep
from tracegen.instrumented.host import PreparedLoopy, prepare
from tracegen.instrumented.launch import LoopyLaunch
from tracegen.instrumented.run import DeviceRun
from tracegen.instrumented.source_run import launches
from tracegen.options import TraceOptions
from tracegen.record import record
from tracegen.recording import snapshot

OF_ONE_LAUNCH = sorted(kernels.WORKLOADS.keys() - {"two_launches", "loop_of_launches"})


def test_rows_of_different_length(context: Any) -> None:
    """Turn t of the loop has the lanes whose rows are longer than t, and one access a site."""
    lengths = np.array([0, 3, 1, 5, 2, 2, 0, 4] * 4)
    trace = tracegen.trace(kernels.ragged(lengths), context=context)
    names = [trace.sites[site].name for site in trace.site]
    turns = [int(np.count_nonzero(lengths > turn)) for turn in range(5)]
    assert names[:2] == ["start[i]", "start[i + 1]"]
    assert names[2:-1] == ["a[j]", "ind[j]", "x[ind[j]]"] * 5
    assert names[-1] == "store y[i]"
    assert trace.lanes.tolist() == [32, 32, *np.repeat(turns, 3).tolist(), 32]
    loop = trace.starts_sequence[2:-1].reshape(5, 3)
    assert loop.tolist() == [[True, False, True]] * 5
    assert trace.starts_sequence[-1]
    # The bounds feed a and ind, an index its gather, both factors the sum.
    assert trace.waits[2:5].tolist() == [1, 1, 3]
    assert trace.waits[-2:].tolist() == [15, 16]


@pytest.mark.weekly(2)
@pytest.mark.parametrize("name", OF_ONE_LAUNCH)
def test_merge_equals_twin(context: Any, name: str) -> None:
    prepared = prepare(kernels.WORKLOADS[name](), context)
    groups = recorded(prepared)
    for size, reduced in itertools.product((8, 64), (False, True)):
        options = TraceOptions(subgroup_size=size, reduced=reduced)
        ((trace,),) = record(launches(prepared, options, DeviceRun), options)
        expected = [
            (run, lockstep(items[first : first + size], run.launch.program.probes, reduced))
            for run, items in groups
            for first in range(0, len(items), size)
        ]
        assert trace.n_subgroup == len(expected)
        for subgroup, (run, steps) in enumerate(expected):
            own = range(*trace.subgroup_offset[subgroup : subgroup + 2])
            assert [describe(trace, access) for access in own] == [written(run, s) for s in steps]


def recorded(prepared: PreparedLoopy) -> list[tuple[DeviceRun, list[Any]]]:
    """The tokens of the items of every group."""
    result = []

    def observer(launch: LoopyLaunch) -> None:
        run = DeviceRun(prepared, launch, TraceOptions())
        for _, tokens, offset, took in run.recorded(snapshot.choose(launch.grid, None)[0]):
            items = [
                [run.layout.encoding.split(token) for token in tokens[begin : begin + n].tolist()]
                for begin, n in zip(offset, took, strict=False)
            ]
            for group in range(0, len(items), launch.group_items):
                result.append((run, items[group : group + launch.group_items]))

    prepared.run(observer)
    return result


def describe(trace: Trace, access: int) -> Any:
    rows = slice(*trace.granule_offset[access : access + 2])
    columns = (trace.granule[rows], trace.byte_mask[rows], trace.lane_groups[rows])
    return (
        int(trace.site[access]),
        bool(trace.starts_sequence[access]),
        int(trace.waits[access]),
        int(trace.lanes[access]),
        list(zip(*(column.tolist() for column in columns), strict=True)),
    )


def written(run: DeviceRun, step: Step) -> Any:
    if step.lanes is None:
        return (BARRIER_SITE, step.starts_sequence, step.waits, 0, [])
    granules: dict[int, list[int]] = {}
    table = run.layout.tables
    for lane, index in step.lanes.items():
        first = int(table.base[step.position] + index * table.stride[step.position])
        for byte in range(first, first + int(table.size[step.position])):
            entry = granules.setdefault(byte // 32, [0, 0])
            entry[0] |= 1 << byte % 32
            entry[1] |= 1 << lane // 8
    return (
        int(table.site[step.position]),
        step.starts_sequence,
        step.waits,
        len(step.lanes),
        [(number, *granules[number]) for number in sorted(granules)],
    )
