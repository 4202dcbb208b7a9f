"""Reads model files in TOML: the expression, its named costs, and the kernels to measure.

name = "mine"
expression = "c_overhead + overlap(c_gmem, c_onchip, p_edge)"
nonnegative = true              # optional, true unless given
output = "f_cl_wall_time_..."   # optional: the device's wall time unless given

[costs]
c_gmem = "p_load * f_mem_access_global_float32_load"

[[measure]]
tags = ["gmem_pattern", "dtype:float32", "nelements:1048576"]
match = "superset"              # optional
gpu = ["nelements:33554432"]    # optional: replaces tags of these arguments on a GPU
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import msgspec

from calib.counting.language import parse_feature
from calib.fitting.performance_model import Model
from calib.kernels.collection import KernelCollection, MatchCondition, MeasurementKernel
from memsim.errors import MemsimError

SHIPPED = Path(__file__).parent / "models"


class ModelFileError(MemsimError):
    """A model file is missing or invalid."""


@dataclass(frozen=True, kw_only=True)
class Measurements:
    """Tags of measurement kernels and the condition by which they choose generators.

    gpu : tags that replace those of the same arguments on a GPU, which is not filled by a size that
        takes a CPU a millisecond
    """

    tags: tuple[str, ...]
    match: MatchCondition = MatchCondition.SUPERSET
    gpu: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not all(tag.partition(":")[1] for tag in self.gpu):
            raise ValueError(f"gpu holds ARGUMENT:VALUE tags only, got {list(self.gpu)}")

    def chosen(self, on_gpu: bool) -> tuple[str, ...]:
        """The tags for a device."""
        if not on_gpu:
            return self.tags
        replaced = {tag.partition(":")[0] for tag in self.gpu}
        return (*(tag for tag in self.tags if tag.partition(":")[0] not in replaced), *self.gpu)

    def kernels(self, *, on_gpu: bool = False) -> list[MeasurementKernel]:
        from calib.kernels import ALL_GENERATORS

        collection = KernelCollection(ALL_GENERATORS, generator_match_cond=self.match)
        return collection.generate_kernels(self.chosen(on_gpu))


@dataclass(frozen=True, kw_only=True)
class ModelFile:
    """The content of a model file; without an output it is the wall time of the device."""

    name: str
    expression: str
    costs: Mapping[str, str] = field(default_factory=dict)
    measure: tuple[Measurements, ...]
    output: str = ""
    nonnegative: bool = True
    description: str = ""

    def __post_init__(self) -> None:
        if not self.measure:
            raise ValueError("measure must name kernels")

    def model(self, output: str = "") -> Model:
        """The model; `output` is used if the file names none."""
        return Model(self.output or output, self.expression, costs=self.costs)

    def kernels(self, *, on_gpu: bool = False) -> list[MeasurementKernel]:
        """Every measurement kernel once, in the file's order."""
        by_name = {k.name: k for each in self.measure for k in each.kernels(on_gpu=on_gpu)}
        return list(by_name.values())


def model_names() -> list[str]:
    """The names of the shipped models."""
    return sorted(path.stem for path in SHIPPED.glob("*.toml"))


def load_model_file(name: str) -> ModelFile:
    """A shipped model by name, or a .toml file.

    Raises ModelFileError that names the file and the wrong key.
    """
    path = Path(name) if name.endswith(".toml") else SHIPPED / f"{name}.toml"
    if not name.endswith(".toml") and name not in model_names():
        raise ModelFileError(
            f"no model {name!r}: give a .toml file or one of {', '.join(model_names())}"
        )
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise ModelFileError(
            f"cannot read {path}: {getattr(error, 'strerror', None) or error}"
        ) from error
    except tomllib.TOMLDecodeError as error:
        raise ModelFileError(f"{path} is not a TOML file: {error}") from error
    try:
        return _model_file(data, path)
    except ModelFileError:
        raise
    except (MemsimError, msgspec.ValidationError) as error:
        named = ModelFileError(f"{path}: {error}")
        for note in getattr(error, "__notes__", ()):  # a caret under the error
            named.add_note(note)
        raise named from error


def _model_file(data: Mapping[str, Any], path: Path) -> ModelFile:
    _refuse_unknown(data, ModelFile, path)
    for row in data.get("measure", []):
        _refuse_unknown(row, Measurements, path)
    loaded = msgspec.convert({"name": path.stem, **data}, ModelFile)
    for name in loaded.model("f_cl_wall_time").input_features:
        parse_feature(name)
    return loaded


def _refuse_unknown(table: Any, kind: type, path: Path) -> None:
    known = [field.name for field in fields(kind)]
    for key in table if isinstance(table, dict) else ():
        if key not in known:
            raise ModelFileError(f"{path}: no key {key!r}; there are {', '.join(known)}")
