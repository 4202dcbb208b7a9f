"""A capture as a file: JSON with a version, checked when it is read.

A file comes from another machine, and from anyone: its size, its names, and every number are bounded.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from experiments.hardware.capture_kernels import BENCHMARKS, check_sizes
from memsim.errors import MemsimError
from memsim.files import whole_file
from memsim.formats import LARGEST
from memsim.machine import machine_names
from memsim.report import known

SCHEMA = "memsim-capture"
VERSION = 1
MOST_BYTES = 4 << 20
MOST_ITEMS = 1000
MOST_TEXT = 1000
_COUNTERS = frozenset(name for counter in known("nsight") for name in counter.names)


@dataclass(frozen=True, kw_only=True)
class CapturedLaunch:
    """Counters of one launch, by Nsight Compute's names, in base units."""

    n_groups: int | None
    counters: Mapping[str, float]


@dataclass(frozen=True, kw_only=True)
class CapturedKernel:
    """What was measured of one benchmark: seconds of each trial, counters of each launch."""

    name: str
    sizes: Mapping[str, int]
    times_s: tuple[float, ...] = ()
    clock: str = ""
    launches: tuple[CapturedLaunch, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Capture:
    """A capture and where it is from.

    machine : the shipped machine that the device is, None where there is no file for it
    way : `opencl` or `cuda`, through which times were taken; counters are of CUDA always
    not_collected : what could not be, and why
    """

    device: str
    driver: str
    system: str
    date: str
    way: str
    is_gpu: bool
    n_cores: int
    machine: str | None
    versions: Mapping[str, str]
    kernels: tuple[CapturedKernel, ...] = ()
    not_collected: tuple[str, ...] = ()
    finished: bool = False
    path: Path = field(default_factory=Path)


def write_capture(capture: Capture) -> None:
    """Whole or not at all, to its path; raises MemsimError where that cannot be written."""
    record = {"schema": SCHEMA, "version": VERSION, **asdict(capture)}
    del record["path"]
    try:
        with whole_file(capture.path) as target:
            target.write_text(json.dumps(record, indent=1, allow_nan=False), encoding="utf-8")
    except OSError as error:
        raise MemsimError(f"{capture.path} cannot be written: {error.strerror}") from error


def read_capture(path: Path) -> Capture:
    """Raises MemsimError, naming the file and what is wrong, for anything that no capture holds."""
    try:
        with path.open("rb") as file:
            data = file.read(MOST_BYTES + 1)
        if len(data) > MOST_BYTES:
            raise MemsimError(f"must be at most {MOST_BYTES >> 20} MiB")
        return _capture(_Fields("", json.loads(data)), path)
    except OSError as error:
        raise MemsimError(f"{path}: cannot be read: {error.strerror}") from error
    except (ValueError, OverflowError, RecursionError) as error:
        raise MemsimError(f"{path}: is no JSON of numbers and texts: {error}") from None
    except MemsimError as error:  # whose words may be the file's
        raise MemsimError(f"{path}: {' '.join(str(error).split())[:300]}") from None


class _Fields:
    """An object of the file; every getter refuses what is not of its kind, and says where."""

    def __init__(self, where: str, value: Any) -> None:
        if not isinstance(value, dict):
            raise MemsimError(f"{where or 'the file'} must be an object")
        self.where, self.value = where, value

    def get(self, key: str, kind: type | tuple[type, ...], what: str) -> Any:
        value = self.value.get(key)
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            raise MemsimError(f"{self.where}{key} must be {what}, got {value!r:.60}")
        return value

    def text(self, key: str) -> str:
        value: str = self.get(key, str, "a text")
        if len(value) > MOST_TEXT or not value.isprintable():
            raise MemsimError(f"{self.where}{key} must be a line of at most {MOST_TEXT} letters")
        return value

    def items(self, key: str) -> list[Any]:
        value: list[Any] = self.get(key, list, "a list")
        if len(value) > MOST_ITEMS:
            raise MemsimError(f"{self.where}{key} must have at most {MOST_ITEMS} items")
        return value

    def objects(self, key: str) -> list[_Fields]:
        found = self.items(key)
        return [_Fields(f"{self.where}{key}[{i}].", value) for i, value in enumerate(found)]

    def texts(self, key: str) -> tuple[str, ...]:
        found = dict(enumerate(self.items(key)))
        inner = _Fields(f"{self.where}{key} ", {str(i): value for i, value in found.items()})
        return tuple(inner.text(i) for i in inner.value)

    def number(self, key: str, low: float) -> float:
        value = float(self.get(key, (int, float), "a number"))
        if not (math.isfinite(value) and low <= value <= LARGEST):
            raise MemsimError(f"{self.where}{key} must be {low:g} to {LARGEST:g}, got {value:g}")
        return value


def _capture(top: _Fields, path: Path) -> Capture:
    if top.value.get("schema") != SCHEMA:
        raise MemsimError(f"is no capture: schema must be {SCHEMA}")
    if top.value.get("version") != VERSION:
        raise MemsimError(f"version must be {VERSION}, got {top.value.get('version')!r:.40}")
    machine = top.value.get("machine")
    if machine is not None and top.text("machine") not in machine_names():
        raise MemsimError(f"machine must be a shipped one, got {machine:.60}")
    if top.text("way") not in ("opencl", "cuda"):
        raise MemsimError("way must be opencl or cuda")
    versions = _Fields("versions.", top.get("versions", dict, "an object"))
    return Capture(
        **{key: top.text(key) for key in ("device", "driver", "system", "date", "way")},
        is_gpu=top.get("is_gpu", bool, "true or false"),
        n_cores=int(top.number("n_cores", 0)),
        machine=machine,
        versions={key: versions.text(key) for key in versions.value},
        kernels=tuple(_kernel(one) for one in top.objects("kernels")),
        not_collected=top.texts("not_collected"),
        finished=top.get("finished", bool, "true or false"),
        path=path,
    )


def _kernel(one: _Fields) -> CapturedKernel:
    name = one.text("name")
    if name not in BENCHMARKS:
        raise MemsimError(f"{one.where}name must be one of {', '.join(BENCHMARKS)}, got {name:.60}")
    times = {str(i): value for i, value in enumerate(one.items("times_s"))}
    trials = _Fields(f"{one.where}times_s ", times)
    return CapturedKernel(
        name=name,
        sizes=check_sizes(name, one.get("sizes", dict, "an object")),
        times_s=tuple(trials.number(i, 1e-12) for i in times),
        clock=one.text("clock"),
        launches=tuple(_launch(launch) for launch in one.objects("launches")),
    )


def _launch(one: _Fields) -> CapturedLaunch:
    counters = _Fields(f"{one.where}counters.", one.get("counters", dict, "an object"))
    for name in counters.value:
        if name not in _COUNTERS:
            raise MemsimError(f"{one.where}counters: {name!r:.60} is no counter of Nsight's")
    n_groups = one.value.get("n_groups")
    return CapturedLaunch(
        n_groups=None if n_groups is None else int(one.number("n_groups", 1)),
        counters={name: counters.number(name, 0) for name in counters.value},
    )
