"""Machine files: those of the package, and the messages for invalid ones."""

from __future__ import annotations

import dataclasses
import json
import math
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import click.testing
import pytest

import memsim
from memsim.commands.machines import machines as machines_command
from memsim.errors import MachineError
from memsim.machine.file import (
    index_lines,
    keys,
    load_machine,
    machine_from_json,
    machine_from_toml,
    machine_names,
    machine_to_json,
    machine_to_toml,
)
from memsim.machine.model import Machine
from memsim.machine.parts import Level
from memsim.machine.table import machines_table, unit_of, value_of
from tests.support import small_machines as made
from tests.support.outline import printed
from tests.support.traces import make_trace

FOLDER = Path(__file__).parents[3] / "memsim" / "machine" / "shipped"
SHIPPED = sorted(path.stem for path in FOLDER.glob("*.toml"))
V100 = (FOLDER / "v100.toml").read_text()


def test_names() -> None:
    assert machine_names() == SHIPPED


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_machines(name: str) -> None:
    machine = load_machine(name)
    assert machine.name == name
    assert machine_from_json(machine_to_json(machine)) == machine
    assert machine_from_toml(machine_to_toml(machine)) == machine
    assert set(machine.sources) == set(keys(machine))
    latencies = [level.latency_cycles for level in machine.levels]
    latencies.append(machine.dram.latency_cycles)
    assert latencies == sorted(latencies)
    for level in machine.levels:
        covered = level.n_sets * level.n_ways * level.n_slices * level.line_bytes
        assert covered == (level.tagged_bytes or level.size_bytes)
        for carveout in level.local_carveouts_bytes:
            level.resized(level.size_beside(carveout))
    residency = machine.residency
    assert residency.max_items == residency.max_subgroups * machine.subgroup_size
    for key in keys(machine):  # a number without a unit in its name is a count
        assert unit_of(key) or not isinstance(value_of(machine, key), float), key
    # Closing a row takes as long as opening one, within the rounding of the files; the C1060's RP is shorter than its RCD.
    dram, factor = machine.dram, {"c1060": 22 / 12}.get(name, 2.0)
    assert dram.row_conflict_cycles == pytest.approx(factor * dram.row_miss_cycles, abs=2e-3)


def test_a_year_needs_no_source() -> None:
    assert machine_from_toml(V100).year == 2017
    assert machine_from_toml(V100.replace("year = 2017\n", "")).year == 0
    for bad in ('"2017"', "-1", "20170", "2017.5"):
        with pytest.raises(MachineError, match=r"^<text>:5: year must"):
            machine_from_toml(V100.replace("year = 2017", f"year = {bad}"))


def test_a_machine_without_a_compiler_has_no_target() -> None:
    targets = {name: load_machine(name).compiler_target for name in SHIPPED}
    without = ["arc_b580", "cpu-pocl", "max1550"]
    assert [name for name, target in targets.items() if not target] == without
    assert (targets["titan_x"], targets["mi250x"]) == ("sm_52", "gfx90a")  # a Titan X of Maxwell's
    host = load_machine("cpu-pocl")
    assert "compiler_target" not in keys(host)
    assert "compiler_target" not in json.loads(machine_to_json(host))


@pytest.mark.parametrize(("width", "columns"), [(200, 12), (90, 10), (80, 9), (40, 4)])
def test_the_list_leaves_out_what_does_not_fit(width: int, columns: int) -> None:
    """One line a machine, by maker and year, of which nothing is cut."""
    table = machines_table([load_machine(name) for name in SHIPPED], width)
    assert len(table.columns) == columns
    lines = printed(table, width).splitlines()
    assert len(lines) == 2 + len(SHIPPED)
    assert all(len(line) <= width for line in lines)
    assert "…" not in "".join(lines)
    if width >= 80:
        makers = [str(cell) for cell in table.columns[1].cells]
        assert makers == sorted(makers, key=str.lower)
        h100 = next(line for line in lines if line.startswith("h100")).split()
        assert h100[:9] == ["h100", "NVIDIA", "2022", "132", "32", "248", "KiB", "50", "MiB"]
        assert h100[9:11] == ["3350", "sm_90"]


def test_geometry_by_hand() -> None:
    c2050 = load_machine("c2050")
    l1, l2 = c2050.levels
    assert (l1.n_sets, l1.n_ways) == (2, 64)  # 16 KiB / 128 B / 64
    assert (l2.n_sets, l2.n_ways, l2.n_slices) == (64, 64, 6)  # 768 KiB / 32 B / 64 / 6
    assert l1.latency_cycles == pytest.approx(90e-9 * c2050.clock_hz, rel=0.01)
    assert l2.latency_cycles == pytest.approx(250e-9 * c2050.clock_hz, rel=0.01)
    assert load_machine("c1060").levels == ()
    assert [level.name for level in load_machine("mi300x").levels] == ["L1", "L2", "L3"]
    assert not load_machine("k40c").levels[0].caches_loads
    assert not load_machine("titan_x").levels[0].caches_loads


def test_an_array_shared_with_local_memory_has_its_banks() -> None:
    """Also in results and files from before banks were stated; and a resized level keeps them."""
    machine = load_machine("v100")
    plain = json.loads(machine_to_json(machine))
    del plain["levels"][0]["bank_bytes"]
    (first, second) = machine_from_json(json.dumps(plain)).levels
    assert (first.bank_bytes, second.bank_bytes) == (4, 0)
    assert first.resized(65536).bank_bytes == 4
    with pytest.raises(MachineError, match="bank_bytes must be 4 or 8, or 0"):
        machine.replace(levels=(dataclasses.replace(first, bank_bytes=3), second))


def geometry(level: Level) -> tuple[int, int, int, int]:
    return level.n_sets, level.n_ways, level.capacity_lines, level.tagged_lines


def test_a_level_with_more_tags_than_room_keeps_its_sets() -> None:
    first = load_machine("h200").levels[0]
    assert geometry(first) == (512, 4, 1984, 2048)
    assert first.size_beside(8192) == 245_760
    assert geometry(first.resized(128 * 1000)) == (512, 4, 1000, 2048)
    assert geometry(first.resized(2 * 262_144)) == (512, 8, 4096, 4096)
    with pytest.raises(MachineError, match="multiple of one line, 128 bytes"):
        first.resized(1000)


def test_fully_associative_and_resized() -> None:
    level = load_machine("v100-accelsim").levels[0]
    assert (level.n_sets, level.n_ways) == (4, 256)
    half = level.resized(65536)
    assert (half.n_sets, half.n_ways) == (4, 128)
    full = dataclasses.replace(level, ways=-1, storage_bytes=0, local_carveouts_bytes=())
    assert (full.n_sets, full.n_ways) == (1, 1024)
    assert full.resized(65536).n_ways == 512
    with pytest.raises(MachineError, match="multiple of one way, 512 bytes, got 65537"):
        level.resized(65537)
    with pytest.raises(MachineError, match="got 0"):
        level.resized(0)
    level = load_machine("v100").levels[0]
    half = level.resized(65536)
    assert (half.n_sets, half.n_ways) == (128, 4)
    with pytest.raises(MachineError, match="one set of each slice, 512 bytes, got 65537"):
        level.resized(65537)


def line_of(text: str, pattern: str, after: str = "") -> int:
    """1-based line of the first match of a pattern that begins a line, from `after` on."""
    start = text.index(after)
    results = re.compile(f"^{pattern}", re.MULTILINE).search(text, start)
    assert results
    return 1 + text.count("\n", 0, results.start())


def replaced(key: str, value: object, after: str = "", text: str = V100) -> str:
    """The text of a machine file with the value of a key, the first from `after` on, replaced."""
    head, mark, tail = text.partition(after) if after else ("", "", text)
    changed, n = re.subn(
        rf"(^{key} = {{ value = ).*?(?=, source)", rf"\g<1>{value}", tail, count=1, flags=re.M
    )
    assert n == 1
    return head + mark + changed


L1, L2 = 'name = "L1"', 'name = "L2"'


@pytest.mark.parametrize(
    ("key", "value", "after", "message"),
    [
        ("n_cores", "0", "", "n_cores must be positive, got 0"),
        ("n_cores", "80.5", "", "n_cores must be an integer, got 80.5"),
        ("clock_hz", "nan", "", "clock_hz must be finite, got nan"),
        ("clock_hz", "-1.0", "", "clock_hz must be positive, got -1.0"),
        ("clock_hz", '"fast"', "", "clock_hz must be a number, got 'fast'"),
        ("clock_hz", "1" + "0" * 400, "", "clock_hz must be at most 1099511627776"),
        ("clock_hz", "0x" + "F" * 9000, "", "clock_hz must be at most 1099511627776, got a huge"),
        ("subgroup_size", "24", "", "subgroup_size must be one of 8, 16, 32, 64, got 24"),
        ("compiler_target", "70", "", "compiler_target must be a text, got 70"),
        ("compiler_target", '"volta"', "", "compiler_target must be NVIDIA's sm_ or AMD's gfx with a number, such as sm_80 or gfx90a, got 'volta'"),
        ("coalesce_lanes", "24", "", "coalesce_lanes must be a multiple of 8 that divides"),
        ("line_bytes", "96", L1, "line_bytes must be a power of two, got 96 (level 'L1')"),
        ("line_bytes", "512", L1, "line_bytes must be at most 256, got 512 (level 'L1')"),
        ("line_bytes", "[128]", L1, "line_bytes must be an integer, got [128] (level 'L1')"),
        ("sector_bytes", "256", L1, "sector_bytes must be at most line_bytes (128), got 256"),
        ("sector_bytes", "16", L2, "sector_bytes must be at least 32, the granule of a trace"),
        ("fill_bytes", "48", L2, "fill_bytes must be a multiple of sector_bytes (32), got 48"),
        ("fill_bytes", "96", L2, "fill_bytes must divide line_bytes (128), got 96"),
        ("size_bytes", "6291457", L2, "size_bytes must be a multiple of line_bytes x ways x n_slices (131072), got 6291457"),
        ("size_bytes", "65536", L1, "size_bytes must be what the smallest carve-out leaves"),
        ("ways", "0", L2, "ways must be positive, got 0 (level 'L2')"),
        ("cores_per_instance", "81", L2, "cores_per_instance must be at most n_cores (80), got 81"),
        ("replacement", '"mru"', L2, "replacement must be one of lru, lru_loads, fifo, plru, random, got 'mru'"),
        ("set_index", "3", L2, "set_index must be one of modulo, xor, xor_next, ipoly, fermi, hopper, scatter, got 3"),
        ("set_index", '"fermi"', L1, "set_index must have 32 or 64 sets of 128-byte lines in one slice"),
        ("slice_index", '"fermi"', L2, "slice_index must be one of modulo, xor, xor_next, ipoly, scatter, got"),
        ("latency_cycles", "0", L2, "latency_cycles must be positive, got 0.0"),
        ("storage_bytes", "0", L1, "local_carveouts_bytes must be given with storage_bytes"),
        ("storage_bytes", "-1", L1, "storage_bytes must not be negative, got -1"),
        ("local_carveouts_bytes", "[0, 16384, 8192]", L1, "local_carveouts_bytes must ascend"),
        ("local_carveouts_bytes", "[0, 8193]", L1, "must leave a multiple of one set of"),
        ("local_carveouts_bytes", "[0, 1.5]", L1, "must be an integer, got 1.5"),
        ("local_carveouts_bytes", "8192", L1, "must be a list of integers, got 8192"),
        ("n_channels", "0", "[dram]", "n_channels must be positive, got 0 (dram)"),
        ("row_miss_cycles", "-0.5", "[dram]", "row_miss_cycles must not be negative, got -0.5"),
        ("n_cores", "4097", "", "n_cores must be at most 4096, got 4097"),
        ("n_channels", "4097", "[dram]", "n_channels must be at most 4096"),
        ("n_banks", "1025", "[dram]", "n_banks must be at most 1024"),
        ("max_groups", 1 << 40, "[residency]", "max_groups must be at most 4096"),
        ("max_registers_per_item", 1 << 40, "[residency]", "max_registers_per_item must be at most 4096"),
        ("size_bytes", 1 << 40, L2, "size_bytes must have at most 33554432 lines in its 1 instances"),
        ("storage_bytes", 1 << 37, L1, "size_bytes must be what the smallest carve-out leaves of storage_bytes"),
        ("cycles_per_turn", 1e-300, "", "cycles_per_turn must be at least 1e-06"),
        ("registers", "1.5", "[residency]", "registers must be an integer, got 1.5 (residency)"),
        ("fp32_fma", "-1", "[throughputs]", "fp32_fma must be positive, got -1.0 (throughputs)"),
    ],
)  # fmt: skip
def test_broken_values(key: str, value: object, after: str, message: str) -> None:
    text = replaced(key, value, after)
    with pytest.raises(MachineError, match=re.escape(message)) as caught:
        machine_from_toml(text, "my.toml")
    assert "\n" not in str(caught.value)
    culprit = key if message.startswith("must") else message.split()[0]
    assert str(caught.value).startswith(f"my.toml:{line_of(text, culprit, after)}: ")


@pytest.mark.parametrize(
    ("name", "key", "value", "after", "message"),
    [
        ("v100-accelsim", "pending_requests", 1 << 14, L1, "pending_requests must be at most 1048576 in its 80 instances together"),
        ("c1060", "burst_bytes", 96, "[dram]", "burst_bytes must be a power of two, got 96 (dram)"),
    ],
)  # fmt: skip
def test_broken_values_of_others(name: str, key: str, value: int, after: str, message: str) -> None:
    text = replaced(key, value, after, (FOLDER / f"{name}.toml").read_text())
    with pytest.raises(MachineError, match=rf"^m\.toml:\d+: {re.escape(message)}"):
        machine_from_toml(text, "m.toml")


@pytest.mark.parametrize("burst", [16, 1024])
def test_every_burst_that_is_allowed_replays(burst: int) -> None:
    text = replaced("burst_bytes", burst, "[dram]", (FOLDER / "c1060.toml").read_text())
    trace = make_trace([[[(0, range(5, 19))]] for _ in range(40)])
    counted = memsim.replay(trace, machine_from_toml(text), trials=2)
    assert counted.dataset["dram_read_bytes"].min() > 0


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


def test_texts_are_one_line() -> None:
    text = V100.replace('title = "', 'title = "\\u001b[31m', 1)
    with pytest.raises(MachineError, match="title must be one line of text without control"):
        machine_from_toml(text)
    sourced = re.sub(r'source = "', r'source = "\\u001b[31m\\n', V100, count=1)
    assert all(source.isprintable() for source in machine_from_toml(sourced).sources.values())


(N_CORES,), (WAYS, *_) = (re.findall(f"^{key} = .*", V100, re.M) for key in ("n_cores", "ways"))


@pytest.mark.parametrize(
    ("old", "new", "message", "line"),
    [
        ("n_cores =", "n_coers =", "unknown key 'n_coers'; did you mean 'n_cores'?", "n_coers"),
        ("clock_hz =", "clock =", "unknown key 'clock'; a key carries its unit: clock_hz", "clock"),
        ("size_bytes =", "size =", "unknown key 'size'; a key carries its unit: size_bytes (level 'L1')", "size"),
        ("[dram]\n", '[dram]\n"a\\nb" = 1\n', r"unknown key 'a\nb' (dram)", r"\[dram"),
        ("[dram]\n", "[dram]\nzzz = 1\n", "unknown key 'zzz' (dram)", "zzz"),
        ('name = "L1"\n', 'name = "L1"\n"a.b" = 1\n', "unknown key 'a.b'", r"\[\[levels"),
        ("[dram]", "[darm]", "unknown key 'darm'; did you mean 'dram'?", r"\[darm"),
        ("80, source", "80, sorce", "unknown key 'sorce' in n_cores; did you mean 'source'?", "n_cores"),
        (N_CORES, "n_cores = { value = 80 }", "missing source of n_cores; write 'assumed' if nobody measured it", "n_cores"),
        (N_CORES, 'n_cores = { value = 80, source = " " }', "source of n_cores must be a text, got ' '", "n_cores"),
        (N_CORES, 'n_cores = { source = "x" }', "missing value of n_cores", "n_cores"),
        (N_CORES, "n_cores = 80", 'n_cores must be { value = ..., source = "..." }, got 80', "n_cores"),
        (N_CORES, "", "missing key 'n_cores'", None),
        ('title = "', 'title = 3 # "', "title must be a text, got 3", "title"),
        (WAYS, "", "missing key 'ways' (level 'L1')", r"\[\[levels"),
        ('name = "L2"', 'name = "L1"', "level names must be unique, got 'L1' more", 'name = "L1"'),
        ('name = "L2"', 'name = "L-2"', "name must be letters, digits and _, got 'L-2'", 'name = "L-2"'),
        ('name = "L1"', "name = 1", "name of level 1 must be a text", "name = 1"),
        ('name = "L1"\n', "", "name of level 1 must be a text", r"\[\[levels"),
        ("[[levels]]\nname = \"L1\"", "[x]\n[[levels]]\nname = \"L1\"", "unknown key 'x'", r"\[x"),
    ],
)  # fmt: skip
def test_broken_structure(old: str, new: str, message: str, line: str | None) -> None:
    assert old in V100
    text = V100.replace(old, new, 1)
    with pytest.raises(MachineError, match=re.escape(message)) as caught:
        machine_from_toml(text, "my.toml")
    assert "\n" not in str(caught.value)
    after = "write_hit" if line == L1 else ""  # the later of the two
    expected = 1 if line is None else line_of(text, line, after)
    assert str(caught.value).startswith(f"my.toml:{expected}: ")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "my.toml:1: missing table [dram]"),
        ("name = ", "my.toml:1: not TOML: Invalid value"),
        ("name = 'a'\nname = 'b'", "my.toml:2: not TOML: Cannot overwrite a value"),
        ("a = " + "[" * 100_000, "my.toml: not TOML: nested too deeply"),
        ("a = " + "9" * 10_000, "my.toml:1: not TOML: "),
        ("\n\n[dram\n", "my.toml:3: not TOML: "),
        ("levels = 3", "my.toml:1: levels must be an array of tables, [[levels]]"),
        ("levels = [3]", "my.toml:1: levels must be an array of tables"),
        ("dram = 3", "my.toml:1: dram must be a table, got 3"),
    ],
)
def test_no_machine_at_all(text: str, message: str) -> None:
    with pytest.raises(MachineError, match=re.escape(message)) as caught:
        machine_from_toml(text, "my.toml")
    assert "\n" not in str(caught.value)


def test_lines_of_keys() -> None:
    text = '''
a = 1
b.c = """
d = 2
"""
[t]
"q" = 1
[[l]]
x = 1
[[l]]
x = { y = 2 }
[l.m]
z = 3'''
    found = {".".join(map(str, path)): line for path, line in index_lines(text).items()}
    of_tables = {"l": 8, "l.0": 8, "l.0.x": 9, "l.1": 10, "l.1.x": 11, "l.1.m": 12, "l.1.m.z": 13}
    assert found == {"a": 2, "b": 3, "b.c": 3, "t": 6, "t.q": 7, **of_tables}


def test_model_error_names_a_level() -> None:
    plain = V100[: V100.index("[model_error_points]")]
    text = plain + '\n[model_error_points]\nL9 = { value = 1.5, source = "x" }\n'
    with pytest.raises(MachineError, match=r"must name a level \(L1, L2\), got 'L9'"):
        machine_from_toml(text)
    text = text.replace("L9", "L2").replace("1.5", "0.0")
    assert machine_from_toml(text).model_error_points == {"L2": 0.0}


def test_rules_hold_for_machines_made_in_python() -> None:
    machine = load_machine("v100")
    with pytest.raises(MachineError, match="n_cores must be positive"):
        machine.replace(n_cores=0)
    with pytest.raises(MachineError, match="dram_idle_during_l1_percent must be at most 100"):
        machine.replace(dram_idle_during_l1_percent=101)
    with pytest.raises(MachineError, match="line_bytes must be a power of two, got 96"):
        machine.replace(levels=(dataclasses.replace(machine.levels[0], line_bytes=96),))


ON_FILL = {"allocate": "on_fill", "write_policy": "write_through", "write_allocate": "none"}
KEEPS = {"write_policy": "write_back", "write_allocate": "lazy_fetch_on_read"}
PART = "partial_write_back_percent"


@pytest.mark.parametrize(
    ("position", "changes", "message"),
    [
        (1, {PART: 101.0}, f"{PART} must be at most 100, got 101.0 (level 'L2')"),
        (1, {PART: -1.0}, f"{PART} must"),
        (1, {"write_allocate": "no_fetch"}, "only with write_back and lazy_fetch_on_read"),
        (1, {"write_policy": "write_through"}, "only with write_back and lazy_fetch_on_read"),
        (0, {PART: 38.0, **KEEPS}, f"{PART} must be 0 in the first level, which"),
        (1, {"n_slices": 3, "size_bytes": 96}, "n_slices must be a multiple of n_partitions"),
        (1, {"cores_per_instance": 1}, "cores_per_instance must be a multiple of n_partitions (2)"),
        (0, {"n_partitions": 2}, "n_partitions must be 1 but for the second level, got 2"),
        (1, {"n_partitions": 0}, "n_partitions must be positive, got 0"),
        (1, {PART: 0.0, "completes_sectors": False, **ON_FILL}, "allocate must be on_miss where n_partitions is more"),
        (0, {"allocate": "on_fill", "write_policy": "write_back"}, "allocate must be on_miss where stores are kept"),
        (0, {"allocate": "on_fill", "write_allocate": "no_fetch"}, "allocate must be on_miss where stores are kept"),
    ],
)  # fmt: skip
def test_rules_between_the_fields_of_levels(
    position: int, changes: dict[str, Any], message: str
) -> None:
    halved = {"slices": 2, "n_partitions": 2, "cores_per_instance": 2, PART: 38.0, **KEEPS}
    levels = [made.level(), made.level("L2", **halved)]
    on = made.machine(*levels, cores=2)
    levels[position] = dataclasses.replace(levels[position], **changes)
    with pytest.raises(MachineError, match=re.escape(message)):
        on.replace(levels=tuple(levels))


def test_a_machine_is_its_own_name_and_a_number_is_none() -> None:
    v100 = load_machine("v100")
    assert load_machine(v100) is v100
    with pytest.raises(MachineError, match="a machine is a name, a file or a Machine, got 3"):
        load_machine(3)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["v10", "V100", "nonsense"])
def test_unknown_names(name: str) -> None:
    with pytest.raises(MachineError, match=f"unknown machine '{name}'.*v100-accelsim") as caught:
        load_machine(name)
    assert ("did you mean 'v100'?" in str(caught.value)) == (name != "nonsense")
    result = click.testing.CliRunner().invoke(machines_command, [name])
    assert isinstance(result.exception, MachineError)


@pytest.mark.parametrize(
    "name", ["x" * 5000, "y" * 5000 + ".toml", "a\0b.toml", "a\ud800.toml", "a\n\x1b[31mb.toml"]
)
def test_names_that_no_file_has(name: str) -> None:
    with pytest.raises(MachineError) as caught:
        load_machine(name)
    assert str(caught.value).isprintable()


def test_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "my.toml"
    path.write_text(V100)
    assert load_machine(path) == load_machine("v100") == load_machine(str(path))
    monkeypatch.chdir(tmp_path)
    assert load_machine("my.toml").name == "v100"
    with pytest.raises(MachineError, match=r"gone\.toml: cannot be read: No such file"):
        load_machine("gone.toml")
    with pytest.raises(MachineError, match="cannot be read: Is a directory"):
        load_machine(f"{tmp_path}/.")
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(MachineError, match="must be UTF-8 text"):
        load_machine(path)
    path.write_bytes(b"#" * (1 << 20) + b"#")
    with pytest.raises(MachineError, match="must be at most 1048576 bytes"):
        load_machine(path)
    path.write_text(V100.replace("value = 80,", "value = -80,", 1))
    with pytest.raises(MachineError, match=r"my\.toml:\d+: n_cores must be positive, got -80"):
        load_machine("my.toml")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nonsense", "machine is not JSON"),
        ("[]", "machine must be a JSON object"),
        ("{}", "schema of a machine must be 1"),
        ('{"schema": 1}', "missing table"),
        ("[" * 100_000, "machine is not JSON"),
    ],
)
def test_broken_json(text: str, message: str) -> None:
    with pytest.raises(MachineError, match=message):
        machine_from_json(text)


def test_json_keeps_the_rules() -> None:
    document = json.loads(machine_to_json(load_machine("v100")))
    document["levels"][0]["line_bytes"]["value"] = 96
    with pytest.raises(MachineError, match="line_bytes must be a power of two, got 96"):
        machine_from_json(json.dumps(document))


def invoke(*arguments: str) -> str:
    result = click.testing.CliRunner().invoke(machines_command, arguments, env={"COLUMNS": "200"})
    assert result.exception is None, result.output
    return result.output


def test_command_lists_all() -> None:
    output = invoke()
    for name in SHIPPED:
        assert re.search(rf"^{re.escape(name)} ", output, re.MULTILINE)
    assert "8 x 4 MiB" in output
    assert json.loads(invoke("--json", "-")) == SHIPPED


def test_command_shows_every_number_with_its_source() -> None:
    machine = load_machine("v100")
    output = invoke("v100")
    for key in keys(machine):
        row = next(line for line in output.splitlines() if line.startswith(f"{key} "))
        assert ("assumed" in row) == machine.is_assumed(key)
    assert re.search(r"levels\.L1\.size_bytes +131072 +bytes +NVIDIA Tesla V100 GPU", output)
    assert machine_from_json(invoke("v100", "--json", "-")) == machine


def test_sources_are_not_read_as_markup(tmp_path: Path) -> None:
    path = tmp_path / "my.toml"
    source = "[bold]brackets[/nonsense] stay"
    path.write_text(
        V100.replace(
            'n_cores = { value = 80, source = "', f'n_cores = {{ value = 80, source = "{source} '
        )
    )
    assert source in invoke(str(path))


def test_commands_import_nothing_heavy() -> None:
    code = (
        "import sys, click; before = set(sys.modules); import memsim.commands.machines;"
        "print(*(m for m in set(sys.modules) - before if m.split('.')[0] in"
        " ('numpy', 'rich', 'pyarrow', 'numba', 'xarray', 'tomllib')))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


def test_values_that_were_fitted_are_told_from_assumed_and_measured_ones() -> None:
    machine = load_machine("v100")
    fitted = {key for key in machine.sources if machine.standing(key) == "fitted"}
    assert fitted == {
        "dram_idle_during_l1_percent",
        "levels.L2.partial_write_back_percent",
        "translation.miss_cycles",
        "translation.placement",
        "scheduler_turns",
    }
    assert machine.standing("levels.L1.size_bytes") == ""
    assert machine.standing("levels.L2.slice_index") == "assumed"
    assert not any(machine.is_assumed(key) for key in fitted)


def test_a_kernel_loses_bandwidth_by_its_row_misses() -> None:
    """A stream that misses 2 rows in 5 sustains 50 of 60 bytes a cycle: 1/50 - 1/60 = 1/300 of a cycle a byte,
    so a kernel that misses 4 in 5 loses 2/300, and one that misses none loses nothing."""
    dram = dataclasses.replace(
        load_machine("v100").dram,
        bandwidth_bytes_per_cycle=60.0,
        sustained_bandwidth_bytes_per_cycle=50.0,
        sustained_row_hits_percent=60.0,
    )
    at = {ratio: dram.bandwidth_at(ratio) for ratio in (0.6, 1.0, 0.2)}
    assert at == pytest.approx({0.6: 50.0, 1.0: 60.0, 0.2: 1 / (1 / 60 + 2 / 300)})
    assert dram.bandwidth_at(math.nan) == 50.0
    unknown = dataclasses.replace(dram, sustained_row_hits_percent=0.0)
    assert unknown.bandwidth_at(0.2) == 50.0
    unmeasured = dataclasses.replace(dram, sustained_bandwidth_bytes_per_cycle=0.0)
    assert unmeasured.bandwidth_at(0.2) == 60.0
    reading = dataclasses.replace(dram, read_bandwidth_bytes_per_cycle=55.0)
    reads = [reading.bandwidth_at(ratio, written=0.0) for ratio in (0.6, 1.0, 0.2)]
    assert reads == pytest.approx([55.0, 55.0, 55.0 * at[0.2] / 50.0])
    assert reading.bandwidth_at(0.6, written=0.125) == 52.5
    assert reading.bandwidth_at(0.6) == 50.0


def test_half_of_memory_cannot_be_nearer_than_a_core() -> None:
    machine = load_machine("b200")
    assert 0 < machine.dram.far_cycles < machine.dram.latency_cycles
    dram = dataclasses.replace(machine.dram, far_cycles=machine.dram.latency_cycles + 1)
    with pytest.raises(MachineError, match="far_cycles must be at most latency_cycles"):
        machine.replace(dram=dram)


def test_rows_that_can_be_opened_limit_single_bursts() -> None:
    """A row in two cycles: with 64 bytes of each 32 bytes a cycle, and with 128 as many as the stream."""
    dram = dataclasses.replace(
        load_machine("v100").dram,
        sustained_bandwidth_bytes_per_cycle=50.0,
        sustained_row_hits_percent=0.0,
        row_activations_per_cycle=0.5,
    )
    at = {n: dram.bandwidth_at(0.0, bytes_per_row=n) for n in (64.0, 128.0, math.inf, math.nan)}
    assert list(at.values()) == [32.0, 50.0, 50.0, 50.0]
