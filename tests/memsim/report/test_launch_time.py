"""The time of a launch: lower bounds, what a prediction adds, the headline, and its part of the page."""

from __future__ import annotations

import math
import re
from typing import Any

import pytest
import xarray as xr

from memsim.machine.file import load_machine
from memsim.montecarlo.result import Replay
from memsim.report import replay_page
from memsim.report.finding import headline
from memsim.report.launch_time import keep_time, read_time
from memsim.report.summary import summarise
from memsim.report.table import bounds_line
from memsim.report.text import UNKNOWN, rate, seconds, seconds_range
from memsim.report.time_view import time_sections, what_if_bars
from memsim.time_models import with_time
from tests.support.fake_replay import fake_dataset
from tests.support.outline import Outline

MIB = 1 << 20
PREDICTED: dict[str, Any] = {
    "time_s": {"mean": 718e-6, "ci95": [700e-6, 736e-6], "sigma": 2e-5},
    "binds": "DRAM",
    "floors_s": {"DRAM": 640e-6, "L2": 100e-6, "L1": 50e-6},
    "saved_without_s": {"latency": 18e-6},
    "what_if": [{"changes": "DRAM twice as fast", "time_s": 359e-6, "binds": "L2"}],
    "accesses": [{"site": "val[jj]", "not_hidden": 0.71}],
    "rates": [{"name": "FP64", "per_s": 7e11, "peak_per_s": 7e12, "unit": "FLOP", "at_most": True}],
    "timeline": {
        "end_cycles": 100.0,
        "steps": ["start of a group", "block 1"],
        "rows": [{"name": "group 0", "spans": [[-1, 10, 60], [1, 0, 10], [-2, 60, 70]]}],
    },
    "notes": ["a note"],
}


def sized(**sizes: int) -> xr.Dataset:
    return fake_dataset(n_trials=4, arrays=sizes)


def predicted(**changes: Any) -> xr.Dataset:
    return keep_time(fake_dataset(n_trials=4), {**PREDICTED, **changes})


def test_bounds_are_bytes_divided_by_bandwidths() -> None:
    """Of DRAM both directions, of L2 what is read, of L1 what is requested."""
    summary, machine = summarise(fake_dataset(n_trials=4)), load_machine("v100")
    moved, floors = summary.launch.moved, summary.time.floors_s
    written = moved.write_bytes["DRAM"].mean
    dram = moved.read_bytes["DRAM"].mean + written
    stream, reads = 788e9, 867e9  # gpu-benches, of a V100; a stream writes a quarter of its bytes
    per_s = stream + (reads - stream) * (1 - 4 * written / dram)
    assert floors["DRAM"] == pytest.approx(dram / per_s, rel=1e-4)
    per_s = machine.levels[1].bandwidth_bytes_per_cycle * machine.clock_hz
    assert floors["L2"] == pytest.approx(moved.read_bytes["L2"].mean / per_s)
    per_s = machine.levels[0].bandwidth_bytes_per_cycle * machine.n_cores * machine.clock_hz
    assert floors["L1"] == pytest.approx(summary.launch.requested_bytes.mean / per_s)
    assert summary.time.seconds is None


def test_without_a_prediction_the_headline_is_a_bound() -> None:
    summary = summarise(sized(val=MIB))
    expected = seconds(summary.time.floor_s)
    assert headline(summary).startswith(f"At least {expected}, for DRAM; val is read ")
    assert "bound" not in headline(summary)
    assert time_sections(read_time({})) == []  # a launch without any bytes has none


def test_the_headline_says_what_binds_what_it_costs_and_why() -> None:
    dataset = keep_time(sized(val=MIB), PREDICTED)
    times = next(one for one in summarise(dataset).launch.arrays if one.name == "val").times_read
    assert headline(summarise(dataset)) == (
        f"DRAM-bound: 718 ± 18 us, at least 640 us for DRAM; val is read {times:,.1f} times its size"
    )
    once = keep_time(sized(**dict.fromkeys(("rowptr", "val", "ind", "x", "y"), 1 << 34)), PREDICTED)
    assert "no array is read more than once, and val moves most" in headline(summarise(once))


def test_the_headline_of_other_limits() -> None:
    """By latency, the load with the longest wait that nothing hides; by a level, the most requests."""
    late = headline(summarise(predicted(binds="latency")))
    assert re.search(
        r"^Latency-bound: 718 ± 18 us, .*; val\[jj\] waits \d+ cycles, 71 % of them not", late
    )
    level = headline(summarise(predicted(binds="L2")))
    assert level.startswith("L2-bound")
    assert "27.4 sectors per access where 7.6" in level
    local = predicted(binds="L1", floors_s={"L1": 6e-4}, local_share=0.9)
    assert headline(summarise(local)).endswith("for L1; 90 % of that is local memory")
    assert headline(summarise(predicted(binds="issue"))).startswith("Issue-bound: 718 ± 18 us")


def test_the_page_shows_bounds_rates_what_ifs_and_the_timeline() -> None:
    summary = summarise(predicted())
    content = replay_page(predicted())
    assert '<h2 id="time">' in content
    for words in ("at least 640 us, 89 %", "at most 700 GFLOP/s, 10 % of 7 TFLOP/s", "a note"):
        assert words in content
    moved = summary.launch.moved
    dram = moved.read_bytes["DRAM"].mean + moved.write_bytes["DRAM"].mean
    assert rate(dram / 718e-6, "B") in content
    bars = what_if_bars(summary.time)
    assert [str(bar.name) for bar in bars] == ["DRAM twice as fast", "without latency"]
    assert [bar.shown for bar in bars] == ["359 us, -50 %, limited by L2", "700 us, -3 %"]
    assert content.count("<path") == 3, "a path for each of the steps and waits"
    assert "at least, by resource: DRAM 640 us, L2 100 us, L1 50.0 us" in bounds_line(summary.time)


def test_a_change_of_less_than_half_a_per_cent_is_none() -> None:
    time = read_time({**PREDICTED, "saved_without_s": {"latency": 1e-6}, "what_if": []})
    (bar,) = what_if_bars(time)
    assert (bar.kind, bar.shown) == ("bar", "717 us, no change")


@pytest.mark.parametrize(
    "time",
    [
        "", [], "nonsense", {"time_s": 3}, {"time_s": {"mean": -1}, "floors_s": [1]},
        {"time_s": {"mean": 1e-3, "ci95": ["a"]}, "what_if": [1, {"time_s": math.nan}], "rates": {}},
        {"timeline": {"end_cycles": 1, "rows": [{"spans": [[5, 0, 1], [0.5, 0, 1], ["a"], 3]}]}},
    ],
)  # fmt: skip
def test_a_time_of_another_form_is_left_out(time: object) -> None:
    dataset = fake_dataset(n_trials=4, time=time)
    assert headline(summarise(dataset))
    assert not re.search(r"\b(nan|inf)\b", "".join(Outline(replay_page(dataset)).text))


def test_an_interrupted_replay_is_not_timed() -> None:
    replay = Replay(fake_dataset(n_trials=4, interrupted=1))
    assert with_time(replay, [], load_machine("v100")) is replay


def test_times_and_rates_have_three_digits_and_equal_ends_are_one_half_width() -> None:
    times = {
        718e-6: "718 us",
        1.5e-3: "1.50 ms",
        12.0: "12.0 s",
        3e-10: "0.30 ns",
        1234.0: "1,234 s",
    }
    assert {value: seconds(value) for value in times} == times
    rates = {
        2.6149e15: "2.61 P",
        999.4e12: "999 T",
        999.7e12: "1 P",
        1.2e12: "1.2 T",
        7e5: "7e+05 ",
    }
    assert {per_s: rate(per_s, "FLOP") for per_s in rates} == {
        per_s: f"{words}FLOP/s" for per_s, words in rates.items()
    }
    assert seconds_range(241e-6, 250e-6) == "241 us to 250 us"
    assert seconds_range(417.95e-6, 418.05e-6) == "± 50 ns"
    assert seconds_range(1e-6, 1e-6 + 2e-11) == "± <0.1 ns"
    assert {seconds_range(1e-6, 1e-6), seconds_range(0.3, 0.1 + 0.2)} == {UNKNOWN}
