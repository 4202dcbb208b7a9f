"""Two replays side by side."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner
from scipy import stats

from memsim.commands.compare import compare as compare_command
from memsim.errors import MemsimError, ResultError
from memsim.machine.file import load_machine
from memsim.montecarlo.result import Replay
from memsim.report import text
from memsim.report.compare import Pair, change_text, compare, signed
from memsim.report.compare_table import comparison_table
from memsim.report.html import comparison_page
from memsim.report.launch_time import keep_time
from memsim.statistics import Estimate
from tests.support.fake_replay import SITES, fake_dataset
from tests.support.outline import printed


@pytest.fixture(scope="module")
def before() -> Replay:
    return Replay(fake_dataset(seed=1))


def rendered(replays: tuple[Replay, Replay], width: int) -> str:
    return printed(comparison_table(compare(*(one.dataset for one in replays))), width)


def test_a_difference_is_detected_and_tested(before: Replay) -> None:
    after = Replay(fake_dataset(seed=2, l1_shift=0.1))
    comparison = compare(before.dataset, after.dataset)
    site = next(site for site in comparison.sites if site.name == "val[jj]")
    a, b = (r.hit_ratio("val[jj]", "L1").values for r in (before, after))
    pair = site.levels["L1"]
    assert pair.test.difference == pytest.approx(b.mean() - a.mean())
    assert pair.test.p_value == pytest.approx(stats.ttest_ind(a, b, equal_var=False).pvalue)
    assert comparison.differs(pair)
    assert not pair.intervals_overlap
    assert not comparison.differs(site.levels["L2"])
    assert comparison.headline().startswith("In B a group's loads wait")
    assert "less than in A: more than random orderings explain" in comparison.headline()


def test_two_seeds_do_not_differ_significantly(before: Replay) -> None:
    """Bonferroni: of all tests of equals, one shows something in at most 5 % of comparisons."""
    others = [compare(before.dataset, fake_dataset(seed=seed)) for seed in range(2, 12)]
    alarms = [
        any(map(one.differs, (pair for s in one.sites for pair in s.pairs()))) for one in others
    ]
    assert sum(alarms) <= 3


def test_a_replay_equals_itself(before: Replay) -> None:
    comparison = compare(before.dataset, before.dataset)
    assert [site.name for site in comparison.sites] == [s.name for s in comparison.a.sites]
    assert all(pair.test.difference == 0 for site in comparison.sites[:5] for pair in site.pairs())
    assert "is the same in both" in comparison.headline()


def timed(seconds: float, half_width_s: float = 0.0, sigma: float = 0.0) -> Replay:
    """With a predicted time, whose interval is wider than orderings make it."""
    ends = [seconds - half_width_s, seconds + half_width_s]
    parts = {"ordering": sigma, "phase": half_width_s}
    time = {"time_s": {"mean": seconds, "ci95": ends, "sigma": sigma, "parts": parts}}
    return Replay(keep_time(fake_dataset(seed=1), time))


def told(a: Replay, b: Replay) -> str:
    return compare(a.dataset, b.dataset).headline()


def test_the_predicted_times_come_first_where_both_have_one(before: Replay) -> None:
    a, b = timed(9.34e-6), timed(4.67e-6)
    faster = "B is predicted to be faster: 4.67 us instead of 9.34 us (-50.0 %). A group's load"
    assert told(a, b).startswith(faster)
    slower = "B is predicted to be slower: 9.34 us instead of 4.67 us (+100.0 %)."
    assert told(b, a).startswith(slower)
    assert "9.34 us: 0.0 % =." in told(a, a)
    assert "9.38 us, A 9.34 us: +0.4 % =." in told(a, timed(9.38e-6))
    assert "predicted" not in told(a, before)


@pytest.mark.parametrize(
    ("half_width_s", "words"),
    [
        (0.5e-6, "be faster: 9.00 us instead of 11.0 us (-18.2 %)."),
        (1.5e-6, "take 9.00 us, A 11.0 us: -18.2 % ≈."),
    ],
)
def test_times_whose_intervals_overlap_are_not_told_apart(half_width_s: float, words: str) -> None:
    """Orderings hardly change these times, so they alone would tell 9 us from 11."""
    a, b = (timed(seconds, half_width_s, 1e-8) for seconds in (11e-6, 9e-6))
    assert f"B is predicted to {words}" in told(a, b)


def test_stores_have_no_share_on_the_page_and_equal_numbers_are_equal(before: Replay) -> None:
    comparison = compare(before.dataset, before.dataset)
    exact = Estimate(mean=0.5, half_width=0.0, sigma=0.0, n_trials=8)
    assert change_text(comparison, Pair(a=exact, b=exact)) == "0.0 ± 0.0 ="
    page = comparison_page(comparison)
    row = page[page.index("<code>y[i]</code>") :]
    dashes = "<br>".join([text.UNKNOWN] * 3)
    assert row[: row.index("</tr>")].count(f'<td class="soft">{dashes}</td>') == 1
    assert "A: L1 2.1, L2 not validated on this machine; B: L1 2.1, L2 not" in page
    unknown = before.dataset.assign_attrs(model_error={"L1": None, "L2": None})
    other = comparison_page(compare(before.dataset, unknown))
    assert "L2 not validated on this machine; B: not validated on this machine." in other


def test_unmatched_accesses_are_listed(before: Replay) -> None:
    renamed = (*SITES[:4], ("x4[i]", *SITES[4][1:]), SITES[5])
    after = Replay(fake_dataset(seed=2, sites=renamed))
    comparison = compare(before.dataset, after.dataset)
    assert [site.name for site in comparison.only_a] == ["x[ind[jj]]"]
    assert [site.name for site in comparison.only_b] == ["x4[i]"]
    content = rendered((before, after), 120)
    assert "only in A: x[ind[jj]]" in content
    assert "only in B: x4[i]" in content
    assert "Only in A" in comparison_page(comparison)


def test_clocks_may_differ_and_so_may_the_number_of_traced_groups(before: Replay) -> None:
    machine = load_machine("v100")
    faster = fake_dataset(machine=machine.replace(clock_hz=4 * machine.clock_hz))
    comparison = compare(before.dataset, faster)
    assert (comparison.latency_unit, comparison.load_latency.relative) == (
        "ns",
        pytest.approx(-0.75),
    )
    long = compare(faster, before.dataset).headline()
    assert "In B a group's loads wait 4.0 times as long as in A: " in long
    twice = compare(before.dataset, before.dataset.assign_attrs(traced_groups=2 * 640))
    assert twice.latency_unit == "cycles"
    assert twice.group_latency.relative == pytest.approx(-0.5)
    assert twice.dram_read_bytes.relative == pytest.approx(-0.5)
    assert twice.load_latency.relative == 0


def test_one_trial_cannot_tell_and_levels_that_one_machine_lacks_are_left_out(
    before: Replay,
) -> None:
    one = Replay(fake_dataset(n_trials=1))
    comparison = compare(before.dataset, one.dataset)
    assert comparison.differs(comparison.load_latency) is None
    assert "one trial cannot show" in comparison.headline()
    assert "?" in rendered((before, one), 120)
    l1_only = Replay(before.dataset.isel(level=[0]))
    assert compare(before.dataset, l1_only.dataset).level_names == ("L1",)
    assert rendered((before, l1_only), 120)


def test_differences_have_signs() -> None:
    signs = {0.04: "0.0", -0.04: "0.0", 0.06: "+0.1", -12.3: "-12.3"}
    assert {value: signed(value, 1) for value in signs} == signs


def test_the_command_refuses_what_is_no_result(before: Replay, tmp_path: Path) -> None:
    a, damaged, page = str(before.save(tmp_path / "a.nc")), tmp_path / "d.nc", tmp_path / "c.html"
    damaged.write_text("no")
    for second, out, error in ((str(damaged), str(page), ResultError), (a, a, MemsimError)):
        result = CliRunner().invoke(compare_command, [a, second, "--html", out])
        assert isinstance(result.exception, error)
    assert not page.exists()
    assert Replay.load(a).n_trials == 64


def test_a_difference_too_small_to_act_on_is_none() -> None:
    """0.3 points of a hit ratio, with hardly any spread: significant, but neither better nor worse. Of 10
    points, more hits are better, and a longer latency is worse."""
    quiet = fake_dataset(n_trials=64, spread=0.0002)
    small = compare(quiet, fake_dataset(n_trials=64, spread=0.0002, l1_shift=0.003))
    large = compare(quiet, fake_dataset(n_trials=64, spread=0.0002, l1_shift=0.1))
    for comparison, change, direction in ((small, " =", ""), (large, " ▲", "better")):
        pair = next(s for s in comparison.sites if s.name == "val[jj]").levels["L1"]
        assert comparison.differs(pair)
        assert comparison.direction(pair, 1) == direction
        assert change_text(comparison, pair, 1, 100, 1).endswith(change)
    assert "nearly the same in both" in small.headline()
    assert large.direction(large.load_latency, -1) == "better"
    back = compare(fake_dataset(n_trials=64, spread=0.0002, l1_shift=0.1), quiet)
    assert back.direction(back.load_latency, -1) == "worse"
