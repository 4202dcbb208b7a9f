"""Random kernels in OpenCL C: full traces against Oclgrind's, and positions against their contract."""

from __future__ import annotations

import itertools
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.instrumented_runs import lane_accesses, run_traced
from tests.support.oclgrind.harness import Oclgrind
from tests.support.oclgrind.random_opencl_c import random_opencl_c
from tracegen.devices.choice import choose
from tracegen.opencl_c.run import prepare
from tracegen.options import TraceOptions
from tracegen.probes.program import Probe
from tracegen.recording.device_run import DeviceRun

pytestmark = pytest.mark.filterwarnings("ignore:Non-empty compiler output")


def agree(rng: Random, oclgrind: Oclgrind) -> None:
    workload = random_opencl_c(rng)
    run = oclgrind.run(workload, optimised=False)
    traced = lane_accesses(workload, reduced=False)
    assert {item: own for item, own in traced.items() if own} == run.accesses, workload.source
    _, outputs = run_traced(workload)
    for name, values in outputs.items():
        np.testing.assert_array_equal(values, run.outputs[name], err_msg=workload.source)


@settings(max_examples=6, suppress_health_check=list(HealthCheck))
@given(rng=st.randoms(use_true_random=False))
def test_random_kernel(rng: Random, oclgrind: Oclgrind) -> None:
    agree(rng, oclgrind)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100))
def test_another_random_kernel(seed: int, oclgrind: Oclgrind) -> None:
    agree(Random(seed), oclgrind)


@pytest.mark.parametrize("seed", range(4))
def test_positions_ascend_but_for_back_edges(seed: int) -> None:
    """What lines diverged lanes up: a lane's positions fall only behind a back-edge, into its loop."""
    prepared = prepare(random_opencl_c(Random(seed)), choose())
    falls = 0

    def observer(launch: Any) -> None:
        nonlocal falls
        run = DeviceRun(prepared, launch, TraceOptions())
        probes = launch.program.probes
        with run.recorded(np.arange(launch.n_groups)) as batches:
            for batch in batches:
                with run.tokens(batch) as (tokens, offset, took):
                    for begin, n in zip(offset, took, strict=False):
                        mine = tokens[begin : begin + n].tolist()
                        falls += positions_in_order(
                            [run.layout.encoding.split(t)[0] for t in mine], probes
                        )

    prepared.run(observer)
    assert falls > 0


def positions_in_order(positions: list[int], probes: tuple[Probe, ...]) -> int:
    """How often they fall; raises AssertionError where they may not."""
    falls = 0
    for here, there in itertools.pairwise(positions):
        if there <= here:
            edge = probes[here]
            assert edge.kind == "edge"
            assert edge.first <= there
            falls += 1
    return falls
