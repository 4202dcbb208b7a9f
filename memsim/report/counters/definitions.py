"""The profilers' counters that this package knows: what each counts, in terms of a replay.

Each has two values from a replay. `plain` is the nearest quantity in memsim's own counting (`sector` in
memsim.report.semantics); `counted` is what the counter would have counted in the same replay. The
definitions explain the difference of the two; the difference between `counted` and the measurement is
the error of the model.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from memsim.report.launch_counts import Counts, Floats, ratio

Unit = Literal["sectors", "requests", "bytes", "%"]
L1, L2, DRAM = 0, 1, -1
Value = Callable[[Counts], Floats]
_LOAD, _STORE, _ATOMIC = "load", "store", "atomic"


@dataclass(frozen=True, kw_only=True)
class Counter:
    """names : what the profiler calls it, in all its versions; level : L1, L2 or DRAM
    factor : base units for one of the file's (1024 where it counts kilobytes)
    """

    names: tuple[str, ...]
    level: int
    what: str
    unit: Unit = "sectors"
    counted: Value
    plain: Value
    factor: float = 1.0
    note: str = ""


def _count(*names: str, value: Value, plain: Value | None = None, **fields: Any) -> Counter:
    """The counter whose values in either counting are the same, unless `plain` is given."""
    return Counter(names=names, counted=value, plain=plain or value, **fields)


def _accesses(level: int, *kinds: str) -> Value:
    return lambda c: c.accesses(level, *kinds)


def _served(level: int, *kinds: str) -> Value:
    return lambda c: c.served(level, *kinds)


def _missed(level: int, *kinds: str) -> Value:
    return lambda c: c.accesses(level, *kinds) - c.served(level, *kinds)


def _hit_ratio(level: int, *kinds: str) -> Value:
    return lambda c: ratio(c.served(level, *kinds), c.accesses(level, *kinds))


def _l2_hits(c: Counts) -> Floats:
    """Writes hit: nothing is fetched for them."""
    return c.served(L2, _LOAD, _ATOMIC) + c.accesses(L2, _STORE)


_WRITES_HIT = "a write always hits: nothing is fetched for it"
_ALL_UNITS = "also counts requests of other units (constants, textures, local memory)"
_ALL_KINDS = "loads, stores and atomics together; memsim's main ratio is of loads"

_GLOBAL = "l1tex__t_sectors_pipe_lsu_mem_global_op"
_REQUESTS = "l1tex__t_requests_pipe_lsu_mem_global_op"

NSIGHT: tuple[Counter, ...] = (
    _count(f"{_REQUESTS}_ld.sum", level=L1, what="load instructions of sub-groups", unit="requests",
           value=lambda c: c.static("site_accesses", c.sites(_LOAD))),
    _count(f"{_REQUESTS}_st.sum", level=L1, what="store instructions of sub-groups", unit="requests",
           value=lambda c: c.static("site_accesses", c.sites(_STORE))),
    _count(f"{_GLOBAL}_ld.sum", level=L1, what="sectors of loads", value=_accesses(L1, _LOAD)),
    _count(f"{_GLOBAL}_ld_lookup_hit.sum", level=L1, what="sectors of loads, hit",
           value=_served(L1, _LOAD), note="a pending sector is a hit"),
    _count(f"{_GLOBAL}_ld_lookup_miss.sum", level=L1, what="sectors of loads, missed",
           value=_missed(L1, _LOAD)),
    _count("l1tex__t_sector_pipe_lsu_mem_global_op_ld_hit_rate.pct", level=L1, what="load hit ratio",
           unit="%", value=_hit_ratio(L1, _LOAD)),
    _count(f"{_GLOBAL}_st.sum", level=L1, what="sectors of stores", value=_accesses(L1, _STORE)),
    _count(f"{_GLOBAL}_st_lookup_hit.sum", level=L1, what="sectors of stores, hit",
           value=_served(L1, _STORE)),
    _count("l1tex__t_sectors.sum", level=L1, what="sectors", value=_accesses(L1), note=_ALL_UNITS),
    _count("l1tex__t_sector_hit_rate.pct", "L1/TEX Hit Rate", level=L1, what="hit ratio", unit="%",
           plain=_hit_ratio(L1, _LOAD), value=_hit_ratio(L1), note=_ALL_KINDS),
    _count("l1tex__m_xbar2l1tex_read_sectors.sum", level=L1, what="sectors fetched from L2",
           value=lambda c: c.read_bytes(L1) / 32),
    _count("lts__t_sectors_op_read.sum", level=L2, what="sectors read", value=_accesses(L2, _LOAD),
           note=_ALL_UNITS),
    _count("lts__t_sectors_srcunit_tex_op_read.sum", level=L2, what="sectors read by L1",
           value=_accesses(L2, _LOAD)),
    _count("lts__t_sectors_op_read_lookup_hit.sum", "lts__t_sectors_srcunit_tex_op_read_lookup_hit.sum",
           level=L2, what="sectors read, hit", value=_served(L2, _LOAD)),
    _count("lts__t_sectors_op_read_lookup_miss.sum",
           "lts__t_sectors_srcunit_tex_op_read_lookup_miss.sum", level=L2,
           what="sectors read, missed", value=_missed(L2, _LOAD)),
    _count("lts__t_sector_op_read_hit_rate.pct", level=L2, what="read hit ratio", unit="%",
           value=_hit_ratio(L2, _LOAD)),
    _count("lts__t_sectors_op_write.sum", "lts__t_sectors_srcunit_tex_op_write.sum", level=L2,
           what="sectors written", value=_accesses(L2, _STORE)),
    _count("lts__t_sectors_op_write_lookup_hit.sum", level=L2, what="sectors written, hit",
           plain=_served(L2, _STORE), value=_accesses(L2, _STORE), note=_WRITES_HIT),
    _count("lts__t_sector_op_write_hit_rate.pct", level=L2, what="write hit ratio", unit="%",
           plain=_hit_ratio(L2, _STORE), value=lambda c: ratio(*[c.accesses(L2, _STORE)] * 2),
           note=_WRITES_HIT),
    _count("lts__t_sectors_op_atom.sum", "lts__t_sectors_op_red.sum", level=L2,
           what="sectors of atomics", value=_accesses(L2, _ATOMIC),
           note="memsim counts atom and red together"),
    _count("lts__t_sectors.sum", level=L2, what="sectors", value=_accesses(L2), note=_ALL_UNITS),
    _count("lts__t_sectors_srcunit_tex.sum", level=L2, what="sectors of L1", value=_accesses(L2)),
    _count("lts__t_sectors_srcunit_tex_lookup_hit.sum", level=L2, what="sectors of L1, hit",
           plain=_served(L2), value=_l2_hits, note=_WRITES_HIT),
    _count("lts__t_sectors_srcunit_tex_lookup_miss.sum", level=L2, what="sectors of L1, missed",
           plain=_missed(L2), value=lambda c: c.accesses(L2) - _l2_hits(c), note=_WRITES_HIT),
    _count("lts__t_sector_hit_rate.pct", "L2 Hit Rate", level=L2, what="hit ratio", unit="%",
           plain=_hit_ratio(L2, _LOAD), value=lambda c: ratio(_l2_hits(c), c.accesses(L2)),
           note=f"{_ALL_KINDS}; {_WRITES_HIT}"),
    _count("dram__bytes_read.sum", level=DRAM, what="bytes read", unit="bytes",
           value=lambda c: c.dram("dram_read_bytes")),
    _count("dram__bytes_write.sum", level=DRAM, what="bytes written", unit="bytes",
           value=lambda c: c.dram("dram_write_bytes"),
           note="lines that are dirty when the kernel ends may be written later"),
    _count("dram__sectors_read.sum", level=DRAM, what="sectors read",
           value=lambda c: c.dram("dram_read_bytes") / 32),
    _count("dram__sectors_write.sum", level=DRAM, what="sectors written",
           value=lambda c: c.dram("dram_write_bytes") / 32),
)  # fmt: skip

_ALL_TOGETHER = "reads, writes and atomics together; memsim's main ratio is of loads"
_FROM_L2 = (
    "counted where L2 requests from the fabric: more than memory traffic if a cache lies between"
)

ROCPROF: tuple[Counter, ...] = (
    _count("SQ_INSTS_VMEM_RD", level=L1, what="load instructions of sub-groups", unit="requests",
           value=lambda c: c.static("site_accesses", c.sites(_LOAD))),
    _count("SQ_INSTS_VMEM_WR", level=L1, what="store instructions of sub-groups", unit="requests",
           value=lambda c: c.static("site_accesses", c.sites(_STORE))),
    _count("TCP_TOTAL_CACHE_ACCESSES_sum", level=L1, what="lines looked up", unit="requests",
           plain=_accesses(L1, _LOAD), value=_accesses(L1), note=_ALL_TOGETHER),
    _count("TCP_TCC_READ_REQ_sum", level=L1, what="read requests to L2", unit="requests",
           value=lambda c: c.read_bytes(L1) / c.machine.levels[L1].fill_bytes),
    _count("TCP_TCC_WRITE_REQ_sum", level=L1, what="write requests to L2", unit="requests",
           value=_accesses(L2, _STORE)),
    _count("TCC_REQ_sum", level=L2, what="requests", unit="requests", value=_accesses(L2)),
    _count("TCC_READ_sum", level=L2, what="read requests", unit="requests",
           value=_accesses(L2, _LOAD)),
    _count("TCC_WRITE_sum", level=L2, what="write requests", unit="requests",
           value=_accesses(L2, _STORE)),
    _count("TCC_ATOMIC_sum", level=L2, what="atomic requests", unit="requests",
           value=_accesses(L2, _ATOMIC)),
    _count("TCC_HIT_sum", level=L2, what="requests, hit", unit="requests", plain=_served(L2, _LOAD),
           value=_served(L2), note=_ALL_TOGETHER),
    _count("TCC_MISS_sum", level=L2, what="requests, missed", unit="requests",
           plain=_missed(L2, _LOAD), value=_missed(L2), note=_ALL_TOGETHER),
    _count("L2CacheHit", level=L2, what="hit ratio", unit="%", plain=_hit_ratio(L2, _LOAD),
           value=_hit_ratio(L2), note=_ALL_TOGETHER),
    _count("TCC_EA_RDREQ_sum", level=L2, what="read requests to memory", unit="requests",
           value=lambda c: c.read_bytes(L2) / c.machine.levels[L2].fill_bytes,
           note="memsim's requests all have the size of a fill"),
    _count("TCC_EA_WRREQ_sum", level=L2, what="write requests to memory", unit="requests",
           value=lambda c: c.write_bytes(L2) / 64, note="memsim's requests all have 64 bytes"),
    _count("FETCH_SIZE", "FetchSize", level=DRAM, what="bytes read", unit="bytes", factor=1024.0,
           plain=lambda c: c.dram("dram_read_bytes"), value=lambda c: c.read_bytes(L2),
           note=_FROM_L2),
    _count("WRITE_SIZE", "WriteSize", level=DRAM, what="bytes written", unit="bytes", factor=1024.0,
           plain=lambda c: c.dram("dram_write_bytes"), value=lambda c: c.write_bytes(L2),
           note=_FROM_L2),
)  # fmt: skip

LINE_COLUMNS = {
    "L1 Tag Requests Global": ("requests", "site_accesses"),
    "L2 Theoretical Sectors Global": ("sectors", "site_sectors"),
    "L2 Theoretical Sectors Global Ideal": ("ideal sectors", "site_ideal_sectors"),
}
"""Column of a source line -> (its name in the table, variable of the result)."""


def known(tool: str) -> tuple[Counter, ...]:
    """The counters of a tool."""
    return NSIGHT if tool == "nsight" else ROCPROF
