"""Every workload of experiments has equal traces with and without a run, or a reason for the run."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import experiments.kernels
from memsim.trace.model import COLUMN_DTYPES
from tracegen.instrumented.host import prepare
from tracegen.instrumented.run import DeviceRun
from tracegen.instrumented.source_run import launches
from tracegen.options import TraceOptions
from tracegen.polyhedral.conditions import NotStatic
from tracegen.polyhedral.host import static
from tracegen.polyhedral.run import PolyhedralRun
from tracegen.record import record
from tracegen.workloads.workload import Workload

FEW_LAUNCHES = {
    **{name: {"n": 20} for name in ("lu", "gramschmidt", "gaussian")},
    **{name: {"n": 64} for name in ("lud", "nw")},
    "doitgen": {"nr": 3, "nq": 40, "np_": 50},
}
"""Sizes of kernels that are launched once a step."""


def builders() -> Iterator[Callable[..., Workload]]:
    """What returns a Workload and can be called without arguments."""
    for module in pkgutil.walk_packages(experiments.kernels.__path__, "experiments.kernels."):
        for _, function in inspect.getmembers(importlib.import_module(module.name)):
            if inspect.isfunction(function) and function.__module__ == module.name:
                signature = inspect.signature(function)
                needed = [p for p in signature.parameters.values() if p.default is p.empty]
                if signature.return_annotation == "Workload" and not needed:
                    yield function


BUILDERS = {f"{made.__module__.split('.', 2)[2]}.{made.__name__}": made for made in builders()}


def reads_data(workload: Workload) -> bool:
    """Whether an address, a loop or a condition may depend on data."""
    arrays = [value for value in workload.arguments.values() if isinstance(value, np.ndarray)]
    instructions = workload.kernel.default_entrypoint.instructions
    return any(np.issubdtype(array.dtype, np.integer) for array in arrays) or any(
        instruction.predicates for instruction in instructions
    )


@pytest.mark.weekly(3)
@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", BUILDERS)
def test_equal_or_refused(context: Any, name: str) -> None:
    make = BUILDERS[name]
    workload = make(**FEW_LAUNCHES.get(make.__name__, {}))
    prepared = prepare(workload, context)
    options = TraceOptions(groups=3)
    try:
        walked = record(launches(static(prepared), options, PolyhedralRun), options, every=True)
    except NotStatic as refused:
        match = re.match(
            r"access (.+) of kernel \w+ cannot be traced without running it: it \w+", str(refused)
        )
        assert match
        assert reads_data(workload)
        return
    assert sum(one.n_access for (one,) in walked) > 0
    for (one,), (other,) in zip(
        walked, record(launches(prepared, options, DeviceRun), options, every=True), strict=True
    ):
        for column in COLUMN_DTYPES:
            np.testing.assert_array_equal(getattr(one, column), getattr(other, column), column)
        assert (one.sites, one.arrays, one.launch) == (other.sites, other.arrays, other.launch)


def test_every_kernel_is_here() -> None:
    """The names of all Loopy kernels, so that the list above cannot miss one."""
    expected = {"transpose.tiled", "fft.fft", "matmul_volkov.volkov", "spmv.spmv"}
    assert expected <= BUILDERS.keys()
    assert len(BUILDERS) >= 14
