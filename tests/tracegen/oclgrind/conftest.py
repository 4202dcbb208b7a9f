"""Starts Oclgrind once for all tests of this folder."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator

import pytest

from tests.support.oclgrind import compared_kernels, harness


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
