"""The time that a report shows is that of the prediction from the same replay."""

from __future__ import annotations

import importlib.metadata
import tomllib
from pathlib import Path

import pytest

import memsim
import tracegen
from calib.prediction.launch_time import operation_rates, time_data, time_of_replay, twice_as_fast
from calib.prediction.prediction import Prediction, predict_replayed
from calib.prediction.report import headline as terminal_headline
from calib.prediction.throughputs import ThroughputError
from calib.prediction.timeline import MOST_STEPS
from experiments.kernels import matmul
from memsim.bounds import with_open_hits
from memsim.machine import load_machine
from memsim.montecarlo import Replay
from memsim.report import BARRIER, WAIT, headline, keep_time, read_time, summarise
from memsim.trace import Trace
from tests.support.cuda_kernels import needs_clang

V100 = load_machine("v100")


@pytest.fixture(scope="module")
def traced() -> list[Trace]:
    return tracegen.trace_snapshots(matmul.tiled(64), V100, snapshots=1)


@pytest.fixture(scope="module")
def replay(traced: list[Trace]) -> Replay:
    return memsim.replay(traced, V100, trials=3)


@pytest.fixture(scope="module")
def prediction(traced: list[Trace], replay: Replay) -> Prediction:
    return predict_replayed(traced, Replay(with_open_hits(replay.dataset)), V100)


def test_the_entry_point_names_this_model() -> None:
    """Whether it is installed or not: an older installation has no such group."""
    project = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())
    (name,) = project["project"]["entry-points"]["memsim.time"].values()
    entry = importlib.metadata.EntryPoint("model", name, "memsim.time")
    assert entry.load() is time_of_replay


def test_the_report_has_the_time_of_the_prediction(
    traced: list[Trace], replay: Replay, prediction: Prediction
) -> None:
    time = summarise(keep_time(replay.dataset, time_of_replay(traced, replay, V100))).time
    assert time.seconds.mean == pytest.approx(prediction.timing.estimate.mean)
    assert time.binds == prediction.timing.binds
    assert time.floor_s <= time.seconds.mean
    steps = time.timeline.steps
    assert len(set(steps)) == len(steps) <= MOST_STEPS
    spans = [span for row in time.timeline.rows for span in row.spans]
    assert {step for step, _, _ in spans} <= {WAIT, BARRIER, *range(len(steps))}
    assert all(0 <= begin <= end for _, begin, end in spans)


def test_a_resource_that_is_twice_as_fast_saves_at_most_half(prediction: Prediction) -> None:
    total = prediction.timing.estimate.mean
    for one in twice_as_fast(prediction):
        assert 0.5 * total * 0.999 <= one["time_s"] <= total, one


@needs_clang
def test_instructions_of_floating_point_units_are_rated(prediction: Prediction) -> None:
    """A product of matrices of n^2 takes 2 n^3 operations; products of integers, a few in each group, run on the same
    units and are not told apart."""
    (rate,) = operation_rates(prediction)
    done = rate["per_s"] * prediction.timing.estimate.mean
    assert 2 * 64**3 <= done <= 1.25 * 2 * 64**3
    assert rate["peak_per_s"] == pytest.approx(2 * 64 * V100.n_cores * V100.clock_hz)
    assert rate["at_most"]


def test_a_machine_without_throughputs_has_no_time(traced: list[Trace], replay: Replay) -> None:
    """The replay then keeps its lower bounds."""
    bare = memsim.replay(traced, V100.replace(throughputs={}), trials=2)
    with pytest.raises(ThroughputError):
        time_of_replay(traced, bare, V100.replace(throughputs={}))
    assert headline(summarise(bare.dataset)).startswith("At least ")


def test_the_data_can_be_read_again(prediction: Prediction) -> None:
    time = read_time(time_data(prediction))
    floors = {name: float(floor.mean()) for name, floor in prediction.timing.floors_s.items()}
    assert time.floors_s == pytest.approx(floors)
    changes = [one["changes"] for one in twice_as_fast(prediction)]
    assert [one.changes for one in time.what_if] == changes


@needs_clang
def test_the_terminal_has_the_pages_headline() -> None:
    """Also where local memory is what fills L1's pipe."""
    slow = V100.replace(throughputs={**V100.throughputs, "local_lanes": 0.25})
    traces = tracegen.trace_snapshots(matmul.tiled(192), slow, snapshots=1)
    replayed = Replay(with_open_hits(memsim.replay(traces, slow, trials=2).dataset))
    made = predict_replayed(traces, replayed, slow)
    page = headline(summarise(keep_time(replayed.dataset, time_data(made))))
    assert terminal_headline(made, time_data(made)) == page
    assert page.endswith("of that is local memory")
