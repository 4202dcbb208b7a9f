"""The notebook of ten cells: it runs, shows what its cells end with, and is committed without outputs."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

import matplotlib
import pytest

ROOT = Path(__file__).parents[2]
NOTEBOOK = ROOT / "experiments" / "transpose.ipynb"
CELLS = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]


def shown(source: str, namespace: dict[str, Any]) -> Any:
    """Runs a cell; the value of its last line, which a notebook shows."""
    tree = ast.parse(source)
    last = tree.body.pop()
    assert isinstance(last, ast.Expr), "a cell must end with what it shows"
    exec(compile(tree, NOTEBOOK.name, "exec"), namespace)
    return eval(compile(ast.Expression(last.value), NOTEBOOK.name, "eval"), namespace)


def test_it_is_committed_without_outputs() -> None:
    assert len(CELLS) == 10
    for cell in CELLS:
        assert cell["cell_type"] == "markdown" or (cell["outputs"], cell["execution_count"]) == (
            [],
            None,
        )
    assert len({cell["id"] for cell in CELLS}) == 10


def test_every_cell_runs_and_shows_something(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without IPython: what a notebook would show is asked of the values themselves."""
    monkeypatch.setattr(matplotlib, "rcParams", matplotlib.rcParams.copy())
    monkeypatch.setenv("MPLBACKEND", "agg")
    namespace: dict[str, Any] = {"__name__": "notebook"}
    code = ["".join(cell["source"]) for cell in CELLS if cell["cell_type"] == "code"]
    values = [shown(source, namespace) for source in code]

    assert values[0].startswith("transpose_naive: ")
    html = {k: values[k]._repr_html_() for k in (1, 4, 5)}
    for k in (1, 5):
        assert "<table" in html[k]
        assert "transpose_" in html[k]
    assert "limited by" in html[4]
    assert "-bound: " in html[4]
    assert "at least" in html[4]
    for k in (2, 3):
        assert values[k]._repr_png_().startswith(b"\x89PNG")

    # By hand: 16 x 2 work-items read 16 sectors from two columns, or 4 sectors from two rows. Each sector
    # holds eight floats, so four sub-groups read it; A comes once from memory.
    table, times, figure = values[6], values[7], values[8]
    assert list(table.loc["sectors loaded from L1"]) == [1024 * 1024 // 32 * n for n in (16, 4)]
    assert list(table.loc["L1 hit ratio"]) == [0.75, 0.0]
    assert list(table.loc["DRAM read, MB"]) == [4.194, 4.194]
    assert set(times.index) == {"v100", "a100", "rtx4090", "mi210"}
    assert (times > 0).all(axis=None)
    assert figure.axes[0].get_xlabel() == "predicted time (µs)"
    assert len(figure.axes[0].patches) == 8
    namespace["plt"].close("all")


@pytest.mark.slow
def test_jupyter_runs_it(tmp_path: Path) -> None:
    """As a reader does: tables as HTML, figures as PNG, and no error."""
    nbclient = pytest.importorskip("nbclient")
    nbformat = pytest.importorskip("nbformat")
    pytest.importorskip("ipykernel")

    notebook = nbformat.read(NOTEBOOK, as_version=4)
    nbformat.validate(notebook)
    resources = {"metadata": {"path": str(tmp_path)}}
    nbclient.NotebookClient(notebook, timeout=900, resources=resources).execute()
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    kinds = [set(cell.outputs[-1].data) for cell in code]
    assert all("text/html" in kinds[k] for k in (1, 4, 5, 6, 7))
    assert all("image/png" in kinds[k] for k in (2, 3, 8))
    assert not any(output.get("name") == "stderr" for cell in code for output in cell.outputs)
