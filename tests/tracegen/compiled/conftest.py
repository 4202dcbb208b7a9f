"""The compilers' cache of these tests begins empty."""

from __future__ import annotations

from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True, scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MEMSIM_CACHE_DIR", str(tmp_path_factory.getbasetemp() / "memsim-cache"))
        yield
