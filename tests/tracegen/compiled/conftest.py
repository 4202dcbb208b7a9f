"""The compilers' cache of these tests begins empty, but for the built-in functions, whose key names all code that makes them."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator

import pytest

from memsim import disk_cache
from tracegen.tools.cache import KIND


@pytest.fixture(autouse=True, scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    kept = disk_cache.folder(KIND)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MEMSIM_CACHE_DIR", str(tmp_path_factory.getbasetemp() / "memsim-cache"))
        folder = disk_cache.folder(KIND)
        folder.mkdir(parents=True, exist_ok=True)
        for library in kept.glob("*.bc") if kept else ():
            if not (folder / library.name).exists():
                with contextlib.suppress(OSError):  # another process may delete it
                    shutil.copy2(library, folder)
        yield
