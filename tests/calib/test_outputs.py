"""Every file that calib writes goes through memsim.files: a link stays a link, and a folder is refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from calib.features.table import FeatureTable
from calib.fitting.breakdown import break_down, draw
from calib.fitting.fit import fit_model
from calib.fitting.performance_model import Model
from calib.fitting.saved_model import SavedModel, save_model
from calib.history import starpu_file
from memsim.errors import ResultError
from tests.support.command_line import RunMemsim
from tests.support.kernel_matrix import KERNELS

TILED = (f"{KERNELS / 'matmul.py'}:tiled", "--set", "n=64")
PREDICT = ("predict", *TILED, "-m", "v100", "--trials", "1", "--seed", "1", "--jobs", "1")


VALUES = {"f_a": np.ones(4), "f_t": np.ones(4)}
TABLE = FeatureTable(output="f_t", kernels=tuple("abcd"), values=VALUES)
FIT = fit_model(Model("f_t", "p_a * f_a"), TABLE)


WRITERS: dict[str, Callable[[Path], object]] = {
    "m.json": lambda path: save_model(SavedModel(fit=FIT, table=TABLE), path),
    "starpu.arrakis": lambda path: starpu_file.write(
        starpu_file.StarpuModel(combinations=()), path
    ),
    "parts.svg": lambda path: draw([break_down(FIT, "k", {"f_a": 2.0})], path),
}


@pytest.mark.parametrize("name", WRITERS)
def test_functions(tmp_path: Path, name: str) -> None:
    there, link = tmp_path / f"there-{name}", tmp_path / name
    link.symlink_to(there)
    WRITERS[name](link)
    assert link.is_symlink()
    assert there.stat().st_size > 50
    there.unlink()
    there.mkdir()
    with pytest.raises(ResultError, match=f"cannot write {link}: it is a folder"):
        WRITERS[name](link)
    assert sorted(tmp_path.iterdir()) == sorted([link, there])


@pytest.mark.parametrize(
    ("words", "options"),
    [
        (PREDICT, ("json", "html", "png")),
        (("blocks", *TILED), ("json", "plot")),
        (("count", *TILED, "f_op_float32_madd"), ("json",)),
    ],
)
def test_commands(
    run_memsim: RunMemsim, tmp_path: Path, words: tuple[str, ...], options: tuple[str, ...]
) -> None:
    names = {option: "k.png" if option == "plot" else f"k.{option}" for option in options}
    outputs: list[str] = []
    for option, name in names.items():
        (tmp_path / name).symlink_to(tmp_path / f"there-{name}")
        outputs += [f"--{option}", str(tmp_path / name)]
    run_memsim(*words, *outputs)
    for name in names.values():
        assert (tmp_path / name).is_symlink()
        assert (tmp_path / f"there-{name}").stat().st_size > 50
    assert len(list(tmp_path.iterdir())) == 2 * len(names)
