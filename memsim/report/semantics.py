"""How hits are counted: as memsim counts them, or as two vendors' profilers count them.

sector    The unit at a level is one of its sectors, requested by one sub-group instruction after its
          lanes were coalesced. A level's headline is its loads' ratio, (hits + pending) / accesses;
          pending sectors are shown separately, and stores and atomics have their own ratios.
nsight    What l1tex__t_sectors* and lts__t_sectors* count: 32-byte sectors, loads, stores and atomics
          together where a counter's name has no op. A pending sector is a tag hit. A store to a
          write-back L2 always hits, because nothing need be fetched for it (published reports have
          lts__t_sector_op_write_hit_rate at 98 to 103 %). This applies only to machines with
          sectors of 32 bytes.
rocprof   What TCP_TOTAL_CACHE_ACCESSES and TCC_HIT, TCC_MISS count: a look-up of a whole line in the
          L1, a request in the L2, reads, writes and atomics together; a pending line is a hit. A
          write hits if its line is cached. This applies only to machines whose L1 has no sectors.

Neither changes the simulation or the latency of a load, only what counts as a hit.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt
import xarray as xr

from memsim.errors import ResultError
from memsim.latency import machine_of
from memsim.machine.model import Machine

Semantics = Literal["sector", "nsight", "rocprof"]
SEMANTICS: tuple[Semantics, ...] = get_args(Semantics)
SECTOR_BYTES = 32
"""The unit of every sector counter of Nsight Compute."""
ATTRIBUTE = "counters"
LEGENDS: Mapping[str, str] = {
    "sector": "",
    "nsight": (
        "Counted as by Nsight Compute's l1tex and lts counters: 32-byte sectors, pending ones are hits,"
        " stores to a write-back L2 always hit, 'all' is loads, stores and atomics together."
    ),
    "rocprof": (
        "Counted as by rocprof's TCP and TCC counters: lines in the L1, requests in the L2, pending"
        " ones are hits, 'all' is reads, writes and atomics together."
    ),
}


def semantics_of(dataset: xr.Dataset) -> str:
    """How the hits of a result are counted."""
    return str(dataset.attrs.get(ATTRIBUTE, "sector"))


def recount(result: xr.Dataset, semantics: Semantics) -> xr.Dataset:
    """The Dataset of a replay, counted as another tool counts; see this module's text.

    Raises ResultError where the result is already counted otherwise than by sectors, or where
    these counters do not exist for the machine's lines and sectors.
    """
    if semantics not in SEMANTICS:
        raise ResultError(f"counters must be one of {', '.join(SEMANTICS)}, got {semantics}")
    present = semantics_of(result)
    if semantics == present:
        return result
    if present != "sector":
        raise ResultError(f"the replay is counted as {present} already, not by sectors")
    machine = machine_of(result)
    check(machine, semantics)
    dataset = result.copy()
    hits = dataset["hits"].values + dataset["pending"].values
    if semantics == "nsight":
        hits = np.where(_writes_that_hit(dataset, machine), dataset["accesses"].values, hits)
        no_misses = _writes_that_hit(dataset, machine)[0]
        for name in ("cold_misses", "capacity_misses", "conflict_misses"):
            dataset[name] = dataset[name].where(~no_misses, 0)
    dataset["hits"] = (dataset["accesses"].dims, hits)
    dataset["pending"] = dataset["pending"] * 0
    dataset.attrs = {**result.attrs, ATTRIBUTE: semantics}
    return dataset


def check(machine: Machine, semantics: Semantics) -> None:
    """Raises ResultError where these counters do not apply to the machine's caches."""
    if semantics == "nsight":
        for level in machine.levels:
            if level.sector_bytes != SECTOR_BYTES:
                raise ResultError(
                    f"counters nsight count sectors of {SECTOR_BYTES} bytes: those of {machine.name}'s"
                    f" {level.name} have {level.sector_bytes}"
                )
    if semantics == "rocprof" and machine.levels:
        first = machine.levels[0]
        if first.sector_bytes != first.line_bytes:
            raise ResultError(
                f"counters rocprof count whole lines of the L1: {machine.name}'s {first.name} has"
                f" sectors of {first.sector_bytes} bytes in lines of {first.line_bytes}"
            )


def _writes_that_hit(dataset: xr.Dataset, machine: Machine) -> npt.NDArray[np.bool_]:
    """(1, level, site): stores to write-back levels below the first."""
    keeps = {
        level.name: k > 0 and level.write_policy == "write_back"
        for k, level in enumerate(machine.levels)
    }
    levels = np.array([keeps.get(str(name), False) for name in dataset["level"].values], bool)
    stores = dataset["direction"].values.astype(str) == "store"
    return np.asarray((levels[:, None] & stores[None, :])[None])
