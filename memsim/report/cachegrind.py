"""A replay in cachegrind's file format, for cg_annotate, cg_diff and KCachegrind.

Events, for the traced groups, as means over orderings:

    Wait        unhidden cycles that sub-groups wait for loads and atomics (latency x accesses)
    Access      accesses of sub-groups;     Sector   32-byte sectors that they request
    Excess      sectors beyond what could carry the same bytes
    L1look, L1miss, L2look, ...   sectors looked up in a level, and missed there
    MemRd, MemWr                  bytes read from and written to main memory on behalf of the line

A site is attributed to the user's line where that is known, otherwise to its line of the generated
OpenCL, which is then written beside the file. So is a source whose path no longer exists but whose
text the trace contains. Neither replaces a file that memsim did not write.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt
import xarray as xr

from memsim.errors import ResultError
from memsim.files import write_text
from memsim.latency import load_latency_cycles, machine_of
from memsim.report.launch_counts import Counts
from memsim.visible import visible

_MARK = "// written by memsim"
"""The last line of a source that is written beside the file, by which it is known again."""


def write(dataset: xr.Dataset, path: str | os.PathLike[str]) -> list[Path]:
    """Write the file and the sources that it needs; returns them, the file first.

    Raises ResultError where one cannot be written.
    """
    target = Path(path)
    events, counts = site_events(dataset)
    files, sources = _sources(dataset, target)
    for name, content in sources.items():
        _check_ours(name, content)
    written = [
        write_text(name, f"{content.rstrip()}\n{_MARK}\n") for name, content in sources.items()
    ]
    lines = _lines_of(dataset)
    totals: dict[tuple[str, int], npt.NDArray[np.int64]] = {}
    for i in range(dataset.sizes["site"]):
        total = totals.setdefault((files[i], lines[i]), np.zeros(len(events), np.int64))
        total += counts[i]
    kernel = _plain(str(dataset.attrs["kernel"])) or "kernel"
    text = [
        f"desc: memsim: {kernel} on {_plain(machine_of(dataset).name)},"
        f" {dataset.sizes['trial']} orderings, {dataset.attrs['traced_groups']} of"
        f" {dataset.attrs['of_groups']} groups",
        f"cmd: {kernel}",
        f"events: {' '.join(events)}",
    ]
    for file in dict.fromkeys(files):
        text += [f"fl={file}", f"fn={kernel}"]
        text += [
            f"{line} {' '.join(map(str, total))}"
            for (name, line), total in sorted(totals.items(), key=lambda item: item[0][1])
            if name == file
        ]
    text.append(f"summary: {' '.join(map(str, counts.sum(axis=0)))}")
    return [write_text(target, "\n".join(text) + "\n"), *written]


def site_events(
    dataset: xr.Dataset,
) -> tuple[list[str], npt.NDArray[np.int64]]:
    """The names of the events, and their counts as (n_site, n_event) int64."""
    counted = Counts(dataset, max(int(dataset.attrs["traced_groups"]), 1))
    share = counted.site_share

    def mean(name: str, level: int) -> npt.NDArray[np.float64]:
        values = dataset[name].transpose("trial", "level", "site").values[:, level]
        return np.asarray((values / share).mean(axis=0), np.float64)

    columns = {
        "Wait": load_latency_cycles(dataset).values.mean(axis=0),
        "Access": dataset["site_accesses"].values,
        "Sector": dataset["site_sectors"].values,
        "Excess": np.maximum(
            dataset["site_sectors"].values - dataset["site_ideal_sectors"].values, 0
        ),
    }
    for k, name in enumerate(dataset["level"].values):
        requested = mean("accesses", k)
        columns[f"{name}look"] = requested
        columns[f"{name}miss"] = requested - mean("hits", k) - mean("pending", k)
    if dataset.sizes["level"]:
        columns["MemRd"] = mean("read_bytes", -1)
        columns["MemWr"] = mean("write_bytes", -1)
    table = np.stack([np.rint(np.nan_to_num(values)) for values in columns.values()], axis=1)
    return list(columns), table.astype(np.int64)


def _lines_of(dataset: xr.Dataset) -> list[int]:
    user, generated = dataset["user_line"].values, dataset["source_line"].values
    named = [bool(str(name)) for name in dataset["user_file"].values]
    return [
        max(int(u), 0) if has and u > 0 else max(int(g), 0)
        for u, g, has in zip(user, generated, named, strict=True)
    ]


def _sources(dataset: xr.Dataset, target: Path) -> tuple[list[str], Mapping[Path, str]]:
    """The file of each site, and the sources to write beside the target as path -> text."""
    beside: dict[Path, str] = {}
    files = []
    kept = str(dataset.attrs.get("user_source", ""))
    # The trace contains one source text; with several files it is unknown which one it belongs to.
    names = {str(name) for name in dataset["user_file"].values if str(name)}
    for name, line in zip(dataset["user_file"].values, dataset["user_line"].values, strict=True):
        user = _plain(str(name))
        if user and line > 0:
            if not Path(user).is_file() and kept and len(names) == 1:
                base = re.split(r"[/\\]", user)[-1]
                where = target.with_name(f"{target.name}.{base}")
                beside[where] = kept
                user = str(where)
            files.append(str(Path(user).absolute()) if Path(user).is_file() else user)
        else:
            where = target.with_name(f"{target.name}.cl")
            beside[where] = str(dataset.attrs.get("generated_source", ""))
            files.append(str(where))
    absolute = {path.absolute(): content for path, content in beside.items()}
    here = {str(path): str(path.absolute()) for path in beside}
    if target.absolute() in absolute:
        raise ResultError(f"{target} must not be the name of a source that is written beside it")
    return [here.get(file, file) for file in files], absolute


def _check_ours(path: Path, content: str) -> None:
    """Raises ResultError where a file of another's would be replaced by a source of ours."""
    try:
        with open(path, "rb") as file:
            found = file.read()
    except OSError:  # not there; writing says what else is wrong
        return
    ours = found.rstrip().endswith(_MARK.encode())
    if not ours and found.rstrip() != content.encode("utf-8", errors="replace").rstrip():
        raise ResultError(
            f"{path} must not be replaced: memsim did not write it; choose another name for the output"
        )


def _plain(text: str) -> str:
    """The text in one line of what can be printed."""
    return visible(" ".join(text.split()))
