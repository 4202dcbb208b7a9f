"""How full a launch makes the machine, and what the report makes of cores without work, of local memory, and
of resources that bind together."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import xarray as xr

from memsim.report import launch_advice, replay_page
from memsim.report.finding import headline
from memsim.report.launch_advice import LAUNCH_RULES, advise_launch
from memsim.report.launch_time import (
    HOT_LINE,
    STARTS,
    TENSOR,
    keep_time,
    launch_time,
)
from memsim.report.numbers import Summary
from memsim.report.residency import groups_text, limiter_text, waves_text
from memsim.report.summary import summarise
from memsim.report.verdict import first_advice
from tests.memsim.report.test_launch_time import PREDICTED
from tests.support.fake_replay import SITES, fake_dataset
from tests.support.outline import Outline

OCCUPANCY = {"groups_per_core": 16, "limited_by": "items", "occupancy": 1.0}


def replayed(groups: int, sites: Any = SITES) -> xr.Dataset:
    """A launch of so many groups on a V100, whose 80 cores hold 16 each."""
    dataset = fake_dataset(n_trials=4, sites=sites, occupancy=OCCUPANCY)
    return dataset.assign_attrs(of_groups=groups, traced_groups=groups)


@functools.cache
def untimed(groups: int, sites: Any) -> Summary:
    return summarise(replayed(groups, sites))


def launched(groups: int, sites: Any = SITES, **time: Any) -> Summary:
    """What is known of such a launch, with a predicted time."""
    summary = untimed(groups, sites)
    found = launch_time({**PREDICTED, **time}, summary.launch, summary.machine)
    return replace(summary, time=found)


def doubled(**saved: float) -> list[dict[str, Any]]:
    """What resources that are twice as fast would save of the time."""
    return [
        {"changes": f"{name} twice as fast", "time_s": (1 - part) * 718e-6, "binds": ""}
        for name, part in saved.items()
    ]


LAUNCH, FULL = "occupancy, limited by the launch: it has", "100 % occupancy, limited by work-items"


@pytest.mark.parametrize(
    ("groups", "resident", "limiter", "waves"),
    [
        (32, "1 group", f"6 % {LAUNCH} 32 groups for 80 cores, of which 48 have none", ""),
        (80, "1 group", f"6 % {LAUNCH} 80 groups for 80 cores", ""),
        (81, "2 groups", f"12 % {LAUNCH} 81 groups for 80 cores", ""),
        (1200, "15 groups", f"94 % {LAUNCH} 1,200 groups for 80 cores", ""),
        (1201, "16 groups", FULL, ""),
        (1280, "16 groups", FULL, ""),
        (1281, "16 groups", FULL, "1.00 waves: 1,281 groups, of which all cores hold 1,280 at a time"),
        (3200, "16 groups", FULL, "2.50 waves: 3,200 groups, of which all cores hold 1,280 at a time"),
    ],
)  # fmt: skip
def test_occupancy_is_that_of_the_launch(
    groups: int, resident: str, limiter: str, waves: str
) -> None:
    one = launched(groups)
    assert (groups_text(one), limiter_text(one), waves_text(one)) == (resident, limiter, waves)


def test_cores_without_a_group_are_the_finding_where_what_binds_is_a_cores_own() -> None:
    idle = launched(32, binds="L1")
    assert headline(idle).endswith("; 48 of 80 cores have no group")
    assert first_advice(idle).startswith("Try first: Give every core work: 48 of 80 cores")
    for summary in (launched(32), launched(32, binds="L2"), launched(73, binds="L1")):
        assert "no group" not in headline(summary), summary.time.binds
        assert not any(advice.name == "Give every core work" for advice in advise_launch(summary))
    page = replay_page(keep_time(replayed(32), {**PREDICTED, "binds": "latency"}))
    assert "48 of 80 cores" in "".join(Outline(page).text)


def test_cores_with_more_groups_than_others_are_the_finding_too() -> None:
    """With 100 groups, 20 cores run two: one and a quarter would be even."""
    uneven = launched(100, binds="issue")
    assert headline(uneven).endswith("; 20 of 80 cores run 2 groups, the others 1")
    advice = next(advise_launch(uneven))
    assert advice.gain == "Spread evenly, the work of the busiest is 38 % less."
    for other in (launched(100), launched(160, binds="issue"), launched(715, binds="issue")):
        assert "the others" not in headline(other)


BESIDE = {"DRAM": 640e-6, "L2": 600e-6}
SEVERAL: list[tuple[dict[str, Any], str]] = [
    ({"what_if": doubled(DRAM=0.01, arithmetic=0.09)}, "DRAM twice as fast would save 1 %, arithmetic 9 %"),
    ({"what_if": doubled(DRAM=0.03, L1=0.04), "saved_without_s": {"latency": 0.12 * 718e-6}},
     "DRAM twice as fast would save 3 %, to do without latency 12 %"),
    ({"what_if": doubled(DRAM=0.01, L2=0.02)}, "DRAM twice as fast would save 1 %"),
    ({"what_if": doubled(DRAM=0.01), "floors_s": BESIDE},
     "DRAM twice as fast would save 1 %, because L2 needs 600 us"),
    ({"what_if": doubled(DRAM=-0.01, L2=0.02)}, "DRAM twice as fast would save nothing"),
    *(({"what_if": what_if}, "") for what_if in (doubled(DRAM=0.3, arithmetic=0.4), doubled(L2=0.3), [])),
]  # fmt: skip


@pytest.mark.parametrize(("time", "words"), SEVERAL)
def test_a_resource_that_does_not_bind_alone_says_what_takes_over(
    time: dict[str, Any], words: str
) -> None:
    said = headline(launched(8192, **time))
    assert said.startswith(
        "Bound by several resources: 718 ± 18 us, at least" if words else "DRAM-bound"
    )
    assert said.endswith(f"; {words}") if words else "twice" not in said


def without(name: str, part: float) -> dict[str, Any]:
    return {"binds": name, "saved_without_s": {name: part * 718e-6}, "what_if": []}


def test_atomics_on_one_line_are_named() -> None:
    name, array, _, *others = SITES[-1]
    sites = (SITES[0], (name, array, "atomic", *others))
    dataset = fake_dataset(n_trials=4, sites=sites)
    summary = summarise(keep_time(dataset, {**PREDICTED, "binds": HOT_LINE}))
    n = summary.sites[1].accesses
    assert headline(summary).endswith(f"; y[i] is executed {n:,} times in this snapshot")
    assert "is executed" not in headline(launched(8192, binds=HOT_LINE))
    # Where something else binds, but nothing needs as long as the line, the advice is given, too.
    beside = {"binds": "latency", "floors_s": {HOT_LINE: 359e-6}}
    *_, advice = advise_launch(launched(8192, sites, **beside))
    assert advice.gain == "The busiest line needs 50 % of the time, whatever else is faster."


def test_a_full_core_is_not_to_have_more_work_items() -> None:
    summary = launched(8192, **without("latency", 0.3))
    for occupancy in (1.0, 0.5):
        one = replace(summary, occupancy={**summary.occupancy, "occupancy": occupancy})
        (advice,) = advise_launch(one)
        assert ("more work-items on a core" in advice.how) == (occupancy < 1)


@pytest.mark.parametrize(("subgroups", "names_loops"), [(0, True), (-1, True), (1, False)])
def test_only_a_kernel_with_a_loop_is_to_unroll_it(subgroups: int, names_loops: bool) -> None:
    """No sub-group executes an access twice where there are as many sub-groups as executions of any."""
    dataset = keep_time(replayed(8192), {**PREDICTED, **without("latency", 0.3)})
    most = int(dataset["site_accesses"].values.max())
    known = {-1: {"traced_subgroups": most - 1}, 0: {}, 1: {"traced_subgroups": most}}
    (advice,) = advise_launch(summarise(dataset.assign_attrs(known[subgroups])))
    assert ("unroll loops" in advice.how) == names_loops
    assert ("several elements" in advice.how) != names_loops


def test_the_busiest_unit_decides_how_to_execute_fewer_instructions() -> None:
    for unit, way in (("special", "Compute once"), ("scalar loads", "Unroll"), ("scalar", "Take")):
        summary = faster("issue", "arithmetic", 0.4, busiest_unit=unit)
        (advice,) = advise_launch(summary)
        assert f"is busiest. {way} " in advice.how
    unknown = faster("issue", "arithmetic", 0.4)
    assert not any("busiest" in words for words in (headline(unknown), first_advice(unknown)))


def test_what_would_save_little_is_not_tried_first() -> None:
    """An issue-bound kernel whose loads L1 serves: nothing that is advised about loads changes its time."""
    nothing = {"binds": "issue", "what_if": [], "saved_without_s": {"latency": 0.01 * 718e-6}}
    assert first_advice(launched(8192, **nothing)) == ""
    for part, words in ((0.09, ""), (0.11, "Try first: Coalesce: ")):
        first = first_advice(launched(8192, what_if=doubled(DRAM=part)))
        assert first.startswith(words)
        assert bool(first) == bool(words)


def faster(binds: str, what: str, part: float, **time: Any) -> Summary:
    """A launch of which a resource twice as fast would save a part."""
    return launched(8192, binds=binds, what_if=doubled(**{what: part}), **time)


def of_sites(sites: Any, resource: str, part: float) -> Summary:
    """Of these accesses, limited by a resource that would save a part if it were twice as fast."""
    return launched(8192, sites, binds=resource, what_if=doubled(**{resource: part}))


def unrolled(part: float, site: int = 2) -> Summary:
    """Loads alike, none with a twentieth of the latency; L1 twice as fast would save a part of the time."""
    return of_sites(tuple((f"x[{k}]", "x", *SITES[site][2:]) for k in range(24)), "L1", part)


def scattered(part: float, ideal: float = 4.0) -> Summary:
    """A store of 32 sectors an access, where its bytes are in as many; half as many requests to L2 save a part."""
    name, array, direction, *others = SITES[-1]
    return of_sites(((name, array, direction, *others[:-2], 32.0, ideal),), "L2 requests", part)


LOCAL: dict[str, Any] = {"floors_s": {"L1": 7e-4}, "local_share": 0.9}
CASES: list[tuple[str, Callable[[float], Summary], str, str, str]] = [
    ("Give every core work", lambda part: launched(32 if part > 0.05 else 73, binds="L1"),
     "48 of 80 cores", "", "; 48 of 80 cores have no group"),
    ("Access local memory less", lambda part: faster("L1", "L1", part, **LOCAL),
     "it takes 90 % of the time that L1 needs", "L1 twice as fast would save 30 %.", "90 % of that is local memory"),
    ("Coalesce", unrolled, "24 loads with 100 % of the load latency request 27.4 sectors per access where 7.6"
     " could carry their bytes. Let neighbouring work-items", "Full coalescing requests 72 % fewer sectors.", ""),
    ("Coalesce the store", scattered, "let neighbouring work-items access neighbouring elements",
     "Half as many L2 requests would save 30 %.", "y[i] requests 32.0 sectors per access where 4.0 could carry"),
    ("Have more loads in flight", lambda part: launched(8192, **without("latency", part)),
     "", "Without latency it takes 30 % less.", ""),
    ("Wait less at barriers", lambda part: launched(8192, **without("barriers", part)),
     "", "Without barriers it takes 30 % less.", ""),
    ("Start fewer groups", lambda part: launched(8192, **without("group start", part)),
     "", "Without the start of groups it takes 30 % less.", ""),
    ("Start fewer groups", lambda part: faster(STARTS, STARTS, part), "",
     "Half as many starts of groups would save 30 %.", "8,192 groups begin one after another"),
    ("Have fewer atomics on one place", lambda part: faster(HOT_LINE, HOT_LINE, part), "", "", ""),
    ("Multiply narrower numbers", lambda part: faster(TENSOR, TENSOR, part), "", "", ""),
    ("Have independent instructions", lambda part: launched(8192, **without("dependent instructions", part)),
     "", "Without dependent instructions it takes 30 % less.", ""),
    ("Execute fewer instructions", lambda part: faster("issue", "arithmetic", part, busiest_unit="special"),
     "special functions (such as exp, sqrt and sin) is busiest", "Arithmetic twice as fast would save 30 %.",
     "such as exp, sqrt and sin) is busiest"),
]  # fmt: skip
"""An advice, a launch of which it would save a part, and words of how, of its gain and of the headline for 30 %."""


@pytest.mark.parametrize(("name", "launch", "how", "gain", "said"), CASES)
def test_advice_speaks_where_it_must_and_is_silent_where_it_must(
    name: str, launch: Callable[[float], Summary], how: str, gain: str, said: str
) -> None:
    """It speaks where it would save 6 %, and not where 4 %."""
    assert [advice.name for advice in advise_launch(launch(0.06))] == [name]
    assert not list(advise_launch(launch(0.04)))
    summary = launch(0.3)
    (advice,) = advise_launch(summary)
    assert how in advice.how
    assert gain in advice.gain
    assert said in headline(summary)
    assert first_advice(summary).startswith(f"Try first: {name}: ")


def test_advice_is_silent_where_something_else_binds_or_nothing_is_wrong() -> None:
    for silent in (
        launched(8192, binds="L1", floors_s={"L1": 7e-4}, local_share=0.4),
        launched(8192, **{**without("latency", 0.3), "binds": "DRAM"}),
        scattered(0.4, ideal=32.0),
        unrolled(0.06, site=0),  # coalesced
    ):
        assert not list(advise_launch(silent))
    assert headline(scattered(0.4)).startswith("L2 request-bound: ")
    assert headline(faster(STARTS, STARTS, 0.3)).startswith("Group-start-bound: ")


def test_every_rule_and_every_advice_has_such_launches(monkeypatch: pytest.MonkeyPatch) -> None:
    summaries = [launch(0.06) for _, launch, *_ in CASES]
    given = {
        rule: {advice.name for one in summaries if (advice := rule(one)) is not None}
        for rule in LAUNCH_RULES
    }
    assert all(given.values()), "a rule without a launch where it speaks"
    assert set().union(*given.values()) == {name for name, *_ in CASES}
    # A rule that is added without launches of its own is found, and a rule that is taken away is missed.
    monkeypatch.setattr(launch_advice, "LAUNCH_RULES", LAUNCH_RULES[1:])
    assert not list(advise_launch(launched(32, binds="L1")))
