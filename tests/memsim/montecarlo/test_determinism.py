"""72 replays: three launches, six seeds, and four ways to run the trials. The seed alone decides the numbers."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import numpy as np
import pytest
import xarray as xr

from memsim.machine.file import load_machine
from memsim.montecarlo.one_launch import replay
from tests.support.order_sensitive import on, trace

LAUNCHES = {
    "a small launch": (trace(), on()),
    "several waves on V100": (trace(1500), load_machine("v100")),
    "a C2050, whose groups start in turn": (trace(200), load_machine("c2050")),
}
SEEDS = range(6)
TRIALS = 8


@contextlib.contextmanager
def without_threads() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("memsim.montecarlo.one_launch.SHORT_TRIAL", -1)
        yield


def replayed(launch: str, seed: int, **how: object) -> xr.Dataset:
    made, machine = LAUNCHES[launch]
    return replay(made, machine, trials=TRIALS, seed=seed, **how).dataset


@pytest.fixture(scope="module")
def scheduler() -> Iterator[str]:
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(
        n_workers=2, processes=True, threads_per_worker=1, dashboard_address=":0"
    ) as cluster:
        yield cluster.scheduler_address


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::memsim.errors.SnapshotWarning")
@pytest.mark.parametrize("launch", LAUNCHES)
def test_the_numbers_depend_on_the_seed_alone(launch: str, scheduler: str) -> None:
    of_seed = []
    for seed in SEEDS:
        one = replayed(launch, seed, jobs=1)
        in_threads = replayed(launch, seed, jobs=3)
        with without_threads():
            in_processes = replayed(launch, seed, jobs=2)
        on_a_cluster = replayed(launch, seed, backend="dask", scheduler=scheduler)
        for other in (in_threads, in_processes, on_a_cluster):
            assert one.drop_attrs().identical(other.drop_attrs())
        of_seed.append(one)
    # Seeds differ, so that the comparison above is of numbers that an ordering decides.
    counts = [each["hits"].values for each in of_seed]
    assert any(not np.array_equal(counts[0], other) for other in counts[1:])
