"""Results on disk: netCDF-4 through h5netcdf, written whole or not at all, checked when read."""

from __future__ import annotations

import faulthandler
import itertools
import json
import os
import pickle
import signal
import warnings
from pathlib import Path
from typing import Any, Final

import numpy as np
import xarray as xr

from memsim import latency
from memsim.errors import MachineError, MemsimError, ResultError
from memsim.files import write_bytes
from memsim.machine.file import machine_from_json, machine_to_json
from memsim.machine.model import Machine
from memsim.visible import visible

SCHEMA = 1
_BOMB_BYTES, _BOMB_RATIO = 1 << 28, 2000
_MOST_S, _SLOWEST_BYTES_PER_S = 10, 1 << 20
"""Processor time that HDF5 may take to read a file; a whole one of 100 kB takes 0.1 s."""
_LONGEST_WAIT = 30
"""As many times may pass on a busy computer."""
_SOURCE_LETTERS = "\n\r\t"
ENGINE: Final = "h5netcdf"

# variable -> (dimensions, kind: i integer, f float)
_LAYOUT: dict[str, tuple[tuple[str, ...], str]] = {
    **dict.fromkeys(
        (
            *("accesses", "hits", "pending", "far_hits", "open", "likely", "doubtful"),
            *("read_bytes", "write_bytes"),
            *("dirtied_bytes", "dirty_bytes", "open_dirtied_bytes", "likely_dirtied_bytes"),
        ),
        (("trial", "level", "site"), "i"),
    ),
    "unfilled_bytes": (("trial", "level"), "i"),
    "missed_translations": (("trial", "site"), "i"),
    **dict.fromkeys(
        ("cold_misses", "capacity_misses", "conflict_misses"), (("level", "site"), "i")
    ),
    **dict.fromkeys(
        ("site_accesses", "site_lanes", "site_sectors", "site_useful_bytes", "site_lookups"),
        (("site",), "i"),
    ),
    "site_ideal_sectors": (("site",), "f"),
    "dram_latency_cycles": (("trial", "sample"), "f"),
    "dram_mean_cycles": (("trial",), "f"),
    "dram_dominant_cycles": (("trial",), "f"),
    "dram_row_hit_ratio": (("trial",), "f"),
    "dram_bytes_per_row": (("trial",), "f"),
    "dram_read_bytes": (("trial",), "i"),
    "dram_write_bytes": (("trial",), "i"),
}
_DIRTIED = ("dirtied_bytes", "open_dirtied_bytes", "likely_dirtied_bytes")
"""None exceeds those before it."""
_DIRTY = ("dirtied_bytes", "dirty_bytes", "unfilled_bytes")
_OPTIONAL = (
    *("far_hits", "open", "likely", "doubtful", "missed_translations", "site_lookups"),
    *(*_DIRTIED, "dirty_bytes", "unfilled_bytes", "dram_bytes_per_row"),
)
_COORDINATES: dict[str, tuple[str, str]] = {
    "level": ("level", "U"),
    "site": ("site", "U"),
    "array": ("site", "U"),
    "direction": ("site", "U"),
    "user_file": ("site", "U"),
    "source_line": ("site", "i"),
    "user_line": ("site", "i"),
    "itemsize_bytes": ("site", "i"),
}
_INTEGERS = ("schema", "seed", "interrupted", "traced_groups", "of_groups", "granules")
_OPTIONAL_INTEGERS = ("traced_subgroups",)
_NAMES = ("kernel", "machine")
_SOURCES = ("generated_source", "user_source")
_JSON = "_json"
"""Ends the name of an attribute that is a text in the file, and a mapping or the machine in memory."""
_MAPPINGS = ("machine", "options", "occupancy", "model_error", "provenance")
_OPTIONAL_MAPPINGS = ("arrays", "first_reads", "group_requests", "orders", "pages", "time")


def save(dataset: xr.Dataset, path: str | os.PathLike[str]) -> Path:
    """Write a result. Raises ResultError where the file cannot be written."""
    encoding = {name: {"zlib": True, "complevel": 4} for name in dataset.data_vars}
    plain = encoded(dataset)
    # In memory first: HDF5 ends the whole process where the disk is full.
    return write_bytes(path, plain.to_netcdf(None, engine=ENGINE, encoding=encoding))


def encoded(dataset: xr.Dataset) -> xr.Dataset:
    """The dataset with the attributes of a file."""
    plain = dataset.copy()
    plain.attrs = {}
    for name, value in dataset.attrs.items():
        if isinstance(value, Machine):
            plain.attrs |= {name: _storable(value.name), f"{name}{_JSON}": machine_to_json(value)}
        elif isinstance(value, dict):
            plain.attrs[f"{name}{_JSON}"] = json.dumps(value)
        else:  # HDF5 keeps neither zero bytes nor lone surrogates
            plain.attrs[name] = _storable(value)
    return plain


def _storable(value: Any) -> Any:
    return visible(value, keep=_SOURCE_LETTERS) if isinstance(value, str) else value


def load(path: str | os.PathLike[str]) -> xr.Dataset:
    """Read a result that save wrote. Raises ResultError, one line, for anything else."""
    name = os.fspath(path)
    try:
        with open(name, "rb") as file:
            file.read(1)
    except OSError as error:
        raise ResultError(f"cannot read {name}: {error.strerror or error}") from error
    try:
        dataset = _read_apart(name)
    except ResultError:
        raise
    except MemoryError as error:
        raise ResultError(f"{name} is larger than this machine's memory") from error
    except Exception as error:  # HDF5 raises whatever a damaged file leads it to
        raise ResultError(
            f"{name} is not a memsim result, or is damaged: {_line(error)}"
        ) from error
    try:
        return decoded(dataset)
    except MemsimError as error:
        raise ResultError(f"{name} is not a memsim result, or is damaged: {error}") from error


def _read(name: str) -> xr.Dataset:
    _check_size(name)
    with xr.open_dataset(name, engine=ENGINE, decode_cf=True) as opened:
        return opened.load()


def _read_apart(name: str) -> xr.Dataset:
    """Reads in a forked process: damaged files lead HDF5 into loops without end, and out of its memory."""
    if not hasattr(os, "fork"):
        return _read(name)
    limit_s = _MOST_S + os.path.getsize(name) // _SLOWEST_BYTES_PER_S
    reader, writer = os.pipe()
    with os.fdopen(reader, "rb") as returned:
        with warnings.catch_warnings():  # Python 3.12 warns where numpy has started threads
            warnings.simplefilter("ignore", DeprecationWarning)
            child = os.fork()
        if child == 0:
            try:
                faulthandler.disable()
                for number in (signal.SIGPROF, signal.SIGALRM, signal.SIGINT):
                    signal.signal(number, signal.SIG_DFL)
                signal.setitimer(signal.ITIMER_PROF, limit_s)
                signal.alarm(_LONGEST_WAIT * limit_s)
                with os.fdopen(writer, "wb") as file:
                    file.write(pickle.dumps(_read(name)))
            finally:
                os._exit(0)
        os.close(writer)
        content = returned.read()
    status = os.waitpid(child, 0)[1]
    if os.WIFSIGNALED(status):
        how = signal.Signals(os.WTERMSIG(status))
        if how == signal.SIGALRM:
            limit_s *= _LONGEST_WAIT
        is_long = how in (signal.SIGPROF, signal.SIGALRM)
        reason = f"takes more than {limit_s} s" if is_long else f"ends by {how.name}"
        raise ResultError(f"{name} is not a memsim result, or is damaged: HDF5 {reason} on it")
    dataset: xr.Dataset = pickle.loads(content) if content else _read(name)  # which raises
    return dataset


def _check_size(name: str) -> None:
    """Raises ResultError for a small file that claims to hold much, before anything is unpacked."""
    import h5py

    packed = os.path.getsize(name)
    with h5py.File(name, "r") as file:
        parts = [part for part in file.values() if isinstance(part, h5py.Dataset)]
        unpacked = sum(int(part.size or 0) * part.dtype.itemsize for part in parts)
    if unpacked > max(_BOMB_BYTES, _BOMB_RATIO * packed):
        raise ResultError(
            f"{name}: a result must not unpack to more than {_BOMB_RATIO} times its size,"
            f" got {unpacked} bytes in {packed}"
        )


def decoded(dataset: xr.Dataset) -> xr.Dataset:
    """The dataset of a file with the attributes of a result. Raises ResultError where its layout is wrong."""
    attrs = _attributes(dataset.attrs)
    for name, (dims, kind) in _LAYOUT.items():
        if name not in dataset.data_vars:
            if name in _OPTIONAL:
                continue
            raise ResultError(f"it must have the variable {name}")
        variable = dataset[name]
        if variable.dims != dims or (variable.dtype.kind != kind and variable.size):
            expected = "integers" if kind == "i" else "floats"
            raise ResultError(f"{name} must be {expected} over ({', '.join(dims)})")
        if kind == "i" and variable.size and int(variable.min()) < 0:
            raise ResultError(f"{name} must not be negative, got {int(variable.min())}")
    texts = {}
    for name, (dim, kind) in _COORDINATES.items():
        if name not in dataset.coords or dataset[name].dims != (dim,):
            raise ResultError(f"it must have the coordinate {name} over ({dim})")
        if kind == "U":
            names = [visible(str(value)) for value in dataset[name].values]
            texts[name] = (dim, np.array(names, dtype=np.str_))
        elif dataset[name].dtype.kind != "i" and dataset[name].size:
            raise ResultError(f"{name} must be integers over ({dim})")
    hits = dataset["hits"] + dataset["pending"]
    if "far_hits" in dataset and (dataset["far_hits"] > hits).any():
        raise ResultError("far_hits must not exceed hits + pending")
    if "doubtful" in dataset and (dataset["doubtful"] > hits).any():
        raise ResultError("doubtful must not exceed hits + pending")
    served = hits + dataset.get("open", 0)
    if (served > dataset["accesses"]).any():
        raise ResultError("hits + pending + open must not exceed accesses")
    if "likely" in dataset and (
        "open" not in dataset or (dataset["likely"] > dataset["open"]).any()
    ):
        raise ResultError("likely must not exceed open")
    if len({name in dataset for name in _DIRTY}) > 1:
        raise ResultError(f"it must have all of {', '.join(_DIRTY)}, or none")
    for larger, smaller in itertools.pairwise(_DIRTIED):
        if smaller in dataset and (
            larger not in dataset or (dataset[smaller] > dataset[larger]).any()
        ):
            raise ResultError(f"{smaller} must not exceed {larger}")
    for name in ("level", "site"):
        names = texts[name][1].tolist()
        if len(set(names)) != len(names):
            raise ResultError(f"{name} names must be unique")
    unknown = set(texts["direction"][1].tolist()) - {"load", "store", "atomic"}
    if unknown:
        raise ResultError(f"direction must be load, store or atomic, got {sorted(unknown)[0]!r}")
    plain = dataset.assign_coords(texts)
    plain.attrs = attrs
    latency.level_latencies_cycles(plain)
    described = {level.name for level in latency.machine_of(plain).levels}
    if "doubtful" in plain and not described.issuperset(texts["level"][1].tolist()):
        raise ResultError("doubtful needs a machine that describes every level")
    return plain


def _attributes(stored: dict[str, Any]) -> dict[str, Any]:
    """The attributes of a result, from those of a file. Raises ResultError where one is missing or wrong."""
    schema = stored.get("schema")
    if not isinstance(schema, int | np.integer):
        raise ResultError("it must have the attribute schema")
    if schema != SCHEMA:
        raise ResultError(f"schema must be {SCHEMA}, got {int(schema)}")
    attrs = dict(stored)
    for name in (*_INTEGERS, *(name for name in _OPTIONAL_INTEGERS if name in stored)):
        if not isinstance(stored.get(name), int | np.integer):
            raise ResultError(f"attribute {name} must be an integer")
        attrs[name] = int(stored[name])
    optional = (name for name in _OPTIONAL_MAPPINGS if f"{name}{_JSON}" in stored)
    documents = {f"{name}{_JSON}": name for name in (*_MAPPINGS, *optional)}
    for name in (*_NAMES, *_SOURCES, *documents):
        if not isinstance(stored.get(name), str):
            raise ResultError(f"attribute {name} must be a text")
    attrs |= {name: visible(stored[name]) for name in _NAMES}
    attrs |= {name: _storable(stored[name]) for name in _SOURCES}
    for name, mapping in documents.items():
        attrs[mapping] = _document(name, attrs.pop(name))
    try:
        machine = machine_from_json(stored["machine_json"])
        attrs["machine"] = machine.replace(name=visible(stored["machine"]))
    except MachineError as error:
        raise ResultError(f"machine_json of the result must describe a machine: {error}") from error
    return attrs


def _document(name: str, text: str) -> dict[str, Any]:
    try:
        document = json.loads(text, parse_int=_integer)
    except (ValueError, RecursionError) as error:
        raise ResultError(f"attribute {name} must be JSON") from error
    except OverflowError as error:
        raise ResultError(f"numbers of attribute {name} must be below 1.8e308") from error
    if not isinstance(document, dict):
        raise ResultError(f"attribute {name} must be a JSON object")
    return document


def _integer(digits: str) -> int:
    """Raises OverflowError for an integer that no float approximates."""
    number = int(digits)
    float(number)
    return number


def _line(error: Exception) -> str:
    first = str(error).strip().splitlines() or [""]
    return f"{first[0][:200] or type(error).__name__}"
