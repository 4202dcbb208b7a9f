"""Figures 7 and 8: time against size with both regressions, and the distribution of one layout's
times."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from calib.history import Fitted, plot_layout, plot_sizes, power_law, power_law_with_offset
from experiments.history import lu_kernels, size_sweep
from experiments.history.measured_runs import all_sizes
from experiments.history.speeds_and_errors import SOURCE
from experiments.reproduction import Case, Figure


def figure_7(out: Path, quick: bool) -> Figure:
    """Time against size of one kernel, and the fit of both regressions."""
    widths = size_sweep.QUICK_WIDTHS if quick else size_sweep.WIDTHS
    records, samples = size_sweep.sweep(widths)
    path = out / "figure-7.png"
    findings = plot_sizes(size_sweep.KIND, records, samples, path)
    cases = []
    for device in sorted({r.key.device for r in records}):
        of_device = sorted(
            (r for r in records if r.key.device == device), key=lambda r: r.size_bytes
        )
        models: Sequence[tuple[str, Fitted | None]] = (
            ("error of a n^b", power_law(of_device)),
            ("error of a n^b + c", power_law_with_offset(of_device)),
        )
        for quantity, model in models:
            cases.append(
                Case(
                    device,
                    quantity,
                    "%",
                    ours=None if model is None else 100 * model.misfit,
                    note="not calibrated" if model is None else model.formula,
                )
            )
        for record, width in zip(of_device, widths, strict=True):
            if width in (widths[0], widths[-1]):
                cases.append(
                    Case(
                        f"{device}, tiles of {width}",
                        "standard deviation of a launch",
                        "%",
                        ours=100 * record.accepted.variation,
                        note=f"mean {record.accepted.mean * 1e6:.4g} us of {record.accepted.n}",
                    )
                )
    return Figure(
        title=f"Figure 7: {size_sweep.KIND} against size, both regressions, both workers",
        source=f"{SOURCE}, Figure 7 (a picture; the text has no numbers)",
        cases=cases,
        findings=findings,
        pictures=[path.name],
    )


def figure_8(out: Path, quick: bool) -> Figure:
    """The distribution of one layout's times that the factorisations recorded."""
    runs = all_sizes(quick)[-1]
    kind = lu_kernels.TRSM_UPPER
    times = {title: runs.samples[kind, number] for number, title in enumerate(runs.workers)}
    layout = next(r.key.layout for r in runs.records if r.key.kernel == kind)
    path = out / "figure-8.png"
    shapes = plot_layout(kind, layout, times, path)
    cases = [
        Case(
            f"{title}, tiles of {runs.tile}",
            "standard deviation of a launch",
            "%",
            ours=100 * float(np.std(values, ddof=1) / np.mean(values)),
            note=f"{len(values)} launches; {shapes.get(title, '')}",
        )
        for title, values in times.items()
        if len(values) > 1
    ]
    return Figure(
        title=f"Figure 8: distribution of {kind} on tiles of {runs.tile}, during the factorisations",
        source=f"{SOURCE}, Figure 8: one narrow peak on the GPU, two peaks on CPUs",
        cases=cases,
        findings=[*(f"{title}: {shape}" for title, shape in shapes.items()), runs.conditions],
        pictures=[path.name],
    )
