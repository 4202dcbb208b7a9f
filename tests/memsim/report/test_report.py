"""What a person or a program reads of a replay: verdict, table, page, JSON."""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import json
import math
import re
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest
import xarray as xr

from memsim.latency import latency_shares
from memsim.machine.file import load_machine
from memsim.montecarlo.result import Replay
from memsim.report import text
from memsim.report.html import replay_page
from memsim.report.json_contract import estimate_data
from memsim.report.launch_time import keep_time
from memsim.report.summary import summarise
from memsim.report.verdict import judge
from memsim.statistics import Estimate, describe
from tests.memsim.report.test_launch_time import PREDICTED
from tests.support.fake_replay import GENERATED_SOURCE, HOSTILE, SITES, fake_dataset, hostile_replay
from tests.support.json_schema import json_schema
from tests.support.outline import Outline, printed


@pytest.fixture(scope="module")
def replay() -> Replay:
    return Replay(fake_dataset())


@pytest.fixture(scope="module")
def page(replay: Replay) -> str:
    return replay_page(replay.dataset)


def rendered(replay: Replay, width: int) -> str:
    return printed(replay.table(), width)


# JSON


def test_json_obeys_its_schema(replay: Replay) -> None:
    schema = json_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    alone = Replay(fake_dataset(n_trials=1))
    for one in (replay, alone, hostile_replay()):
        jsonschema.validate(json.loads(one.to_json()), schema)
    latency = json.loads(alone.to_json())["sites"][0]["latency_cycles"]
    assert latency["mean"] > 0
    assert latency["ci95"] == [None, None], "one trial has no interval"


def test_json_holds_the_predicted_time(replay: Replay) -> None:
    data = json.loads(Replay(keep_time(replay.dataset, PREDICTED)).to_json())
    jsonschema.validate(data, json_schema())
    time, given = data["time"], PREDICTED["time_s"]
    assert time["predicted_s"]["mean"] == given["mean"]
    assert time["predicted_s"]["ci95"] == pytest.approx(given["ci95"])
    assert (time["binds"], time["floors_s"]) == (PREDICTED["binds"], PREDICTED["floors_s"])
    assert {rate["name"] for rate in time["rates"]} >= {"L1", "L2", "DRAM"}
    without = json.loads(replay.to_json())["time"]
    assert without["predicted_s"] is None
    assert without["binds"] == max(without["floors_s"], key=without["floors_s"].__getitem__)


def test_the_schema_demands_what_the_contract_promises(replay: Replay) -> None:
    data = json.loads(replay.to_json())
    for holder, key in (
        (data["sites"][0], "share"),
        (data["levels"]["DRAM"], "latency_cycles"),
        (data, "seed"),
        (data, "snapshot"),
    ):
        kept = holder.pop(key)
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(data, json_schema())
        holder[key] = kept


def test_every_key_is_documented(replay: Replay) -> None:
    schema = json_schema()
    free = {"L1", "L2", "DRAM"}  # level names are keys, too

    def keys(value: Any) -> set[str]:
        if isinstance(value, dict):
            return set(value) | {k for item in value.values() for k in keys(item)}
        return {k for item in value for k in keys(item)} if isinstance(value, list) else set()

    data = json.loads(replay.to_json())
    del data["provenance"], data["occupancy"]
    written = {"provenance", "occupancy", *keys(data)} - free
    known = set(re.findall(r'"(\w+)": \{', json.dumps(schema)))
    assert written <= known


def test_json_equals_the_dataset(replay: Replay) -> None:
    data = json.loads(replay.to_json())
    head = {"schema": 1, "kernel": "spmv", "machine": "v100", "seed": 1, "trials": 64}
    assert {key: data[key] for key in head} == head
    granules = int(replay.dataset["site_sectors"].sum())
    assert data["snapshot"] == {"groups": 640, "of_groups": 8192, "granules": granules}
    names = [site["site"] for site in data["sites"]]
    assert names[:3] == ["val[jj]", "ind[jj]", "x[ind[jj]]"]
    shares = [site["share"] for site in data["sites"]]
    assert shares == sorted(shares, reverse=True)
    first, store = data["sites"][0], data["sites"][-1]
    expected = replay.sites["val[jj]"].hit_ratio("L1")
    assert first["levels"]["L1"]["hit_ratio"] == {
        "mean": expected.mean,
        "ci95": list(expected.ci95),
        "sigma": expected.sigma,
    }
    assert first["sectors_per_access"] == pytest.approx(27.4)
    useful = int(replay.dataset["site_useful_bytes"].sel(site="val[jj]"))
    assert first["useful_byte_ratio"] == pytest.approx(useful / (32 * first["sectors"]))
    assert sum(first["latency_parts_cycles"].values()) == pytest.approx(
        first["latency_cycles"]["mean"]
    )
    assert (store["source_line"], store["share"]) == (21, 0)
    assert store["latency_cycles"] == {"mean": None, "ci95": [None, None], "sigma": None}
    assert store["levels"]["L1"]["hit_ratio"]["mean"] is None
    loads = replay.load_hit_ratio("L1").values
    assert data["levels"]["L1"]["load"]["hit_ratio"]["mean"] == pytest.approx(loads.mean())
    assert set(data["levels"]) == {"L1", "L2", "DRAM"}
    assert set(data["levels"]["L2"]) == {"read", "write"}
    read = replay.dataset["dram_read_bytes"].values
    assert data["levels"]["DRAM"]["read_bytes"]["mean"] == pytest.approx(read.mean())


def test_atomics_are_counted_separately() -> None:
    site = ("h[b]", "h", "atomic", 21, 1, 4, 0.0, 0.0, 0.8, 8.0, 8.0)
    data = json.loads(Replay(fake_dataset(n_trials=4, sites=(*SITES[:2], site))).to_json())
    levels = data["levels"]
    assert levels["L2"]["atomic"]["hit_ratio"]["mean"] == pytest.approx(0.8, abs=0.02)
    assert levels["L1"]["load"]["hit_ratio"]["mean"] == pytest.approx(0.5, abs=0.2)
    (atomic,) = (site for site in data["sites"] if site["direction"] == "atomic")
    assert atomic["latency_cycles"]["mean"] > 0


# Summary and verdict


def test_parts_and_shares(replay: Replay) -> None:
    summary = summarise(replay.dataset)
    shares = latency_shares(replay.dataset).mean("trial")
    for site in summary.loads:
        assert sum(site.latency_parts.values()) == pytest.approx(site.latency_cycles.mean)
        assert sum(site.served.values()) == pytest.approx(1)
        assert site.share.mean == pytest.approx(float(shares.sel(site=site.name)))
    assert summary.sites[0].first_in == 1.0


def test_order_sensitivity_is_sigma_above_two_points() -> None:
    calm, wild = (
        summarise(fake_dataset(spread=spread)).sites[0].level("L1") for spread in (0.012, 0.03)
    )
    assert calm.hit_ratio.sigma < 0.02 < wild.hit_ratio.sigma
    assert not calm.is_order_sensitive
    assert wild.is_order_sensitive
    barely_reached = dataclasses.replace(wild, reach=0.009)
    assert not barely_reached.is_order_sensitive


def test_the_models_error_moves_the_latency_by_the_chain_rule() -> None:
    errors = {"L1": 2.0, "L2": 5.0}
    data = fake_dataset(n_trials=4, spread=0.0, model_error=errors)
    site = summarise(data).sites[0]
    h1, h2 = (level.hit_ratio.mean for level in site.levels)
    t1, t2 = (level.latency_cycles for level in load_machine("v100").levels)
    tm = float(data["dram_mean_cycles"].mean())
    below = h2 * t2 + (1 - h2) * tm
    expected = (below - t1) * 0.02 + (1 - h1) * (tm - t2) * 0.05
    assert site.latency_model_error_cycles == pytest.approx(expected, rel=1e-6)
    without = summarise(fake_dataset(n_trials=4)).sites[0]
    assert without.latency_model_error_cycles is None


def load(name: str, **changes: float) -> tuple[Any, ...]:
    """A site of the fake: h1, h2, sectors and ideal sectors an access as given."""
    values = {"h1": 0.0, "p1": 0.0, "h2": 0.0, "sectors": 4.0, "ideal": 4.0, **changes}
    return (name, name, "load", 20, 13, 8, *values.values())


def verdict_text(data: xr.Dataset) -> str:
    verdict = judge(summarise(data))
    lines = [verdict.headline, *verdict.caveats]
    for finding in verdict.findings:
        lines += [finding.headline, *finding.reasons, *finding.certainty]
        lines += [f"{advice.name}: {advice.how} {advice.gain}" for advice in finding.advice]
    return "\n".join(lines)


OVER = [
    {"groups_per_core": 4, "load_hit_ratio": {"L1": 0.71, "L2": None}},
    {"groups_per_core": 16, "load_hit_ratio": {"L1": 0.52, "L2": 0.3}},
]
ALIKE = (load("a", h1=0.5, h2=0.5), load("b", h1=0.5, h2=0.5))
NEAR = (load("a", h1=0.40, h2=0.5), load("b", h1=0.5, h2=0.5))
APART = (load("a", h1=0.2, h2=0.5), load("b", h1=0.7, h2=0.5))
VERDICTS: dict[str, tuple[dict[str, Any], list[str], list[str]]] = {
    "a poorly coalesced stream": (
        {"sites": (load("a", sectors=32.0, ideal=8.0),)},
        ["The one load makes all of the load latency", "100 % of all load latency is spent on DRAM", "Coalesce:",
         "requests 32.0 sectors where 8.0 could carry its bytes", "75 % fewer sectors"], []),
    "a coalesced stream": (
        {"sites": (load("a"),)},
        ["Coalescing is ideal", "L2 misses are 93 % cold", "Move fewer bytes"], ["Coalesce:"]),
    "what L1 serves": (
        {"sites": (load("a", h1=1.0),), "spread": 0.0},
        ["100 % of all load latency is spent on L1", "Access less often"], []),
    "a tie": ({"sites": ALIKE}, ["It is as slow as ", ": their shares are nearly the same"], ["clearly the slowest"]),
    "nearly a tie": ({"sites": NEAR, "spread": 0.1}, ["not clearly the slowest"], []),
    "a clear order": ({"sites": APART}, ["clearly the slowest: first in 64 of 64 orderings"], ["not clearly"]),
    "pending sectors that matter": (
        {"sites": (load("a", h1=0.1, p1=0.6, h2=0.1),)}, ["Pending sectors are charged as hits"], []),
    "none": ({"sites": (load("a", h1=0.7, h2=0.1),)}, [], ["Pending sectors"]),
    "what is uncertain": (
        {"n_trials": 4, "interrupted": 1},
        ["Interrupted: only 4 trials were completed", "intervals are reliable from 32 on",
         "not validated on this machine for L2", "of the machine's parameters are assumed; its file marks them."], []),
    "one trial": (
        {"n_trials": 1},
        ["One trial gives no interval", "Unknown: one ordering gives no interval"], []),
    "unknown occupancy": (
        {"occupancy": {"over_feasible": OVER}},
        ["With 4 to 16 groups per core, load hit ratios are L1 52.0 % to 71.0 %, L2 30.0 % to 30.0 %"], []),
    # A V100's caches are in one piece; an A100's L2 is in two, and its far latency is derived.
    "no far part": ({}, [], ["far_latency"]),
    "a far part": ({"machine": load_machine("a100")}, ["L2.far_latency"], []),
}  # fmt: skip
"""Case -> the arguments of a replay, words of its verdict, and words that it must not have."""


@pytest.mark.parametrize("case", VERDICTS)
def test_the_verdict_says_what_holds_and_nothing_else(case: str) -> None:
    settings, said, unsaid = VERDICTS[case]
    verdict = verdict_text(fake_dataset(**settings))
    assert [words for words in said if words not in verdict] == []
    assert [words for words in unsaid if words in verdict] == []


def test_a_kernel_that_only_stores() -> None:
    replay = Replay(fake_dataset(sites=SITES[5:]))
    assert "No load of this kernel reached global memory" in verdict_text(replay.dataset)
    assert "no load" in replay_page(replay.dataset).lower()
    assert "y[i]" in rendered(replay, 130)


# Table


def test_the_table_is_ordered_by_share(replay: Replay) -> None:
    content = rendered(replay, 140)
    order = [content.index(name) for name in ("val[jj]", "ind[jj]", "rowptr[i] ", "y[i]")]
    assert order == sorted(order)


def test_the_table_prints_hostile_names_as_they_are() -> None:
    content = rendered(hostile_replay(), 600)
    assert f"0{HOSTILE}" in content
    assert "INTERRUPTED" not in content
    assert "INTERRUPTED" in rendered(Replay(fake_dataset(n_trials=2, interrupted=1)), 140)


# Page


def test_the_page_is_one_file_that_loads_nothing(page: str) -> None:
    outline = Outline(page)
    for tag, attributes in outline.tags:
        assert tag not in ("iframe", "object", "embed", "base", "form", "img")
        assert "src" not in attributes
        href = attributes.get("href") or ""
        assert href == "data:," or href.startswith("#") or not href
    assert not re.search(r"@import|url\(|https?://(?!www\.w3\.org)", page)
    (policy,) = (
        attributes["content"] or ""
        for _, attributes in outline.tags
        if attributes.get("http-equiv") == "Content-Security-Policy"
    )
    digest = base64.b64encode(hashlib.sha256("".join(outline.scripts).encode()).digest())
    assert f"script-src 'sha256-{digest.decode()}'" in policy
    assert "default-src 'none'" in policy


def test_the_listing_has_every_line_and_its_accesses(page: str) -> None:
    lines = GENERATED_SOURCE.rstrip("\n").split("\n")
    for number, line in enumerate(lines, start=1):
        row = row_with(f'<tr id="g{number}"', page)
        assert "".join(Outline(row).text).strip().endswith(line.strip())
        assert ("hot" in row) == (number in (16, 17, 20, 21))
    assert f'id="g{len(lines) + 1}"' not in page
    # Blank lines do not shift it.
    shifted = replay_page(fake_dataset(n_trials=2, generated_source="\n\n\r\n" + GENERATED_SOURCE))
    assert "__kernel" in row_with('<tr id="g10"', shifted)


def row_with(words: str, content: str) -> str:
    """From these words to the end of a row of a table."""
    row = content[content.index(words) :]
    return row[: row.index("</tr>")]


def test_accesses_without_a_line_are_listed() -> None:
    data = fake_dataset(n_trials=2)
    data["source_line"][:] = [-1, 17, 20, 20, 999, 21]
    content = replay_page(data)
    tail = content[content.index("Not placed on a line") :]
    tail = tail[: tail.index("</p>")]
    assert "rowptr[i]" in tail
    assert "x[ind[jj]]" in tail
    assert "val[jj]" not in tail


def test_files_are_shown_from_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that lies elsewhere is shown by its name; its path is the title of the link to it."""
    file = str(tmp_path / "kernels" / "spmv.py")
    data = fake_dataset(n_trials=2)
    data = data.assign_coords(user_file=("site", [file] * data.sizes["site"]))
    for folder, label in ((tmp_path, "kernels/spmv.py"), (Path(__file__).parent, "spmv.py")):
        monkeypatch.chdir(folder)
        content = replay_page(data)
        assert f">{label}</h2>" in content
        assert f'title="{file}">{label}:' in content
        assert f">{file}" not in content
    assert text.relative_path(file) == file
    assert text.file_label("k.cl") == "k.cl"


def test_the_page_states_that_sources_are_missing_and_results_interrupted(page: str) -> None:
    bare = fake_dataset(n_trials=1, generated_source="", user_source="", interrupted=1)
    for words in ("The trace contains no source.", "<strong>Interrupted.</strong>"):
        assert words in replay_page(bare)
        assert words not in page


def test_the_models_error_is_shown_beside_every_interval() -> None:
    errors = {"L1": 2.1, "L2": 4.5}
    known = replay_page(fake_dataset(n_trials=4, model_error=errors))
    machine_section = known.index('id="machine"')
    assert "not validated" not in known[:machine_section]
    assert "±\N{NO-BREAK SPACE}4.5 model" in known
    unknown = replay_page(fake_dataset(n_trials=4, model_error={}))
    assert text.NOT_VALIDATED in unknown
    assert "±\N{NO-BREAK SPACE}4.5 model" not in unknown


def test_assumed_parameters_are_marked_and_counted_once(page: str) -> None:
    assert "fitted</span>" in row_with("<code>scheduler_turns</code>", page)
    assert "assumed</span>" in row_with("<code>levels.L1.write_hit</code>", page)
    assert "assumed" not in row_with("<code>n_cores</code>", page)
    # The caveat and the section of the machine agree.
    (caveat,) = re.findall(r"(\d+) of the machine&#39;s parameters are assumed", page)
    (section,) = re.findall(r"(\d+) of \d+ parameters are", page)
    assert caveat == section


def test_a_page_of_three_levels_and_one_of_none() -> None:
    machine = load_machine("v100")
    third = dataclasses.replace(machine.levels[1], name="L3", latency_cycles=300.0)
    fake = fake_dataset(n_trials=3)
    extra = fake.isel(level=[1]).assign_coords(level=["L3"])
    deep = xr.concat([fake, extra], dim="level", data_vars="minimal", join="outer")
    deep.attrs["machine"] = machine.replace(levels=(*machine.levels, third))
    assert "L3 hit ratio" in replay_page(deep)
    assert "L3 hits" in rendered(Replay(deep), 80)
    bare = fake.isel(level=slice(0, 0))
    bare.attrs["machine"] = machine.replace(levels=(), model_error_points={})
    assert "spent on DRAM" in replay_page(bare)
    assert rendered(Replay(bare), 80)
    assert json.loads(Replay(bare).to_json())["levels"].keys() == {"DRAM"}


def test_a_replay_that_never_reaches_dram() -> None:
    data = fake_dataset(n_trials=3, sites=(load("a", h1=1.0),), spread=0.0)
    for name in ("dram_latency_cycles", "dram_mean_cycles", "dram_row_hit_ratio"):
        data[name] = data[name] * np.nan
    replay = Replay(data)
    assert "No request reached DRAM." in replay_page(data)
    assert "NaN" not in replay.to_json()
    assert "nan" not in rendered(replay, 140)


def test_charts_do_not_depend_on_units(page: str) -> None:
    assert page.count('<svg class="chart"') >= 8
    assert not re.search(r'[xy12hw]="?(nan|inf)', page)


# Numbers in words


def test_sizes_and_counts_in_words() -> None:
    sizes = {0: "0 B", 1023: "1023 B", 1024: "1.0 KiB", 1 << 20: "1.0 MiB", 150 << 30: "150 GiB"}
    assert {size: text.byte_size(size) for size in sizes} == sizes
    assert (text.count(12_345_678), text.count(9_999_999)) == ("12.3 M", "9,999,999")
    # Both sides of half a percent, and what is left when equal numbers are subtracted.
    shown = [text.percent(ratio, 0) for ratio in (0.0, 1 - 3 * (1 / 3) + 1e-16, 0.0049, 0.0051)]
    assert shown == ["0 %", "0 %", "<1 %", "1 %"]
    assert text.groups(1300, 1300) == "all 1,300 groups"  # a whole launch is no part
    assert text.groups(1536, 4096) == "1,536 of 4,096 groups"


def test_estimates_in_words() -> None:
    estimate = Estimate(mean=0.4132, half_width=0.0041, sigma=0.01, n_trials=64)
    assert text.percent_estimate(estimate) == "41.3 ± 0.4 %"
    tight = dataclasses.replace(estimate, half_width=0.0001)
    assert text.percent_estimate(tight) == "41.3 ± <0.1 %"
    exact = dataclasses.replace(estimate, half_width=0.0)
    assert text.percent_estimate(exact) == "41.3 ± 0.0 %"
    assert text.percent_estimate(describe([0.5])) == "50.0 %"
    assert text.percent_estimate(describe([])) == text.UNKNOWN


def test_undefined_parts_of_an_interval_are_left_out_of_the_json() -> None:
    """A site that runs in a single trial has no interval; what else widens it is then no number either."""
    once = describe(np.array([3.0, np.nan])).with_part("past", 0.5)
    assert math.isnan(once.parts["ordering"])
    assert estimate_data(once) == {"mean": 3.0, "ci95": [None, None], "sigma": None}
    twice = describe(np.array([3.0, 4.0])).with_part("past", 0.5)
    assert estimate_data(twice)["parts"] == dict(twice.parts)


def test_long_names_stand_once_on_the_page() -> None:
    """60 accesses with names of 480 letters: elsewhere their middle is left out."""
    sites = tuple((f"{'x' * 480}[{k}]", f"{'array' * 90}{k}", *SITES[k % 6][2:]) for k in range(60))
    page = replay_page(fake_dataset(n_trials=3, sites=sites, kernel="k" * 500))
    assert max(page.count("x" * 480), page.count("array" * 90)) <= 70
    assert "k" * 500 not in page
    assert len(page) < 600_000


def test_loads_that_are_alike_have_no_share_of_their_own() -> None:
    alike = tuple((f"x[{k}]", "x", *SITES[0][2:]) for k in range(40))
    headline = judge(summarise(fake_dataset(n_trials=4, sites=alike))).headline
    assert headline.startswith("40 loads share the load latency, none has more than 2.")


@pytest.mark.parametrize(
    ("n_loads", "words"), [(2, "; the other is alike"), (3, "; the others are alike")]
)
def test_loads_with_the_same_reasons_share_a_card(n_loads: int, words: str) -> None:
    sites = tuple((f"x[{k}]", "x", *SITES[0][2:]) for k in range(n_loads))
    dataset = fake_dataset(n_trials=8, sites=sites)
    first = dataset.isel(site=0)
    same = xr.concat([first.assign_coords(site=one) for one in dataset["site"]], dim="site")
    for name in ("hits", "pending", "accesses"):
        dataset[name] = same[name].transpose(*dataset[name].dims)
    assert words in " ".join(replay_page(dataset).split())


def test_a_small_interval_of_a_share_is_not_zero() -> None:
    summary = summarise(fake_dataset(n_trials=64))
    load = summary.loads[0]
    share = dataclasses.replace(load.share, half_width=0.0004)
    words = judge(dataclasses.replace(summary, sites=(dataclasses.replace(load, share=share),)))
    assert "that of its share is <0.1 points" in " ".join(words.findings[0].certainty)


def test_a_time_that_nothing_changes_has_no_interval() -> None:
    """Zero would say that it is certain."""
    assert text.time_interval(describe([2e-6] * 8)) == ""
    assert text.time_interval(describe([2e-6])) == ""
    words = "95 % interval: 1.90 us to 2.10 us; ± 100 ns untraced groups"
    assert text.time_interval(describe([2e-6] * 8).with_part("groups", 1e-7)) == words


def test_what_is_the_same_in_all_trials_is_a_sentence_and_no_chart() -> None:
    chart = 'aria-label="histogram of L1 hit ratio of loads, %"'
    steady, spread = (replay_page(fake_dataset(spread=one)) for one in (0.0, 0.02))
    for words, is_steady in (
        ("Nearly the same in all 64 trials: L1 hit ratio of loads ", True),
        *((chart, False), ("running mean of L1 hit ratio", False)),
    ):
        assert (words in steady, words in spread) == (is_steady, not is_steady)
