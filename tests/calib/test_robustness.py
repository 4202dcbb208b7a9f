"""Damaged saved models and cached counts, and odd words: a result, or an error of ours in one line."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from calib.commands.blocks_settings import parsed_range, settings_of_sizes
from calib.counting import feature_counts
from calib.counting.feature_counts import KernelCounts
from calib.counting.scheduled import translation_unit
from calib.features.table import FeatureTable, scale_features_by_output
from calib.fitting.breakdown import break_down
from calib.fitting.fit import fit_model
from calib.fitting.performance_model import Model
from calib.fitting.saved_model import SavedModel, load_model, save_model
from calib.kernels import ALL_GENERATORS, KernelCollection
from calib.prediction.what_if import parse
from calib.words import MOST, shown, whole
from memsim import disk_cache
from memsim.errors import MemsimError
from memsim.machine import load_machine
from tests.support import counted_kernels, mutations
from tracegen.workloads.settings import convert

pytestmark = pytest.mark.filterwarnings("ignore::loopy.diagnostic.LoopyWarning")

FEW, MANY = 100, 5000
Tried = tuple[int, int]


def tried(n: int, read: Callable[[random.Random], object]) -> Tried:
    """How many inputs were refused, and how many were used."""
    refused = 0
    for seed in range(n):
        rng = random.Random(seed)
        try:
            refused += bool(mutations.refused(lambda r=rng: read(r)))  # type: ignore[misc]
        except Exception as error:
            raise AssertionError(f"seed {seed}: {type(error).__name__}: {error}") from error
    return refused, n - refused


def damaged_models(folder: Path, n: int) -> Tried:
    model = Model("f_cl_wall_time", "p_a * f_op_float32_madd + c_b", costs={"c_b": "p_b * f_sync_kernel_launch"})  # fmt: skip
    rng = np.random.default_rng(1)
    values = {"f_op_float32_madd": 10 ** rng.uniform(5, 8, 12), "f_sync_kernel_launch": np.ones(12)}
    output = 1e-9 * values["f_op_float32_madd"] * (1 + 0.02 * rng.standard_normal(12)) + 1e-5
    table = FeatureTable(
        output=model.output,
        kernels=tuple(f"k{row}" for row in range(12)),
        values={**values, model.output: output},
        spread=0.01 * output,
    )
    fit = fit_model(model, scale_features_by_output(table))
    path = folder / "m.json"
    save_model(SavedModel(fit=fit, table=table, name="test", settings={"trials": 5}), path)
    good = path.read_text(encoding="utf-8")

    def read(rng: random.Random) -> None:
        kind = rng.randrange(3)
        if kind == 0:
            path.write_text(mutations.text(rng, good), encoding="utf-8", errors="surrogatepass")
        elif kind == 1:
            path.write_bytes(mutations.data(rng, good.encode()))
        else:
            changed = json.dumps(mutations.value(rng, json.loads(good)))
            path.write_text(changed, encoding="utf-8")
        saved = load_model(path)
        numbers = dict.fromkeys(saved.model.input_features, 1e6)
        found = break_down(saved.fit, "k", numbers)
        json.dumps(found.as_json())
        saved.fit.half_widths()

    return tried(n, read)


def damaged_counts(folder: Path, n: int) -> Tried:
    t_unit = translation_unit(counted_kernels.paper_matmul())
    key = feature_counts.fingerprint(t_unit)
    words = ("f_op_float32_madd", "f_mem_access_global", "f_sync_barrier_local", "f_thread_groups")
    counts = KernelCounts(t_unit, key)
    for word in words:
        counts.count(word, feature_counts.CountOptions())
    (path,) = (folder / "counts").iterdir()
    good = json.loads(path.read_text(encoding="utf-8"))

    def read(rng: random.Random) -> None:
        if rng.random() < 0.2:
            path.write_bytes(mutations.data(rng, json.dumps(good).encode()))
        else:
            disk_cache.save(feature_counts.KIND, key, mutations.value(rng, good["content"]))
        again = KernelCounts(t_unit, key)
        for word in words:
            count = again.count(word, feature_counts.CountOptions())
            mutations.refused(lambda c=count: c.at(n=64))  # type: ignore[misc]

    return tried(n, read)


def odd_words(n: int) -> Tried:
    v100 = load_machine("v100")
    pieces = ("registers=40", "groups_per_core=4", "l1=64KiB", "l2=1.5x", "dram=2x", "no-barriers")
    collection = KernelCollection(ALL_GENERATORS)

    def read(rng: random.Random) -> None:
        kind = rng.randrange(5)
        if kind == 0:
            parse(mutations.text(rng, ",".join(rng.sample(pieces, 2))), v100)
        elif kind == 1:
            parsed_range("--train", mutations.text(rng, "n=256:4096"))
        elif kind == 2:
            settings_of_sizes({"n": mutations.text(rng, "64:4096")})
        elif kind == 3:
            hint = rng.choice((int, float, bool, int | None))
            convert("n", mutations.text(rng, rng.choice(("128", "1.5", "yes"))), hint)
        else:
            word = mutations.text(rng, rng.choice(("n:64", "nelements:65536", "dtype:float32")))
            collection.generate_kernels(["gmem_pattern", "dtype:float32", "nelements:65536", word])

    return tried(n, read)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MEMSIM_CACHE_DIR", str(tmp_path))
    return tmp_path


def test_damaged_models(tmp_path: Path) -> None:
    refused, used = damaged_models(tmp_path, FEW)
    assert refused > FEW / 3
    assert used > 0


def test_damaged_counts(cache: Path) -> None:
    refused, used = damaged_counts(cache, FEW)
    assert refused + used == FEW


def test_odd_words() -> None:
    refused, used = odd_words(FEW)
    assert refused > FEW / 3
    assert used > 0


@pytest.mark.slow
def test_thousands(cache: Path) -> None:
    readers: dict[str, Callable[[], Tried]] = {
        "saved models": lambda: damaged_models(cache, MANY),
        "cached counts": lambda: damaged_counts(cache, MANY // 5),
        "words": lambda: odd_words(MANY),
    }
    for name, read in readers.items():
        print(f"{name}, refused and used: {read()}")


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("0", 0),
        ("007", 7),
        (str(MOST), MOST),
        (str(MOST + 1), None),
        ("9" * 5000, None),
        ("\u00b2", None),
        ("\u0663", None),
        ("", None),
        ("-1", None),
        ("1_0", None),
        (" 1", None),
    ],
)
def test_whole_numbers(text: str, number: int | None) -> None:
    assert whole(text) == number


def test_texts_in_errors() -> None:
    assert shown("n=1") == "'n=1'"
    assert shown("\x1b[31m\u202e\n") == r"'\x1b[31m\u202e\n'"
    assert len(shown("9" * 5000)) < 100


def test_what_if_words() -> None:
    v100 = load_machine("v100")
    for word in (
        "registers=\u00b2",
        "registers=" + "9" * 5000,
        "registers=0",
        "groups_per_core=-1",
    ):
        assert "must be a whole number from 1 to" in mutations.refused(
            lambda w=word: parse(w, v100)
        )  # type: ignore[misc]
    for word in ("l1=" + "9" * 5000 + "MiB", "dram=" + "9" * 400 + "x", "dram=0x", "dram=9999999x"):
        assert "no change" in mutations.refused(lambda w=word: parse(w, v100))  # type: ignore[misc]


NO_RANGES = ("1024:0", "0:8", "8:4", "1:2:3", "\u00b2:4", f"1:{'9' * 5000}", ":")


@pytest.mark.parametrize("sizes", NO_RANGES)
def test_sizes_that_are_no_range(sizes: str) -> None:
    rule = re.escape("must be NAME=LOW:HIGH with 0 < LOW <= HIGH < 2^63")
    with pytest.raises(MemsimError, match=f"--train {rule}") as caught:
        parsed_range("--train", f"n={sizes}")
    assert len(str(caught.value)) < 200
    assert "\n" not in str(caught.value)
    if sizes in (*NO_RANGES[:3], NO_RANGES[5]):
        with pytest.raises(MemsimError, match=f"--set {rule}"):
            settings_of_sizes({"n": sizes})
