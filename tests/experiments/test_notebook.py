"""The notebooks run, show what their cells end with, and are committed without outputs."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

import matplotlib.pyplot
import pytest

ROOT = Path(__file__).parents[2]


def cells(name: str) -> list[dict[str, Any]]:
    text = (ROOT / "experiments" / name).read_text(encoding="utf-8")
    return list(json.loads(text)["cells"])


def shown(source: str, namespace: dict[str, Any]) -> Any:
    """Runs a cell; the value of its last line, which a notebook shows."""
    tree = ast.parse(source)
    last = tree.body.pop()
    assert isinstance(last, ast.Expr), "a cell must end with what it shows"
    exec(compile(tree, "notebook", "exec"), namespace)
    return eval(compile(ast.Expression(last.value), "notebook", "eval"), namespace)


def values(name: str, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What each cell of code of a notebook shows."""
    monkeypatch.setattr(matplotlib, "rcParams", matplotlib.rcParams.copy())
    monkeypatch.setenv("MPLBACKEND", "agg")
    namespace: dict[str, Any] = {"__name__": "notebook"}
    code = ["".join(cell["source"]) for cell in cells(name) if cell["cell_type"] == "code"]
    return [shown(source, namespace) for source in code]


@pytest.mark.parametrize("name", ["transpose.ipynb", "triton.ipynb"])
def test_it_is_committed_without_outputs(name: str) -> None:
    listed = cells(name)
    for cell in listed:
        assert cell["cell_type"] == "markdown" or (cell["outputs"], cell["execution_count"]) == (
            [],
            None,
        )
    assert len({cell["id"] for cell in listed}) == len(listed)


@pytest.mark.slow
def test_larger_tiles_and_copies_ahead_make_a_product_faster(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """By hand: each group of 128 x 128 reads 2048 rows and columns of halves, 256 groups 268 MB."""
    pytest.importorskip("triton")
    *_, replay, prediction, table, figure = values("triton.ipynb", monkeypatch)
    assert "tl.load(from_a)" in replay._repr_html_()
    assert "-bound: " in prediction._repr_html_()
    assert table.loc["four stages", "read from L2, MB"] == pytest.approx(268.4, rel=0.02)
    times = table["time, us"]
    assert times["four stages"] < times["128 x 128"] < times["tiles of 32 x 32"]
    assert figure.axes


def test_every_cell_runs_and_shows_something(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without IPython: what a notebook would show is asked of the values themselves."""
    shows = values("transpose.ipynb", monkeypatch)
    assert shows[0].startswith("transpose_naive: ")
    html = {k: shows[k]._repr_html_() for k in (1, 4, 5)}
    for k in (1, 5):
        assert "<table" in html[k]
        assert "transpose_" in html[k]
    assert "limited by" in html[4]
    assert "-bound: " in html[4]
    assert "at least" in html[4]
    for k in (2, 3):
        assert shows[k]._repr_png_().startswith(b"\x89PNG")

    # By hand: 16 x 2 work-items read 16 sectors from two columns, or 4 sectors from two rows. Each sector
    # holds eight floats, so four sub-groups read it; A comes once from memory.
    table, times, figure = shows[6], shows[7], shows[8]
    assert list(table.loc["sectors loaded from L1"]) == [1024 * 1024 // 32 * n for n in (16, 4)]
    assert list(table.loc["L1 hit ratio"]) == [0.75, 0.0]
    assert list(table.loc["DRAM read, MB"]) == [4.194, 4.194]
    assert set(times.index) == {"v100", "a100", "rtx4090", "mi210"}
    assert (times > 0).all(axis=None)
    assert figure.axes[0].get_xlabel() == "predicted time (µs)"
    assert len(figure.axes[0].patches) == 8
    matplotlib.pyplot.close("all")


@pytest.mark.slow
def test_jupyter_runs_it(tmp_path: Path) -> None:
    """As a reader does: tables as HTML, figures as PNG, and no error."""
    nbclient = pytest.importorskip("nbclient")
    nbformat = pytest.importorskip("nbformat")
    pytest.importorskip("ipykernel")

    notebook = nbformat.read(ROOT / "experiments" / "transpose.ipynb", as_version=4)
    nbformat.validate(notebook)
    resources = {"metadata": {"path": str(tmp_path)}}
    nbclient.NotebookClient(notebook, timeout=900, resources=resources).execute()
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    kinds = [set(cell.outputs[-1].data) for cell in code]
    assert all("text/html" in kinds[k] for k in (1, 4, 5, 6, 7))
    assert all("image/png" in kinds[k] for k in (2, 3, 8))
    assert not any(output.get("name") == "stderr" for cell in code for output in cell.outputs)
