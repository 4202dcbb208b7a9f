"""Matrices that take seconds to assemble, kept on disk between runs (see memsim.disk_cache)."""

from __future__ import annotations

import contextlib
import zipfile
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse

from memsim import disk_cache
from memsim.files import whole_file

KIND = "matrices"
MOST_BYTES = 2**29
"""Size of the folder above which matrices are deleted that were not used for longest."""


def kept(name: str, n: int, make: Callable[[int], Any]) -> Any:
    """make(n), a `scipy.sparse.csr_array`, from disk where an earlier run has kept it.

    A damaged file is replaced. Versions of what makes the matrix are part of the file's name.
    """
    folder = disk_cache.folder(KIND)
    if folder is None:
        return make(n)
    sources = [version("scikit-fem"), version("numpy"), _source()]
    path = folder / f"{disk_cache.fingerprint([name, str(n), *sources])}.npz"
    matrix = _load(path)
    if matrix is None:
        matrix = make(n)
        _save(path, matrix)
    return matrix


def _source() -> str:
    return Path(__file__).with_name("matrices.py").read_text(encoding="utf-8")


def _load(path: Path) -> Any:
    try:
        with np.load(path, allow_pickle=False) as file:
            parts = (file["data"], file["indices"], file["indptr"])
            matrix = scipy.sparse.csr_array(parts, shape=tuple(file["shape"].tolist()))
        matrix.check_format(full_check=True)
        path.touch()
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
        return None
    return matrix


def _save(path: Path, matrix: Any) -> None:
    """A folder that cannot be written is not an error: the matrix is assembled again next time."""
    arrays = {name: getattr(matrix, name) for name in ("data", "indices", "indptr")}
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        with whole_file(path) as temporary:
            np.savez(temporary, shape=np.array(matrix.shape), **arrays)
        disk_cache.shrink(path.parent, MOST_BYTES)
