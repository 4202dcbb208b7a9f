"""A fitted model as a JSON file: the model, its parameters, how well they are known, and whence."""

from __future__ import annotations

import datetime
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from calib.features.table import FeatureTable
from calib.fitting.fit import Fit
from calib.fitting.performance_model import Model
from memsim.errors import MemsimError
from memsim.files import whole_file

FORMAT = "memsim-fitted-model"
VERSION = 1
MAX_BYTES = 64 * 2**20


class SavedModelError(MemsimError):
    """A file is no fitted model, or one of a version that is not understood."""


@dataclass(frozen=True, kw_only=True)
class SavedModel:
    """What a file holds.

    name : the model's; "" where it has none
    device, driver : of the timings; date : ISO, when they were taken
    table : the feature values that it was fitted to, unscaled
    settings : whatever else the calibration wants remembered: trials, statistic, tags
    """

    fit: Fit
    table: FeatureTable
    name: str = ""
    device: str = ""
    driver: str = ""
    date: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def model(self) -> Model:
        return self.fit.model


def now() -> str:
    """The date and time, UTC, as files keep it."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


def save_model(saved: SavedModel, path: Path) -> None:
    """Writes the file, whole or not at all."""
    from memsim import __version__

    fit, model, table = saved.fit, saved.model, saved.table.unscaled()
    text = json.dumps(
        {
            "format": FORMAT,
            "version": VERSION,
            "model": {
                "name": saved.name,
                "output": model.output,
                "expression": model.expression,
                "costs": dict(model.costs),
            },
            "fit": {
                "parameters": dict(fit.parameters),
                "covariance": [[_finite(x) for x in row] for row in fit.covariance.tolist()],
                "residual_norm": fit.residual_norm,
                "degrees_of_freedom": fit.degrees_of_freedom,
                "relative": fit.relative,
                "at_bound": list(fit.at_bound),
                "indistinct": [list(group) for group in fit.indistinct],
                "errors": fit.errors.tolist(),
            },
            "provenance": {
                "device": saved.device,
                "driver": saved.driver,
                "date": saved.date,
                "memsim": __version__,
                "settings": dict(saved.settings),
            },
            "data": {
                "kernels": list(table.kernels),
                "values": {name: column.tolist() for name, column in table.values.items()},
                "spread": None if table.spread is None else table.spread.tolist(),
            },
        },
        indent=1,
        allow_nan=False,
    )
    with whole_file(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def load_model(path: Path) -> SavedModel:
    """Reads a file of `save_model`.

    Raises SavedModelError, naming the file and what is wrong with it.
    """
    try:
        if path.stat().st_size > MAX_BYTES:
            raise SavedModelError(f"{path} is larger than any fitted model")
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise SavedModelError(f"cannot read {path}: {error}") from error
    except (json.JSONDecodeError, RecursionError) as error:
        raise SavedModelError(f"{path} is no JSON: {error}") from error
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise SavedModelError(f"{path} is no fitted model of 'memsim calibrate'")
    if data.get("version") != VERSION:
        raise SavedModelError(
            f"{path} has version {data.get('version')}, this memsim reads {VERSION}"
        )
    try:
        return _saved(data)
    except MemsimError as error:
        raise SavedModelError(f"{path}: {error}") from error
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise SavedModelError(f"{path} is damaged: {type(error).__name__}: {error}") from error


def _saved(data: Mapping[str, Any]) -> SavedModel:
    told, held, origin, rows = (data[key] for key in ("model", "fit", "provenance", "data"))
    model = Model(
        str(told["output"]),
        str(told["expression"]),
        costs={str(name): str(text) for name, text in told["costs"].items()},
    )
    parameters = {str(name): float(value) for name, value in held["parameters"].items()}
    if set(parameters) != set(model.parameters):
        raise ValueError("its parameters are not those of its expression")
    count = len(parameters)
    covariance = np.array(
        [[math.inf if x is None else float(x) for x in row] for row in held["covariance"]]
    ).reshape(count, count)
    kernels = tuple(str(name) for name in rows["kernels"])
    spread = rows["spread"]
    table = FeatureTable(
        output=model.output,
        kernels=kernels,
        values={str(name): np.array(column, np.float64) for name, column in rows["values"].items()},
        spread=None if spread is None else np.array(spread, np.float64),
    )
    fit = Fit(
        model=model,
        parameters=parameters,
        covariance=covariance,
        residual_norm=float(held["residual_norm"]),
        degrees_of_freedom=int(held["degrees_of_freedom"]),
        relative=bool(held["relative"]),
        at_bound=tuple(str(name) for name in held["at_bound"]),
        indistinct=tuple(tuple(str(name) for name in group) for group in held["indistinct"]),
        errors=np.array(held["errors"], np.float64),
    )
    return SavedModel(
        fit=fit,
        table=table,
        name=str(told["name"]),
        device=str(origin["device"]),
        driver=str(origin["driver"]),
        date=str(origin["date"]),
        settings=dict(origin["settings"]),
    )


def _finite(value: float) -> float | None:
    """JSON has no infinity: None stands for it."""
    return value if math.isfinite(value) else None
