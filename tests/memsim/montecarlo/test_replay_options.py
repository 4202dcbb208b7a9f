"""The options of a replay: one declaration for the command, Python, the table and provenance."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

import memsim
from memsim.commands import ReplayOutputs, replay_options
from memsim.errors import ReplayError
from memsim.montecarlo.options import WORTH_WORKERS, ReplayOptions, usable_cores
from memsim.options import MOST_SEED, declared
from tests.support.option_tables import markdown_table
from tests.support.order_sensitive import on, trace

PYTHON_ONLY = {"miss_kinds", "counts_start", "deviation", "warmup_waves", "weights", "scratch"}


def parsed(*arguments: str) -> dict[str, Any]:
    """What a command with the options of a replay is called with."""
    received: dict[str, Any] = {}

    @click.command()
    @replay_options
    def command(**values: Any) -> None:
        received.update(values)

    result = CliRunner().invoke(command, arguments, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return received


def test_the_command_makes_the_options_and_has_their_defaults() -> None:
    nothing = ReplayOutputs(counters="sector", html=None, json=None, save=None)
    assert parsed() == {"options": ReplayOptions(), "outputs": nothing}
    received = parsed(
        *("--trials", "5", "--ci", "0.1", "--seed", "2", "--jobs", "3", "--sampler", "gto"),
        *("--dispatch", "round_robin", "--registers", "32", "--groups-per-core", "4", "--warm"),
        *("--random-bases", "--backend", "dask", "--scheduler", "tcp://h:1"),
    )
    expected = {"trials": 5, "ci": 0.1, "seed": 2, "jobs": 3, "sampler": "gto"}
    expected |= {"dispatch": "round_robin", "registers": 32, "groups_per_core": 4, "warm": True}
    expected |= {"random_bases": True, "backend": "dask", "scheduler": "tcp://h:1"}
    assert received["options"] == ReplayOptions(**expected)


def test_every_option_is_documented() -> None:
    rows = markdown_table(ReplayOptions).splitlines()[2:]
    for field, row in zip(dataclasses.fields(ReplayOptions), rows, strict=True):
        assert len(declared(field).help) > 20
        assert row.startswith(f"| `{field.name}` |")
        assert ("Python only" in row) == (field.name in PYTHON_ONLY)


@pytest.mark.parametrize(
    ("given", "n_requests", "most_trials", "half_width"),
    [
        ({}, 1, 64, 0.005),
        ({}, 15_000_000, 30, 0.005),
        ({}, 10**9, 8, 0.005),
        ({"budget": 10.0}, 15_000_000, 10, 0.005),
        ({"trials": 64}, 10**9, 64, None),
        ({"trials": 3}, 1, 3, None),
        ({"ci": 0.01}, 10**9, 1024, 0.01),
        ({"trials": 200, "ci": 0.01}, 1, 200, 0.01),
    ],
)
def test_where_a_replay_stops(
    given: dict[str, Any], n_requests: int, most_trials: int, half_width: float | None
) -> None:
    options = ReplayOptions(**given)
    assert (options.most_trials(n_requests), options.half_width) == (most_trials, half_width)
    # A later change of one of them does not keep what the other was resolved to.
    assert ReplayOptions().replace(**given).half_width == half_width


def test_long_traces_need_fewer_orderings() -> None:
    least = [
        ReplayOptions().least_trials(n) for n in (1, 30_000_000, 40_000_000, 60_000_000, 10**9)
    ]
    assert least == [8, 8, 6, 4, 4]


def test_a_replay_without_a_number_of_trials_stops_at_the_half_width() -> None:
    assert memsim.replay(trace(), on(), ci=0.5).n_trials == 32


def test_only_a_long_replay_gets_workers() -> None:
    options = ReplayOptions(trials=10)
    assert options.workers(WORTH_WORKERS // 10) == 1
    assert options.workers(WORTH_WORKERS // 10 + 1) == min(usable_cores(), 10)
    assert options.replace(jobs=3).workers(1) == 3
    assert options.replace(jobs=30).workers(1) == 10


def test_an_unknown_keyword_is_refused_in_one_line_with_the_nearest_name() -> None:
    with pytest.raises(ReplayError) as caught:
        memsim.replay(trace(), on(), trails=3)
    assert str(caught.value) == "there is no option 'trails'; did you mean 'trials'?"


@pytest.mark.parametrize(
    ("given", "culprit"),
    [
        ({"scheduler": "tcp://h:1"}, "--backend dask"),
        ({"backend": "dask"}, "--scheduler"),
        ({"budget": 5.0, "trials": 8}, "leave out trials .* and ci"),
        ({"budget": 5.0, "ci": 0.01}, "leave out trials .* and ci"),
        ({"trials": 0}, "trials must be at least 1 and at most 1000000, got 0"),
        ({"ci": 0.0}, "ci must be above 0 and below 1, got 0.0"),
        ({"seed": -1}, "seed must be at least 0 and at most 9223372036854775807, got -1"),
        ({"seed": 1 << 63}, "seed must be at least 0 and at most 9223372036854775807, got 922"),
        ({"jobs": 0}, "jobs must be at least 1 and at most 4096, got 0"),
        ({"sampler": "dice"}, "sampler must be one of wrr, lrr, gto, gty, uniform, got 'dice'"),
        ({"warmup_waves": -1}, "warmup_waves must be at least 0, got -1"),
        ({"registers": 0}, "registers must be at least 1, got 0"),
    ],
)
def test_refused(given: dict[str, Any], culprit: str) -> None:
    with pytest.raises(ReplayError, match=culprit):
        ReplayOptions(**given)


def test_provenance_records_every_option_and_the_largest_seed(tmp_path: Path) -> None:
    options = ReplayOptions(trials=2, seed=MOST_SEED, weights=[1] * 24)
    replay = memsim.replay(trace(), on(), options)
    attrs = memsim.Replay.load(replay.save(tmp_path / "k.nc")).attrs
    assert {**attrs, "machine": on()} == {**replay.attrs, "machine": on()}
    recorded = attrs["options"]
    names = {field.name for field in dataclasses.fields(ReplayOptions)} - {"scratch"}
    assert names <= set(recorded)
    assert (recorded["trials"], recorded["ci"], recorded["seed"]) == (2, None, MOST_SEED)
    assert attrs["seed"] == MOST_SEED
    assert recorded["weights"] == [1] * 24
    assert recorded["warmup_waves"] is not None, "what was left open is recorded as it was resolved"


def test_registers_stand_for_those_of_the_trace() -> None:
    launch = dataclasses.replace(trace().launch, registers_per_item=64)
    stated = memsim.replay(trace().replace(launch=launch), on(), trials=2)
    given = memsim.replay(trace(), on(), trials=2, registers=64)
    assert given.attrs["occupancy"] == stated.attrs["occupancy"]
    assert given.dataset.equals(stated.dataset)


def test_kinds_of_misses_are_left_out_and_nothing_else() -> None:
    with_kinds, without = (
        memsim.replay(trace(), on(), trials=2, miss_kinds=kinds).dataset for kinds in (True, False)
    )
    kinds = ["cold_misses", "capacity_misses", "conflict_misses"]
    assert with_kinds[kinds].to_array().sum() > 0
    assert without[kinds].to_array().sum() == 0
    assert with_kinds.drop_vars(kinds).drop_attrs().identical(without.drop_vars(kinds).drop_attrs())
