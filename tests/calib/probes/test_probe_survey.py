"""Surveys of devices whose parameters are known: results are right, and failures have a reason.

The truth is a machine drawn at random; every access of a probe's kernel goes through memsim's caches.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

import pytest
from markupsafe import escape
from scipy.stats import binom

from calib.probes.bench import Bench
from calib.probes.geometry import ways
from calib.probes.measured_machine import comments_of, machine_of
from calib.probes.outcome import Notebook, Unclear
from calib.probes.page import NAMES, page, quantity
from calib.probes.replacement import replacement
from calib.probes.survey import Survey, survey
from memsim.machine.file import load_machine, machine_to_toml
from memsim.machine.model import Machine
from tests.calib.probes.conftest import slow_clock
from tests.support.outline import Outline, in_one_kind_of_space
from tests.support.planted import RIGHT, WRONG, Answer, answers, verdicts
from tests.support.random_machines import MB, cpu, gpu, small_cpu
from tests.support.simulated_device import Hidden, RefusingDevice, SimulatedDevice

SEEDS = (220, 221, 222, 223)
"""Of machines that no rule of a probe was made or changed for."""


def test_a_small_machine_is_measured_correctly(surveyed: Survey) -> None:
    machine, hidden = small_cpu()
    outcome = verdicts(surveyed, machine, hidden)
    assert [key for key, verdict in outcome.items() if verdict == WRONG] == []
    for key in ("L1 size", "L1 ways", "L1 line", "L1 latency", "L2 size", "memory latency"):
        assert outcome[key] == RIGHT, key


def test_a_small_gpu_is_measured_correctly() -> None:
    """Sectors, a first level that every launch finds empty, groups that share cores."""
    machine, hidden = gpu(0)
    first, second = machine.levels
    first = dataclasses.replace(first, size_bytes=16 << 10, set_index="modulo")
    second = dataclasses.replace(second, size_bytes=128 << 10, fill_bytes=32)
    machine = machine.replace(levels=(first, second))
    device = SimulatedDevice(machine, hidden, MB, 1)
    reported = survey(device, most_bytes=MB, seed=1, clock=slow_clock(device))
    outcome = verdicts(reported, machine, hidden)
    assert [key for key, verdict in outcome.items() if verdict == WRONG] == []
    for key in ("L1 size", "L1 line", "L1 fill", "L1 ways", "L2 size", "cores"):
        assert outcome[key] == RIGHT, (key, reported.book.silent)


def test_against_another_machine_the_verdict_is_wrong(surveyed: Survey) -> None:
    """The negative control: the comparison above can fail."""
    machine, hidden = small_cpu()
    first, second = machine.levels
    other = dataclasses.replace(first, size_bytes=32768, ways=8, latency_cycles=9.0)
    outcome = verdicts(surveyed, machine.replace(levels=(other, second)), hidden)
    assert {"L1 size", "L1 ways", "L1 latency"} <= {k for k, v in outcome.items() if v == WRONG}


def test_the_machine_file_is_read_and_states_the_source_of_each_number(
    surveyed: Survey, tmp_path: Path
) -> None:
    made = machine_of(surveyed, "mine")
    path = tmp_path / "mine.toml"
    path.write_text(machine_to_toml(made, comments_of(surveyed)))
    read = load_machine(path)
    assert read == made
    assert read.levels[0].size_bytes == 16384
    assert read.sources["levels.L1.size_bytes"].startswith("measured: ")
    assert "95 %" in read.sources["levels.L1.latency_cycles"]
    for key, source in read.sources.items():
        assert source.startswith(("measured: ", "assumed: ", "OpenCL: ")), (key, source)
    assert path.read_text().startswith(
        "# Measured by 'memsim machines measure' on Simulated: cpu 3"
    )


def test_the_page_contains_every_number_and_curve_and_loads_nothing(surveyed: Survey) -> None:
    odd = dataclasses.replace(surveyed, device="<script>alert(1)</script>")
    text = in_one_kind_of_space(page(odd))
    assert "alert" not in "".join(Outline(text).scripts)
    assert "http" not in text.replace("http-equiv", "")
    for curve in surveyed.book.curves:
        assert text.count("<svg") == len(surveyed.book.curves)
        assert curve.title.split(";")[0].split("'")[0][:20] in text
    for key, finding in surveyed.book.findings.items():
        plain = key.split(".")[-1]
        assert f"{NAMES[plain]}</td>" in text, key
        assert str(escape(finding.how)) in text
        assert quantity(finding)[1] in text
    for why in surveyed.book.silent.values():
        assert str(escape(why.removeprefix("not determined: "))) in text


def test_a_refused_kernel_is_not_measured_and_interrupted_it_keeps_what_is_done() -> None:
    machine, hidden = small_cpu()
    refused = {"additions": MemoryError(), "reads": KeyboardInterrupt()}
    device = RefusingDevice(machine, hidden, MB, 1, refused=refused)
    result = survey(device, most_bytes=MB, seed=1, clock=slow_clock(device))
    assert result.book.silent["clock"] == "not measured: out of memory"
    assert result.interrupted == "L1 bandwidth"
    assert "interrupted" in result.book.silent["L1 bandwidth"]
    assert "memory_bandwidth" not in result.book.findings
    assert verdicts(result, machine, hidden)["L1 size"] == RIGHT
    made = machine_of(result, "mine")
    assert made.levels[0].size_bytes == 16384
    assert made.sources["clock_hz"].startswith("OpenCL: ")
    assert made.sources["levels.L1.write_allocate"].startswith("assumed")


def test_without_a_chase_there_is_no_machine() -> None:
    machine, hidden = small_cpu()
    device = RefusingDevice(machine, hidden, MB, 1, refused={"chase": RuntimeError("no")})
    result = survey(device, most_bytes=MB, seed=1)
    assert result.hierarchy is None
    assert "not measured: RuntimeError: no" in result.book.silent.values()
    with pytest.raises(Unclear, match="without a pointer chase"):
        machine_of(result, "mine")


def test_noise_without_caches_determines_no_level() -> None:
    """A second negative control: every load takes as long as any other, and launches are noisy."""
    machine, hidden = small_cpu()
    flat = tuple(dataclasses.replace(level, latency_cycles=300.0) for level in machine.levels)
    noisy = dataclasses.replace(hidden, noise=0.1, spikes=0.3)
    device = SimulatedDevice(machine.replace(levels=flat), noisy, MB, 1)
    result = survey(device, most_bytes=MB, seed=1, clock=slow_clock(device))
    assert result.hierarchy.levels == ()
    book = result.book
    assert [key for key in book.findings if key.startswith("levels.")] == []
    assert [key for key in book.words if key.startswith("L")] == []
    assert book.words["prefetching"][0] == "none detected"
    assert "address translation" in book.silent
    assert result.hierarchy.memory_ns.low <= 100 <= result.hierarchy.memory_ns.high


@pytest.mark.parametrize("ways_above", [4, 16])
def test_ways_that_the_level_above_hides_are_not_determined(ways_above: int) -> None:
    """Lines that share a set of the second level share one of the first: 16 ways there hide 8 here."""
    machine, hidden = small_cpu()
    first, second = machine.levels
    levels = (dataclasses.replace(first, ways=ways_above), second)
    bench = Bench(SimulatedDevice(machine.replace(levels=levels), hidden, 4 * MB, 1), 1)
    first_ns, own_ns = (level.latency_cycles / machine.clock_hz * 1e9 for level in levels)
    arguments = (bench, Notebook(), "L2", second.size_bytes, 64, own_ns, 100.0, first_ns)
    if ways_above > second.ways:
        with pytest.raises(Unclear, match="hidden"):
            ways(*arguments)
    else:
        assert ways(*arguments).value == second.ways


@pytest.mark.parametrize("policy", ["lru", "fifo", "plru", "random"])
def test_the_policy_of_a_set_is_determined(policy: str) -> None:
    machine, hidden = cpu(0)
    first = dataclasses.replace(machine.levels[0], size_bytes=32768, ways=8, replacement=policy)
    # The lines of one set must not fill a set of the next level too.
    second = dataclasses.replace(machine.levels[1], size_bytes=2 * MB, ways=16)
    device = SimulatedDevice(machine.replace(levels=(first, second)), hidden, 4 * MB, 0)
    bench, book = Bench(device, 0), Notebook()
    bench.chase_ns(bench.lines(MB // 2))
    try:
        hit_ns = first.latency_cycles / machine.clock_hz * 1e9
        replacement(bench, book, "L1", size_bytes=32768, ways=8, line_bytes=64, hit_ns=hit_ns)
    except Unclear:
        pytest.fail("no policy was reported")
    assert book.words["L1 replacement"][0] == policy


def surveyed_answers(kind: Callable[[int], tuple[Machine, Hidden]], seed: int) -> list[Answer]:
    machine, hidden = kind(seed)
    device = SimulatedDevice(machine, hidden, 8 * MB, seed)
    reported = survey(device, most_bytes=8 * MB, seed=seed, clock=device.clock)
    return answers(reported, machine, hidden)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("kind", [cpu, gpu])
def test_of_random_machines_hardly_any_number_is_wrong(
    kind: Callable[[int], tuple[Machine, Hidden]],
) -> None:
    """The planted parameters are reported correctly, or as unknown.

    Of n intervals of 95 % no more may miss what was planted than of Binomial(n, 0.05) in all but one
    of a thousand draws; what has no interval must be right.
    """
    reported = [(seed, answer) for seed in SEEDS for answer in surveyed_answers(kind, seed)]
    wrong = [(seed, a) for seed, a in reported if a.verdict == WRONG]
    assert [(seed, a.name, a.planted, a.reported) for seed, a in wrong if not a.has_interval] == []
    n = sum(a.reported is not None and a.has_interval for _, a in reported)
    assert n >= 8 * len(SEEDS)  # a GPU through one work-item tells fewer than a CPU
    assert len(wrong) <= binom.isf(1e-3, n, 0.05), wrong
    answered = {(seed, a.name) for seed, a in reported if a.reported is not None}
    for seed in SEEDS:
        for name in ("L1 latency", "memory latency", "memory bandwidth"):
            assert (seed, name) in answered
        if kind(seed)[0].levels[0].replacement != "random":  # else it has no edge
            assert (seed, "L1 size") in answered
