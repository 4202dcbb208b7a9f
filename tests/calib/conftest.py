"""The tests of calib use a cache folder of their own, never the user's."""

from __future__ import annotations

from collections.abc import Iterator

import pytest


@pytest.fixture(scope="session", autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MEMSIM_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        yield
