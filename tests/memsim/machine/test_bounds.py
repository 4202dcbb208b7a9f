"""Sizes that no memory holds are refused by rule, with the level or table that names them."""

from __future__ import annotations

import dataclasses
import re

import pytest

import memsim
from memsim.errors import MachineError
from memsim.machine.file import load_machine, machine_from_toml, machine_to_toml
from memsim.machine.model import Machine
from tests.support.traces import make_trace

TEXTS = {name: machine_to_toml(load_machine(name)) for name in ("v100", "c1060", "v100-accelsim")}


def changed(name: str, table: str, key: str, value: str) -> str:
    """The TOML of a shipped machine with one value replaced; table is that of a level or a record."""
    head, mark, tail = TEXTS[name].partition(table) if table else ("", "", TEXTS[name])
    pattern = rf"(^{key} = {{ value = )[^,]+"
    assert re.search(pattern, tail, re.M), key
    return head + mark + re.sub(pattern, rf"\g<1>{value}", tail, count=1, flags=re.M)


@pytest.mark.parametrize(
    ("name", "table", "key", "value", "message"),
    [
        ("v100", "", "n_cores", 4097, "n_cores must be at most 4096, got 4097"),
        ("v100", "[dram]", "n_channels", 4097, "n_channels must be at most 4096"),
        ("v100", "[dram]", "n_banks", 1025, "n_banks must be at most 1024"),
        ("v100", "[residency]", "max_groups", 1 << 40, "max_groups must be at most 4096"),
        ("v100", "[residency]", "max_registers_per_item", 1 << 40, "max_registers_per_item must be at most 4096"),
        ("v100", 'name = "L2"', "size_bytes", 1 << 40, "size_bytes must have at most 33554432 lines in its 1 instances"),
        ("v100", 'name = "L1"', "storage_bytes", 1 << 37, "smallest carve-out leaves of storage_bytes"),
        ("v100-accelsim", 'name = "L1"', "pending_requests", 1 << 14, "pending_requests must be at most 1048576 in its 80 instances together"),
        ("c1060", "[dram]", "burst_bytes", 96, "burst_bytes must be a power of two, got 96 (dram)"),
        ("c1060", "[dram]", "burst_bytes", 192, "burst_bytes must be a power of two, got 192 (dram)"),
        ("v100", "", "cycles_per_turn", 1e-300, "cycles_per_turn must be at least 1e-06"),
    ],
)  # fmt: skip
def test_bounds(name: str, table: str, key: str, value: float, message: str) -> None:
    with pytest.raises(MachineError) as caught:
        machine_from_toml(changed(name, table, key, str(value)), "m.toml")
    assert message in str(caught.value)
    assert re.match(r"m\.toml:\d+: ", str(caught.value))


def test_a_refresh_that_leaves_no_time_for_a_request() -> None:
    """A channel that refreshed for ever would never serve it."""
    machine = load_machine("v100")
    dram, refresh = machine.dram, 350.0
    longest = dram.row_miss_cycles + 256 * dram.n_channels / dram.bandwidth_bytes_per_cycle

    def refreshing(interval: float) -> Machine:
        changed = {"refresh_cycles": refresh, "refresh_interval_cycles": interval}
        return machine.replace(dram=dataclasses.replace(dram, **changed))

    with pytest.raises(MachineError, match="refresh_interval_cycles must be more than"):
        refreshing(refresh + 0.99 * longest)
    kept = refreshing(refresh + 1.01 * longest)
    assert machine_from_toml(machine_to_toml(kept)).dram.refresh_cycles == refresh


@pytest.mark.parametrize("burst", [16, 32, 64, 128, 256, 1024])
def test_every_burst_that_is_allowed_replays(burst: int) -> None:
    machine = machine_from_toml(changed("c1060", "[dram]", "burst_bytes", str(burst)))
    trace = make_trace([[[(0, range(5, 19))]] for _ in range(40)])
    counted = memsim.replay(trace, machine, trials=2)
    assert counted.dataset["dram_read_bytes"].min() > 0


def test_texts_are_one_line() -> None:
    text = TEXTS["v100"].replace('title = "', 'title = "\\u001b[31m', 1)
    with pytest.raises(MachineError, match="title must be one line of text without control"):
        machine_from_toml(text)
    sourced = re.sub(r'source = "', r'source = "\\u001b[31m\\n', TEXTS["v100"], count=1)
    assert all(source.isprintable() for source in machine_from_toml(sourced).sources.values())
