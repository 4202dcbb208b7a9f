"""What tests of calib share: an OpenCL context, and a cache that is nobody's own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tracegen.devices.choice import choose


@pytest.fixture(scope="session")
def context() -> Any:
    return choose()


@pytest.fixture(scope="session", autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MEMSIM_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        yield
