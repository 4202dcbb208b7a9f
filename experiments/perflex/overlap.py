"""Figures 4 and 5: the differentiable step function, and local moves that are hidden behind one
global load."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt

from calib.features import EvaluationContext, gather_feature_values, scale_features_by_output
from calib.fitting import Fit, Model, fit_model
from calib.timing import device_title, feature_name, find_context
from experiments import drawing
from experiments.perflex.applications import LINEAR, OVERLAP, kernels
from experiments.perflex.evaluation import FULL, QUICK
from experiments.reproduction import Case, Figure

EDGES = (2.0, 8.0, 32.0)
MOVES = (0, 1, 2, 3, 4, 6, 8, 10, 12, 16, 20)
COSTS = {  # a move is one local load and one local store, so the loads count the moves
    "c_gmem": "p_g * f_mem_access_global_float32",
    "c_onchip": "p_l * f_mem_access_local_float32_load",
    "c_overhead": "p_launch * f_sync_kernel_launch",
}


def figure_4(out: Path, quick: bool) -> Figure:
    """s(x) and s~(x), and the error of a maximum that is computed with s~."""
    x = np.linspace(-1, 1, 401)
    model = Model("f_time", "overlap(f_a, f_b, p_edge)")
    curves = {"step s(x)": (x >= 0).astype(np.float64)}
    cases = []
    for edge in EDGES:
        curves[f"p_edge = {edge:g}"] = (np.tanh(edge * x) + 1) / 2
        # Costs 1 + x and 1 - x: their difference over their sum is x.
        maximum = model.evaluate({"p_edge": edge}, {"f_a": 1 + x, "f_b": 1 - x})
        cases.append(
            Case(
                f"p_edge = {edge:g}",
                "largest error",
                "%",
                ours=float(100 * np.max(1 - maximum / np.maximum(1 + x, 1 - x))),
                note="of max(c_gmem, c_onchip), which comes out too small, over all ratios of the two",
            )
        )
    return Figure(
        title="Figure 4: the step function and its differentiable approximation",
        source="Stevens and Klöckner 2020, equations (4) to (6); p_edge of the figure is missing from our text",
        cases=cases,
        findings=[
            "x is the difference of the costs divided by their sum, so that p_edge has the same meaning in"
            " calibration and in prediction, at every size."
        ],
        pictures=[
            drawing.lines(
                out / "figure-4.png",
                x,
                curves,
                drawing.Panel(
                    title="s~(x) = (tanh(p_edge x) + 1) / 2",
                    xlabel="x = (c_gmem - c_onchip) / (c_gmem + c_onchip)",
                    ylabel="visible part of c_gmem",
                ),
            )
        ],
    )


def figure_5(out: Path, quick: bool) -> Figure:
    """One global load, m moves in local memory, and one global store for each work-item."""
    effort = QUICK if quick else FULL
    context = find_context()
    moves = MOVES[::2] if quick else MOVES
    rows = kernels(
        (("overlap_ratio", "dtype:float32", "n:131072", f"m:{','.join(map(str, moves))}"),)
    )
    models = {
        name: Model(feature_name(), expression, costs=COSTS)
        for name, expression in (("linear", LINEAR), ("overlap", OVERLAP))
    }
    table = gather_feature_values(
        (feature_name(), *models["overlap"].input_features),
        rows,
        context=EvaluationContext(
            cl_context=context, timing_trials=effort.trials, statistic="minimum"
        ),
        rounds=effort.rounds,
        longest_s=effort.longest_s,
    )
    scaled = scale_features_by_output(table)
    fits = {
        name: fit_model(model, scaled, nonnegative=True, singular="report")
        for name, model in models.items()
    }
    m = np.array(moves)
    hidden, slope = _hidden(m, np.asarray(table.outputs))
    better = min(fits, key=lambda name: fits[name].mean_error)
    return Figure(
        title="Figure 5: local moves that are hidden behind one global load and one store",
        source="Stevens and Klöckner 2020, section 7.4",
        cases=[
            Case(
                device_title(context),
                "hidden moves",
                "",
                ours=hidden,
                note=(
                    "paper: 4 to 12 on Titan V, Titan X, R9 Fury; very little on K40c, C2070."
                    f" Fitted to m >= {moves[len(moves) // 2]}: t(0) minus the line at m = 0, divided by its slope"
                    f" of {1e6 * slope:.3g} us a move"
                ),
            ),
            *(_error(name, fit) for name, fit in fits.items()),
        ],
        findings=[f"The {better} model has the smaller error."],
        pictures=[
            drawing.lines(
                out / "figure-5.png",
                m,
                {"measured": 1e3 * np.asarray(table.outputs)}
                | {
                    f"{name}: {100 * fit.mean_error:.1f} %": 1e3
                    * fit.model.evaluate(fit, table.values)
                    for name, fit in fits.items()
                },
                drawing.Panel(
                    title=f"Local moves for each global load\n{device_title(context)}",
                    xlabel="moves in local memory for each global load",
                    ylabel="ms",
                ),
            )
        ],
    )


def _hidden(
    moves: npt.NDArray[np.float64], seconds: npt.NDArray[np.float64]
) -> tuple[float, float]:
    """Number of moves that take no additional time, and seconds per move where moves determine the
    time."""
    many = moves >= moves[len(moves) // 2]
    slope, offset = np.polyfit(moves[many], seconds[many], 1)
    return float((seconds[0] - offset) / slope), float(slope)


def _error(name: str, fit: Fit) -> Case:
    return Case(
        f"{name} model",
        "error",
        "%",
        ours=100 * fit.mean_error,
        note=(
            "in calibration, geometric mean"
            + (f"; at their bound of 0: {', '.join(fit.at_bound)}" if fit.at_bound else "")
        ),
    )
