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
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from calib.fitting.performance_model import Model
from calib.kernels.collection import KernelCollection, MatchCondition, MeasurementKernel
from memsim.errors import MemsimError

SHIPPED = Path(__file__).parent / "models"
KEYS = ("name", "description", "expression", "output", "nonnegative", "costs", "measure")


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
    except MemsimError as error:
        named = ModelFileError(f"{path}: {error}")
        for note in getattr(error, "__notes__", ()):  # a caret under the error
            named.add_note(note)
        raise named from error


def _model_file(data: Mapping[str, Any], path: Path) -> ModelFile:
    for key in data:
        if key not in KEYS:
            raise ModelFileError(f"{path}: no key {key!r}; there are {', '.join(KEYS)}")
    expression = _of(data, "expression", str, path)
    costs = _of(data, "costs", dict, path, {})
    if not all(isinstance(text, str) for text in costs.values()):
        raise ModelFileError(f"{path}: costs must be texts")
    rows = _of(data, "measure", list, path)
    if not rows:
        raise ModelFileError(f"{path}: measure must name kernels")
    loaded = ModelFile(
        name=_of(data, "name", str, path, path.stem),
        description=_of(data, "description", str, path, ""),
        expression=expression,
        costs=costs,
        output=_of(data, "output", str, path, ""),
        nonnegative=_of(data, "nonnegative", bool, path, True),
        measure=tuple(_measurements(row, path) for row in rows),
    )
    _check_features(loaded.model("f_cl_wall_time"))
    return loaded


def _measurements(row: Any, path: Path) -> Measurements:
    if not isinstance(row, dict) or set(row) - {"tags", "match", "gpu"}:
        raise ModelFileError(f"{path}: measure is [[measure]] with tags, match and gpu")
    tags, gpu = _of(row, "tags", list, path), _of(row, "gpu", list, path, [])
    if not all(isinstance(tag, str) for tag in (*tags, *gpu)):
        raise ModelFileError(f"{path}: tags must be texts")
    match = _of(row, "match", str, path, MatchCondition.SUPERSET.value)
    conditions = {condition.value: condition for condition in MatchCondition}
    if match not in conditions:
        raise ModelFileError(f"{path}: match must be one of {', '.join(conditions)}, got {match!r}")
    if not all(tag.partition(":")[1] for tag in gpu):
        raise ModelFileError(f"{path}: gpu holds ARGUMENT:VALUE tags only, got {gpu}")
    return Measurements(tags=tuple(tags), match=conditions[match], gpu=tuple(gpu))


def _check_features(model: Model) -> None:
    """Raises FeatureError for an input that is not a feature."""
    from calib.counting.language import parse_feature

    for name in model.input_features:
        parse_feature(name)


def _of(data: Mapping[str, Any], key: str, kind: type, path: Path, default: Any = None) -> Any:
    value = data.get(key, default)
    if value is None:
        raise ModelFileError(f"{path}: {key} is missing")
    if not isinstance(value, kind):
        raise ModelFileError(f"{path}: {key} must be a {kind.__name__}, got {value!r}")
    return value
