"""Every rule of advice, where it applies and where it says nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from memsim.latency import DRAM
from memsim.report.advice import FALLBACKS, RULES, Advice, advise
from memsim.report.numbers import SiteNumbers, Summary
from memsim.report.summary import summarise
from tests.support.fake_replay import fake_dataset

NO_MISSES = {"cold": 0, "capacity": 0, "conflict": 0}


@pytest.fixture(scope="module")
def summary() -> Summary:
    return summarise(fake_dataset(n_trials=4))


def advice_for(
    summary: Summary,
    *,
    misses: tuple[Mapping[str, int], Mapping[str, int]] = (NO_MISSES, NO_MISSES),
    main_part: str = DRAM,
    sectors: int = 4,
    **changes: Any,
) -> dict[str, Advice]:
    """Advice by name, for a load of one access whose bytes four sectors could carry.

    misses : by kind, in L1 and in L2;  main_part : what accounts for most of its latency
    """
    site: SiteNumbers = summary.loads[0]
    levels = tuple(
        replace(level, misses={**NO_MISSES, **kinds})
        for level, kinds in zip(site.levels, misses, strict=True)
    )
    parts = {part: float(part == main_part) for part in ("L1", "L2", DRAM)}
    load = replace(
        site,
        levels=levels,
        latency_parts=parts,
        **{"accesses": 1, "sectors": sectors, "ideal_sectors": 4.0, "itemsize_bytes": 8, **changes},
    )
    return {item.name: item for item in advise(summary, load)}


def test_coalesce(summary: Summary) -> None:
    poor = advice_for(summary, sectors=6)["Coalesce"]
    assert poor.gain.startswith("Full coalescing requests 33 % fewer sectors: 64 B")
    assert "Coalesce" not in advice_for(summary, sectors=5)


LATE = ({"capacity": 5, "cold": 5}, NO_MISSES)
EARLY = ({"capacity": 4, "cold": 6}, NO_MISSES)


def test_use_whole_sectors(summary: Summary) -> None:
    late = advice_for(summary, sectors=6, misses=LATE)["Use whole sectors"]
    assert late.gain == "A sector holds 4 elements of 8 B."
    for silent in (
        {"misses": EARLY},
        {"misses": LATE, "itemsize_bytes": 32},
        {"misses": LATE, "direction": "atomic"},
        {"misses": LATE, "sectors": 4},
    ):
        assert "Use whole sectors" not in advice_for(summary, **{"sectors": 6, **silent})


def test_bring_reuse_closer(summary: Summary) -> None:
    late = advice_for(summary, misses=LATE)["Bring reuse closer"]
    assert "tiles that fit L1 (128 KiB)" in late.how
    assert "Bring reuse closer" not in advice_for(summary, misses=EARLY)
    assert "Bring reuse closer" not in advice_for(summary, misses=LATE, sectors=6)


def test_change_the_pitch(summary: Summary) -> None:
    many, few = {"conflict": 25, "cold": 75}, {"conflict": 24, "cold": 76}
    one = advice_for(summary, misses=(few, many))["Change the pitch"]
    assert one.gain == "25 % of its L2 misses are conflicts."
    both = advice_for(summary, misses=(many, many))["Change the pitch"]
    assert both.gain == "25 % of its L1 misses and 25 % of its L2 misses are conflicts."
    assert "Change the pitch" not in advice_for(summary, misses=(few, few))


def test_touch_fewer_pages(summary: Summary) -> None:
    name = "Touch fewer pages at a time"
    many = advice_for(summary, missed_translations_per_access=0.25)[name]
    assert many.gain == "An access misses 0.25 translations."
    for ratio in (0.24, None):
        assert name not in advice_for(summary, missed_translations_per_access=ratio)


def test_move_fewer_bytes(summary: Summary) -> None:
    name = "Move fewer bytes, or hide the wait"
    cold, warm = {"cold": 5, "capacity": 5}, {"cold": 4, "capacity": 6}
    assert name in advice_for(summary, misses=(warm, cold))
    assert name not in advice_for(summary, misses=(cold, warm))
    assert name not in advice_for(summary, misses=(warm, cold), main_part="L2")


def test_fallbacks(summary: Summary) -> None:
    """They speak where no rule does, each for its own part of the hierarchy."""
    assert list(advice_for(summary, main_part="L1")) == ["Access less often"]
    assert list(advice_for(summary, main_part="L2")) == ["Stage it"]
    assert not advice_for(summary, main_part=DRAM)
    assert list(advice_for(summary, main_part="L1", sectors=6)) == ["Coalesce"]


def test_every_rule_has_its_own_name() -> None:
    names = [rule.name for rule in (*RULES, *FALLBACKS)]
    assert len(set(names)) == len(names) == 8
