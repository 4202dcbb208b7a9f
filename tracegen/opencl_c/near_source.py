"""The OpenCL C that checks accesses through pointers to local, private and constant memory."""

from __future__ import annotations

from collections.abc import Sequence

from tracegen.opencl_c.near_arrays import NearArray
from tracegen.opencl_c.near_pointers import Guard
from tracegen.opencl_c.probe_source import ASTRAY, table

# `near` holds the addresses of the arrays. Until an array is declared, that of unused memory stands there,
# which is also what an access reaches that lies in none of its arrays.
_ASTRAY = f"""\
static inline int _tg_astray(_tg_state *tg, ulong address, ulong size, ulong arrays, uint guard)
{{
#ifndef TG_TRUSTED
  ulong first = 0, seen = 0;
  for (uint k = 0; k < TG_NEARS; ++k)
  {{
    if (!(arrays >> k & 1))
      continue;
    ulong offset = address - tg->near[k];
    if (offset < _tg_near_bytes[k] && size <= _tg_near_bytes[k] - offset)
      return 0;
    first = seen++ ? first : offset;
  }}
  _tg_wrong(tg, {ASTRAY}, guard, first, 0);
  return 1;
#else
  return 0;
#endif
}}
static inline size_t _tg_keep(_tg_state *tg, uint array, const volatile void *place)
{{
  tg->near[array] = (ulong) (size_t) place;
  return 0;
}}
"""
_SPARE = {
    "local": "tg->spare_local",
    "private": "tg->spare_private",
    "constant": "_tg_spare_constant",
}


def near_head(arrays: Sequence[NearArray], guards: Sequence[Guard]) -> str:
    """What stands before a program with guards. arrays : those that they may reach, by number"""
    lines = [table("ulong", "_tg_near_bytes", [array.size_bytes for array in arrays]), _ASTRAY]
    largest = _largest(guards)
    if "constant" in largest:
        lines += [
            f"__constant ulong16 _tg_spare_constant[{_vectors(largest['constant'])}] = {{ 0 }};"
        ]
    for space in largest:
        to = f"__{space} char *"
        lines += [
            f"static inline {to}_tg_near_{space}(_tg_state *tg, const volatile __{space} void *pointer,",
            "  ulong size, ulong arrays, uint guard)",
            "{",
            "  return _tg_astray(tg, (ulong) (size_t) pointer, size, arrays, guard)",
            f"    ? ({to}) {_SPARE[space]} : ({to}) pointer;",
            "}",
            f"static inline const volatile __{space} void *_tg_moved_{space}(long by,",
            f"  const volatile __{space} void *pointer, long stride)",
            "{",
            f"  return (const volatile __{space} char *) pointer + by * stride;",
            "}",
        ]
    return "\n".join([*lines, ""])


def near_begin(arrays: Sequence[NearArray], guards: Sequence[Guard]) -> str:
    """What a kernel begins with: memory for wrong accesses, and the arrays that are there already."""
    lines = []
    for space, size_bytes in _largest(guards).items():
        if space != "constant":
            kind = "__local ulong16" if space == "local" else "ulong16"
            lines.append(f"  {kind} _tg_spare_{space}[{_vectors(size_bytes)}];")
            lines.append(f"  _tg->spare_{space} = (__{space} char *) _tg_spare_{space};")
    for number, array in enumerate(arrays):
        spare = f" _tg->near[{number}] = (ulong) (size_t) _tg_spare_{array.space};"
        lines.append(array.announcement(number) if array.announced is None else spare)
    return "\n".join([*lines, ""])


def _largest(guards: Sequence[Guard]) -> dict[str, int]:
    """Kind of memory -> bytes of the largest access to it that is checked."""
    largest: dict[str, int] = {}
    for guard in guards:
        largest[guard.space] = max(guard.size_bytes, largest.get(guard.space, 0))
    return largest


def _vectors(size_bytes: int) -> int:
    return -(-size_bytes // 128)
