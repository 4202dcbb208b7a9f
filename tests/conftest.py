"""What tests of several packages share."""

from __future__ import annotations

import gc
import os
import signal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from tests.support.command_line import RunMemsim
from tests.support.weeks import of_other_weeks

# Seldom: looking for garbage took a twentieth of the tests' time.
gc.set_threshold(50_000, 20, 50)

# A worker process of pytest-xdist inherits the width of the controller's terminal, which would
# set the width of every table.
os.environ.pop("COLUMNS", None)

# Workers of pytest-xdist share the machine already: each gets one core, so that no test starts
# processes or threads for all of them.
_worker = os.environ.get("PYTEST_XDIST_WORKER", "")
if _worker and hasattr(os, "sched_setaffinity"):
    _cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {_cores[int(_worker.removeprefix("gw")) % len(_cores)]})

# A shell ignores Ctrl-C for programs in the background; tests send it to the programs that they start.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# A slow machine must not fail a test: hypothesis sets no deadline.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """In a run of all tests, cases of other weeks are for the slow suite."""
    if all(Path(one).resolve() == Path(__file__).parent for one in config.args):
        for item in of_other_weeks(items):
            item.add_marker(pytest.mark.slow)


@pytest.fixture
def run_memsim(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> RunMemsim:
    import pyopencl  # noqa: F401  # see tracegen.own_process

    return RunMemsim(capsys, tmp_path)


@pytest.fixture(scope="session")
def context() -> Any:
    """The OpenCL context of all tests."""
    from tracegen.devices import choose

    return choose()
