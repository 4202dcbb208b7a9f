"""Saves a fitted model as JSON: the model, its parameters, their uncertainty and their
provenance."""

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
from memsim.errors import MemsimError, one_line
from memsim.files import write_text

FORMAT = "memsim-fitted-model"
VERSION = 1
MAX_BYTES = 64 * 2**20
LARGEST = 1e100
"""Numbers of a fit are smaller, so that their squares are finite."""


class SavedModelError(MemsimError):
    """A file is not a fitted model of a supported version."""


@dataclass(frozen=True, kw_only=True)
class SavedModel:
    """A fitted model with its provenance.

    name : name of the model, possibly ""
    device, driver, date : device and driver of the timings, and their ISO date
    table : the unscaled feature values that it was fitted to
    settings : further settings of the calibration: trials, statistic, tags
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
    """The current UTC date and time, in ISO format."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


def save_model(saved: SavedModel, path: Path) -> None:
    """Writes a file atomically."""
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
    write_text(path, text)


def load_model(path: Path) -> SavedModel:
    """Reads a file of `save_model`.

    Raises SavedModelError that names the file and the error in it.
    """
    try:
        if path.stat().st_size > MAX_BYTES:
            raise SavedModelError(f"{path} is larger than any fitted model")
        data = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SavedModelError(f"cannot read {path}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise SavedModelError(f"cannot read {path}: it is not text ({error.reason})") from error
    except (ValueError, RecursionError) as error:  # ValueError also for numbers of 5000 digits
        raise SavedModelError(f"{path} is not a JSON file: {one_line(error)[:500]}") from error
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise SavedModelError(f"{path} is not a fitted model of 'memsim calibrate'")
    if data.get("version") != VERSION:
        raise SavedModelError(
            f"{path} has version {data.get('version')}, this memsim reads {VERSION}"
        )
    try:
        return _saved(data)
    except MemsimError as error:
        raise SavedModelError(f"{path}: {one_line(error)[:500]}") from error
    except (LookupError, TypeError, ValueError, AttributeError, OverflowError) as error:
        reason = f"{type(error).__name__}: {one_line(error)[:500]}"
        raise SavedModelError(f"{path} is damaged: {reason}") from error


def _saved(data: Mapping[str, Any]) -> SavedModel:
    described, fitted, origin, rows = (data[key] for key in ("model", "fit", "provenance", "data"))
    model = Model(
        str(described["output"]),
        str(described["expression"]),
        costs={str(name): str(text) for name, text in described["costs"].items()},
    )
    parameters = {str(name): float(value) for name, value in fitted["parameters"].items()}
    if set(parameters) != set(model.parameters):
        raise ValueError("its parameters are not those of its expression")
    count = len(parameters)
    covariance = np.array(
        [[math.inf if x is None else float(x) for x in row] for row in fitted["covariance"]]
    ).reshape(count, count)
    finite = covariance[~np.isposinf(covariance)]
    if not (np.abs(finite) < LARGEST).all() or not (np.diag(covariance) >= 0).all():
        raise ValueError("its covariance is none of numbers")
    if not all(abs(value) < LARGEST for value in parameters.values()):
        raise ValueError(f"its parameters must be numbers below {LARGEST:g}")
    residual_norm, degrees = float(fitted["residual_norm"]), int(fitted["degrees_of_freedom"])
    if not (0 <= residual_norm < LARGEST and 0 <= degrees < LARGEST):
        raise ValueError(
            "its residual norm and degrees of freedom must not be negative or infinite"
        )
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
        residual_norm=residual_norm,
        degrees_of_freedom=degrees,
        relative=bool(fitted["relative"]),
        at_bound=tuple(str(name) for name in fitted["at_bound"]),
        indistinct=tuple(tuple(str(name) for name in group) for group in fitted["indistinct"]),
        errors=np.array(fitted["errors"], np.float64),
    )
    return SavedModel(
        fit=fit,
        table=table,
        name=str(described["name"]),
        device=str(origin["device"]),
        driver=str(origin["driver"]),
        date=str(origin["date"]),
        settings=dict(origin["settings"]),
    )


def _finite(value: float) -> float | None:
    """None for infinity, which JSON does not have."""
    return value if math.isfinite(value) else None
