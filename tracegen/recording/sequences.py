"""Redundant accesses, which a compiler would drop, as the keys of accesses and what makes them unknown.

Two loads of one array by the same C text count once if the address is the same and there is no store to
that array, no barrier and no back-edge that could change the text's value in between. A store makes its
own value known. Local optimisers do this; no further optimisation is assumed.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from tracegen.c_source.expressions import names_in
from tracegen.probes.program import Probe

Key = tuple[str, str, str]


def keys(probes: Sequence[Probe]) -> list[int]:
    """The key of each position; -1 for those that are neither dropped nor remembered."""
    numbers: dict[Key, int] = {}
    result = []
    for probe in probes:
        if probe.kind in ("load", "store"):
            result.append(numbers.setdefault((probe.array, probe.index, probe.part), len(numbers)))
        else:
            result.append(-1)
    return result


def kills(probes: Sequence[Probe]) -> list[list[int]]:
    """The keys that each position makes unknown to the lanes that pass it."""
    first: dict[int, Probe] = {}
    for key, probe in zip(keys(probes), probes, strict=True):
        if key >= 0:
            first.setdefault(key, probe)
    result = []
    for probe in probes:
        if probe.kind == "edge":
            changed = probe.assigned | {probe.index}
            result.append([k for k, p in first.items() if p.gathers or names_in(p.index) & changed])
        elif probe.kind in ("store", "atomic"):
            changed = probe.aliases | {probe.array}
            result.append([k for k, p in first.items() if p.array in changed])
        else:
            result.append([])
    return result


def ragged(
    rows: Sequence[Sequence[int]],
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int32]]:
    """Offsets and flat values."""
    offset = np.zeros(len(rows) + 1, np.int64)
    np.cumsum([len(row) for row in rows], out=offset[1:])
    return offset, np.array([value for row in rows for value in row], np.int32)
