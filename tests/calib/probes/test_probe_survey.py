"""Surveys of devices whose parameters are known: what is told is right, what fails is said.

The truth is a machine drawn at random; every access of a probe's kernel goes through memsim's caches.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
from probes.random_machines import RIGHT, SILENT, WRONG, cpu, gpu, verdicts
from probes.simulated_device import Hidden, SimulatedDevice

from calib.probes import capacity
from calib.probes.bench import Bench
from calib.probes.device import Argument
from calib.probes.measured_machine import comments_of, machine_of
from calib.probes.outcome import Notebook, Unclear
from calib.probes.page import page
from calib.probes.replacement import replacement
from calib.probes.survey import Survey, survey
from memsim.machine import Machine, load_machine
from memsim.machine_toml import machine_to_toml

MB = 1 << 20


class Refusing(SimulatedDevice):
    """A device that refuses some kernels, or is interrupted in one."""

    def __init__(self, *arguments: object, refused: dict[str, BaseException]) -> None:
        super().__init__(*arguments)  # type: ignore[arg-type]
        self.refused = refused

    def run(self, name: str, items: int, group: int, *arguments: Argument) -> float:
        if name in self.refused:
            raise self.refused[name]
        return super().run(name, items, group, *arguments)


def small() -> tuple[Machine, Hidden]:
    """A machine whose survey takes seconds: 16 KB and 128 KB."""
    machine, hidden = cpu(3)
    first, second, *_ = machine.levels
    first = dataclasses.replace(first, size_bytes=16384, ways=4, replacement="lru")
    second = dataclasses.replace(second, size_bytes=128 << 10, ways=8)
    quiet = dataclasses.replace(hidden, scattered=False, translation_ns=0.0, prefetch_lines=0)
    return machine.replace(levels=(first, second)), quiet


@pytest.fixture(scope="module")
def surveyed() -> Survey:
    machine, hidden = small()
    return survey(SimulatedDevice(machine, hidden, MB, 1), most_bytes=MB, seed=1)


def test_a_small_machine_is_found(surveyed: Survey) -> None:
    machine, hidden = small()
    found = verdicts(surveyed, machine, hidden)
    assert [key for key, verdict in found.items() if verdict == WRONG] == []
    for key in ("L1 size", "L1 ways", "L1 line_bytes", "L1 latency", "L2 size", "memory latency"):
        assert found[key] == RIGHT, key


def test_a_small_gpu_is_found() -> None:
    """Sectors, a first level that every launch finds empty, groups that share cores."""
    machine, hidden = gpu(0)
    first, second = machine.levels
    first = dataclasses.replace(first, size_bytes=16 << 10, set_index="modulo")
    second = dataclasses.replace(second, size_bytes=128 << 10, fill_bytes=32)
    machine = machine.replace(levels=(first, second))
    device = SimulatedDevice(machine, hidden, MB, 1)
    told = survey(device, most_bytes=MB, seed=1)
    found = verdicts(told, machine, hidden)
    assert [key for key, verdict in found.items() if verdict == WRONG] == []
    for key in ("L1 size", "L1 line_bytes", "L1 fill_bytes", "L1 ways", "L2 size", "cores"):
        assert found[key] == RIGHT, (key, told.book.silent)


def test_against_another_machine_the_verdict_is_wrong(surveyed: Survey) -> None:
    """The negative control: the comparison above can fail."""
    machine, hidden = small()
    first, second = machine.levels
    other = dataclasses.replace(first, size_bytes=32768, ways=8, latency_cycles=9.0)
    found = verdicts(surveyed, machine.replace(levels=(other, second)), hidden)
    assert {"L1 size", "L1 ways", "L1 latency"} <= {k for k, v in found.items() if v == WRONG}


def test_the_machine_file_is_read_and_says_how_each_number_was_found(
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


def test_the_page_holds_every_number_and_curve_and_nothing_from_outside(surveyed: Survey) -> None:
    odd = dataclasses.replace(surveyed, device="<script>alert(1)</script>")
    text = page(odd)
    assert "<script>" not in text
    assert "http" not in text.replace("http-equiv", "")
    for curve in surveyed.book.curves:
        assert text.count("<svg") == len(surveyed.book.curves)
        assert curve.title.split(";")[0].split("'")[0][:20] in text
    for key in surveyed.book.findings:
        assert key in text


def test_a_refused_kernel_is_not_measured_and_the_others_go_on() -> None:
    machine, hidden = small()
    refused = {"additions": RuntimeError("CL_OUT_OF_RESOURCES"), "prepared": MemoryError()}
    device = Refusing(machine, hidden, MB, 1, refused=refused)
    found = survey(device, most_bytes=MB, seed=1)
    assert "not measured: RuntimeError: CL_OUT_OF_RESOURCES" in found.book.silent["clock"]
    assert found.book.silent["L1 stores allocate"] == "not measured: out of memory"
    assert verdicts(found, machine, hidden)["L1 size"] == RIGHT
    made = machine_of(found, "mine")
    assert made.sources["clock_hz"].startswith("OpenCL: ")
    assert made.sources["levels.L1.write_allocate"].startswith("assumed")


def test_without_a_chase_there_is_no_machine() -> None:
    machine, hidden = small()
    device = Refusing(machine, hidden, MB, 1, refused={"chase": RuntimeError("no")})
    found = survey(device, most_bytes=MB, seed=1)
    assert found.hierarchy is None
    with pytest.raises(Unclear, match="without a pointer chase"):
        machine_of(found, "mine")


def test_interrupted_it_keeps_what_is_done() -> None:
    machine, hidden = small()
    device = Refusing(machine, hidden, MB, 1, refused={"prepared": KeyboardInterrupt()})
    found = survey(device, most_bytes=MB, seed=1)
    assert found.interrupted == "L1 stores allocate"
    assert machine_of(found, "mine").levels[0].size_bytes == 16384
    assert "interrupted" in found.book.silent["L1 stores allocate"]
    assert "memory_bandwidth" not in found.book.findings


def test_noise_without_caches_tells_no_level() -> None:
    """A second negative control: every load takes as long as any other."""
    machine, hidden = small()
    flat = tuple(dataclasses.replace(level, latency_cycles=300.0) for level in machine.levels)
    noisy = dataclasses.replace(hidden, noise=0.1, spikes=0.3)
    device = SimulatedDevice(machine.replace(levels=flat), noisy, MB, 1)
    found = capacity.hierarchy(Bench(device, 1), Notebook(), MB)
    assert found.levels == ()


@pytest.mark.parametrize("policy", ["lru", "fifo", "plru", "random"])
def test_the_policy_of_a_set_is_told(policy: str) -> None:
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
        pytest.fail("not told")
    assert book.words["L1 replacement"][0] == policy


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("kind", [cpu, gpu])
def test_of_many_random_machines_hardly_anything_is_told_wrong(kind: object) -> None:
    assert callable(kind)
    told: list[str] = []
    wrong: list[str] = []
    for seed in range(6):
        machine, hidden = kind(seed)
        found = survey(SimulatedDevice(machine, hidden, 8 * MB, seed), most_bytes=8 * MB, seed=seed)
        for key, verdict in verdicts(found, machine, hidden).items():
            if verdict != SILENT:
                told.append(key)
            if verdict == WRONG:
                wrong.append(f"{machine.name}: {key}")
    sizes = [key for key in wrong if "size" in key or "latency" in key or "levels" in key]
    assert sizes == []
    assert len(wrong) <= 0.05 * len(told), wrong
    assert np.sum([key == "L1 size" for key in told]) >= 5
