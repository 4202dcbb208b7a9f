"""memsim.montecarlo.result: ways of looking at a replay, and its file."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

from memsim.errors import ResultError
from memsim.latency import expected_latency_cycles
from memsim.montecarlo.result import Replay
from memsim.report.netcdf import decoded, encoded
from memsim.statistics import describe, running
from tests.support.fake_replay import fake_dataset


@pytest.fixture(scope="module")
def replay() -> Replay:
    return Replay(fake_dataset(n_trials=8))


def test_hit_ratios_are_those_of_the_counts(replay: Replay) -> None:
    data = replay.dataset
    one = data.sel(site="val[jj]", level="L1")
    expected = (one["hits"] + one["pending"]) / one["accesses"]
    assert replay.hit_ratio("val[jj]", "L1").values == pytest.approx(expected.values)
    loads = data.sel(level="L1").isel(site=slice(0, 5))
    together = (loads["hits"] + loads["pending"]).sum("site") / loads["accesses"].sum("site")
    assert replay.load_hit_ratio("L1").values == pytest.approx(together.values)


def test_estimates_by_name(replay: Replay) -> None:
    expected = describe(expected_latency_cycles(replay.dataset).sel(site="val[jj]").values)
    assert replay.sites["val[jj]"].latency_cycles == expected
    ratios = replay.hit_ratio("val[jj]", "L2").values
    assert replay.sites["val[jj]"].hit_ratio("L2") == describe(ratios).between(0.0, 1.0)
    shares = [site.share.mean for site in replay.sites.values()]
    assert sum(shares) == pytest.approx(1)


def test_shown_in_one_line_and_printed_as_the_table(replay: Replay) -> None:
    assert re.fullmatch(r"<Replay of \S+ on \S+: 8 trials of 6 accesses>", repr(replay))
    assert "val[jj]" in str(replay)
    line = repr(replay.sites["val[jj]"])
    assert re.fullmatch(
        r"<load val\[jj\]: hits L1 \S+ ± \S+ %, L2 \S+ ± \S+ %; latency \S+ ± \S+ cycles>", line
    )


def test_what_is_unknown_is_named_with_what_there_is(replay: Replay) -> None:
    with pytest.raises(ResultError, match=r"site must be one of rowptr\[i\], .*, got nope"):
        replay.hit_ratio("nope", "L1")
    with pytest.raises(ResultError, match="level must be one of L1, L2, got L7"):
        replay.load_hit_ratio("L7")
    with pytest.raises(ResultError, match="level must be one of L1, L2, got L7"):
        replay.sites["val[jj]"].hit_ratio("L7")


def test_one_trial_has_no_interval() -> None:
    found = Replay(fake_dataset(n_trials=1)).sites["val[jj]"].hit_ratio("L1")
    assert 0.5 < found.mean < 0.6
    assert not found.has_interval


def test_round_trip(replay: Replay, tmp_path: Path) -> None:
    path = replay.save(tmp_path / "a.nc")
    assert os.listdir(tmp_path) == ["a.nc"]
    again = Replay.load(path)
    xr.testing.assert_identical(again.dataset, replay.dataset)
    assert again.attrs == replay.attrs
    for name in replay.dataset.data_vars:
        assert again.dataset[name].dtype == replay.dataset[name].dtype
    assert again.to_json() == replay.to_json()


def test_round_trip_of_a_long_source_odd_names_and_no_samples(tmp_path: Path) -> None:
    data = fake_dataset(n_trials=2, generated_source="é" * 70_000, user_source="")
    names = data["site"].values.astype(object)
    names[0] = "日本<script>\N{SNOWMAN}"
    data = data.assign_coords(site=names).isel(sample=slice(0, 0))
    again = Replay.load(Replay(data).save(tmp_path / "a.nc"))
    assert again.attrs["generated_source"] == "é" * 70_000
    assert again.site_names[0] == names[0]
    assert again.dataset.sizes["sample"] == 0
    assert again.plot.dram_latency() is not None


def test_saving_replaces_whole_files_only(replay: Replay, tmp_path: Path) -> None:
    path = tmp_path / "a.nc"
    path.write_text("old")
    broken = Replay(replay.dataset.assign(odd=("site", [object()] * 6)))
    with pytest.raises(Exception, match=r".") as caught:
        broken.save(path)
    assert not isinstance(caught.value, AssertionError)
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["a.nc"]
    replay.save(path)
    assert Replay.load(path).n_trials == 8


def test_unwritable_outputs_are_one_line(replay: Replay, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for write, path, reason in [
        (replay.save, tmp_path / "none" / "a", "there is no folder"),
        (replay.save, tmp_path / "file" / "a", "there is no folder"),
        (replay.to_json, tmp_path, "it is a folder"),
    ]:
        with pytest.raises(ResultError, match=reason) as caught:
            write(path)
        assert "\n" not in str(caught.value)
    assert os.listdir(tmp_path) == ["file"]


def test_writing_keeps_links_and_what_is_no_regular_file(replay: Replay, tmp_path: Path) -> None:
    (tmp_path / "link.json").symlink_to(tmp_path / "real.json")
    replay.to_json(tmp_path / "link.json")
    assert (tmp_path / "link.json").is_symlink()
    assert json.loads((tmp_path / "real.json").read_text())["schema"] == 1
    replay.to_json(os.devnull)
    assert not Path(os.devnull).is_file()


def overwritten(content: bytes, at: int) -> bytes:
    return content[:at] + b"\xff" * 500 + content[at + 500 :]


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda _: b"",
    "foreign": lambda _: b"PK\x03\x04" + bytes(1000),
    "text": lambda _: b"hello\nworld\n" * 100,
    "half": lambda good: good[: len(good) // 2],
    "tail cut": lambda good: good[:-1],
    "head": lambda good: overwritten(good, 8),
    "middle": lambda good: overwritten(good, len(good) // 2),
    "end": lambda good: overwritten(good, len(good) - 2000),
}


@pytest.fixture(scope="module")
def saved(replay: Replay, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return replay.save(tmp_path_factory.mktemp("saved") / "a.nc").read_bytes()


@pytest.mark.parametrize("how", DAMAGES)
def test_damaged_and_foreign_files_are_refused_in_one_line(
    how: str, saved: bytes, tmp_path: Path
) -> None:
    """Damage inside of a file may also do no harm."""
    path = tmp_path / "a.nc"
    path.write_bytes(DAMAGES[how](saved))
    try:
        Replay.load(path).to_json()
    except ResultError as error:
        assert re.fullmatch(r".*a\.nc.*", str(error))  # noqa: PT017 (either outcome will do)
    else:
        assert how in ("middle", "end")


def test_no_file_and_another_programs_netcdf_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ResultError, match="No such file"):
        Replay.load(tmp_path / "none.nc")
    with pytest.raises(ResultError, match="directory"):
        Replay.load(tmp_path)
    path = tmp_path / "other.nc"
    xr.Dataset({"t": ("x", np.arange(3))}).to_netcdf(path, engine="h5netcdf")
    with pytest.raises(ResultError, match="must have the attribute schema"):
        Replay.load(path)


def open_dirtied(data: xr.Dataset) -> xr.Dataset:
    written = data["write_bytes"]
    counts = {"dirtied_bytes": written, "dirty_bytes": 0 * written}
    counts["unfilled_bytes"] = 0 * written.isel(site=0, drop=True)
    return data.assign(open_dirtied_bytes=written + 1, **counts)


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        (lambda d: d.drop_vars("hits"), "must have the variable hits"),
        (lambda d: d.assign(hits=d["hits"].astype(float)), "hits must be integers over"),
        (lambda d: d.assign(hits=d["hits"].transpose()), "hits must be integers over"),
        (lambda d: d.assign(hits=d["hits"] - 10**9), "hits must not be negative"),
        (lambda d: d.assign(hits=d["hits"] + 10**9), r"hits \+ pending \+ open must not exceed"),
        (lambda d: d.assign(open=d["hits"] * 0, likely=d["hits"] * 0 + 1), "likely must not"),
        (lambda d: d.assign(likely=d["hits"] * 0), "likely must not exceed open"),
        (open_dirtied, "open_dirtied_bytes must not exceed dirtied_bytes"),
        (
            lambda d: d.assign(likely_dirtied_bytes=d["write_bytes"]),
            "likely_dirtied_bytes must not exceed open_dirtied_bytes",
        ),
        (lambda d: d.drop_vars("array"), "must have the coordinate array"),
        (lambda d: d.assign_coords(site=["a"] * 6), "site names must be unique"),
        (lambda d: d.assign_coords(direction=("site", ["push"] * 6)), "got 'push'"),
        (lambda d: d.assign_attrs(schema=2), "schema must be 1, got 2"),
        (lambda d: d.assign_attrs(seed="x"), "attribute seed must be an integer"),
        (lambda d: d.assign_attrs(kernel=3), "attribute kernel must be a text"),
        (lambda d: d.assign_attrs(options_json="{"), "options_json must be JSON"),
        (lambda d: d.assign_attrs(machine_json="{}"), "machine_json of the result"),
    ],
)
def test_broken_layouts_are_refused(
    change: Callable[[xr.Dataset], xr.Dataset], rule: str, replay: Replay
) -> None:
    stored = encoded(replay.dataset)
    decoded(stored)
    with pytest.raises(ResultError, match=rule):
        decoded(change(stored))


@pytest.mark.parametrize("n_trials", [1, 2])
def test_plots_touch_no_global_state(n_trials: int) -> None:
    plot = Replay(fake_dataset(n_trials=n_trials)).plot
    histograms = [plot.histogram(), plot.histogram("y[i]"), plot.dram_latency()]
    for figure in (*histograms, plot.latency(), plot.convergence(), plot.convergence("val[jj]")):
        figure.canvas.draw()
    if "matplotlib.pyplot" in sys.modules:
        assert sys.modules["matplotlib.pyplot"].get_fignums() == []
    with pytest.raises(ResultError, match="site must be one of"):
        plot.histogram("nope")


def test_latency_plot_stacks_to_the_expected_latency(replay: Replay) -> None:
    axis = replay.plot.latency().axes[0]
    ends = sorted(patch.get_x() + patch.get_width() for patch in axis.patches)
    slowest = max(site.latency_cycles.mean for site in list(replay.sites.values())[:5])
    assert ends[-1] == pytest.approx(slowest)


def test_figures_show_themselves_and_name_what_they_can(replay: Replay) -> None:
    """A PNG for notebooks; a name of 500 characters or with a dollar sign leaves room for the figure."""
    assert replay.plot.latency()._repr_png_().startswith(b"\x89PNG")
    name = "$x$" + "y" * 500
    renamed = replay.dataset.assign_coords(site=[name, *replay.site_names[1:]])
    plot = Replay(renamed).plot
    for figure in (plot.latency(), plot.histogram(name), plot.convergence(name)):
        figure.canvas.draw()
        box = figure.axes[0].get_position()
        assert box.width > 0.3
        assert box.height > 0.2


def test_the_scale_of_convergence_is_that_of_settled_intervals() -> None:
    """The interval of two trials is wider than the axis, those from four on are not."""
    replay = Replay(fake_dataset(n_trials=16))
    ratios = 100 * replay.load_hit_ratio("L1").values
    axis = replay.plot.convergence().axes[0]
    bottom, top = axis.get_ylim()
    mean, half_width = running(ratios)
    assert bottom < (mean - half_width)[3:].min() < (mean + half_width)[3:].max() < top
    assert (mean + half_width)[1] - (mean - half_width)[1] > top - bottom
    ticks = [tick for tick in axis.get_xticks() if 1 <= tick <= 16]
    assert all(tick == int(tick) for tick in ticks)
