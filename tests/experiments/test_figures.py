"""Every figure of every reproduction in its quick form: each week one of those that take seconds,
and all of them in the slow suite."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from experiments.bbml.case_study import PAPER
from experiments.commands import REPRODUCTIONS
from experiments.hardware.comparison import errors
from experiments.hardware.l1_carveouts import points_off
from experiments.perflex.evaluation import MODELS
from experiments.reproduction import Figure, page
from tests.support.compilers import needs_nvidia
from tests.support.cuda_kernels import needs_clang
from tests.support.weeks import part_of

pytestmark = pytest.mark.filterwarnings("ignore::loopy.diagnostic.LoopyWarning")

MODULES = {name: importlib.import_module(f"experiments.{name}") for name in REPRODUCTIONS}
BRIEF = (
    ("bbml", "figure-5-right"),
    ("hardware", "v100-l1"),
    ("history", "simulation"),
    ("lhf", "figure-15"),
    ("lhf", "figure-16"),
    ("perflex", "figure-5"),
)
"""Figures that take 2 to 8 seconds on two cores, without those that other tests make as well."""
A_WEEK = 1
"""Figures that are made each week."""


def learned_counts(figure: Figure) -> None:
    means = {c.quantity: c for c in figure.cases if "mean of" in c.case}
    assert len(means) == len(PAPER)
    for quantity in PAPER:
        learned = means[f"{quantity} error"].ours
        assert learned is not None
        assert 0 < learned < 10


def volumes_of_the_v100_stencil(figure: Figure) -> None:
    """The bounds at L2 hold for all of these shapes; those at memory hold except for width 2."""
    load = errors(figure.cases, "l2_load")
    assert load.geometric_mean < 0.07
    assert abs(load.worst) < 0.20
    assert load.spearman >= 0.95
    wide = [case for case in figure.cases if not case.case.startswith("2x")]
    for quantity in ("dram_load", "l2_store", "dram_store"):
        found = errors(wide, quantity)
        assert found.geometric_mean < 0.05
        assert abs(found.worst) < 0.10


def ratios(figure: Figure, quantity: str) -> npt.NDArray[np.float64]:
    """(n_case,) predicted time over measured time."""
    cases = [case for case in figure.cases if case.quantity == quantity]
    return np.array([(case.ours or 0) / (case.reference or 1) for case in cases])


def times_of_the_v100_stencil(figure: Figure) -> None:
    """Eight of the 43 shapes, none of them so deep that translations limit the time."""
    assert np.abs(ratios(figure, "events") - 1).mean() < 0.12
    assert np.abs(ratios(figure, "equation") - 1).mean() < 0.12
    assert np.abs(ratios(figure, "paper") - 1).mean() > 1  # hits ignored
    assert np.abs(ratios(figure, "paper print") - 1).mean() > 10


def near_what_was_measured(figure: Figure) -> None:
    ratio = np.array([(case.ours or 0) / (case.reference or 1) for case in figure.cases])
    assert np.exp(np.abs(np.log(ratio)).mean()) < 1.35


def finite_differences(figure: Figure) -> None:
    """Measured on the device at hand, fitted and drawn."""
    ours = {case.case: case.ours for case in figure.cases}
    assert set(MODELS) <= set(ours)
    assert [case.reference for case in figure.cases if case.case == "linear"] == [6.7]
    assert all(error is not None and np.isfinite(error) and error >= 0 for error in ours.values())
    assert set(figure.pictures) == {"figure-9.png", "figure-9-parts.png"}


def misses_beside_local_memory(figure: Figure) -> None:
    sizes = {case.quantity for case in figure.cases}
    assert len(sizes) == len(figure.pictures) == len(figure.findings) == 9
    assert 1 < max(points_off(figure.cases, size) for size in sizes) < 15


BOUNDS: dict[tuple[str, str], Callable[[Figure], None]] = {
    ("bbml", "figure-5-right"): learned_counts,
    ("hardware", "derivatives"): near_what_was_measured,
    ("hardware", "l1-carveouts"): misses_beside_local_memory,
    ("hardware", "v100-stencil"): volumes_of_the_v100_stencil,
    ("lhf", "v100-times"): times_of_the_v100_stencil,
    ("lhf", "mi250x-times"): near_what_was_measured,
    ("perflex", "figure-9"): finite_differences,
}
"""What holds of a figure beyond what holds of all."""


def marked(name: str, figure: str) -> pytest.ParameterSet:
    marks = [] if (name, figure) in part_of(BRIEF, A_WEEK) else [pytest.mark.slow]
    if name in ("hardware", "lhf"):  # kernels in CUDA C++
        marks += [needs_clang, needs_nvidia]
    if figure == "triton-launches":
        marks.append(pytest.mark.skipif(find_spec("triton") is None, reason="needs Triton"))
    return pytest.param(name, figure, marks=marks)


@pytest.mark.timeout(7200)
@pytest.mark.parametrize(
    ("name", "figure"),
    [marked(name, figure) for name in MODULES for figure in MODULES[name].FIGURES],
)
def test_a_figure_in_its_quick_form(name: str, figure: str, tmp_path: Path) -> None:
    made: Figure = MODULES[name].FIGURES[figure](tmp_path, True)
    assert made.cases
    # This one has sentences only about regressions that cannot be drawn.
    assert made.findings or (name, figure) == ("history", "figure-7")
    for picture in made.pictures:
        assert (tmp_path / picture).stat().st_size > 10_000
    assert figure in page("title", {figure: made})
    BOUNDS.get((name, figure), lambda figure: None)(made)


def test_every_brief_figure_has_its_week() -> None:
    assert set(BRIEF) <= {(name, figure) for name in MODULES for figure in MODULES[name].FIGURES}
    weeks = [part_of(BRIEF, A_WEEK, week) for week in range(1, 54)]
    assert set().union(*weeks) == set(BRIEF)
