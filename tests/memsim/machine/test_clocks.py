"""Machines with another core clock."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from memsim.errors import MachineError
from memsim.machine import load_machine, machine_names
from memsim.machine.file import machine_from_json, machine_to_json


@pytest.mark.parametrize("name", machine_names())
def test_dram_keeps_its_times_and_caches_their_cycles(name: str) -> None:
    machine = load_machine(name)
    slow = load_machine(f"{name}@500MHz")
    assert slow.clock_hz == 500e6
    assert slow.name == f"{name}@500MHz"
    assert slow.levels == machine.levels
    assert slow.throughputs == machine.throughputs
    for rate in ("bandwidth_bytes_per_cycle", "usable_bandwidth_bytes_per_cycle"):
        per_s = getattr(machine.dram, rate) * machine.clock_hz
        assert np.isclose(getattr(slow.dram, rate) * slow.clock_hz, per_s)
    in_cache = machine.levels[-1].latency_cycles if machine.levels else 0.0
    beyond_s = (machine.dram.latency_cycles - in_cache) / machine.clock_hz
    assert np.isclose((slow.dram.latency_cycles - in_cache) / slow.clock_hz, beyond_s)
    for time in ("row_miss_cycles", "row_conflict_cycles", "refresh_cycles"):
        assert np.isclose(
            getattr(slow.dram, time) / slow.clock_hz, getattr(machine.dram, time) / machine.clock_hz
        )


def test_sources_say_what_was_changed() -> None:
    slow = load_machine("a100@0.765GHz")
    assert slow.title == "NVIDIA A100 SXM4 80 GB at 765 MHz"
    assert slow.sources["clock_hz"] == "as requested; the machine's file has 1410 MHz"
    assert slow.sources["dram.latency_cycles"].endswith("; for 1410 MHz, here at 765 MHz")
    assert slow.is_assumed("dram.row_miss_cycles")
    assert machine_from_json(machine_to_json(slow)) == slow


def test_its_own_clock_changes_no_number() -> None:
    machine = load_machine("v100")
    same = load_machine(f"v100@{machine.clock_hz / 1e6:g}MHz")
    assert same.dram == machine.dram


NO_CLOCKS = ("", "fast", "0MHz", "-5MHz", "1200", "1e3MHz", "9" * 30 + "GHz", "0.5MHz", "101GHz")


@pytest.mark.parametrize("clock", [*NO_CLOCKS, "\u0669MHz"])
def test_what_is_no_clock_is_refused(clock: str) -> None:
    with pytest.raises(MachineError, match="a clock is a number of MHz or GHz behind @"):
        load_machine(f"v100@{clock}")


def test_two_clocks_are_refused() -> None:
    with pytest.raises(MachineError, match="machine 'v100@900MHz@800MHz' has two clocks"):
        load_machine("v100@900MHz@800MHz")
    with pytest.raises(MachineError, match="has two clocks"):
        load_machine("v100" + "@900MHz" * 5000)


def test_an_at_sign_in_a_folder_is_no_clock(tmp_path: Path) -> None:
    with pytest.raises(MachineError, match="cannot be read"):
        load_machine(tmp_path / "a@b" / "mine.toml")
