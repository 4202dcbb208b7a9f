"""The event simulation: times computed by hand, and properties of every run."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calib.prediction.event_simulation import events
from tests.twins.event_simulation import readable

CYCLES = st.integers(0, 60).map(float)


@st.composite
def programs(draw: st.DrawFn) -> dict[str, Any]:
    n = draw(st.integers(1, 5))
    n_channel, n_unit = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    n_quantile = draw(st.sampled_from([1, 4]))

    def listed(of: st.SearchStrategy[Any], count: int) -> list[Any]:
        return draw(st.lists(of, min_size=count, max_size=count))

    def cycles(count: int) -> list[float]:
        return listed(CYCLES, count)

    barrier, tlp = listed(st.booleans(), n), draw(st.integers(1, 4))
    every_other = [k % 2 == 0 for k in range(n)]

    def path() -> list[int]:
        """All blocks that end with a barrier once, others up to twice."""
        times = [1 if ends else draw(st.integers(0, 2)) for ends in barrier]
        return [block for block in range(n) for _ in range(times[block])] or [0]

    return {
        "issue_cycles": np.array(cycles(n * n_unit)).reshape(n, n_unit),
        "latency_cycles": np.array(cycles(n * n_quantile)).reshape(n, n_quantile),
        "channel_cycles": np.array(cycles(n * n_channel)).reshape(n, n_channel),
        "barrier": barrier,
        "tlp": tlp,
        "blp": draw(st.integers(1, 3)),
        "rounds": draw(st.integers(1, 3)),
        "alone_cycles": draw(st.sampled_from([cycles(n), []])),
        "paths": draw(st.sampled_from([[], [path() for _ in range(tlp)]])),
        "turn_cycles": draw(st.sampled_from([math.inf, 25.0, 7.0, 0.5])),
        "loads": draw(st.sampled_from([[True] * n, [False] * n, every_other])),
        "waits": draw(st.sampled_from([[True] * n, every_other])),
        "lag": draw(st.sampled_from([[], listed(st.integers(-1, 4), n)])),
        "channel_used": np.full((n, n_channel), draw(st.sampled_from([0.0, 0.3, 1.0]))),
        "own_channels": draw(st.sampled_from([[], listed(st.booleans(), n_channel)])),
        "queue_cycles": [draw(st.sampled_from([0.0, 40.0]))] * n_channel,
        "turnaround_cycles": [draw(st.sampled_from([0.0, 60.0]))] * n_channel,
    }


@given(program=programs(), cores=st.integers(1, 3))
def test_the_compiled_run_is_the_readable_one(program: dict[str, Any], cores: int) -> None:
    one, other = events(**program, cores=cores), readable(**program, cores=cores)
    for name, values in vars(one).items():
        if name != "idle_cycles":
            np.testing.assert_array_equal(values, getattr(other, name), err_msg=name)
    for idle, expected in zip(one.idle_cycles, other.idle_cycles, strict=True):
        np.testing.assert_array_equal(idle, expected)


NO = [False]
BY_HAND: dict[str, tuple[tuple[Any, ...], dict[str, Any], dict[str, Any]]] = {
    "two cores that move 30 each share a channel of twice one core's share": (
        ([0], [0], [[30]], NO), {"cores": 2}, {"ready_cycles": [15, 30]},
    ),
    "channels of their own are not shared": (
        ([0], [0], [[30]], NO), {"cores": 2, "own_channels": [True]}, {"ready_cycles": [30, 30]},
    ),
    "a busy core may use the bandwidth that others leave, no more than all of it": (
        ([1], [0], [[30]], NO), {"tlp": 4, "blp": 2, "cores": 4}, {"end_cycles": 1 + 8 * 30},
    ),
    "a unit serves sub-groups one after the other": (
        ([16, 4], [0, 100], [[0], [0]], NO * 2), {"tlp": 2}, {"issued_cycles": [16, 32, 36, 40]},
    ),
    "blocks of 16 in turns of 8 end after 24 and 32; what comes after is not in turns": (
        ([16, 4], [0, 100], [[0], [0]], NO * 2), {"tlp": 2, "turn_cycles": 8},
        {"start_cycles": [0, 8, 32, 36], "issued_cycles": [24, 32, 36, 40], "end_cycles": 140},
    ),
    "two groups that began together wait for 50 and work for 40, in turns of 8: they hide nothing of each other": (
        ([0, 40], [50, 0], [[0], [0]], NO * 2), {"blp": 2, "rounds": 3, "turn_cycles": 8},
        {"end_cycles": 3 * 130},
    ),
    # The second begins at 4 and again at 108, and its data arrive at 212; after the barrier both work for 10.
    "a group waits for the sub-group with the longest path": (
        ([4, 4, 10], [100, 100, 0], [[0], [0], [0]], [False, True, False]),
        {"tlp": 2, "paths": [[1, 2], [0, 1, 2]]},
        {"step": [0, 0, 1, 1, 2], "end_cycles": 4 + 4 + 100 + 4 + 100 + 10 + 10},
    ),
    "one sub-group waits for all of its latency": (
        ([4, 6], [100, 10], [[20], [0]], NO * 2), {},
        {"start_cycles": [0, 4 + 100 + 20], "ready_cycles": [124, 124 + 6 + 10], "end_cycles": 140},
    ),
    # The unit needs 40 for four; each of them takes 25 for itself.
    "sub-groups share the units while each waits for its own results": (
        ([10], [0], [[0]], NO), {"blp": 4, "alone_cycles": [25]}, {"ready_cycles": [25, 25, 30, 40]},
    ),
    "a second sub-group hides 10 of 15 cycles": (
        ([10, 10], [15, 0], [[0], [0]], NO * 2), {"blp": 2},
        {"subgroup": [0, 1, 0, 1], "start_cycles": [0, 10, 25, 35], "end_cycles": 45},
    ),
    # Requests at 1, 2 and 3; the first byte comes after 50, and each transfer takes 30.
    "a channel serves requests one after another": (
        ([1], [50], [[30]], NO), {"tlp": 3}, {"ready_cycles": [81, 111, 141]},
    ),
    "a block waits for the longer one of two transfers at once": (
        ([1], [0], [[30, 50]], NO), {"tlp": 2}, {"ready_cycles": [51, 101]},
    ),
    # Sub-groups 0 and 1 go on when the data of both have arrived, at 20 + 100; 2 and 3 likewise.
    "a barrier stops its group and no other": (
        ([10, 1], [100, 0], [[0], [0]], [True, False]), {"tlp": 2, "blp": 2},
        {"subgroup": [0, 1, 2, 3] * 2, "start_cycles": [0, 10, 20, 30, 120, 121, 140, 141]},
    ),
    "units work for different sub-groups at once": (
        ([[10, 0], [0, 10]], [0, 0], [[0], [0]], NO * 2), {"tlp": 2, "rounds": 2},
        {"start_cycles": [0, 10, 10, 20, 20, 30, 30, 40], "end_cycles": 50},
    ),
    # Unit 0 is occupied from 10 to 20 by sub-group 1. The second block of sub-group 0 needs it for 1 cycle and unit
    # 1 for 8: it begins at 10, and its issue ends when unit 0 has served it, at 21.
    "a block waits for the unit that it needs longest": (
        ([[10, 0], [1, 8]], [0, 0], [[0], [0]], NO * 2), {"tlp": 2},
        {"start_cycles": [0, 10, 10, 20], "issued_cycles": [10, 20, 21, 28]},
    ),
    "stores are not waited for and later loads queue behind them": (
        ([1, 1], [0, 50], [[30], [5]], NO * 2), {"loads": [False, True], "waits": [False, True]},
        {"start_cycles": [0, 1], "ready_cycles": [1, 31 + 5 + 50]},
    ),
    "loads are waited for": (
        ([1, 1], [0, 50], [[30], [5]], NO * 2), {}, {"ready_cycles": [31, 32 + 5 + 50]},
    ),
    "a load is waited for where its value is needed": (
        ([1, 10, 1], [0, 0, 50], [[40], [0], [0]], NO * 3),
        {"loads": [True, False, False], "waits": [False, False, True]},
        {"start_cycles": [0, 1, 11], "end_cycles": 1 + 40 + 50},
    ),
    # Half of the executions use the channel, which is busy until 101: a sub-group waits for half of that.
    "a hit does not queue behind misses": (
        ([1, 1], [0, 0], [[100], [10]], NO * 2),
        {"loads": [False, True], "waits": [False, True], "channel_used": [[1], [0.5]]},
        {"end_cycles": 2 + 0.5 * (111 - 2)},
    ),
}  # fmt: skip
"""What holds -> issue, latency, channels and barriers of blocks, further arguments, and the times by hand."""


@pytest.mark.parametrize("what", BY_HAND)
def test_times_by_hand(what: str) -> None:
    program, options, expected = BY_HAND[what]
    found = events(*program, **{"tlp": 1, "blp": 1, **options})
    for name, values in expected.items():
        np.testing.assert_array_equal(getattr(found, name), values, err_msg=name)


@pytest.mark.parametrize(("stages", "turn"), [(1, 104), (2, 52), (3, 40), (4, 40)])
def test_a_software_pipeline_waits_for_loads_of_earlier_turns(stages: int, turn: float) -> None:
    """A turn issues copies for 4 cycles, which take 100, computes for 36, and waits for the copies that have been under way
    for `stages` turns: as many turns take at least 104 cycles."""
    simulated = events(
        [4, 36], [100, 0], [[0], [0]], [False, False], tlp=1, blp=1, rounds=60,
        loads=[True, False], waits=[False, False], lag=[-1, 2 * stages - 1],
    )  # fmt: skip
    starts = simulated.start_cycles[simulated.block == 0]
    assert (starts[-1] - starts[-13]) / 12 == turn


@pytest.mark.parametrize(
    ("given", "wait"),
    [
        ("queue_cycles", lambda part: 200 * part / (2 * (1 - part))),
        ("turnaround_cycles", lambda part: 200 * part**2),
    ],
)
def test_requests_wait_as_in_a_queue_and_for_what_is_written_beside_them(
    given: str, wait: Any
) -> None:
    """One block, whose channel is busy for 10 of 100 cycles. A queue at random with constant service; or turns of the bus."""
    ends = [
        events([0], [90], [[10]], [False], tlp=1, blp=1, rounds=400, **{given: [each]}).end_cycles
        for each in (0.0, 200.0)
    ]
    assert ends[0] == 400 * 100
    assert ends[1] / 400 == pytest.approx(100 + wait(10 * 400 / ends[1]), rel=0.01)


def test_latencies_are_drawn_alike_from_all_quantiles() -> None:
    """Of 4 of them, each in a quarter of 2,000 executions (negative control: sub-groups of one number would not be)."""
    found = events([0], [[1, 2, 3, 4]], [[0]], [False], tlp=4, blp=5, rounds=100)
    waits, times = np.unique(found.ready_cycles - found.issued_cycles, return_counts=True)
    assert waits.tolist() == [1, 2, 3, 4]
    assert abs(times - 500).max() < 4 * math.sqrt(2000 * 0.25 * 0.75)
    first = found.subgroup == 0
    assert np.ptp(found.ready_cycles[first] - found.issued_cycles[first]) > 0


@given(program=programs())
def test_properties_of_every_run(program: dict[str, Any]) -> None:
    result = events(**program)
    issue, latency = np.array(program["issue_cycles"]), np.array(program["latency_cycles"])
    channels = np.asarray(program["channel_cycles"])
    barrier = np.array(program["barrier"])
    tlp, blp, rounds = (int(str(program[name])) for name in ("tlp", "blp", "rounds"))
    n = len(issue)
    paths = program["paths"] or [list(range(n))] * tlp
    assert len(result.block) == rounds * blp * sum(map(len, paths))
    # Blocks begin one after another; each occupies its units, and no unit has more time than there is.
    assert (result.start_cycles[1:] >= result.start_cycles[:-1]).all()
    lasts = result.issued_cycles - result.start_cycles
    assert (lasts >= issue[result.block].max(axis=1) - 1e-9).all()
    assert (result.issued_cycles.max() >= issue[result.block].sum(axis=0) - 1e-9).all()
    alone = np.array(program["alone_cycles"] or [0.0] * n)
    if issue.shape[1] == 1 and not alone.any() and program["turn_cycles"] == math.inf:
        assert (result.start_cycles[1:] >= result.issued_cycles[:-1]).all()
        np.testing.assert_allclose(lasts, issue[result.block, 0])
    # Data come no sooner than latency and every channel's own part, where they are loaded and waited for.
    loads, waits = np.array(program["loads"]), np.array(program["waits"])
    own = (channels * program["channel_used"]).max(axis=1) * (loads & waits)
    least = latency.min(axis=1) + own
    if program["lag"]:  # these wait for other blocks' data
        least *= np.array(program["lag"]) == 0
    assert (result.ready_cycles >= result.issued_cycles + least[result.block] - 1e-9).all()
    for s in range(tlp * blp):
        mine = result.subgroup == s
        np.testing.assert_array_equal(result.block[mine], np.tile(paths[s % tlp], rounds))
        assert (result.start_cycles[mine][1:] >= result.ready_cycles[mine][:-1]).all()
        # Its own results take their time from when it may continue.
        may = np.concatenate([[0.0], result.ready_cycles[mine][:-1]])
        assert (result.issued_cycles[mine] >= may + alone[result.block[mine]] - 1e-9).all()
    for group in range(blp):
        members = [result.subgroup == s for s in range(group * tlp, (group + 1) * tlp)]
        stops = [barrier[result.block[m]] for m in members]
        ready = [result.ready_cycles[m][stop] for m, stop in zip(members, stops, strict=True)]
        after = [
            np.append(result.start_cycles[m], math.inf)[1:][stop]
            for m, stop in zip(members, stops, strict=True)
        ]
        assert (np.min(after, axis=0) >= np.max(ready, axis=0)).all()
    # No order of things beats what the core must do, and each channel, where all of it is waited for.
    assert result.end_cycles >= issue[result.block].sum(axis=0).max() - 1e-9
    waits &= not any(program["lag"])
    if (loads & waits).all() and np.all(program["channel_used"] == 1):
        assert result.end_cycles >= channels[result.block].sum(axis=0).max() - 1e-9
