"""The event simulation: times computed by hand, and properties of every run."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calib.prediction.event_simulation import events
from tests.support.cyclic_programs import cyclic, simulate
from tests.twins.event_simulation import readable

CYCLES = st.integers(0, 60).map(float)


@st.composite
def programs(draw: st.DrawFn, most_units: int = 3) -> dict[str, Any]:
    n = draw(st.integers(1, 5))
    n_channel, n_unit = draw(st.integers(1, 3)), draw(st.integers(1, most_units))
    n_quantile = draw(st.sampled_from([1, 4]))

    def cycles(count: int) -> list[float]:
        return draw(st.lists(CYCLES, min_size=count, max_size=count))

    barrier = draw(st.lists(st.booleans(), min_size=n, max_size=n))
    tlp = draw(st.integers(1, 4))

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
        "loads": draw(st.sampled_from([[True] * n, [False] * n, [k % 2 == 0 for k in range(n)]])),
        "waits": draw(st.sampled_from([[True] * n, [k % 2 == 0 for k in range(n)]])),
        "lag": draw(
            st.sampled_from([[], draw(st.lists(st.integers(-1, 4), min_size=n, max_size=n))])
        ),
        "channel_used": np.full((n, n_channel), draw(st.sampled_from([0.0, 0.3, 1.0]))),
        "own_channels": draw(
            st.sampled_from(
                [[], draw(st.lists(st.booleans(), min_size=n_channel, max_size=n_channel))]
            )
        ),
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


def test_channels_of_their_own_are_not_shared_by_cores() -> None:
    """Two cores move 30 each at once: of twice one core's share a channel serves 15 and 30, their own serve 30 each."""
    program = ([0], [0], [[30]], [False])
    shared, own = (
        events(*program, tlp=1, blp=1, cores=2, own_channels=[one]) for one in (False, True)
    )
    assert shared.ready_cycles.tolist() == [15, 30]
    assert own.ready_cycles.tolist() == [30, 30]


def test_a_unit_serves_sub_groups_in_turns() -> None:
    """Blocks of 16 in turns of 8: they end after 24 and 32, not after 16 and 32; what comes after is not in turns."""
    given = ([16, 4], [0, 100], [[0], [0]], [False, False])
    whole, turns = (events(*given, tlp=2, blp=1, turn_cycles=most) for most in (math.inf, 8))
    assert whole.issued_cycles.tolist() == [16, 32, 36, 40]
    assert turns.start_cycles.tolist() == [0, 8, 32, 36]
    assert turns.issued_cycles.tolist() == [24, 32, 36, 40]
    assert turns.end_cycles == 140


def test_a_group_waits_for_the_sub_group_with_the_longest_path() -> None:
    """One sub-group loads once, the other twice; after the barrier both work for 10."""
    alike = events([4, 10], [100, 0], [[0], [0]], [True, True], tlp=2, blp=1)
    assert alike.end_cycles == 4 + 4 + 100 + 10 + 10
    program = ([4, 4, 10], [100, 100, 0], [[0], [0], [0]], [False, True, False])
    apart = events(*program, tlp=2, blp=1, paths=[[1, 2], [0, 1, 2]])
    # The second begins at 4 and again at 108, and its data arrive at 212.
    assert apart.step.tolist() == [0, 0, 1, 1, 2]
    assert apart.end_cycles == 4 + 4 + 100 + 4 + 100 + 10 + 10


def test_one_sub_group_waits_for_all_its_latency() -> None:
    simulated = events([4, 6], [100, 10], [[20], [0]], [False, False], tlp=1, blp=1)
    np.testing.assert_array_equal(simulated.start_cycles, [0, 4 + 100 + 20])
    np.testing.assert_array_equal(simulated.ready_cycles, [124, 124 + 6 + 10])
    assert simulated.end_cycles == 140


def test_sub_groups_share_the_units_while_each_waits_for_its_own_results() -> None:
    """A block occupies its unit for 10 cycles, and takes 25 of a sub-group that is alone. Two end together after 25;
    of four, the unit needs 40, and the last two wait for it."""
    for n, ready in ((1, [25]), (2, [25, 25]), (4, [25, 25, 30, 40])):
        simulated = events([10], [0], [[0]], [False], tlp=1, blp=n, alone_cycles=[25])
        np.testing.assert_array_equal(simulated.ready_cycles, ready)


def test_two_sub_groups_hide_each_others_latency() -> None:
    """A block issues for 10 cycles and waits for 15: the second sub-group hides 10 of them."""
    simulated = events([10, 10], [15, 0], [[0], [0]], [False, False], tlp=1, blp=2)
    np.testing.assert_array_equal(simulated.subgroup, [0, 1, 0, 1])
    np.testing.assert_array_equal(simulated.start_cycles, [0, 10, 25, 35])
    assert simulated.end_cycles == 45


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


def test_a_channel_serves_requests_one_after_another() -> None:
    """Three requests at 1, 2 and 3; the first byte comes after 50, and each transfer takes 30."""
    simulated = events([1], [50], [[30]], [False], tlp=3, blp=1)
    np.testing.assert_array_equal(simulated.ready_cycles, [81, 111, 141])


def test_cores_share_a_channel() -> None:
    """Two cores share a channel twice as wide: a request alone is served in half the time."""
    simulated = events([1], [50], [[30]], [False], tlp=1, blp=1, cores=2)
    np.testing.assert_array_equal(simulated.core, [0, 1])
    np.testing.assert_array_equal(simulated.start_cycles, [0, 0])
    np.testing.assert_array_equal(simulated.ready_cycles, [66, 81])


def test_a_busy_core_may_use_the_bandwidth_that_others_leave() -> None:
    """Two requests at once, of 30 each: both end when they would with half of the channel each."""
    simulated = events([1], [0], [[30]], [False], tlp=4, blp=2, cores=4)
    assert simulated.end_cycles == 1 + 8 * 30


def test_channels_are_independent() -> None:
    """Two channels transfer concurrently: the block waits for the longer transfer."""
    simulated = events([1], [0], [[30, 50]], [False], tlp=2, blp=1)
    np.testing.assert_array_equal(simulated.ready_cycles, [51, 101])


def test_a_barrier_stops_its_group_and_no_other() -> None:
    """Sub-groups 0 and 1 continue when the data of both have arrived, at 20 + 100; 2 and 3 likewise."""
    simulated = events([10, 1], [100, 0], [[0], [0]], [True, False], tlp=2, blp=2)
    second = simulated.block == 1
    starts = dict(
        zip(simulated.subgroup[second].tolist(), simulated.start_cycles[second], strict=True)
    )
    assert starts == {0: 120, 1: 121, 2: 140, 3: 141}


def test_units_work_for_different_sub_groups_at_once() -> None:
    """Block 0 needs unit 0 for 10 cycles, and block 1 unit 1: while one sub-group has one, the other has the
    other one. With one unit for both, the last of two rounds ends at 80."""
    program: Any = ([0, 0], [[0], [0]], [False, False])
    apart = events([[10, 0], [0, 10]], *program, tlp=2, blp=1, rounds=2)
    np.testing.assert_array_equal(apart.start_cycles, [0, 10, 10, 20, 20, 30, 30, 40])
    assert apart.end_cycles == 50
    assert events([10, 10], *program, tlp=2, blp=1, rounds=2).end_cycles == 80


def test_a_block_waits_for_the_unit_that_it_needs_longest() -> None:
    """Unit 0 is occupied from 10 to 20 by sub-group 1. The second block of sub-group 0 needs it for 1 cycle and unit
    1 for 8: it begins at 10, and its issue ends when unit 0 has served it, at 21."""
    program: Any = ([0, 0], [[0], [0]], [False, False])
    both = events([[10, 0], [1, 8]], *program, tlp=2, blp=1)
    np.testing.assert_array_equal(both.subgroup, [0, 1, 0, 1])
    np.testing.assert_array_equal(both.start_cycles, [0, 10, 10, 20])
    np.testing.assert_array_equal(both.issued_cycles, [10, 20, 21, 28])


@pytest.mark.parametrize(("tlp", "blp"), [(1, 3), (3, 1)])
def test_sub_groups_of_all_groups_take_turns(tlp: int, blp: int) -> None:
    program: Any = ([10, 10], [0, 0], [[0], [0]], [False, False])
    whole = events(*program, tlp=tlp, blp=blp, rounds=2)
    assert whole.subgroup.tolist() == [0, 1, 2] * 4


def test_groups_that_began_together_hide_nothing_of_each_other() -> None:
    """Two groups of one sub-group wait for 50 cycles, and then work for 40, in turns of 8: they end 8 cycles
    apart, and each round takes the wait and the work of both, 130."""
    program: Any = ([0, 40], [50, 0], [[0], [0]], [False, False])
    found = events(*program, tlp=1, blp=2, rounds=3, turn_cycles=8)
    ends = np.sort(found.ready_cycles[found.step == 1]).reshape(3, 2)
    np.testing.assert_array_equal(ends[:, 1] - ends[:, 0], 8)
    np.testing.assert_array_equal(ends[:, 0], [122, 252, 382])


def test_stores_are_not_waited_for_and_later_loads_queue_behind_them() -> None:
    """A store occupies the channel from 1 to 31; a load that follows is served until 36, and arrives at 86."""
    program: Any = ([1, 1], [0, 50], [[30], [5]], [False, False])
    given: Any = {"tlp": 1, "blp": 1, "loads": [False, True], "waits": [False, True]}
    stored = events(*program, **given)
    assert stored.start_cycles.tolist() == [0, 1]
    assert stored.ready_cycles.tolist() == [1, 31 + 5 + 50]
    awaited = events(*program, **given | {"loads": [True, True], "waits": [True, True]})
    assert awaited.ready_cycles.tolist() == [31, 32 + 5 + 50]


def test_a_load_is_waited_for_where_its_value_is_needed() -> None:
    """The first block loads, the second works for 10, and the third waits for 40 cycles of the channel."""
    program: Any = ([1, 10, 1], [0, 0, 50], [[40], [0], [0]], [False] * 3)
    found = events(*program, tlp=1, blp=1, loads=[True, False, False], waits=[False, False, True])
    assert found.start_cycles.tolist() == [0, 1, 11]
    assert found.end_cycles == 1 + 40 + 50


def test_a_hit_does_not_queue_behind_misses() -> None:
    """Half of the executions use the channel, which is busy until 101: a sub-group waits for half of that."""
    program: Any = ([1, 1], [0, 0], [[100], [10]], [False, False])
    given: Any = {"tlp": 1, "blp": 1, "loads": [False, True], "waits": [False, True]}
    half = events(*program, **given, channel_used=[[1], [0.5]])
    assert half.end_cycles == 2 + 0.5 * (111 - 2)


def test_requests_at_random_wait_as_in_a_queue_with_constant_service() -> None:
    """One block, whose channel is busy for a tenth of the time: 200 x 0.1 / (2 x 0.9) beside its own 10."""
    program: Any = ([0], [90], [[10]], [False])
    many = events(*program, tlp=1, blp=1, rounds=400, queue_cycles=[0.0])
    assert many.end_cycles == 400 * 100
    queued = events(*program, tlp=1, blp=1, rounds=400, queue_cycles=[200.0])
    each = queued.end_cycles / 400
    part = 10 / each
    assert each == pytest.approx(100 + 200 * part / (2 * (1 - part)), rel=0.01)


def test_loads_wait_longer_the_more_is_written_beside_them() -> None:
    """One block, whose channel is busy for a tenth of the time: 200 x 0.1^2 beside its own 10."""
    program: Any = ([0], [90], [[10]], [False])
    queued = events(*program, tlp=1, blp=1, rounds=400, turnaround_cycles=[200.0])
    each = queued.end_cycles / 400
    assert each == pytest.approx(100 + 200 * (10 / each) ** 2, rel=0.01)


def test_latencies_are_drawn_alike_from_all_quantiles() -> None:
    """Of 4 of them, each in a quarter of 2,000 executions (negative control: sub-groups of one number would not be)."""
    found = events([0], [[1, 2, 3, 4]], [[0]], [False], tlp=4, blp=5, rounds=100)
    waits, times = np.unique(found.ready_cycles - found.issued_cycles, return_counts=True)
    assert waits.tolist() == [1, 2, 3, 4]
    assert abs(times - 500).max() < 4 * math.sqrt(2000 * 0.25 * 0.75)
    assert (
        np.ptp(found.ready_cycles[found.subgroup == 0] - found.issued_cycles[found.subgroup == 0])
        > 0
    )


def test_issue_binds() -> None:
    program = cyclic([10, 5], [40, 0], [0, 0])
    four, eight = (rounds * simulate(program, 4, 4, rounds=rounds) for rounds in (4, 8))
    assert eight - four == 4 * 16 * 15


def test_bandwidth_binds() -> None:
    """The channel is never idle after its first byte."""
    rounds = 200
    simulated = simulate(cyclic([1, 1], [70, 0], [30, 0]), 4, 4, rounds=rounds)
    assert simulated == pytest.approx(16 * 30, abs=100 / rounds + 1)


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


@given(program=programs(most_units=1))
def test_the_core_idles_only_when_no_sub_group_can_continue(program: dict[str, Any]) -> None:
    none = {
        "barrier": [False] * len(np.array(program["barrier"])),
        "alone_cycles": [],
        "paths": [],
        "turn_cycles": math.inf,
    }
    program = {**program, **none}
    result = events(**program)
    free = np.zeros(int(str(program["tlp"])) * int(str(program["blp"])))
    left = np.full(len(free), len(result.block) // len(free))
    now = 0.0
    idle = []
    for s, start, issued, ready in zip(
        result.subgroup, result.start_cycles, result.issued_cycles, result.ready_cycles, strict=True
    ):
        if start > now:
            assert free[left > 0].min() == start
            idle.append([now, start])
        assert free[s] <= start
        free[s], now = ready, issued
        left[s] -= 1
    assert result.idle_cycles[0].tolist() == idle
