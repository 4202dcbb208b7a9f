"""Machine code and traces in a short notation, for tests of what connects them."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from memsim.trace import BARRIER_SITE, AccessSite, ArrayExtent
from tracegen.compiled.model import (
    BasicBlock,
    Instruction,
    Location,
    MachineCode,
    MemoryOperation,
)
from tracegen.compiled.ordering.rearrange import CompiledLaunch, Rearranged
from tracegen.probes.program import Probe
from tracegen.recording.sites import SiteMap

WORD = 4
BASE = 1 << 20


def instruction(text: str) -> Instruction:
    """`load R1 a 1:5`, `load8 R1 a 1:5`, `?load ...` under a predicate, `scalar R1 a 1:5` (a load of the
    scalar unit), `load R1 a 1:5 [R9+0x4]` (with its address), `store a 1:5 R1`, `use R1`, `barrier`, `wait 2`,
    `spill 8`, `fill R2 8`; `-` stands for an unknown array or location."""
    words = text.split()
    predicated = words[0].startswith("?")
    kind, width = re.fullmatch(r"\??([a-z]+)(\d*)", words[0]).groups()  # type: ignore[union-attr]
    size = int(width or WORD)
    common: dict[str, Any] = {"opcode": kind, "text": text, "predicated": predicated}
    if kind in ("load", "scalar", "store"):
        written = tuple(w for w in (words.pop(1),) if w != "-") if kind != "store" else ()
        array = None if words[1] == "-" else words[1]
        place = None if words[2] == "-" else Location(*map(int, words[2].split(":")))
        memory = MemoryOperation(
            space="constant" if kind == "scalar" else "global",
            direction="store" if kind == "store" else "load",
            bytes_per_item=size, array=array,
        )  # fmt: skip
        return Instruction(
            **common, pipe="scalar" if kind == "scalar" else "load_store", memory=memory,
            location=place, writes=written, reads=tuple(re.findall(r"R\d+", " ".join(words[3:]))),
        )  # fmt: skip
    if kind in ("spill", "fill"):
        direction = "store" if kind == "spill" else "load"
        memory = MemoryOperation(
            space="private", direction=direction, bytes_per_item=WORD, spill=True
        )
        common["text"] = f"[R1+{int(words[-1]):#x}]"
        return Instruction(**common, pipe="load_store", memory=memory, writes=tuple(words[1:-1]))
    if kind == "wait":
        return Instruction(**common, pipe="wait", outstanding=int(words[1]))
    return Instruction(
        **common, pipe="barrier" if kind == "barrier" else "alu", reads=tuple(words[1:])
    )


def machine_code(
    blocks: Sequence[tuple[Sequence[str], Sequence[int]]], *, private_bytes: int = 0
) -> MachineCode:
    """Code of (instructions, successors) for each block."""
    made = tuple(
        BasicBlock(
            label=f"L{k}",
            instructions=tuple(instruction(text) for text in (*texts, "jump")),
            successors=tuple(successors),
        )
        for k, (texts, successors) in enumerate(blocks)
    )
    return MachineCode(
        kernel="k", target="t", blocks=made, registers_per_item=1, private_bytes=private_bytes
    )


def probe(
    kind: str, text: str, piece: str, *, first: int = 0, last: int = 0, feeds: Iterable[int] = ()
) -> Probe:
    """The probe of the first occurrence of `array[...]` in a text."""
    if kind in ("edge", "barrier"):
        return Probe(kind, first=first, last=last)  # type: ignore[arg-type]
    start = text.index(piece)
    line = text.count("\n", 0, start) + 1
    return Probe(
        kind,  # type: ignore[arg-type]
        array=piece.partition("[")[0],
        line=line,
        span=(start, start + len(piece)),
        feeds=frozenset(feeds),
    )


def compiled(
    code: MachineCode, text: str, probes: Sequence[Probe], sizes: Mapping[int, int] | None = None
) -> CompiledLaunch:
    """A launch of that code; every access is a site of its own, named by its text."""
    is_access = [p.kind not in ("edge", "barrier") for p in probes]
    site_of, sites = [], []
    for p, own in zip(probes, is_access, strict=True):
        site_of.append(len(sites) if own else -1)
        if own:
            name = text[p.span[0] : p.span[1]] if p.span else p.array
            prefix = "store " if p.kind == "store" else ""
            sites.append(
                AccessSite(
                    name=prefix + name,
                    array=p.array,
                    direction=p.kind,  # type: ignore[arg-type]
                    itemsize_bytes=WORD,
                )
            )
    size = [(sizes or {}).get(k, WORD) if own else 0 for k, own in enumerate(is_access)]
    return CompiledLaunch(
        code, text, probes, SiteMap(tuple(sites), tuple(site_of), (0,) * len(probes), tuple(size))
    )


def rearranged(
    launch: CompiledLaunch, streams: Sequence[Sequence[tuple[int, int] | int]]
) -> Rearranged:
    """The launch's trace, from the (position, granule) of each access of each sub-group.

    A negative number stands for a barrier (see `tracegen.recording.machine_order`). Each access takes one whole
    granule.
    """
    flat = [entry for stream in streams for entry in stream]
    position = [entry if isinstance(entry, int) else entry[0] for entry in flat]
    granule = [entry[1] for entry in flat if not isinstance(entry, int)]
    n = [not isinstance(entry, int) for entry in flat]
    columns = {
        "site": np.array(position, np.int32),
        "starts_sequence": np.zeros(len(flat), np.bool_),
        "waits": np.full(len(flat), -1, np.int32),
        "lanes": np.where(n, 32, 0).astype(np.uint8),
        "granule_offset": np.cumsum([0, *n], dtype=np.int64),
        "granule": np.array(granule, np.int64),
        "byte_mask": np.full(len(granule), 0xFFFFFFFF, np.uint32),
        "lane_groups": np.full(len(granule), 15, np.uint8),
        "subgroup_offset": np.cumsum([0, *map(len, streams)], dtype=np.int64),
    }
    extent = ArrayExtent(name="a", base_bytes=BASE, size_bytes=1 << 16)
    return launch.rearranged(columns, (extent,), 32, np.arange(len(streams), dtype=np.int64))


def rows(result: Rearranged) -> list[list[tuple[str, tuple[int, ...], bool]]]:
    """For each sub-group, the (site, granules, begins a sequence) of each access."""
    columns = result.columns
    offset = columns["subgroup_offset"]
    out = []
    for begin, end in itertools.pairwise(offset):
        mine = []
        for k in range(begin, end):
            site = columns["site"][k]
            name = "barrier" if site == BARRIER_SITE else result.sites[site].name
            first, last = columns["granule_offset"][k : k + 2]
            granules = tuple(int(g) for g in columns["granule"][first:last])
            mine.append((name, granules, bool(columns["starts_sequence"][k])))
        out.append(mine)
    return out
