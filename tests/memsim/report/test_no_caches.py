"""A machine without caches, as NVIDIA's first ones, in every report."""

from __future__ import annotations

from pathlib import Path

import pytest

import memsim
from memsim.report.summary import summarise
from memsim.report.variants import launch_table, launches_json
from memsim.trace.file import write_launches
from memsim.trace.launches import Launches
from tests.support.command_line import RunMemsim
from tests.support.traces import make_trace

TRACE = make_trace(
    [[[(0, [1, 2, 3]), (1, [40]), (0, [100 * g])]] for g in range(5)], ("load", "store")
)


def test_every_output(run_memsim: RunMemsim, tmp_path: Path) -> None:
    path, saved = tmp_path / "k.trace", tmp_path / "k.nc"
    write_launches(Launches(launches=(TRACE, TRACE)), path)
    of_one = ("--launch", "1", "--html", str(tmp_path / "k.html"), "--save", str(saved))
    for more in (of_one, ("--carry-l2", *of_one)):
        run_memsim("replay", str(path), "-m", "c1060", "--trials", "3", *more)
    run_memsim("compare", str(saved), str(saved), "--html", str(tmp_path / "c.html"))
    for to in ("cachegrind", "csv", "json"):
        run_memsim("export", str(saved), "--format", to, "-o", str(tmp_path / f"k-{to}"))


@pytest.mark.parametrize("machine", ["c1060", "v100"])
def test_tables_of_launches_need_neither_caches_nor_sites(machine: str) -> None:
    replays = memsim.replay_launches(Launches(launches=(TRACE, TRACE)), machine, trials=3)
    whole, totals = (
        [summarise(replay.dataset, by_site=by_site) for replay in replays]
        for by_site in (True, False)
    )
    cells, others = ([list(c.cells) for c in launch_table(s).columns] for s in (whole, totals))
    assert cells == others
    assert {len(column) for column in cells} == {2}
    assert [len(one.sites) for one in (*whole, *totals)] == [2, 2, 0, 0]
    assert launches_json(whole)
    for name in ("histogram", "latency", "convergence", "dram_latency"):
        figure = getattr(replays[0].plot, name)()
        figure.canvas.draw()
        says_so = any("caches" in text.get_text() for text in figure.texts)
        assert says_so == (machine == "c1060" and name in ("histogram", "convergence"))
