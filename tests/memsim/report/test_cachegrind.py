"""A replay as cachegrind's file, read by valgrind's own cg_annotate."""

from __future__ import annotations

import csv
import io
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from memsim.errors import MemsimError, ResultError
from memsim.montecarlo.result import Replay
from memsim.report.access_csv import site_csv
from memsim.report.cachegrind import site_events, write
from memsim.report.summary import summarise
from tests.support.fake_replay import USER_SOURCE, fake_dataset
from tracegen.commands.export import export

LINES = {11: ["rowptr[i]"], 12: ["rowptr[i+1]"], 13: ["val[jj]", "ind[jj]", "x[ind[jj]]", "y[i]"]}


@pytest.fixture(scope="module")
def replay() -> Replay:
    return Replay(fake_dataset(n_trials=4))


def annotated(path: Path) -> str:
    program = shutil.which("cg_annotate")
    if program is None:
        pytest.skip("valgrind's cg_annotate is not installed")
    return subprocess.run(
        [program, "--auto=yes", path.name],
        cwd=path.parent, capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip


def shown_counts(text: str) -> list[int]:
    """Numbers at the beginning of a line of cg_annotate's, without their percentages."""
    cells = re.findall(r"(\d[\d,]*|\.)(?: \([\d.]+%\))?\s+", text)
    return [0 if cell == "." else int(cell.replace(",", "")) for cell in cells]


def test_cg_annotate_shows_our_counts_on_the_users_lines(replay: Replay, tmp_path: Path) -> None:
    """The user's file is not here: the text that the trace kept is written beside."""
    path = tmp_path / "cachegrind.out.spmv"
    files = write(replay.dataset, path)
    assert files == [path, tmp_path / "cachegrind.out.spmv.spmv.py"]
    assert files[1].read_text() == f"{USER_SOURCE}// written by memsim\n"
    out = annotated(path)
    assert "memsim: spmv on v100, 4 orderings, 640 of 8192 groups" in out
    names, counts = site_events(replay.dataset)
    assert names[:4] == ["Wait", "Access", "Sector", "Excess"]
    assert f"Events recorded:  {' '.join(names)}" in out
    of_site = dict(zip(replay.site_names, counts, strict=True))
    source = USER_SOURCE.splitlines()
    for number, sites in LINES.items():
        total = np.sum([of_site[site] for site in sites], axis=0)
        (line,) = [row for row in out.splitlines() if row.endswith(f"  {source[number - 1]}")]
        assert shown_counts(line)[: len(names)] == total.tolist()
    (totals,) = [row for row in out.splitlines() if row.endswith("PROGRAM TOTALS")]
    assert shown_counts(totals)[: len(names)] == counts.sum(axis=0).tolist()


def test_generated_lines_where_the_users_are_unknown(replay: Replay, tmp_path: Path) -> None:
    data = replay.dataset.assign_coords(user_file=("site", [""] * 6), user_line=("site", [-1] * 6))
    path = tmp_path / "cachegrind.out.k"
    files = write(data, path)
    assert files[1] == tmp_path / "cachegrind.out.k.cl"
    out = annotated(path)
    (line,) = [row for row in out.splitlines() if "acc_jj = acc_jj + val[jj]" in row]
    names, counts = site_events(replay.dataset)
    assert shown_counts(line)[: len(names)] == counts[2:5].sum(axis=0).tolist()


def test_events_by_hand(replay: Replay) -> None:
    names, counts = site_events(replay.dataset)
    data = replay.dataset
    table = dict(zip(names, counts.T, strict=True))
    assert table["Access"].tolist() == data["site_accesses"].values.tolist()
    misses = (data["accesses"] - data["hits"] - data["pending"]).mean("trial")
    assert np.abs(table["L1miss"] - misses.sel(level="L1").values).max() <= 0.5
    assert np.abs(table["MemRd"] - data["read_bytes"].mean("trial").sel(level="L2")).max() <= 0.5
    waits = (replay.latency_cycles().mean("trial") * data["site_accesses"]).fillna(0)
    assert np.abs(table["Wait"] - waits.values).max() <= 0.5
    assert table["Wait"][5] == 0  # a store


def test_names_stay_on_their_lines(replay: Replay, tmp_path: Path) -> None:
    data = replay.dataset.assign_attrs(kernel="a\nsummary: 1")
    data = data.assign_coords(user_file=("site", ["a\nfl=b"] * 6))
    path = tmp_path / "cachegrind.out.k"
    write(data, path)
    content = path.read_text().splitlines()
    assert [line.partition("=")[0] for line in content[3:5]] == ["fl", "fn"]
    assert sum(line.startswith("summary:") for line in content) == 1
    assert annotated(path)


def test_a_file_that_cannot_be_written(replay: Replay, tmp_path: Path) -> None:
    with pytest.raises(ResultError, match="cannot write"):
        write(replay.dataset, tmp_path / "none" / "out")


def test_an_export_needs_a_result_and_does_not_replace_it(replay: Replay, tmp_path: Path) -> None:
    saved, text = str(replay.save(tmp_path / "k.nc")), tmp_path / "k.csv"
    text.write_text("a,b\n")
    for words, error in (
        ((saved, "-o", saved), MemsimError),
        ((str(text), "-o", str(tmp_path / "x")), ResultError),
    ):
        ended = CliRunner().invoke(export, [*words, "--format", "csv"])
        assert isinstance(ended.exception, error)


def test_the_table_as_csv(replay: Replay) -> None:
    rows = list(csv.DictReader(io.StringIO(site_csv(summarise(replay.dataset)))))
    assert {row["site"] for row in rows} == set(replay.site_names)
    by_name = {row["site"]: row for row in rows}
    one = replay.sites["val[jj]"].hit_ratio("L1")
    row = by_name["val[jj]"]
    shown = [float(row[f"L1_hit_ratio{end}"]) for end in ("", "_low", "_high", "_sigma")]
    assert shown == [one.mean, one.low, one.high, one.sigma]
    assert row["user_line"] == "13"
    assert int(row["L2_cold_misses"]) == int(replay.dataset["cold_misses"].values[1, 2])
    assert by_name["y[i]"]["latency_cycles"] == ""  # nothing waits for a store
