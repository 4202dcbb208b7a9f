"""Breaks a prediction down into named parts of a kernel's time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from calib.fitting import expression as ex
from calib.fitting.fit import Fit
from calib.fitting.saved_model import SavedModel
from memsim.files import write_picture


@dataclass(frozen=True, kw_only=True)
class Part:
    """One parameter's share of a predicted value.

    name : the parameter; "rest" for what belongs to no parameter
    cost : the named cost that contains it, "" if there is none
    features : the features that it multiplies, with their values in this kernel
    value : the visible share; the parts add up to the prediction
    alone : the cost if nothing overlapped it
    """

    name: str
    cost: str
    features: Mapping[str, float]
    value: float
    alone: float


@dataclass(frozen=True, kw_only=True)
class Breakdown:
    """A predicted value with its 95 % interval and its parts, the largest first."""

    kernel: str
    value: float
    low: float
    high: float
    parts: tuple[Part, ...]

    def as_json(self) -> dict[str, Any]:
        """The values as JSON; an infinite end of the interval is None."""
        return asdict(self) | {"high": self.high if np.isfinite(self.high) else None}


def break_down(fit: Fit, kernel: str, features: Mapping[str, Any]) -> Breakdown:
    """The prediction of a fitted model for one kernel's features, in parts."""
    model = fit.model
    predicted = fit.predict(features)
    terms = model.terms(fit, features)
    parts = [
        Part(
            name=name,
            cost=model.cost_of(name),
            features={f: float(features[f]) for f in model.features_of(name)}
            if name != "rest"
            else {},
            value=float(value),
            alone=_alone(fit, name, float(value), features) if name != "rest" else float(value),
        )
        for name, value in terms.items()
    ]
    return Breakdown(
        kernel=kernel,
        value=float(predicted.value),
        low=float(predicted.low),
        high=float(predicted.high),
        parts=tuple(sorted(parts, key=lambda part: -part.value)),
    )


def draw(breakdowns: Sequence[Breakdown], path: Path, unit: str = "s") -> None:
    """Draws a stacked bar with its interval for each kernel; the suffix of `path` is the format."""
    from matplotlib.figure import Figure

    names = list(dict.fromkeys(part.name for each in breakdowns for part in each.parts))
    figure = Figure(figsize=(7, 1.6 + 0.6 * len(breakdowns)), layout="constrained")
    axes = figure.add_subplot()
    rows = np.arange(len(breakdowns))
    left = np.zeros(len(breakdowns))
    total = max(each.value for each in breakdowns)
    for index, name in enumerate(names):
        shares = [
            next((part.value for part in each.parts if part.name == name), 0.0)
            for each in breakdowns
        ]
        width = np.array(shares)
        label = name if width.max() >= 0.005 * total else None
        axes.barh(
            rows,
            width,
            left=left,
            height=0.55,
            color=f"C{index % 10}",
            label=label,
            hatch="//" if index >= 10 else None,
            edgecolor="white",
            linewidth=0.4,
        )
        left += width
    for row, each in enumerate(breakdowns):
        if np.isfinite(each.high):
            axes.plot([each.low, each.high], [row, row], color="black", linewidth=1.2)
    axes.set_yticks(rows, [each.kernel[:40] for each in breakdowns])
    axes.invert_yaxis()
    axes.set_xlabel(f"predicted, {unit}; black: 95 % interval")
    axes.ticklabel_format(axis="x", style="sci", scilimits=(-3, 3))
    axes.legend(ncols=4, fontsize=8, loc="lower left", bbox_to_anchor=(0, 1.0), frameon=False)
    write_picture(path, figure, 150)


def uncovered(saved: SavedModel, kernel: Any, features: Mapping[str, float]) -> list[str]:
    """Texts of the global accesses of a kernel that no feature of the model counts."""
    from calib.counting.feature_counts import kernel_counts
    from calib.counting.language import MemAccessFeature, parse_feature

    counts = kernel_counts(kernel)
    counted: set[int] = set()
    for name in saved.model.input_features:
        feature = parse_feature(name)
        if not isinstance(feature, MemAccessFeature) or not features[name]:
            continue
        if feature.tag is not None and feature.tag not in counts.inventory.tags:
            continue
        counted |= {id(access) for access in counts.selected(feature)}
    accesses = counts.inventory.accesses
    return [a.text for a in accesses if a.memory == "global" and id(a) not in counted]


def _alone(fit: Fit, name: str, visible: float, features: Mapping[str, Any]) -> float:
    """The parameter's term in its named cost; without a named cost nothing overlaps it."""
    cost = fit.model.cost_of(name)
    if not cost:
        return visible
    slope = ex.derivative(fit.model.cost_trees[cost], name)
    return float(fit[name] * ex.evaluate(slope, {**fit, **features}))
