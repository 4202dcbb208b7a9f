"""A replay beside a profiler's counters from hardware, by level and, where known, by source line.

Every counter has three numbers: the replay's in memsim's own counting (`ours`), the replay's in the
counter's counting (`counted`), and the measured one. The counter's definition explains counted - ours;
counted - measured is the error of the model and of the snapshot. Launches of a kernel are averaged.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import xarray as xr

from memsim.errors import ResultError
from memsim.formats.profilers.counter_file import CounterFile, LaunchCounters, LineCounters
from memsim.latency import DRAM as MEMORY
from memsim.report.counters.definitions import DRAM, L2, LINE_COLUMNS, Counter, known
from memsim.report.launch_counts import Counts, Floats
from memsim.report.semantics import check, semantics_of
from memsim.statistics import Estimate, describe

_MOST_NAMED = 12


@dataclass(frozen=True, kw_only=True)
class Row:
    """One counter. measured : mean over n_launches;  low, high : smallest and largest of them"""

    name: str
    level: str
    what: str
    unit: str
    ours: Estimate
    counted: Estimate
    measured: float
    low: float
    high: float
    n_launches: int
    note: str

    @property
    def by_definition(self) -> float:
        """The difference that the counter's definition explains: counted - ours."""
        return self.counted.mean - self.ours.mean

    @property
    def unexplained(self) -> float:
        """The difference that remains: counted - measured."""
        return self.counted.mean - self.measured

    @property
    def error(self) -> float:
        """The unexplained difference relative to the measurement; in points where the unit is %."""
        if self.unit == "%":
            return self.unexplained
        return self.unexplained / self.measured if self.measured else math.nan


@dataclass(frozen=True, kw_only=True)
class LineRow:
    """One line of source; values : (what, ours, measured), ours NaN where no access is on the line"""

    file: str
    line: int
    source: str
    sites: tuple[str, ...]
    values: tuple[tuple[str, float, float], ...]


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """A replay and a profiler's counters of the same kernel."""

    kernel: str
    machine: str
    tool: str
    measured_kernel: str
    n_groups: int
    rows: tuple[Row, ...]
    lines: tuple[LineRow, ...]
    notes: tuple[str, ...]


def against(
    dataset: xr.Dataset, files: Sequence[CounterFile], *, kernel: str | None = None
) -> Measurement:
    """Compare the Dataset of a replay with measured counters of its kernel.

    kernel : the measured kernel's name or a part of it; by default the one named like the replay's, or the
        only one

    Raises ResultError where the kernel is missing, the files come from two tools, or the tool cannot
    measure the replay's machine.
    """
    if semantics_of(dataset) != "sector":
        raise ResultError("the replay must be counted by sectors to be compared with counters")
    tool = files[0].tool
    if any(file.tool != tool for file in files):
        raise ResultError(
            "the counters must be of one profiler, got Nsight Compute's and rocprof's"
        )
    names = tuple(dict.fromkeys(name for file in files for name in file.kernels))
    chosen = _chosen(names, str(dataset.attrs["kernel"]), kernel, files[0].path)
    launches = [one for file in files for one in file.launches if one.kernel in chosen]
    lines = [one for file in files for one in file.lines if one.kernel in chosen]
    groups = {one.n_groups for one in launches if one.n_groups}
    if len(groups) > 1:
        raise ResultError(
            f"the launches of {chosen[0]} must have one size, got {_listed(sorted(groups))} groups:"
            " keep those of one in the file"
        )
    of_groups = int(dataset.attrs["of_groups"])
    n_groups = groups.pop() if groups else of_groups
    counts = Counts(dataset, n_groups)
    check(counts.machine, tool)
    notes = [note for file in files for note in file.notes]
    if n_groups != of_groups:
        notes.append(
            f"the measured launch has {n_groups} groups, the traced one {of_groups}: the replay's counts are scaled"
        )
    rows, ignored = _rows(counts, launches, tool)
    if ignored:
        notes.append(f"without a counterpart here: {_listed(ignored)}")
    return Measurement(
        kernel=str(dataset.attrs["kernel"]),
        machine=counts.machine.title,
        tool=tool,
        measured_kernel=chosen[0] if chosen else "",
        n_groups=n_groups,
        rows=rows,
        lines=_line_rows(counts, lines),
        notes=tuple(dict.fromkeys(notes)),
    )


def _chosen(
    names: tuple[str, ...], replayed: str, requested: str | None, path: Path
) -> tuple[str, ...]:
    """The measured kernels to compare with; several signatures of one name count as one kernel."""
    if not names:
        return ()
    if requested is not None:
        matching = tuple(name for name in names if requested in (name, base_name(name)))
        matching = matching or tuple(name for name in names if requested in name)
    else:
        matching = tuple(name for name in names if base_name(name) == base_name(replayed))
        if not matching and len(names) == 1:
            matching = names
    if not matching:
        name = requested or replayed
        raise ResultError(
            f"{path} has no kernel named {name}: choose one by --kernel: {_listed(names)}"
        )
    if len({base_name(name) for name in matching}) > 1:
        raise ResultError(
            f"{path}: --kernel {requested} matches several kernels: {_listed(matching)}"
        )
    return matching


def base_name(kernel: str) -> str:
    """`spmv` of `void ns::spmv<double>(int const*, double*)`."""
    plain = re.split(r"[<(]", kernel.strip(), maxsplit=1)[0].strip()
    return re.split(r"::|\s", plain)[-1] or kernel.strip()


def _rows(
    counts: Counts, launches: Sequence[LaunchCounters], tool: str
) -> tuple[tuple[Row, ...], list[str]]:
    rows, used = [], set()
    for counter in known(tool):
        if max(counter.level, 0) >= counts.n_levels:
            continue
        if counter.level == DRAM and "FETCH_SIZE" in counter.names and counts.n_levels <= L2:
            continue
        for name in counter.names:
            values = [one.counters[name] for one in launches if name in one.counters]
            if values:
                used.add(name)
                rows.append(_row(counts, counter, name, np.array(values) * counter.factor))
    ignored = sorted({name for one in launches for name in one.counters} - used)
    return tuple(rows), ignored


def _row(counts: Counts, counter: Counter, name: str, values: Floats) -> Row:
    level = MEMORY if counter.level == DRAM else str(counts.dataset["level"].values[counter.level])
    return Row(
        name=name,
        level=level,
        what=counter.what,
        unit=counter.unit,
        ours=describe(counter.plain(counts)),
        counted=describe(counter.counted(counts)),
        measured=float(values.mean()),
        low=float(values.min()),
        high=float(values.max()),
        n_launches=len(values),
        note=counter.note,
    )


def _line_rows(counts: Counts, lines: Sequence[LineCounters]) -> tuple[LineRow, ...]:
    """Lines that occur in the replay or in the measurement, by file and line."""
    data = counts.dataset
    ours: dict[tuple[str, int], list[int]] = {}
    for i in range(data.sizes["site"]):
        key = _file_name(str(data["user_file"].values[i])), int(data["user_line"].values[i])
        if key[1] > 0:
            ours.setdefault(key, []).append(i)
    measured: dict[tuple[str, int], list[LineCounters]] = {}
    for line in lines:
        if any(line.counters.get(name) for name in LINE_COLUMNS):
            measured.setdefault((_file_name(line.file), line.line), []).append(line)
    if not measured:
        return ()
    return tuple(
        LineRow(
            file=key[0],
            line=key[1],
            source=next((one.source for one in measured.get(key, ())), ""),
            sites=tuple(str(data["site"].values[i]) for i in ours.get(key, ())),
            values=tuple(
                (what, *_values(counts, column, variable, ours.get(key, []), measured.get(key, [])))
                for column, (what, variable) in LINE_COLUMNS.items()
            ),
        )
        for key in sorted({*ours, *measured})
    )


def _values(
    counts: Counts, column: str, variable: str, sites: list[int], lines: list[LineCounters]
) -> tuple[float, float]:
    """What the sites of a line have in the launch, and what was measured of it; NaN where there is none."""
    ours = float(counts.dataset[variable].values[sites].sum()) * counts.group_factor
    measured = [one.counters[column] for one in lines if column in one.counters]
    return ours if sites else math.nan, math.fsum(measured) if measured else math.nan


def _file_name(path: str) -> str:
    return re.split(r"[/\\]", path)[-1]


def _listed(names: Sequence[object]) -> str:
    more = ", ..." if len(names) > _MOST_NAMED else ""
    return ", ".join(str(name)[:80] for name in names[:_MOST_NAMED]) + more
