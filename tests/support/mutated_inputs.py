"""Files of our own formats and of other tools, changed part by part: a reader gives a result or a MemsimError, nothing else."""

from __future__ import annotations

import copy
import gzip
import json
import lzma
import re
import shutil
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import h5py
import numpy as np

import memsim
from calib.commands.blocks_settings import parsed_range, settings_of_sizes
from calib.counting.feature_counts import KIND, CountOptions, KernelCounts, fingerprint
from calib.counting.scheduled import translation_unit
from calib.features.table import FeatureTable, scale_features_by_output
from calib.fitting.breakdown import break_down
from calib.fitting.fit import fit_model
from calib.fitting.performance_model import Model
from calib.fitting.saved_model import SavedModel, load_model, save_model
from calib.history import rows
from calib.history.answers import answer
from calib.history.exchange import from_starpu, to_starpu
from calib.history.key import Key
from calib.history.model_kinds import history_misfit, relative_speed_ups, verdicts
from calib.history.records import Sample
from calib.history.starpu_file import parse, render
from calib.history.statistics import two_modes
from calib.history.store import Store
from calib.kernels import ALL_GENERATORS, KernelCollection
from calib.prediction import what_if
from experiments.kernels.matrices import read_matrix_market
from memsim import disk_cache
from memsim.formats import launch_names, read_any
from memsim.formats.any_trace import read_counters
from memsim.formats.gpgpusim.machine import import_config
from memsim.machine.file import (
    load_machine,
    machine_from_json,
    machine_from_toml,
    machine_names,
    machine_to_json,
    machine_to_toml,
)
from memsim.machine.table import machine_rows
from memsim.montecarlo.result import Replay
from memsim.report.access_csv import site_csv
from memsim.report.cachegrind import write
from memsim.report.compare import compare
from memsim.report.compare_table import comparison_table
from memsim.report.html import comparison_page, replay_page
from memsim.report.launch_time import keep_time
from memsim.report.summary import summarise
from memsim.trace.file import _columns, _crc32, _description, read_launches
from memsim.trace.launches import Launches
from memsim.trace.model import BARRIER_SITE
from tests.support import foreign_files, mutations
from tests.support.counted_kernels import paper_matmul
from tests.support.fake_replay import fake_dataset
from tests.support.forged_traces import write_forged
from tests.support.traces import make_trace
from tracegen.workloads.settings import convert

NUMBERS = (*(0, 1, 2, 3, 31, 33, 255, 65535), (1 << 62) + 1)
NUMBERS += tuple(1 << k for k in (20, 31, 40, 57, 70))


@dataclass(frozen=True)
class Format:
    """make : writes a changed file;  use : reads it, and does what commands do with it, with `replays` also what runs
    compiled loops

    refused, accepted : the least shares of many;  n : of files in a run of all tests
    """

    name: str
    make: Callable[[Random, Path], object]
    use: Callable[[Path, bool], object]
    refused: float = 0.02
    accepted: float = 0.02
    n: int = 100


def hurt(rng: Random, data: bytes) -> bytes:
    """Bytes cut short, flipped, left out, or zero for the length of a sector."""
    if rng.random() < 0.2:
        at = rng.randrange(len(data))
        return data[:at] + bytes(512) + data[at + rng.choice((0, 512)) :]
    return mutations.data(rng, data)


@cache
def _trace() -> tuple[dict[str, Any], dict[str, Any]]:
    """The columns and the header of a good trace with barriers, atomics and several groups."""

    def accesses(s: int) -> list[Any]:
        first = [(0, [s, s + 1]), (1, [40 + s], False, [0xFF])]
        return [*first, (BARRIER_SITE, []), (2, [7]), (0, range(20, 28))]

    groups = [[accesses(4 * g + s) for s in range(2)] for g in range(3)]
    trace = make_trace(groups, ("load", "store", "atomic"), provenance={"tool": "test"})
    stored = _columns(trace)
    document = {
        "format": "memsim-trace",
        "version": 1,
        "launches": [_description(trace, stored)],
        "between": [],
    }
    return {name: np.array(column) for name, column in stored.items()}, document


def make_trace_file(rng: Random, path: Path) -> None:
    good, document = _trace()
    columns = {name: column.copy() for name, column in good.items()}
    kind = rng.random()
    if kind < 0.6:
        for _ in range(rng.choice((1, 1, 1, 2, 5))):
            _change_column(rng, columns)
    document = copy.deepcopy(document)
    document["launches"][0]["columns"] = [
        {
            "name": name,
            "shape": list(column.shape),
            "crc32": _crc32(column.reshape(-1).view(np.uint8)),
        }
        for name, column in columns.items()
    ]
    if 0.5 < kind < 0.9:
        document = mutations.value(rng, document)
    write_forged(path, {f"0.{name}": column for name, column in columns.items()}, document)
    if kind >= 0.9:
        path.write_bytes(hurt(rng, path.read_bytes()))


def _change_column(rng: Random, columns: dict[str, Any]) -> None:
    name = rng.choice(sorted(columns))
    column = columns[name]
    kind = rng.random()
    if kind < 0.1:
        columns[name] = column[: rng.randrange(len(column) + 1)].copy()
    elif kind < 0.2:
        columns[name] = np.concatenate([column, column[-2:]])
    elif kind < 0.3:
        columns[name] = rng.choice((np.sort(column), column[::-1].copy(), np.zeros_like(column)))
    elif len(column):
        at = rng.randrange(len(column))
        info = np.iinfo(column.dtype)
        near = int(column[at]) + rng.choice((-2, -1, 1, 2, 7))
        value = rng.choice((near, near, info.min, info.max, rng.choice(NUMBERS)))
        column[at] = min(max(value, info.min), info.max)


def use_trace(path: Path, replays: bool) -> None:
    launches = read_launches(path)
    if replays:
        for trace in launches.launches:
            for machine in ("v100", "c1060") if trace.subgroup_size == 32 else ("mi210",):
                memsim.replay(trace, machine, trials=2).to_json()


@cache
def _machines() -> tuple[str, ...]:
    return tuple(machine_to_toml(load_machine(name)) for name in machine_names())


def make_machine(rng: Random, path: Path) -> None:
    text = rng.choice(_machines())
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        spots = [found.span(1) for found in re.finditer(r"value = (\[[^\]]*\]|[^,}]+)", text)]
        kind = rng.random()
        if kind < 0.85 and spots:
            begin, end = rng.choice(spots)
            text = text[:begin] + _toml_value(rng, text[begin:end].strip()) + text[end:]
        elif kind < 0.95:
            lines = text.split("\n")
            lines.pop(rng.randrange(len(lines)))
            text = "\n".join(lines)
        else:
            at = rng.randrange(len(text))
            text = text[:at] + rng.choice('\0\x1b=[]"\n\u00e9') + text[at + 1 :]
    path.write_text(text, encoding="utf-8")


def _toml_value(rng: Random, old: str) -> str:
    if rng.random() < 0.4 and re.fullmatch(r"-?[0-9]+", old):
        return str(int(int(old) * rng.choice((2, 3, 0.5, 10, 1000, 1 / 3, 16))))
    others = ("true", '"x"', '""', "[1]", '"\\u001b[31m"')
    return rng.choice((*mutations.NUMBERS, *others))


def use_machine(path: Path, replays: bool) -> None:
    machine = load_machine(str(path))
    machine_rows(machine)
    assert machine_from_json(machine_to_json(machine)) == machine
    if replays:
        accesses = [(0, range(8)), (1, [40]), (0, [100, 101])]
        groups = [[[*accesses, (0, [50 * g])]] for g in range(9)]
        trace = make_trace(groups, ("load", "store"), subgroup_size=machine.subgroup_size)
        replay_page(memsim.replay(trace, machine, trials=2).dataset)


@cache
def _saved(carried: bool) -> bytes:
    """A good saved replay.

    carried : of a second launch after a first (`--carry-l2`), on a machine that has everything that a
        machine may have, with a predicted time; otherwise invented
    """
    if carried:
        machine = load_machine("a100").replace(translation=load_machine("v100").translation)
        groups = [[[(0, range(8 * g, 8 * g + 8)), (1, [4 * g])]] for g in range(64)]
        trace = make_trace(groups, ("load", "store"))
        launches = Launches(launches=(trace, trace), between=((),))
        _, after = memsim.replay_launches(launches, machine, trials=3)
        assert {"far_hits", "missed_translations"} <= set(after.dataset)
        data = keep_time(after.dataset, TIME)
    else:
        over = [{"groups_per_core": 4, "load_hit_ratio": {"L1": 0.5, "L2": None}}]
        occupancy = {"groups_per_core": 16, "limited_by": "items", "over_groups": over}
        orders = {"gty": {"L1": 0.1, "L2": None}, "lrr": {"L1": 0.5}}
        data = fake_dataset(n_trials=3, occupancy=occupancy, orders=orders)
    with tempfile.TemporaryDirectory() as folder:
        return Replay(data).save(Path(folder) / "good.nc").read_bytes()


TIME = {
    "time_s": {"mean": 1e-5, "ci95": [0.9e-5, 1.1e-5], "sigma": 1e-7},
    "binds": "latency",
    "floors_s": {"L2": 1e-6, "DRAM": 2e-6},
    "saved_without_s": {"latency": 5e-6},
    "what_if": [{"changes": "twice the L2", "time_s": 0.9e-5, "binds": "latency"}],
    "accesses": [{"site": "site0", "not_hidden": 0.5}],
    "local_share": 0.1,
    "rates": [{"name": "fma", "per_s": 1e9, "peak_per_s": 2e9, "unit": "FLOP", "at_most": True}],
    "timeline": {
        "end_cycles": 900,
        "steps": ["site0", "site1"],
        "rows": [{"name": "0", "spans": [[0, 0, 9], [-1, 9, 800], [1, 800, 900]]}],
    },
    "notes": ["caches are warm"],
}
"""A predicted time in the form of memsim.report.launch_time."""


def make_saved(rng: Random, path: Path) -> None:
    good = _saved(rng.random() < 0.5)
    if rng.random() < 0.2:
        path.write_bytes(hurt(rng, good))
        return
    path.write_bytes(good)
    with h5py.File(path, "r+") as file:
        for _ in range(rng.choice((1, 1, 2, 4))):
            _change_saved(rng, file)


def _change_saved(rng: Random, file: Any) -> None:
    kind = rng.random()
    if kind < 0.4:
        name = rng.choice(sorted(file.attrs))
        value = file.attrs[name]
        if name.endswith("_json"):
            value = json.dumps(mutations.value(rng, json.loads(value)))
        elif isinstance(value, str):
            value = rng.choice(("", "x\x1b[31m", "{", "9" * 5000))
        else:
            value = rng.choice((0, -1, 2, 1 << 40, 0.5, "x", np.zeros(3)))
        file.attrs[name] = value
    elif kind < 0.5:
        del file.attrs[rng.choice(sorted(file.attrs))]
    else:
        names = sorted(name for name in file if isinstance(file[name].shape, tuple))
        _change_variable(rng, file, rng.choice(names))


def _change_variable(rng: Random, file: Any, name: str) -> None:
    variable = file[name]
    kind = rng.random()
    if kind < 0.15:
        del file[name]
    elif kind < 0.3:
        shape = tuple(n + rng.choice((-1, 1)) for n in variable.shape)
        dtype = variable.dtype
        del file[name]
        file.create_dataset(name, shape=tuple(max(n, 0) for n in shape), dtype=dtype)
    elif kind < 0.4:
        del file[name]
        file.create_dataset(name, data=rng.choice((np.zeros(6), np.arange(6), 7)))
    elif variable.size and variable.dtype.kind in "if":
        at = tuple(rng.randrange(n) for n in variable.shape)
        whole = variable.dtype.kind == "i"
        values = (0, -1, 1, 1 << 20, 1 << 62) if whole else (0.0, -1.0, 1e300, np.nan, np.inf)
        value = rng.choice(values)
        if variable.dtype == np.float32:
            value = np.float32(min(value, 3e38))
        variable[at] = np.clip(value, *_range(variable.dtype))
    elif variable.size and variable.dtype.kind == "O":
        variable[rng.randrange(variable.size)] = rng.choice(("", "x\x1b[2J", "load", "=1"))


def _range(dtype: Any) -> tuple[Any, Any]:
    if dtype.kind == "f":
        return -np.inf, np.inf
    return np.iinfo(dtype).min, np.iinfo(dtype).max


def use_saved(path: Path, replays: bool) -> None:
    replay = Replay.load(path)
    summary = summarise(replay.dataset)
    replay.to_json()
    site_csv(summary)
    write(replay.dataset, path.parent / "cachegrind.out")
    replay.table()
    if replays:
        replay_page(replay.dataset)
        good = path.with_name("good.nc")
        good.write_bytes(_saved(False))
        other = Replay.load(good)
        comparison = compare(other.dataset, replay.dataset)
        comparison_table(comparison)
        comparison_page(comparison)


def make_damaged_trace(rng: Random, path: Path) -> None:
    columns, document = _trace()
    write_forged(path, {f"0.{name}": column for name, column in columns.items()}, document)
    path.write_bytes(hurt(rng, path.read_bytes()))


def make_damaged_replay(rng: Random, path: Path) -> None:
    path.write_bytes(hurt(rng, _saved(rng.random() < 0.5)))


LIST = "MemcpyHtoD,0x7000,256\nkernel-1.traceg\nMemcpyDtoH,0x7000,8\nkernel-1.traceg\n"
FOREIGN: dict[str, tuple[str, ...]] = {
    "k.traceg": (foreign_files.ACCEL_SIM,),
    "kernelslist.g": (LIST,),
    "k.csv": (foreign_files.CSV,),
    "kernel_1_block_0.mem": (foreign_files.PPT_GPU,),
    "raw.csv": (
        foreign_files.NSIGHT_RAW,
        foreign_files.NSIGHT_DETAILS,
        foreign_files.NSIGHT_SOURCE,
    ),
    "results.csv": (foreign_files.ROCPROF_1, foreign_files.ROCPROF_2, foreign_files.ROCPROF_3),
    "gpgpusim.config": (foreign_files.GPGPUSIM,),
}
"""File of another tool -> whole ones."""


def make_foreign(rng: Random, path: Path) -> None:
    """Cut, spliced with another file, with numbers out of range; packed now and then, and hurt after it."""
    text = rng.choice(FOREIGN[path.name])
    if rng.random() < 0.2:
        other = rng.choice(rng.choice(tuple(FOREIGN.values())))
        at, begin = rng.randrange(len(other)), rng.randrange(len(text))
        text = text[:begin] + other[at : at + 200] + text[begin:]
    if rng.random() < 0.8:
        text = mutations.text(rng, text)
    data = text.encode("utf-8", "surrogatepass")
    if rng.random() < 0.2:
        data = rng.choice((gzip.compress, lzma.compress))(data)
    path.write_bytes(mutations.data(rng, data) if rng.random() < 0.2 else data)


def use_foreign(path: Path, replays: bool) -> None:
    """Reads it. A list names a trace, which is good."""
    if path.name == "gpgpusim.config":
        machine = import_config(path).machine
        assert machine_from_toml(machine_to_toml(machine)) == machine
    elif path.name in ("raw.csv", "results.csv"):
        found = read_counters(path)
        assert found.kernels or found.notes
        measured = [*found.launches, *found.lines]
        assert all(value >= 0 for one in measured for value in one.counters.values())
    else:
        if path.name == "kernelslist.g":
            (path.parent / "kernel-1.traceg").write_text(foreign_files.ACCEL_SIM)
        _use_traces(path)


def _use_traces(path: Path) -> None:
    found = read_any(path)
    assert len(launch_names(path)) == len(found.launches)
    for trace in found.launches:
        assert int(trace.granule_offset[-1]) == trace.n_granule
        assert int(trace.subgroup_offset[-1]) == trace.n_access
        assert (trace.waits[trace.waits >= 0] < trace.n_access).all()
        assert not trace.n_access or trace.site.max() < len(trace.sites)


def make_json(rng: Random, path: Path, good: str) -> None:
    """Changed as a text, as bytes or value by value."""
    kind = rng.randrange(3)
    if kind == 0:
        path.write_text(mutations.text(rng, good), encoding="utf-8", errors="surrogatepass")
    elif kind == 1:
        path.write_bytes(mutations.data(rng, good.encode()))
    else:
        path.write_text(json.dumps(mutations.value(rng, json.loads(good))), encoding="utf-8")


@cache
def _model(folder: Path) -> str:
    """A saved model of time, fitted to twelve invented kernels."""
    model = Model("f_cl_wall_time", "p_a * f_op_float32_madd + c_b", costs={"c_b": "p_b * f_sync_kernel_launch"})  # fmt: skip
    rng = np.random.default_rng(1)
    values = {"f_op_float32_madd": 10 ** rng.uniform(5, 8, 12), "f_sync_kernel_launch": np.ones(12)}
    output = 1e-9 * values["f_op_float32_madd"] * (1 + 0.02 * rng.standard_normal(12)) + 1e-5
    names, values = tuple(f"k{row}" for row in range(12)), {**values, model.output: output}
    table = FeatureTable(output=model.output, kernels=names, values=values, spread=0.01 * output)
    fit = fit_model(model, scale_features_by_output(table))
    path = folder / "good.json"
    save_model(SavedModel(fit=fit, table=table, name="test", settings={"trials": 5}), path)
    return path.read_text(encoding="utf-8")


def use_model(path: Path, replays: bool) -> None:
    saved = load_model(path)
    numbers = dict.fromkeys(saved.model.input_features, 1e6)
    json.dumps(break_down(saved.fit, "k", numbers).as_json())
    saved.fit.half_widths()


WORDS = ("f_op_float32_madd", "f_mem_access_global", "f_sync_barrier_local", "f_thread_groups")


@cache
def _counts(folder: Path) -> tuple[Any, str, Any]:
    """A kernel, its key in the cache of counts, which MEMSIM_CACHE_DIR names, and what it holds for it."""
    t_unit = translation_unit(paper_matmul())
    key = fingerprint(t_unit)
    counts = KernelCounts(t_unit, key)
    for word in WORDS:
        counts.count(word, CountOptions())
    (kept,) = (folder / "counts").iterdir()
    return t_unit, key, json.loads(kept.read_text(encoding="utf-8"))


def make_counts(rng: Random, path: Path) -> None:
    _, key, good = _counts(path.parent)
    if rng.random() < 0.2:
        (kept,) = (path.parent / "counts").iterdir()
        kept.write_bytes(mutations.data(rng, json.dumps(good).encode()))
    else:
        disk_cache.save(KIND, key, mutations.value(rng, good["content"]))


def use_counts(path: Path, replays: bool) -> None:
    t_unit, key, _ = _counts(path.parent)
    counts = KernelCounts(t_unit, key)
    for word in WORDS:
        count = counts.count(word, CountOptions())
        mutations.refused(lambda count=count: count.at(n=64))


OPTIONS = (
    *("what-if registers=40,l2=1.5x", "what-if groups_per_core=4,l1=64KiB", "what-if dram=2x"),
    *("range n=256:4096", "sizes 64:4096", "int 128", "float 1.5", "bool yes", "optional 128"),
    *("tag n:64", "tag nelements:65536", "tag dtype:float32"),
)
"""What takes a word, and a word that it takes."""


def make_words(rng: Random, path: Path) -> None:
    kind, word = rng.choice(OPTIONS).split(maxsplit=1)
    path.write_text(f"{kind} {mutations.text(rng, word)}", "utf-8", "surrogatepass", "")


def use_words(path: Path, replays: bool) -> None:
    with path.open(encoding="utf-8", errors="surrogatepass", newline="") as file:
        kind, word = file.read().split(" ", 1)
    tags = ["gmem_pattern", "dtype:float32", "nelements:65536", word]
    hints = {"int": int, "float": float, "bool": bool, "optional": int | None}
    readers: dict[str, Callable[[], object]] = {
        "what-if": lambda: what_if.parse(word, load_machine("v100")),
        "range": lambda: parsed_range("--train", word),
        "sizes": lambda: settings_of_sizes({"n": word}),
        "tag": lambda: KernelCollection(ALL_GENERATORS).generate_kernels(tags),
    }
    readers.get(kind, lambda: convert("n", word, hints[kind]))()


@cache
def history(folder: Path) -> Path:
    """A history of a kernel on two devices, whose time is a power law of its size with an offset."""
    path = folder / "good.db"
    with Store(path, keep_samples=True) as store:
        store.add_many(history_samples())
        store.prune()  # moves the log into the file
    return path


def history_samples() -> list[Any]:
    rng, samples = np.random.default_rng(0), []
    for device in ("cpu", "gpu"):
        for k in range(8):
            size, terms = 1000 * 2**k, {"n": float(k), "m": float(k * k)}
            key = Key(kernel="gemm", device=device, driver="1", layout=k)
            times_s = 1e-6 * size**0.8 * rng.normal(1, 0.02, 12) + 1e-5
            samples += [Sample(key=key, time_s=time_s, size_bytes=size, terms=terms, at=1e9 + k) for time_s in times_s.tolist()]  # fmt: skip
    return samples


def make_history(rng: Random, path: Path) -> None:
    """Changed bytes, or cells, every second time with the checksums that someone who means harm would give them."""
    good = history(path.parent)
    _forget(path)
    kind = rng.randrange(3)
    if kind == 0:
        path.write_bytes(mutations.data(rng, good.read_bytes()))
    else:
        shutil.copy(good, path)
        mutations.cells(rng, path, _mend if kind == 1 else None)


def _forget(path: Path) -> None:
    for left in path.parent.glob(f"{path.name}*"):
        left.unlink()


def _mend(connection: Any) -> None:
    for table, columns in (("entry", rows._COLUMNS), ("sample", "entry, time_s, at")):
        for rowid, *cells in connection.execute(f"SELECT rowid, {columns} FROM {table}").fetchall():
            found = (rows.checksum(cells), rowid)
            connection.execute(f"UPDATE {table} SET sum = ? WHERE rowid = ?", found)


def use_history(path: Path, replays: bool) -> None:
    """What the commands do with a history."""
    with Store(path) as store:
        records = store.records()
        for kernel, device in sorted({(r.key.kernel, r.key.device) for r in records}):
            own = [r for r in records if (r.key.kernel, r.key.device) == (kernel, device)]
            verdicts(own)
            for record in own:
                history_misfit(record)
                list(store.samples(record.key))
            two_modes(store.samples(own[0].key))
            unseen = Key(kernel=kernel, device=device, layout=99)
            for key, size in ((own[0].key, 0), (unseen, 3000)):
                for kind in (None, "history", "power law", "power law with offset"):
                    mutations.refused(lambda k=key, s=size, m=kind: answer(store, k, size_bytes=s, kind=m))  # fmt: skip
        for kernel in sorted({r.key.kernel for r in records}):
            own = [r for r in records if r.key.kernel == kernel]
            parse(render(to_starpu(own)))
            mutations.refused(lambda own=own: relative_speed_ups(own, "cpu"))
        for sample in history_samples()[:3]:
            mutations.refused(lambda sample=sample: store.add_many([sample]))


@cache
def _starpu(folder: Path) -> str:
    with Store(history(folder)) as store:
        return render(to_starpu(store.records()))


def make_starpu(rng: Random, path: Path) -> None:
    path.write_text(mutations.text(rng, _starpu(path.parent)), "utf-8", "surrogatepass", "")


def use_starpu(path: Path, replays: bool) -> None:
    with path.open(encoding="utf-8", errors="surrogatepass", newline="") as file:
        records = from_starpu(parse(file.read(), path.name), "gemm", "host", 1e9)
    imported = path.with_name("imported.db")
    _forget(imported)
    with Store(imported) as store:
        store.put(records)
    use_history(imported, replays)


HEAD = "%%MatrixMarket matrix coordinate"
MATRICES = (
    f"{HEAD} real general\n% c\n4 4 5\n1 1 1.5\n2 2 -2\n3 3 1e3\n4 4 7\n1 4 .25\n",
    f"{HEAD} pattern symmetric\n3 3 3\n1 1\n2 1\n3 2\n",
    f"{HEAD} complex hermitian\n2 2 2\n1 1 1 0\n2 1 1 -2\n",
    f"{HEAD} integer skew-symmetric\n3 3 2\n2 1 4\n3 2 -5\n",
    "%%MatrixMarket matrix array real general\n2 2\n1\n2\n3\n4\n",
)


def make_matrix(rng: Random, path: Path) -> None:
    good = rng.choice(MATRICES)
    if rng.random() < 0.5:
        path.write_text(mutations.text(rng, good), encoding="utf-8", errors="replace")
    else:
        path.write_bytes(mutations.data(rng, good.encode()))


NAMED = {
    "raw.csv": r"raw\.csv",
    "results.csv": r"results\.csv",
    "gpgpusim.config": r"gpgpusim\.config",
    "m.toml": r"m\.toml:\d+: .",
}
"""Files that their refusals name, and how."""
FORMATS = (
    *(Format(name, make_foreign, use_foreign) for name in FOREIGN),
    Format("k.trace", make_trace_file, use_trace, n=40),
    Format("m.toml", make_machine, use_machine, n=40),
    Format("k.nc", make_saved, use_saved, n=8),
    Format("damaged.trace", make_damaged_trace, use_trace, accepted=0, n=40),
    Format("damaged.nc", make_damaged_replay, use_saved, accepted=0, n=6),
    Format(
        "model.json",
        lambda rng, path: make_json(rng, path, _model(path.parent)),
        use_model,
        refused=1 / 3,
    ),
    Format("counts.json", make_counts, use_counts, refused=0, n=30),
    Format("words.txt", make_words, use_words, refused=1 / 3),
    Format("history.db", make_history, use_history, refused=1 / 3, n=30),
    Format("gemm.host", make_starpu, use_starpu, refused=1 / 4, n=30),
    Format("a.mtx", make_matrix, lambda path, replays: read_matrix_market(path), refused=1 / 2),
)


def check(chosen: Format, seed: int, folder: Path, *, replays: bool) -> bool:
    """Whether the changed file of a seed was accepted; raises what a reader lets through."""
    path = folder / chosen.name
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        chosen.make(Random(seed), path)
        why = mutations.refused(lambda: chosen.use(path, replays))
    assert not why or re.search(NAMED.get(chosen.name, ""), why), why
    return not why
