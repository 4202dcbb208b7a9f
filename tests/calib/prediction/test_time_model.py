"""Times of programs whose cycles are set by hand, and of small kernels through a replay."""

from __future__ import annotations

import dataclasses
import math
from typing import Any, Literal

import numpy as np
import pytest

from calib.prediction.basic_blocks import Block, Program, Repeat
from calib.prediction.costs import DRAM, AccessCosts, core_bandwidth, look_ups_per_cycle
from calib.prediction.inputs import (
    Inputs,
    mean_of_trials,
    occurrences,
    paper_inputs,
    simulated_inputs,
)
from calib.prediction.latency_hiding import LatencyHidingError
from calib.prediction.machine_pipes import READS
from calib.prediction.residency import Residents, residents
from calib.prediction.throughputs import ThroughputError, cycles_of, issue_cycles
from calib.prediction.time_model import Timing, blocks_of, floors_cycles, time_of, timeline
from memsim.machine import Machine, load_machine
from memsim.montecarlo.occupancy import resident_groups
from memsim.report import BULK, IN_TURN
from memsim.statistics import Places, describe
from memsim.trace.model import Launch

V100 = load_machine("v100")


def inputs(
    issue: list[float],
    latency: Any,
    channels: Any,
    *,
    steps: tuple[Any, ...] | None = None,
    barrier: tuple[bool, ...] = (),
) -> Inputs:
    """Blocks 0 (the start of a group) to n; latency (n,) or (n_trial, n), channels (n, n_channel) likewise."""
    n = len(issue)
    latencies = np.atleast_2d(np.asarray(latency, np.float64))
    moved = np.asarray(channels, np.float64).reshape(-1, n, np.shape(channels)[-1])
    barriers = barrier or (False,) * (n - 1) + (True,)
    blocks = tuple(Block(barrier=b, operations={"k": float(k)}) for k, b in enumerate(barriers))
    return Inputs(
        program=Program(blocks=blocks, steps=steps or tuple(range(n))),
        unit_cycles=np.array(issue, np.float64)[:, None],
        pipe_cycles=np.zeros(n),
        latency_cycles=latencies,
        channel_cycles=np.broadcast_to(moved, (len(latencies), *moved.shape[1:])).copy(),
        channels=("L2", DRAM)[: moved.shape[2]],
        barrier=np.array(barriers),
    )


def resident(
    tlp: int, blp: int, rounds: float = 1.0, cores: int = 80, groups: int | None = None
) -> Residents:
    return Residents(
        subgroups_per_group=tlp,
        groups_per_core=blp,
        n_groups=round(rounds * blp * cores) if groups is None else groups,
        n_cores=cores,
    )


def cycles_on_v100(given: Inputs, where: Residents, **options: Any) -> float:
    return time_of(given, where, V100, **options).estimate.mean * V100.clock_hz


def alone(given: Inputs, **options: Any) -> Timing:
    """Of one sub-group."""
    return time_of(given, resident(1, 1), V100, **options)


@pytest.mark.parametrize(
    ("n_groups", "items", "tlp", "blp", "rounds"),
    [
        (1600, 256, 8, 8, 2.5),
        (640, 256, 8, 8, 1.0),
        (100, 256, 8, 2, 1.0),  # 100 groups on 80 cores: two at most on one of them
        (40, 33, 2, 1, 1.0),
    ],
)
def test_residents(n_groups: int, items: int, tlp: int, blp: int, rounds: float) -> None:
    shape = Launch(kernel="k", n_groups=n_groups, group_items=items, registers_per_item=32)
    residency = residents(V100, shape, resident_groups(V100, shape))
    assert (residency.subgroups_per_group, residency.groups_per_core) == (tlp, blp)
    assert residency.rounds == rounds


@pytest.mark.parametrize("solver", ["events", "equation"])
@pytest.mark.parametrize(
    ("issue", "latency", "channel", "cycles", "binds"),
    [
        # 8 sub-groups that issue 16 each: the wait of 50 is covered by the other seven.
        ([0, 8, 8], [0, 50, 0], [0, 0, 0], 8 * 16, "issue"),
        # A channel of 40 a sub-group and next to no issue.
        ([0, 1, 1], [0, 5, 0], [0, 20, 20], 8 * 40, "L2"),
    ],
)
def test_the_time_equals_the_lower_bound_that_limits_it(
    issue: list[float],
    latency: list[float],
    channel: list[float],
    cycles: float,
    binds: str,
    solver: Any,
) -> None:
    """The event simulation repeats the program: in a steady state nothing is lost at its ends."""
    given = inputs(issue, latency, [[w] for w in channel], barrier=(False,) * 3)
    timing = time_of(given, resident(1, 8, rounds=3), V100, solver=solver)
    assert timing.estimate.mean * V100.clock_hz / 3 == pytest.approx(cycles, rel=0.03)
    assert timing.binds == timing.binds_at_a_glance == binds


def test_latency_binds() -> None:
    """One sub-group alone: 30 cycles of issue and 500 of waiting; or 10 and 300 at the start."""
    given = inputs([0, 10, 20], [0, 500, 0], [[0], [0], [0]])
    timing = time_of(given, resident(1, 1, rounds=2), V100)
    assert timing.estimate.mean * V100.clock_hz == pytest.approx(2 * 530)
    assert (timing.binds, timing.binds_at_a_glance) == ("latency", "waits")
    assert timing.parts_s["latency"] * V100.clock_hz == pytest.approx(2 * 500)
    np.testing.assert_allclose(timing.exposed, [0, 1, 0])
    start = alone(inputs([0, 10], [300, 0], [[0], [0]]))
    assert start.parts_s["group start"] * V100.clock_hz == pytest.approx(300)
    assert start.binds == "group start"


@pytest.mark.parametrize(("subgroups", "not_hidden"), [(1, 1), (2, 64 / 72), (9, 8 / 72), (10, 0)])
def test_the_wait_that_is_not_hidden_is_the_time_in_which_a_core_issues_nothing(
    subgroups: int, not_hidden: float
) -> None:
    """A block of 8 cycles, whose data arrive 72 cycles later: each other sub-group covers 8 of them."""
    given = inputs([0, 8, 0], [0, 72, 0], [[0], [0], [0]], barrier=(False,) * 3)
    timing = time_of(given, resident(1, subgroups), V100)
    np.testing.assert_allclose(timing.exposed, [0, not_hidden, 0], atol=1e-9)


@pytest.mark.parametrize("solver", ["events", "equation"])
def test_dram_idles_while_l1_serves_hits(solver: Literal["events", "equation"]) -> None:
    """20 sub-groups of 30 cycles of L1 and 100 of DRAM, which overlap; if 25.5 of the 30 do not, the time is 125.5
    for 100."""
    given = dataclasses.replace(
        inputs([0, 0, 0], [0, 0, 0], [[0], [100], [0]], barrier=(False,) * 3),
        pipe_cycles=np.array([0.0, 30.0, 0.0]),
        channels=("DRAM",),
    )
    both, in_turn = (
        time_of(dataclasses.replace(given, idle_cycles=idle), resident(20, 1), V100, solver=solver)
        for idle in ((), (0.0, 25.5, 0.0))
    )
    assert IN_TURN not in both.parts_s
    floor_s = both.floor_means_s["DRAM"]
    assert both.estimate.mean < 1.1 * floor_s
    assert in_turn.estimate.mean == pytest.approx(1.255 * floor_s)
    assert in_turn.parts_s[IN_TURN] == pytest.approx(in_turn.estimate.mean - both.estimate.mean)
    assert in_turn.parts_s["latency"] == 0
    assert in_turn.binds == "DRAM"


@pytest.mark.parametrize(("dram", "l1", "binds"), [(100, 30, "DRAM"), (40, 100, "L1")])
def test_where_dram_waits_for_l1_one_of_them_binds(dram: int, l1: int, binds: str) -> None:
    """Requests of L2 take longer than either, but were they faster, nothing would be saved."""
    given = dataclasses.replace(
        inputs([0, 0, 0], [0, 0, 0], [[0, 0], [110, dram], [0, 0]], barrier=(False,) * 3),
        pipe_cycles=np.array([0.0, l1, 0.0]),
        channels=("L2 requests", "DRAM"),
    )
    both, in_turn = (
        time_of(dataclasses.replace(given, idle_cycles=idle), resident(20, 1), V100)
        for idle in ((), (0.0, 0.85 * l1, 0.0))
    )
    assert both.binds == "L2 requests"
    assert in_turn.binds == binds


def test_barriers_bind() -> None:
    """Two sub-groups with data after 100 and 190 cycles: a barrier makes both wait for the later.

    Without it one issues while the other waits.
    """
    given = inputs([0, 100, 100], [0, 100, 0], [[0], [0], [0]], barrier=(False, True, True))
    free = dataclasses.replace(given, barrier=np.array([False, False, True]))
    timing, without = (time_of(one, resident(2, 1), V100) for one in (given, free))
    saved = timing.estimate.mean - without.estimate.mean
    assert saved > 0
    assert timing.parts_s["barriers"] == pytest.approx(saved)


@pytest.mark.parametrize("solver", ["events", "equation"])
def test_a_loop_that_is_cut_lasts_as_long_as_the_whole(solver: Any) -> None:
    """The event simulation runs six iterations and adds the others; here all of them are run."""
    given: Any = ([0, 5, 7, 3], [10, 90, 40, 0], [[0], [6], [0], [0]])
    folded, whole = ((0, *loop, 3) for loop in ([Repeat((1, 2), 40)], (1, 2) * 40))
    times = [
        time_of(inputs(*given, steps=steps), resident(2, 2), V100, solver=solver)
        for steps in (folded, whole)
    ]
    assert times[0].estimate.mean == pytest.approx(times[1].estimate.mean, rel=0.02)
    for name, floor in times[0].floors_s.items():
        np.testing.assert_allclose(floor, times[1].floors_s[name])


def test_a_million_blocks_are_no_more_than_their_kinds() -> None:
    steps = (0, Repeat((1,), 10**6), 2)
    many = inputs([0, 5, 7], [10, 90, 0], [[0], [6], [0]], steps=steps)
    blocks, pairs = blocks_of(many)
    assert len(pairs) == 4
    assert blocks.count.sum() == 10**6 + 2
    # 8 sub-groups: 40 issued and 48 moved a turn. One waits for 5 + 90, and for 6 of its core's share of
    # a channel that four cores have together.
    each = cycles_on_v100(many, resident(4, 2)) / 10**6
    assert each == pytest.approx(5 + 90 + 6 / 4, rel=1e-3)


def test_reads_of_operands_take_time_and_are_no_floor() -> None:
    """How instructions share the banks of registers was fitted, so that it bounds nothing."""
    made = inputs([0, 10], [0, 0], np.zeros((2, 2)))
    both = dataclasses.replace(
        made, unit_cycles=np.array([[0.0, 0.0], [10.0, 13.0]]), units=("slots", READS), at_once=True
    )
    timing = time_of(both, resident(4, 2), V100)
    assert timing.floors_s["arithmetic"][0] == pytest.approx(8 * 10 / V100.clock_hz)
    assert timing.seconds[0] == pytest.approx(8 * 13 / V100.clock_hz)


def test_time_is_never_below_a_floor_and_never_falls_with_latency() -> None:
    rng = np.random.default_rng(5)
    for _ in range(20):
        n = int(rng.integers(2, 6))
        issue = [0.0, *rng.uniform(1, 40, n - 1)]
        latency = np.array([0.0, *rng.uniform(0, 600, n - 1)])
        channels = rng.uniform(0, 60, (n, 2))
        where = resident(int(rng.integers(1, 5)), int(rng.integers(1, 5)))
        given, slower = (inputs(issue, times * latency, channels) for times in (1, 2))
        events, equation = (time_of(given, where, V100, solver=s) for s in ("events", "equation"))
        for timing in (events, equation):
            for floor in timing.floors_s.values():
                assert (timing.seconds >= floor * (1 - 1e-12)).all()
        longer = time_of(slower, where, V100, solver="equation")
        assert longer.seconds[0] >= equation.seconds[0]


def test_uncertain_hits_make_an_uncertain_time() -> None:
    """Each trial has its own time: where nothing is hidden, its interval is that of the latencies."""
    rng = np.random.default_rng(8)
    off = rng.normal(0, 30, 12)
    waits = 400 + np.concatenate([off, -off])  # no skewness: the interval is Student's
    latency = np.stack([np.zeros(24), waits, np.zeros(24)], axis=1)
    timing = alone(inputs([0, 10, 20], latency, [[0], [0], [0]]))
    assert timing.seconds.shape == (24,)
    cycles = timing.seconds * V100.clock_hz
    np.testing.assert_allclose(cycles, 30 + waits)
    assert timing.estimate.high - timing.estimate.mean == pytest.approx(
        2.0687 * waits.std(ddof=1) / math.sqrt(24) / V100.clock_hz, rel=1e-3
    )  # Student's t at 23 degrees of freedom
    hidden = time_of(inputs([0, 8, 8], latency, [[0], [0], [0]]), resident(1, 64), V100)
    # A core ends its groups in another order then.
    assert np.ptp(hidden.seconds) < 0.02 * hidden.seconds.mean()
    assert np.ptp(timing.seconds) > 0.2 * timing.seconds.mean()


def test_the_mean_of_trials_weighs_places_as_estimates_do() -> None:
    """Three trials of a sample, and two of a place that is a quarter of the launch."""
    waits, places = [100.0, 500.0, 200.0, 700.0, 300.0], Places(2, 0.0, (0.25,))
    given = inputs([0, 10, 20], [[0, wait, 0] for wait in waits], [[0], [0], [0]])
    found = mean_of_trials(given, places)
    assert found.latency_cycles.tolist() == [[0, 0.75 * 200 + 0.25 * 600, 0]]
    assert describe(waits, places).mean == pytest.approx(300)
    timing = alone(given, places=places)
    assert timing.parts_s["latency"] * V100.clock_hz == pytest.approx(300)


def test_the_paper_counts_as_it_prints() -> None:
    given = inputs([0, 10], [0, 1000], [[0], [0]], barrier=(False, False))
    timing = time_of(given, resident(4, 2), V100, mode="paper")
    # Block 0 issues nothing and waits for nothing; the 8 waits of 1000 are covered for 70 cycles each,
    # for those behind, in block 1, and none in front, where block 0 follows.
    waits = sum(1000 - 10 * (8 - j) for j in range(1, 9))
    assert timing.estimate.mean * V100.clock_hz == pytest.approx(80 + waits)
    assert (timing.mode, timing.solver) == ("paper", "equation")
    with pytest.raises(LatencyHidingError, match="no mode 'simulated' with solver 'guess'"):
        alone(given, solver="guess")


def test_the_timeline_is_of_the_mean_trial() -> None:
    latency = np.array([[0, 100, 0], [0, 300, 0]])
    result = timeline(inputs([0, 10, 20], latency, [[0], [0], [0]]), resident(1, 1), rounds=1)
    assert result.block.tolist() == [0, 1, 2]
    np.testing.assert_array_equal(result.start_cycles, [0, 0, 210])
    assert result.end_cycles == pytest.approx(230)


def costs(**changes: Any) -> AccessCosts:
    """Two loads and a store; half of `x` hits L1, the rest L2; `y` goes to DRAM."""
    fields: dict[str, Any] = {
        "sites": ("x", "y", "store z"),
        "loads": np.array([True, True, False]),
        "per_subgroup": np.array([2.0, 1.0, 1.0]),
        "lines": np.array([1.0, 2.0, 1.0]),
        "pipe_cycles": np.array([2.0, 4.0, 1.0]),
        "expected_cycles": np.array([[120.0, 432.0, 0.0]]),
        "served": np.array([[[0.5, 0.0, 0.0], [1.0, 0.0, 0.0]]]),
        "latency_cycles": np.array([[28.0, 212.0, 432.0]]),
        "channel_bytes": np.array([[[64.0, 256.0, 128.0], [0.0, 256.0, 128.0]]]),
        "channels": ("L2", DRAM),
        "channel_bytes_per_cycle": np.array([16.0, 8.0]),
        "dram_quantiles_cycles": np.full((1, 64), 432.0),
        "look_ups": np.array([[1.0, 2.0, 1.0]]),
        "look_ups_per_cycle": 0.5,
        "hot_line_cycles": np.zeros(3),
        "bulk_lines": np.zeros(3),
        "bulk_bytes": np.zeros(3),
        "turnaround_cycles": 0.0,
        "missed_translations": np.zeros((1, 3)),
    }
    return AccessCosts(**{**fields, **changes})


def known_program() -> Program:
    """x and y are loaded together, then x again, then z is stored."""
    blocks = (
        Block(accesses=("x", "y"), waits_for=("x", "y"), bytes_per_item=16.0),
        Block(operations={"fp64_fma": 4}, accesses=("x",), waits_for=("x",), bytes_per_item=8.0),
        Block(operations={"fp64_fma": 1}, accesses=("store z",), barrier=True, bytes_per_item=8.0),
    )
    return Program(blocks=blocks, steps=(0, 1, 2))


def known_inputs(
    machine: Machine = V100,
    program: Program | None = None,
    latency: Any = "slowest",
    **changes: Any,
) -> Inputs:
    """changes : of the costs"""
    blocks, where = program or known_program(), resident(2, 3)
    return simulated_inputs(blocks, costs(**changes), machine, where, latency=latency)


def test_few_groups_share_what_all_would() -> None:
    """Of 80 cores one has a group: it has all of DRAM to itself, and of L2 what its port of 64 bytes a cycle carries."""
    all_cores, one = (
        simulated_inputs(known_program(), costs(), V100, where).channel_cycles[0, 1]
        for where in (resident(2, 1, groups=80), resident(2, 1, groups=1))
    )
    port = V100.levels[1].bandwidth_bytes_per_cycle / 80 / 64
    np.testing.assert_allclose(one, all_cores * [port, 1 / 80, 1 / 80])


def test_a_lone_group_reads_what_it_has_in_flight() -> None:
    """32 sub-groups that each wait 500 cycles for 512 bytes, a thousand times: DRAM could deliver 50 times as much."""
    machine = load_machine("h200")
    given = dataclasses.replace(
        inputs([0, 0, 0], [0, 500, 0], [[0], [512 / 17], [0]], steps=(0, Repeat((1,), 1000), 2)),
        channels=(DRAM,),
    )
    lone = resident(32, 1, cores=132, groups=1)
    shared = dataclasses.replace(given, channel_cycles=given.channel_cycles / 132)
    timing = time_of(shared, lone, machine)
    assert timing.estimate.mean == pytest.approx(500e3 / machine.clock_hz, rel=0.05)
    assert timing.binds == "latency"


def test_inputs_are_those_of_the_replay() -> None:
    result = known_inputs()
    # 32 lanes / 32 fp64 a cycle: one cycle an instruction; L1's pipe beside it.
    np.testing.assert_allclose(result.issue_cycles, [0, 2 + 4, 4 + 2, 1 + 1])
    # y never hits, so block 1 waits for DRAM; x alone is half in L1 and half in L2.
    np.testing.assert_allclose(result.latency_cycles, [[368, 432, (28 + 212) / 2, 0]])
    # L2: (64 + 256) / 16, 64 / 16, 128 / 16; DRAM: 256 / 8, 0, 128 / 8; look-ups: (1 + 2) / 0.5, 1 / 0.5, 1 / 0.5.
    expected = [[0, 0, 0], [20, 32, 6], [4, 0, 2], [8, 16, 2]]
    np.testing.assert_allclose(result.channel_cycles[0], expected)
    assert result.channels == ("L2", DRAM, "L2 requests")
    assert result.loads == (True, True, True, False)
    assert result.waits == (True, True, True, False)
    assert V100.dram_idle_during_l1_percent == 100
    # Half of x is in L1, whose pipe is occupied 4 cycles by block 1 (x and y) and 2 by block 2 (x).
    assert result.idle_cycles == pytest.approx((0, 1, 1, 0))
    floors = floors_cycles(result, resident(2, 3))
    assert {name: float(value[0]) for name, value in floors.items()} == {
        "arithmetic": 6 * 5,
        "L1": 6 * 9,
        "L2": 6 * 32,
        DRAM: 6 * 48,
        "L2 requests": 6 * 10,
    }


def test_a_group_that_ends_in_a_store_waits_for_it_where_the_machine_does() -> None:
    waiting = V100.replace(store_wait_cycles=364.0)
    stored_before = Program(blocks=known_program().blocks, steps=(2, 0, 1))
    for program, wait in ((known_program(), 364), (stored_before, 0)):
        result = known_inputs(waiting, program)
        np.testing.assert_allclose(result.latency_cycles, [[368, 432, (28 + 212) / 2, wait]])


def test_a_store_is_waited_for_with_the_loads_behind_it() -> None:
    """Half of x comes from L1 in 28 cycles and half from L2 in 212; the store is done after 120."""
    stores, *others = known_program().blocks
    block = dataclasses.replace(stores, accesses=("store z", "x"), waits_for=("store z", "x"))
    program = Program(blocks=(block, *others[::-1]), steps=(0, 1, 2))
    waiting = V100.replace(store_wait_cycles=120.0)
    result = known_inputs(waiting, program)
    assert result.latency_cycles[0, 1] == pytest.approx((120 + 212) / 2)
    assert set(result.latencies_cycles(0)[1].round(6)) == {120, 212}
    no_wait = known_inputs(program=program)
    assert no_wait.latency_cycles[0, 1] == pytest.approx((28 + 212) / 2)


def test_the_slowest_of_several_accesses_is_waited_for() -> None:
    """Of x (one line, half in L1) and y' (two lines, each 3 times in 4 in L1, all in L2):
    all three lines are in L1 with 0.5 x 0.75^2."""
    served = np.array([[[0.5, 0.75, 0.0], [1.0, 1.0, 0.0]]])
    result = known_inputs(served=served)
    inside = 0.5 * 0.75**2
    assert result.latency_cycles[0, 1] == pytest.approx(28 * inside + 212 * (1 - inside))
    expected = known_inputs(latency="expected", served=served)
    assert expected.latency_cycles[0, 1] == 432  # the larger X of the two, as in the replay


def test_accesses_that_were_left_out_cost_as_much_less() -> None:
    """The program accesses x twice, the trace once per sub-group: the costs are halved."""
    result = known_inputs(per_subgroup=np.array([1.0, 1.0, 1.0]))
    np.testing.assert_allclose(result.channel_cycles[0, :, 0], [0, (32 + 256) / 16, 32 / 16, 8])
    np.testing.assert_allclose(result.pipe_cycles, [0, 1 + 4, 1, 1])


def test_look_ups_at_a_rate_that_is_not_known_take_no_time() -> None:
    """As of a machine file without tags_per_cycle; L1 then looks up a line in a cycle."""
    assert known_inputs(look_ups_per_cycle=0.0).channels == ("L2", DRAM)
    unknown = dataclasses.replace(V100.levels[1], tags_per_cycle=0.0)
    assert unknown.first_tags_per_cycle == 1
    machine = V100.replace(levels=(V100.levels[0], unknown))
    assert look_ups_per_cycle(machine) == 0 < look_ups_per_cycle(V100)


def test_bulk_copies_take_their_units_time() -> None:
    """A line a cycle and 64 bytes: narrow rows of x take the former, wide ones of y the latter; each core has its own unit. Where the
    machine has no such rate, they take none."""
    of_bulk = {"bulk_lines": np.array([8.0, 4.0, 0.0]), "bulk_bytes": np.array([256.0, 512.0, 0.0])}
    machine = V100.replace(throughputs={**V100.throughputs, "bulk_lines": 1.0})
    result = known_inputs(machine, **of_bulk)
    at = result.channels.index(BULK)
    np.testing.assert_allclose(result.channel_cycles[0, :, at], [0, 8 + 8, 8, 0])
    assert BULK not in known_inputs(**of_bulk).channels


def test_products_in_tensor_memory_take_all_tensor_cores() -> None:
    """One sub-group alone takes 64 cycles for what a quarter of a core's other units would take four times as long."""
    for kind, times in (("tcgen05_f16_f32", 1), ("tensor_f16_f32", 4)):
        machine = V100.replace(throughputs={**V100.throughputs, kind: 4096.0})
        blocks = (Block(operations={f"issued_{kind}": 8192.0}, accesses=("x",), waits_for=("x",)),)
        result = known_inputs(machine, Program(blocks=blocks, steps=(0,)))
        assert result.alone_cycles[1] == times * 64


def test_the_papers_inputs_ignore_hits() -> None:
    result = paper_inputs(known_program(), V100)
    latency = V100.dram.latency_cycles + V100.dram.row_conflict_cycles
    np.testing.assert_allclose(result.latency_cycles, [[0, latency, latency, latency]])
    share = V100.dram.bandwidth_bytes_per_cycle / 80
    np.testing.assert_allclose(result.channel_cycles[0, :, 0], np.array([0, 16, 8, 8]) * 32 / share)


def test_bandwidths_of_a_core_and_cycles_of_a_warp() -> None:
    """Those of a C1060 are in table 2 of the paper."""
    assert core_bandwidth(V100, "L2") == pytest.approx(1666.667 / 80)
    assert core_bandwidth(V100, DRAM) == pytest.approx(571.014 / 80)
    paper = {"fp32_fma": 4, "fp32_fma_local": 6, "global_load": 4, "local_load": 4, "barrier": 4}
    for machine, cycles in (
        (load_machine("c1060"), paper),
        (V100, {"fp32_fma": 0.5, "fp16_fma": 0.5, "fp64_fma": 1}),
    ):
        for operation, expected in cycles.items():
            assert cycles_of(machine, operation) == pytest.approx(expected), operation


def test_the_paper_adds_what_machine_instructions_take() -> None:
    """4 multiply-adds on 64 lanes, 2 integer instructions on 64, and 3 passes of local memory, of which one is a
    conflict's."""
    counts = {"fma": 4.0, "alu": 2.0, "local_32": 2.0, "conflict": 1.0}
    block = Block(operations={f"issued_{kind}": n for kind, n in counts.items()})
    made = paper_inputs(Program(blocks=(block,), steps=(0,)), V100)
    assert made.issue_cycles[1] == 4 * 32 / 64 + 2 * 32 / 64 + 3 * 32 / 32


def test_all_missing_throughputs_are_named_together() -> None:
    wanted = {"fp64_fma": 3.0, "fp32_special": 1.0, "fp32_fma": 1.0}
    listed = {"fp32_fma": V100.throughputs["fp32_fma"]}
    poor = V100.replace(throughputs=listed)
    words = "machine v100 lists no throughput of fp32_special, fp64_fma: add it to the"
    with pytest.raises(ThroughputError, match=words):
        issue_cycles(poor, wanted)
    with pytest.raises(ThroughputError, match="no throughput of fp64_fma"):
        known_inputs(poor)
    assert issue_cycles(V100, {"fp64_fma": 3.0, "fp32_fma": 2.0}) == 3 + 1


def test_a_group_waits_for_the_sub_group_with_the_longest_path() -> None:
    """Of two sub-groups one waits once for 500 cycles, the other twice; both then issue 8 cycles after a barrier."""
    given = inputs([0, 8, 8, 8], [0, 500, 500, 0], [[0]] * 4, barrier=(False, False, True, True))
    alike, apart = (
        dataclasses.replace(given, program=dataclasses.replace(given.program, paths=paths))
        for paths in ((), ((0, 2, 3), (0, 1, 2, 3)))
    )
    once = dataclasses.replace(alike, program=dataclasses.replace(alike.program, steps=(0, 2, 3)))
    cycles = [cycles_on_v100(one, resident(2, 1)) for one in (once, apart, alike)]
    assert cycles == pytest.approx(
        [16 + 500 + 16, 16 + 500 + 8 + 500 + 16, 16 + 500 + 8 + 500 + 16]
    )
    # How often blocks run is the mean of both.
    assert occurrences(apart).tolist() == [1, 0.5, 1, 1]


def test_sub_groups_with_different_barriers_take_one_path() -> None:
    """Sub-groups that wait at different barriers would never go on: all take the program's own steps."""
    given = inputs([0, 8, 8], [0, 500, 0], [[0]] * 3, barrier=(False, True, True))
    paths = dataclasses.replace(given.program, paths=((0, 2), (0, 1, 2)))
    apart = dataclasses.replace(given, program=paths)
    assert cycles_on_v100(given, resident(2, 1)) == cycles_on_v100(apart, resident(2, 1))


@pytest.mark.parametrize(("groups", "wanted"), [(80, 1.0), (88, 2.0), (160, 2.0), (164, 3.0)])
def test_the_last_round_is_a_whole_one(groups: int, wanted: float) -> None:
    """Groups that have a core each and wait for loads: eight left over take as long as eighty."""
    given = inputs([0, 10, 20], [0, 500, 0], [[0], [0], [0]])
    one, some = (cycles_on_v100(given, resident(1, 1, groups=n)) for n in (80, groups))
    assert some == pytest.approx(wanted * one)


def test_few_groups_of_a_last_round_share_channels_among_themselves() -> None:
    """A launch bound by DRAM moves its bytes in the same time, whatever is left for the last round."""
    given = inputs([0, 1, 1], [0, 10, 0], [[0], [1000], [0]])
    whole, more = (cycles_on_v100(given, resident(8, 2, groups=n)) for n in (160, 200))
    assert more == pytest.approx(1.25 * whole, rel=0.02)
