"""A trace as CSV, for tools without a reader here.

One row per access of one sub-group, in program order; the rows of a sub-group are consecutive:

    # kernel = gather
    # group_items = 64
    group,subgroup,site,direction,bytes,mask,addresses
    0,0,table[index[i]],load,4,ffffffff,0x1000+4
    0,0,out[i],store,4,0000000f,0x2000 0x2004 0x2008 0x200c
    0,1,,barrier,,,

- `group`, `subgroup`: numbers from 0, the latter within the group.
- `site`: the access' name in the source; quoted where it has a comma.
- `direction`: load, store, atomic, or barrier (the rest is then empty).
- `bytes`: of one lane, 1 to 128; the same in all rows of a site.
- `mask`: active lanes, hexadecimal, lane 0 the lowest bit; empty for as many lanes as addresses.
- `addresses`: bytes, hexadecimal with 0x or decimal, one for each active lane, separated by
  blanks; or `base+stride`, in lanes from the first active one.

Lines `# name = value` before the first row may set `kernel`, `subgroup_size` (32; 64 where a mask
has more lanes), `n_groups` (of the launch, where the file holds a part), `group_items`,
`local_memory_bytes` and `registers_per_item`. Any other such line is a comment.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from pathlib import Path

from memsim.errors import TraceError
from memsim.formats.builder import MAX_LANE_BYTES, TraceBuilder, name_arrays
from memsim.formats.text import Text
from memsim.trace.model import DIRECTIONS, Launch, Trace

COLUMNS = ("group", "subgroup", "site", "direction", "bytes", "mask", "addresses")
_SETTINGS = ("subgroup_size", "n_groups", "group_items", "local_memory_bytes", "registers_per_item")
_MOST_GROUPS = (1 << 31) - 1
_MOST_SUBGROUPS = 1 << 16
_MOST_NAME = 1 << 12


def read(path: Path) -> Trace:
    """Raises TraceError, with file and line, where a row breaks the rules above."""
    with Text(path) as text:
        reader = _CsvTraceReader(text)
        try:
            reader.rows()
            return reader.trace()
        finally:
            reader.builder.columns.close()


class _CsvTraceReader:
    def __init__(self, text: Text) -> None:
        self.text = text
        self.builder = TraceBuilder()
        self.kernel = text.path.name
        self.settings: dict[str, int] = {}
        self.has_columns = False
        self.widest = 32
        self.last_group = 0
        self.subgroups = 0

    def rows(self) -> None:
        present = None
        for row in csv.reader(self._lines(), strict=True):
            if not row:
                continue
            if not self.has_columns:
                if tuple(cell.strip() for cell in row) != COLUMNS:
                    raise TraceError(f"the first row must be {','.join(COLUMNS)}")
                self.has_columns = True
                continue
            if len(row) != len(COLUMNS):
                raise TraceError(f"a row must have {len(COLUMNS)} columns, got {len(row)}")
            group = _number("group", row[0], 0, _MOST_GROUPS - 1)
            subgroup = _number("subgroup", row[1], 0, _MOST_SUBGROUPS - 1)
            if (group, subgroup) != present:
                self.builder.begin_subgroup(group, subgroup)
                present = (group, subgroup)
                self.last_group = max(self.last_group, group)
                self.subgroups = max(self.subgroups, subgroup + 1)
            self._access(row)
        if not self.has_columns:
            raise TraceError(f"the first row must be {','.join(COLUMNS)}")

    def _access(self, row: list[str]) -> None:
        name, direction = row[2].strip(), row[3].strip()
        if direction == "barrier":
            if "".join(row[4:]).strip():
                raise TraceError("a barrier has neither bytes nor addresses")
            self.builder.barrier()
            return
        known = next((one for one in DIRECTIONS if one == direction), None)
        if known is None:
            raise TraceError(
                f"direction must be load, store, atomic or barrier, got {direction[:72]!r}"
            )
        if not 0 < len(name) <= _MOST_NAME:
            raise TraceError(f"site must be a name of 1 to {_MOST_NAME} letters")
        site = self.builder.site(name, known, _number("bytes", row[4], 1, MAX_LANE_BYTES))
        lanes, addresses = _addresses(row[5].strip(), row[6].strip())
        if lanes[-1] >= self.widest:
            self.widest = 64
        self.builder.access(site, lanes, addresses)

    def trace(self) -> Trace:
        arrays = name_arrays(self.builder.sites.values())
        width = self.settings.get("subgroup_size", self.widest)
        if width < self.widest:
            raise TraceError(f"subgroup_size is {width}, but a mask has lane 32 or above")
        n_groups = self.settings.get("n_groups", self.last_group + 1)
        if n_groups <= self.last_group:
            raise TraceError(f"n_groups must be above every group, got {n_groups}")
        launch = Launch(
            kernel=self.kernel,
            n_groups=n_groups,
            group_items=self.settings.get("group_items", self.subgroups * width),
            local_memory_bytes=self.settings.get("local_memory_bytes", 0),
            registers_per_item=self.settings.get("registers_per_item"),
        )
        return self.builder.trace(
            launch=launch,
            subgroup_size=width,
            arrays=arrays,
            provenance={"format": "csv", "file": self.text.path.name},
        )

    def _lines(self) -> Iterator[str]:
        for line in self.text.decoded():
            if not line.startswith("#"):
                yield line
            elif not self.builder.keys:
                self._setting(line)

    def _setting(self, line: str) -> None:
        name, _, value = line.lstrip("# ").partition("=")
        name, value = name.strip(), value.strip()
        if name == "kernel" and value:
            self.kernel = value[:_MOST_NAME]
        elif name in _SETTINGS:
            least = 0 if name == "local_memory_bytes" else 1
            most = _MOST_GROUPS if name == "n_groups" else 1 << 26
            self.settings[name] = _number(name, value, least, most)


def _addresses(mask: str, text: str) -> tuple[list[int], list[int]]:
    """(active lanes, their addresses)."""
    base, plus, stride = text.partition("+")
    words = text.split(maxsplit=65)
    if mask:
        if not re.fullmatch(r"(0[xX])?[0-9a-fA-F]{1,16}", mask):
            raise TraceError(f"mask must be up to 64 bits in hexadecimal, got {mask[:72]!r}")
        bits = int(mask, 16)
        lanes = [lane for lane in range(64) if bits >> lane & 1]
        if not lanes:
            raise TraceError("mask must have an active lane")
    elif plus:
        raise TraceError("addresses as base+stride need a mask")
    else:
        lanes = list(range(len(words)))
    if plus:
        first, step = _address(base.strip()), _address(stride.strip())
        return lanes, [first + step * (lane - lanes[0]) for lane in lanes]
    if len(words) != len(lanes) or not 0 < len(words) <= 64:
        raise TraceError(
            f"there must be an address for each of {len(lanes)} active lanes, got {len(words)}"
        )
    return lanes, [_address(word) for word in words]


def _address(text: str) -> int:
    if re.fullmatch(r"0[xX][0-9a-fA-F]{1,16}", text):
        return int(text, 16)
    if re.fullmatch(r"-?[0-9]{1,18}", text):
        return int(text)
    raise TraceError(f"an address must be a number of bytes, got {text[:72]!r}")


def _number(name: str, text: str, least: int, most: int) -> int:
    value = int(text) if re.fullmatch(r"\s*[0-9]{1,18}\s*", text) else -1
    if not least <= value <= most:
        raise TraceError(f"{name} must be {least} to {most}, got {text[:72]!r}")
    return value
