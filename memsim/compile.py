"""How the hot loops are compiled: one place for every option, and why.

Compiled code is kept beside the sources, where numba checks the age of the function's own file but
not of those that it was inlined from. So what is older than any hot source is dropped first.
"""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import numba as nb
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

_HOT_SOURCES = ("rng", "cache", "core_stage", "shared_stage", "compile")

_OPTIONS: dict[str, Any] = {
    "cache": True,  # compiled once per installation
    "nogil": True,
    "error_model": "numpy",  # C division
    "boundscheck": False,  # indices are trusted; the edges of the package check them
    # No reference counts: the loops take tuples of arrays apart on every request, and counting
    # cost 900 ns a request where the work itself takes 30. So nothing here may allocate.
    "_nrt": False,
}


def drop_stale(folder: Path = Path(__file__).parent) -> list[Path]:
    """Remove compiled code that is older than one of the hot sources; returns what was removed."""
    newest = max(
        (folder / f"{name}.py").stat().st_mtime_ns
        for name in _HOT_SOURCES
        if (folder / f"{name}.py").exists()
    )
    removed = []
    for name in _HOT_SOURCES:
        for index in (folder / "__pycache__").glob(f"{name}.*.nbi"):
            with contextlib.suppress(OSError):
                if index.stat().st_mtime_ns < newest:
                    index.unlink()
                    removed.append(index)
    return removed


def hot(function: Any) -> Any:
    """Compile a hot loop; it may not allocate."""
    return nb.njit(**_OPTIONS)(function)


def inner(function: Any) -> Any:
    """As `hot`, for what a hot loop calls: inlined by force."""
    return nb.njit(forceinline=True, **_OPTIONS)(function)


@intrinsic
def prefetch(typing_context: Any, array: Any, index: Any) -> Any:
    """Ask this CPU to load array[index] into its caches; nothing else happens.

    A replay walks hundreds of streams at once, more than any CPU prefetches by itself, but it knows
    what it will need next: without this, waiting for memory was two thirds of the time.
    """

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind = signature.args[0]
        data = context.make_array(kind)(context, builder, arguments[0])
        at = cgutils.get_item_pointer(
            context, builder, kind, data, [arguments[1]], wraparound=False
        )
        byte, word = ir.IntType(8).as_pointer(), ir.IntType(32)
        function = cgutils.get_or_insert_function(
            builder.module,
            ir.FunctionType(ir.VoidType(), [byte, word, word, word]),
            "llvm.prefetch.p0i8",
        )
        for_reading, keep, data_cache = word(0), word(3), word(1)
        builder.call(function, [builder.bitcast(at, byte), for_reading, keep, data_cache])
        return context.get_dummy_value()

    return types.void(array, index), emit


drop_stale()
