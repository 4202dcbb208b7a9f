"""Every rule of advice, where it must speak and where it must say nothing."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from memsim.latency import DRAM
from memsim.report.advice import FALLBACKS, RULES, Advice, advise
from memsim.report.launch_time import LaunchTime, read_time
from memsim.report.launch_totals import ArrayTotals, LaunchTotals, Moved
from memsim.report.numbers import SiteNumbers, Summary
from memsim.report.summary import summarise
from memsim.statistics import Estimate
from tests.support.fake_replay import fake_dataset

NO_MISSES = {"cold": 0, "capacity": 0, "conflict": 0}
ACCESSES = 1000
COLD, LATE = {"cold": 100}, {"capacity": 100}


@pytest.fixture(scope="module")
def summary() -> Summary:
    return summarise(fake_dataset(n_trials=4))


def exactly(value: float, half_width: float = 0.0) -> Estimate:
    return Estimate(mean=value, half_width=half_width, sigma=0.0, n_trials=4)


def launch(
    read_bytes: float,
    *,
    size_bytes: int | None,
    half_width: float = 0.0,
    group_requests: float = math.nan,
) -> LaunchTotals:
    """A launch that reads one array `x` from L2 and DRAM, and as much of others from DRAM."""
    read = exactly(read_bytes, half_width)
    moved = Moved(read_bytes={"L2": read, DRAM: read}, write_bytes={"L2": exactly(0.0)})
    everything = Moved(read_bytes={DRAM: exactly(2 * read_bytes)}, write_bytes={})
    return LaunchTotals(
        factor=exactly(1.0),
        requested_bytes=read,
        moved=everything,
        arrays=(
            ArrayTotals(
                name="x", size_bytes=size_bytes, moved=moved, group_requests=group_requests
            ),
        ),
    )


def advice_for(
    summary: Summary,
    *,
    h1: float = 0.0,
    h2: float = 0.0,
    misses: tuple[Mapping[str, int], Mapping[str, int]] = (COLD, COLD),
    sectors: int = 4,
    share: float = 0.5,
    whole: LaunchTotals | None = None,
    time: LaunchTime | None = None,
    **changes: Any,
) -> dict[str, Advice]:
    """Advice by name, for a load of array x whose bytes four sectors an access could carry.

    h1, h2 : hit ratios, from which its latency follows;  misses : by kind, in L1 and in L2
    """
    site: SiteNumbers = summary.loads[0]
    ratios, reaches = (h1, h2), (1.0, 1 - h1)
    n_sectors = ACCESSES * sectors
    levels = tuple(
        replace(
            level,
            misses={**NO_MISSES, **kinds},
            hit_ratio=exactly(ratio),
            reach=reach,
            accesses=reach * n_sectors,
            read_bytes=32 * reach * (1 - ratio) * n_sectors,
        )
        for level, kinds, ratio, reach in zip(site.levels, misses, ratios, reaches, strict=True)
    )
    t1, t2, tm = (summary.latency_of(part) or 0.0 for part in ("L1", "L2", DRAM))
    parts = {"L1": h1 * t1, "L2": (1 - h1) * h2 * t2, DRAM: (1 - h1) * (1 - h2) * tm}
    load = replace(
        site,
        array="x",
        levels=levels,
        latency_parts=parts,
        latency_cycles=exactly(sum(parts.values())),
        share=exactly(share),
        **{
            "accesses": ACCESSES,
            "sectors": n_sectors,
            "ideal_sectors": 4.0 * ACCESSES,
            "useful_bytes": 128 * ACCESSES,
            "itemsize_bytes": 4,
            **changes,
        },
    )
    if whole is not None:
        summary = replace(summary, launch=whole)
    if time is not None:
        summary = replace(summary, time=time)
    return {item.name: item for item in advise(summary, load)}


def test_a_load_with_a_small_share_gets_none(summary: Summary) -> None:
    assert advice_for(summary, sectors=8, share=0.05)
    assert not advice_for(summary, sectors=8, share=0.04)


def test_what_is_used_once_is_not_kept_but_coalesced(summary: Summary) -> None:
    """The columns of a sparse matrix, a row for each work-item: read three times, because neighbours come late."""
    again = launch(3 << 20, size_bytes=1 << 20)
    of_groups = summary.of_groups / summary.traced_groups
    for uses, is_kept in ((1.4, False), (1.6, True)):
        used = int(uses * (1 << 20) / of_groups)
        load = replace(summary.loads[0], array="x", useful_bytes=used)
        alone = replace(summary, sites=(load,))
        advice = advice_for(alone, whole=again, sectors=8)
        assert ("Read it once" in advice) == is_kept
        because = "x (1.0 MiB) is read from DRAM 3.0 times, because sectors are evicted before"
        assert (because in advice["Coalesce"].gain) != is_kept
        assert "Read it once" in advice_for(alone, whole=again)  # nothing to coalesce


def test_fallbacks_speak_where_no_rule_does(summary: Summary) -> None:
    """Each for its own part of the hierarchy."""
    read_again = launch(5 << 20, size_bytes=1 << 20)
    kinds = {"capacity": 4, "conflict": 2, "cold": 4}
    for numbers, name in (
        ({"h1": 0.99}, "Access less often"),
        ({"h2": 0.99, "whole": read_again}, "Stage it"),
        ({"h1": 0.99, "sectors": 6}, "Coalesce"),
        ({"h1": 0.99, "misses": (kinds, kinds)}, "Access less often"),
    ):
        assert list(advice_for(summary, **numbers)) == [name]
    assert advice_for(summary, h2=0.99, whole=launch(0, size_bytes=8))["Stage it"].gain == ""


def easier(not_hidden: float = 1.0, **saved: float) -> LaunchTime:
    """A launch of 100 us, without latency or with a resource twice as fast shorter by a part of it."""
    return read_time(
        {
            "time_s": {"mean": 1e-4},
            "saved_without_s": {"latency": 1e-4 * saved.pop("latency", 0.0)},
            "what_if": [
                {"changes": f"{name} twice as fast", "time_s": 1e-4 * (1 - part), "binds": ""}
                for name, part in saved.items()
            ],
            "accesses": [{"site": "x[col[j]]", "not_hidden": not_hidden}],
        }
    )


AGAIN, ONCE = (launch(5 << 20, size_bytes=1 << 20, group_requests=n) for n in (1.5, 1.2))
THRICE = launch(3 << 20, size_bytes=1 << 20)
UNCERTAIN = launch(3 << 20, size_bytes=1 << 20, half_width=2.5 * (1 << 20))
ROW = {"sectors": 32, "misses": (LATE, COLD)}  # of a layer norm: each sector serves eight accesses
LATE_IN_L1 = {"misses": (LATE, COLD)}
MANY, FEW = {"conflict": 25, "cold": 75}, {"conflict": 24, "cold": 76}
CASES: list[tuple[str, dict[str, Any], str, list[dict[str, Any]]]] = [
    ("Read it once", {"whole": AGAIN}, "Read once, the launch reads 4.0 MiB", [{"whole": launch(1 << 20, size_bytes=1 << 20)}]),
    ("Read it once", {"whole": THRICE}, "x (1.0 MiB) is read from DRAM 3.0 times: keep it in registers or local memory",
     [{"whole": launch(1.4 * (1 << 20), size_bytes=1 << 20)}, {"whole": launch(3 << 20, size_bytes=None)}]),
    ("Read it once", {"whole": THRICE}, "Read once, the launch reads 2.0 MiB (33 %) less from DRAM.",
     [{"whole": UNCERTAIN}, {"h1": 0.996}]),
    ("Coalesce", {**ROW, "h1": 7 / 8}, "Full coalescing requests 88 % fewer sectors of L1; what L1 fetches is used already.", []),
    ("Use whole sectors", {**ROW, "h1": 6 / 8}, "", [{"h1": 7 / 8}]),
    ("Coalesce", {"sectors": 6}, "Full coalescing requests 33 % fewer sectors: 62.5 KiB", [{"sectors": 5}]),
    ("Use whole sectors", {"sectors": 6, **LATE_IN_L1}, "A sector holds 8 elements of 4 B.",
     [{"misses": (COLD, COLD)}, {"itemsize_bytes": 32}, {"direction": "atomic"}, {"sectors": 5}]),
    ("Bring reuse closer", LATE_IN_L1, "work in tiles that fit L1 (128 KiB)",
     [{"misses": (COLD, COLD)}, {"sectors": 6}, {"h1": 0.996}]),  # only 0.4 % of its sectors miss
    ("Bring reuse closer", LATE_IN_L1, "Without its capacity misses in L1, its latency is 9", []),
    ("Bring reuse closer", {"misses": (COLD, LATE)}, "tiles that fit L2 (6.0 MiB)", []),
    ("Change the pitch", {"misses": (MANY, FEW)}, "25 % of its L1 misses are conflicts.", [{"misses": (FEW, FEW)}]),
    ("Change the pitch", {"misses": (MANY, MANY)}, "25 % of its L1 misses and 25 % of its L2 misses are conflicts.", [{"h1": 0.99}]),
    ("Touch fewer pages at a time", {"missed_translations_per_access": 0.25}, "An access misses 0.25 translations.",
     [{"missed_translations_per_access": ratio} for ratio in (0.24, None)]),
    ("Move fewer bytes, or hide the wait", {"misses": ({"cold": 4, "capacity": 6}, {"cold": 5, "capacity": 5})}, "",
     [{"misses": ({"cold": 5, "capacity": 5}, {"cold": 4, "capacity": 6})}, {"h2": 0.9}, {"whole": AGAIN}]),
    ("Hide the wait", {"time": easier(latency=0.1, DRAM=0.03)}, "", [{"time": easier(latency=0.1, DRAM=0.05)}]),
    ("Access less often", {"h1": 0.99}, "", [{"h1": 0.0, "h2": 0.99}]),
    ("Stage it", {"h2": 0.99, "whole": AGAIN}, "", [{"whole": ONCE}]),
    ("Let a group compute more", {"h2": 0.99, "whole": ONCE}, "", [{"whole": AGAIN}]),
]  # fmt: skip
"""Rule, numbers of a load for which it must speak, what it says, and changes of a number after which it must not."""


@pytest.mark.parametrize(("name", "numbers", "words", "changes"), CASES)
def test_a_rule_speaks_and_is_silent(
    summary: Summary, name: str, numbers: dict[str, Any], words: str, changes: list[dict[str, Any]]
) -> None:
    advice = advice_for(summary, **numbers)[name]
    assert words in f"{advice.how} {advice.gain}"
    for change in changes:
        assert name not in advice_for(summary, **{**numbers, **change}), change


def test_every_rule_has_a_case() -> None:
    names = [rule.name for rule in (*RULES, *FALLBACKS)]
    assert len(set(names)) == len(names)
    assert set(names) == {name for name, *_ in CASES}


@pytest.mark.parametrize(
    ("name", "numbers", "eased"),
    [
        ("Read it once", {"whole": launch(3 << 20, size_bytes=1 << 20)}, (DRAM, "latency")),
        ("Coalesce", {"sectors": 8}, ("L1", "L2", DRAM, "translation", "latency")),
        ("Coalesce", {"sectors": 32, "h1": 7 / 8}, ("L1",)),
        ("Bring reuse closer", {"misses": (COLD, LATE)}, (DRAM, "latency")),
        ("Change the pitch", {"misses": ({"conflict": 9}, COLD)},
         ("L2", DRAM, "translation", "latency")),
        ("Touch fewer pages at a time", {"missed_translations_per_access": 1.0},
         ("translation", "latency")),
        ("Move fewer bytes, or hide the wait", {}, (DRAM,)),
        ("Hide the wait", {}, ("latency",)),
        ("Access less often", {"h1": 0.99}, ("L1", "latency")),
        ("Stage it", {"h2": 0.99}, ("L2", DRAM, "translation", "latency")),
    ],
)  # fmt: skip
def test_rules_are_silent_where_what_they_ease_saves_no_time(
    summary: Summary, name: str, numbers: dict[str, Any], eased: tuple[str, ...]
) -> None:
    for resource in ("L1", "L2", DRAM, "translation", "latency"):
        worth = advice_for(summary, time=easier(**{resource: 0.05}), **numbers)
        assert (name in worth) == (resource in eased), resource
        assert name not in worth or worth[name].saves == pytest.approx(0.05)
        assert name not in advice_for(summary, time=easier(**{resource: 0.04}), **numbers)
    assert not advice_for(summary, time=easier(arithmetic=0.5), **numbers)


def test_latency_that_is_hidden_is_not_eased(summary: Summary) -> None:
    site = summary.loads[0].name
    seen, hidden = (replace(easier(latency=0.3), not_hidden={site: part}) for part in (0.06, 0.04))
    assert "Access less often" in advice_for(summary, h1=0.99, time=seen)
    assert not advice_for(summary, h1=0.99, time=hidden)


def test_what_a_group_loads_once_is_staged_already(summary: Summary) -> None:
    """A tile that is copied into local memory: 1.2 requests of a group for each sector, for tiles overlap."""
    (staged,) = advice_for(summary, h2=0.99, whole=AGAIN).values()
    assert staged.gain == "x (1.0 MiB) is read from L2 5.0 times."
    (advice,) = advice_for(summary, h2=0.99, whole=ONCE).values()
    assert advice.name == "Let a group compute more"
    assert "but x (1.0 MiB) is read from L2 5.0 times" in advice.how
    little = launch(1 << 20, size_bytes=1 << 20, group_requests=1.2)
    assert not advice_for(summary, h2=0.99, whole=little)
    for name, numbers in (("Read it once", {}), ("Bring reuse closer", {"misses": (COLD, LATE)})):
        assert "local memory" in advice_for(summary, whole=AGAIN, **numbers)[name].how
        assert "local memory" not in advice_for(summary, whole=ONCE, **numbers)[name].how
