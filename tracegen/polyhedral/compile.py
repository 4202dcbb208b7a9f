"""The walk's hot functions: compiled as `memsim.compile` does it, and again when a source changes."""

from __future__ import annotations

import contextlib
import hashlib
from pathlib import Path
from typing import Any

from memsim import compile as memsim_compile

_SOURCES = ("arithmetic", "code", "compile", "knowledge", "patterns", "walk")


def _fingerprint() -> str:
    folder = Path(__file__).parent
    digest = hashlib.sha256()
    for name in _SOURCES:
        with contextlib.suppress(OSError):
            digest.update((folder / f"{name}.py").read_bytes())
    return digest.hexdigest()[:8]


_FINGERPRINT = _fingerprint()


def hot(function: Any) -> Any:
    """Compile a hot loop; it may not allocate."""
    return memsim_compile.hot(_marked(function))


def inner(function: Any) -> Any:
    """As `hot`, for what a hot loop calls: inlined by force."""
    return memsim_compile.inner(_marked(function))


def _marked(function: Any) -> Any:
    # numba keeps machine code by name and looks at the age of the function's own file only.
    function.__qualname__ += f"_{_FINGERPRINT}"
    return function
