"""What tests of several packages share."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from memsim.commands.cli import main

# Tests in several processes are told of a terminal that is not theirs; tables would fit themselves to it.
os.environ.pop("COLUMNS", None)

# A busy machine is no failure: no test depends on how long something took.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")


@dataclass(frozen=True)
class Ended:
    """How a command line ended."""

    code: int
    out: str
    err: str


RunMemsim = Callable[..., Ended]


@pytest.fixture
def run_memsim(capsys: pytest.CaptureFixture[str]) -> RunMemsim:
    """Runs `memsim ARGUMENTS...` in this process."""

    def run(*arguments: str) -> Ended:
        capsys.readouterr()
        code = main(arguments)
        captured = capsys.readouterr()
        return Ended(code, captured.out, captured.err)

    return run


@pytest.fixture(scope="session")
def context() -> Any:
    """The OpenCL context of all tests."""
    from tracegen.devices import choose

    return choose()
