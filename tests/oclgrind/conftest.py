"""Puts this folder on the path of its tests, and starts Oclgrind once for all of them."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import compared_kernels
import harness


@pytest.fixture(scope="session")
def oclgrind(tmp_path_factory: pytest.TempPathFactory) -> Iterator[harness.Oclgrind]:
    if lacks := harness.missing():
        pytest.skip(lacks)
    folder = tmp_path_factory.mktemp("oclgrind")
    process = harness.Oclgrind(harness.build_plugin(folder), folder)
    yield process
    process.close()


@pytest.fixture(scope="session")
def seen(oclgrind: harness.Oclgrind) -> Callable[[str, bool], harness.Run]:
    """seen(case, optimised): what Oclgrind saw of one of the compared kernels; run once."""

    @functools.cache
    def run(case: str, optimised: bool) -> harness.Run:
        return oclgrind.run(compared_kernels.CASES[case](), optimised=optimised)

    return run
