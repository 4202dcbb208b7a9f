"""The tables that the merge reads, with what makes accesses redundant.

Two loads of one array by the same C text count once if the address is the same and there is no store to
that array, no barrier and no back-edge that could change the text's value in between. A store makes its
own value known. Local optimisers do this; no further optimisation is assumed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tracegen.instrumented.probes import Probe
from tracegen.instrumented.statements import names_in

LOAD, STORE, ATOMIC, EDGE, BARRIER = range(5)
_KINDS = {"load": LOAD, "store": STORE, "atomic": ATOMIC, "edge": EDGE, "barrier": BARRIER}


class ProbeTables(NamedTuple):
    """What the merge reads of each position. Ragged lists are a flat array and offsets.

    The address of an access is base + index * stride, and it accesses `size` bytes.
    key : accesses of one key compute one address from one text; -1 where no key is tracked
    kill : the keys that a back-edge or a store makes unknown
    feed : the sites whose latest value a position needs before it is issued
    """

    kind: npt.NDArray[np.uint8]
    site: npt.NDArray[np.int32]
    base: npt.NDArray[np.int64]
    stride: npt.NDArray[np.int64]
    size: npt.NDArray[np.int64]
    key: npt.NDArray[np.int32]
    kill_offset: npt.NDArray[np.int64]
    kill: npt.NDArray[np.int32]
    feed_offset: npt.NDArray[np.int64]
    feed: npt.NDArray[np.int32]
    n_key: int
    n_site: int
    most_granules: int


def tables(
    probes: Sequence[Probe],
    site_of: Sequence[int],
    parts: Sequence[tuple[int, int]],
    bases: Mapping[str, int],
    element_bytes: Mapping[str, int],
) -> ProbeTables:
    """site_of : the site of each position;  parts : its byte offset in its element, and its bytes"""
    key = keys(probes)
    kill_offset, kill = _ragged(kills(probes))
    feed_offset, feed = _ragged([sorted({site_of[f] for f in probe.feeds}) for probe in probes])
    strides = [element_bytes.get(probe.array, 0) for probe in probes]
    bytes_of = zip(parts, strides, strict=True)
    granules = [_most_granules(size, stride) for (_, size), stride in bytes_of if size]
    base = [
        bases.get(probe.array, 0) + offset for probe, (offset, _) in zip(probes, parts, strict=True)
    ]
    return ProbeTables(
        kind=np.array([_KINDS[probe.kind] for probe in probes], np.uint8),
        site=np.array(site_of, np.int32),
        base=np.array(base, np.int64),
        stride=np.array(strides, np.int64),
        size=np.array([size for _, size in parts], np.int64),
        key=np.array(key, np.int32),
        kill_offset=kill_offset,
        kill=kill,
        feed_offset=feed_offset,
        feed=feed,
        n_key=max(key, default=-1) + 1,
        n_site=max(site_of, default=-1) + 1,
        most_granules=max(granules, default=1),
    )


def _most_granules(size: int, stride: int) -> int:
    """The most granules that one lane's access touches; arrays are 256-byte aligned."""
    aligned = stride % size == 0 and (32 % size == 0 or size % 32 == 0)
    return -(-size // 32) if aligned else (size + 62) // 32


def keys(probes: Sequence[Probe]) -> list[int]:
    """The key of each position; -1 for those that are neither dropped nor remembered."""
    numbers: dict[tuple[str, str, str], int] = {}
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
            result.append([k for k, p in first.items() if p.array == probe.array])
        else:
            result.append([])
    return result


def _ragged(
    rows: Sequence[Sequence[int]],
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int32]]:
    """Offsets and flat values."""
    offset = np.zeros(len(rows) + 1, np.int64)
    np.cumsum([len(row) for row in rows], out=offset[1:])
    return offset, np.array([value for row in rows for value in row], np.int32)
