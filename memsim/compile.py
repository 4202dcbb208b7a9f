"""How the hot loops are compiled: one place for every option, and why."""

from __future__ import annotations

import contextlib
import hashlib
from pathlib import Path
from typing import Any

import numba as nb
import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

_INLINED_SOURCES = (
    *(
        "rng",
        "cache",
        "core_stage",
        "partitions",
        "narrow_lines",
        "shared_stage",
        "compile",
        "coalesce",
    ),
    *("formats/digits", "formats/accel_sim_tables", "formats/accel_sim_instruction"),
)


def _fingerprint() -> str:
    """Of the sources that hot loops are inlined from."""
    folder = Path(__file__).parent
    digest = hashlib.sha256()
    for name in _INLINED_SOURCES:
        with contextlib.suppress(OSError):
            digest.update((folder / f"{name}.py").read_bytes())
    return digest.hexdigest()[:8]


_FINGERPRINT = _fingerprint()

_OPTIONS: dict[str, Any] = {
    "cache": True,  # compiled once per installation
    "nogil": True,
    "error_model": "numpy",  # C division
    "boundscheck": False,  # indices are trusted; the edges of the package check them
    # No reference counts: the loops take tuples of arrays apart on every request, and counting
    # cost 900 ns a request where the work itself takes 30. So nothing here may allocate.
    "_nrt": False,
}


nth = np.uint64
"""`array[nth(i)]`, for an i that is never negative: numba then leaves out what makes array[-1] the last
element, which was a third of the time of a replay."""


def hot(function: Any) -> Any:
    """Compile a hot loop; it may not allocate."""
    return nb.njit(**_OPTIONS)(_marked(function))


def inner(function: Any) -> Any:
    """As `hot`, for what a hot loop calls: inlined by force."""
    return nb.njit(forceinline=True, **_OPTIONS)(_marked(function))


def _marked(function: Any) -> Any:
    """Compiled code is kept under the function's name, and numba looks at the age of its own file
    only, not of those that it was inlined from: so their fingerprint becomes part of the name."""
    function.__qualname__ += f"_{_FINGERPRINT}"
    return function


@intrinsic  # type: ignore[untyped-decorator]
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
