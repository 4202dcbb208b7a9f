"""One survey of a small simulated CPU, which several tests look at."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from calib.probes.survey import Survey, survey
from tests.support.random_machines import MB, small_cpu
from tests.support.simulated_device import SimulatedDevice


def slow_clock(device: SimulatedDevice) -> Callable[[], float]:
    """Of a device so slow that curves have their least number of rounds."""
    return lambda: 5000 * device.clock()


@pytest.fixture(scope="session")
def made_and_said() -> tuple[Survey, tuple[str, ...]]:
    """The survey, and the names of the probes."""
    device, said = SimulatedDevice(*small_cpu(), MB, 1), list[str]()
    made = survey(device, most_bytes=MB, seed=0, clock=slow_clock(device), progress=said.append)
    return made, tuple(said)


@pytest.fixture
def surveyed(made_and_said: tuple[Survey, tuple[str, ...]]) -> Survey:
    return made_and_said[0]
