"""Traces of kernels in OpenCL C against Oclgrind's, access for access and in order."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.instrumented_runs import lane_accesses, run_traced
from tests.support.oclgrind import raw_kernels
from tests.support.oclgrind.harness import Access, Oclgrind, WorkItem, project_atomics
from tracegen import OpenCLWorkload


def accesses_of_both(
    workload: OpenCLWorkload, oclgrind: Oclgrind, *, reduced: bool
) -> tuple[dict[WorkItem, list[Access]], dict[WorkItem, list[Access]]]:
    run = oclgrind.run(workload, optimised=reduced)
    expected = {item: project_atomics(own) for item, own in run.accesses.items() if own}
    traced = {item: own for item, own in lane_accesses(workload, reduced=reduced).items() if own}
    return traced, {
        item: [one_name(workload, access) for access in own] for item, own in expected.items()
    }


def one_name(workload: OpenCLWorkload, access: Access) -> Access:
    """Arrays that are given twice are called by their first name."""
    arguments = dict(workload.arguments)
    first = next(name for name, value in arguments.items() if value is arguments[access[1]])
    return (access[0], first, *access[2:])


@pytest.mark.parametrize("case", raw_kernels.CASES)
def test_full_trace_equals_oclgrind(case: str, oclgrind: Oclgrind) -> None:
    traced, expected = accesses_of_both(raw_kernels.CASES[case](), oclgrind, reduced=False)
    assert traced.keys() == expected.keys()
    for item, accesses in expected.items():
        assert traced[item] == accesses, f"launch, group, item = {item}"


@pytest.mark.parametrize("case", raw_kernels.CASES)
def test_results_are_those_of_the_plain_kernel(case: str, oclgrind: Oclgrind) -> None:
    workload = raw_kernels.CASES[case]()
    expected = oclgrind.run(workload, optimised=True).outputs
    _, outputs = run_traced(workload)
    for name, values in outputs.items():
        np.testing.assert_array_equal(values, expected[name], err_msg=name)
