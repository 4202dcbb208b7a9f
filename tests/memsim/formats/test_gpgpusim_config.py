"""gpgpusim.config: every letter of a cache's line, and whole machines; test_bad_input.py has what is broken."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import memsim
from memsim.formats.gpgpusim.config import Option, parse_cache, parse_options
from memsim.formats.gpgpusim.machine import Imported, import_config
from memsim.machine.file import load_machine, machine_from_toml, machine_to_toml
from memsim.machine.model import Machine
from tests.support.command_line import RunMemsim

# Written for this test, in the form of that simulator's files; the values are those of our
# machines/v100-accelsim.toml.
CONFIG = """\
# a Volta
-gpgpu_ptx_sim_mode 0
-gpgpu_n_clusters 80
-gpgpu_n_cores_per_cluster 1
-gpgpu_n_mem 32
-gpgpu_n_sub_partition_per_mchannel 2   # slices
-gpgpu_clock_domains 1132.0:1132.0:1132.0:850.0
-gpgpu_shader_registers 65536
-gpgpu_occupancy_sm_number 70
-gpgpu_shader_core_pipeline 2048:32
-gpgpu_shader_cta 32
-gpgpu_num_sp_units 4
-gpgpu_num_dp_units 4
-gpgpu_num_int_units 4
-ptx_opcode_initiation_int 2,2,2,2,8,4
-ptx_opcode_initiation_fp 2,2,2,2,4
-ptx_opcode_initiation_dp 4,4,4,4,130
-gpgpu_coalesce_arch 70
-gpgpu_adaptive_cache_config 1
-gpgpu_shmem_option 0,8,16,32,64,96
-gpgpu_unified_l1d_size 128
-gpgpu_l1_banks 4
-gpgpu_cache:dl1 S:4:128:64,L:T:m:L:L,A:512:8,16:0,32
-gpgpu_l1_latency 20
-gpgpu_gmem_skip_L1D 0
-gpgpu_shmem_size 98304
-gpgpu_cache:dl2 S:32:128:24,L:B:m:L:P,A:192:4,32:0,32
-gpgpu_cache:dl2_texture_only 0
-gpgpu_memory_partition_indexing 2
-gpgpu_l2_rop_latency 160
-dram_latency 100
-gpgpu_dram_scheduler 1
-gpgpu_n_mem_per_ctrlr 1
-gpgpu_dram_buswidth 16
-gpgpu_dram_burst_length 2
-dram_data_command_freq_ratio 2
-gpgpu_mem_addr_mapping dramid@8;00000000.00000000.00000000.00000000.0000RRRR.RRRRRRRR.RBBBCCCB.CCCSSSSS
-gpgpu_dram_timing_opt "nbk=16:CCD=1:RRD=3:RCD=12:RAS=28:RP=12:RC=40:
                        CL=12:WL=2:CDLR=3:WR=10:nbkgrp=4:CCDL=2:RTPL=3"
-gpgpu_num_sched_per_core 2
"""
DL1 = "S:4:128:64,L:T:m:L:L,A:512:8,16:0,32"


def imported(folder: Path, text: str = CONFIG) -> Imported:
    (folder / "gpgpusim.config").write_text(text)
    return import_config(folder / "gpgpusim.config")


def changed(folder: Path, old: str, new: str) -> Imported:
    assert old in CONFIG
    return imported(folder, CONFIG.replace(old, new, 1))


def test_it_is_the_machine_that_we_ship(tmp_path: Path) -> None:
    """But for occupancy's rounding, the network's share of DRAM latency, and what is assumed there."""
    ours, shipped = imported(tmp_path).machine, load_machine("v100-accelsim")

    def differ(mine: Any, theirs: Any) -> set[str]:
        own, other = (
            {f.name: getattr(one, f.name) for f in dataclasses.fields(one)}
            for one in (mine, theirs)
        )
        return {name for name in own if own[name] != other[name]
                and not (isinstance(own[name], float) and own[name] == pytest.approx(other[name], rel=1e-4))}  # fmt: skip

    names = {"name", "title", "year", "sources"}
    assert differ(ours, shipped) == names | {"dram", "residency", "n_schedulers", "throughputs"}
    assert differ(ours.dram, shipped.dram) == {"latency_cycles"}
    rounding = {"register_unit", "local_memory_unit_bytes", "subgroup_granularity"}
    assert differ(ours.residency, shipped.residency) == rounding
    # 20 + 160 + 100 and CL + burst, 12 + 2/2 cycles of 850 MHz, where we ship a round 300.
    assert ours.dram.latency_cycles == pytest.approx(280 + 13 * 1132 / 850)
    assert (ours.n_cores, ours.clock_hz, ours.subgroup_size) == (80, 1.132e9, 32)
    assert (ours.n_schedulers, ours.residency.register_unit) == (2, 128)
    assert {k: shipped.throughputs[k] for k in ours.throughputs} == dict(ours.throughputs)


def test_every_number_says_where_it_comes_from(tmp_path: Path) -> None:
    machine = imported(tmp_path).machine
    source = machine.sources["levels.L1.line_bytes"]
    assert source == f"gpgpusim.config: -gpgpu_cache:dl1 {DL1}"
    assert machine.sources["n_cores"] == (
        "gpgpusim.config: -gpgpu_n_clusters 80, -gpgpu_n_cores_per_cluster 1"
    )
    for key in ("levels.L2.latency_cycles", "dram.latency_cycles", "cycles_per_turn"):
        assert machine.is_assumed(key)  # put together from several options
    assert machine.compiler_target == "sm_70"
    assert "-gpgpu_num_sched_per_core 2" in machine.sources["n_schedulers"]
    assert not machine.is_assumed("levels.L2.size_bytes")


def test_what_it_wrote_is_read_again(tmp_path: Path) -> None:
    found = imported(tmp_path)
    text = machine_to_toml(found.machine, [*found.notes, "two\nlines"])
    assert machine_from_toml(text) == found.machine
    assert all(line.startswith(("#", "[")) or "=" in line or not line for line in text.splitlines())
    for name in memsim.machine_names():
        shipped = load_machine(name)
        assert machine_from_toml(machine_to_toml(shipped)) == shipped


CACHE_LINES: list[tuple[str, dict[str, object], str]] = [
    ("N:32:128:4,L:L:m:N:H,S:64:8,8", {"sector_bytes": 128, "write_hit": "evict", "ways": 4}, "write-back of local memory"),
    ("32:128:4,L:E:m:N:L,A:32:8,8", {"size_bytes": 16384, "write_hit": "evict", "n_sets": 32}, ""),
    ("S:4:128:64,F:T:m:N:P,A:256:8,16:0,32", {"replacement": "fifo", "set_index": "ipoly"}, ""),
    ("S:4:128:64,L:B:m:W:X,A:256:8,16:0,32", {"write_policy": "write_back", "set_index": "xor_next"}, ""),
    ("N:8:64:8,L:B:m:F:L,A:7:8", {"write_allocate": "fetch_on_write", "pending_requests": 7}, ""),
    ("S:4:128:64,L:T:m:L:L,A:256:8", {"write_allocate": "lazy_fetch_on_read"}, ""),
    ("S:4:128:64,L:T:m:W:L,A:256:8", {"write_allocate": "update_memory_and_fetch"}, ""),
    ("N:64:128:6,L:R:m:N:L,A:2:32,4", {"write_allocate": "none", "write_policy": "write_through"}, "read only"),
    ("S:1:128:512,L:L:s:N:L,A:256:8,16:0,32", {"pending_requests": 512, "n_sets": 1, "allocate": "on_fill"}, ""),
    ("N:32:128:4,L:T:f:N:H,S:64:8,8", {"allocate": "on_fill", "set_index": "fermi"}, ""),
    ("N:64:128:6,L:R:f:N:L,A:2:32,4", {"allocate": "on_fill", "pending_requests": 2}, ""),
    ("N:32:128:4,L:L:m:N:C,S:64:8,8", {}, "set index custom"),
    ("N:32:128:4,L:T:f:W:L,S:64:8,8", {}, "allocation on fill (f) with W"),
    ("N:32:128:4,L:T:m:N:L,F:128:4,128:2", {}, "FIFO of a texture cache"),
    ("N:32:128:4,L:T:m:N:L,S:64:9,8", {}, "merging of at most 9 requests"),
    ("N:32:128:4,L:T:m:N:L,S:64:8,77", {}, "miss queue of 77"),
]  # fmt: skip
"""The line of an L1, what it makes of it, and what of it is said not to be modelled."""


@pytest.mark.parametrize(("line", "fields", "note"), CACHE_LINES)
def test_every_letter(tmp_path: Path, line: str, fields: dict[str, object], note: str) -> None:
    text = CONFIG.replace("-gpgpu_adaptive_cache_config 1\n", "").replace(DL1, line)
    found = imported(tmp_path, text)
    level = found.machine.levels[0]
    assert {name: getattr(level, name) for name in fields} == fields
    notes = "\n".join(one for one in found.notes if "cache:dl1:" in one)
    assert note in notes
    assert not note or "gpgpusim.config:22: -gpgpu_cache:dl1: not modelled: " in notes


def test_no_option_is_dropped_silently(tmp_path: Path) -> None:
    found = changed(tmp_path, "# a Volta\n", "-gpgpu_made_up 5 6\n-icnt_flit_size 40\n")
    notes = "\n".join(found.notes)
    assert "gpgpusim.config:1: -gpgpu_made_up 5 6: not modelled: unknown option" in notes
    assert "-icnt_flit_size 40: not modelled: the network" in notes
    assert "-gpgpu_dram_scheduler 1: not modelled: requests wait in no queue" in notes
    assert "RAS=28" in notes
    assert "do not concern caches or memory: -gpgpu_ptx_sim_mode" in notes


OTHERS: list[tuple[str, str, Callable[[Machine], object], object, str]] = [
    ("-gpgpu_gmem_skip_L1D 0", "-gpgpu_gmem_skip_L1D 1", lambda m: m.levels[0].caches_loads, False, ""),
    (DL1, "none", lambda m: m.level_names, ("L2",), ""),
    ("dl2_texture_only 0", "dl2_texture_only 1", lambda m: m.level_names, ("L1",), "an L2 for textures alone"),
    ("-gpgpu_coalesce_arch 70", "-gpgpu_coalesce_arch 13", lambda m: m.coalesce_lanes, 16, ""),
    ("-gpgpu_occupancy_sm_number 70\n", "", lambda m: m.compiler_target, "", ""),
    ("-gpgpu_adaptive_cache_config 1\n", "", lambda m: m.levels[0].size_bytes, 32768, ""),
    ("0,8,16,32,64,96", "32,64", lambda m: m.levels[0].size_bytes, 96 * 1024, ""),
    ("0,8,16,32,64,96", "0,64,128", lambda m: m.levels[0].local_carveouts_bytes, (0, 65536),
     "128 KB, which leaves the L1 no whole"),
]  # fmt: skip
"""What is replaced, by what, a number of the machine, its value, and what is said of the change."""


@pytest.mark.parametrize(("old", "new", "number", "value", "note"), OTHERS)
def test_other_machines(
    tmp_path: Path,
    old: str,
    new: str,
    number: Callable[[Machine], object],
    value: object,
    note: str,
) -> None:
    found = changed(tmp_path, old, new)
    assert number(found.machine) == value
    assert note in "\n".join(found.notes)


def test_bandwidth_of_quad_data_rate(tmp_path: Path) -> None:
    """GTX 480: 6 controllers of two 32-bit chips at 924 MHz, four transfers a cycle: 177.4 GB/s."""
    text = (
        CONFIG.replace("-gpgpu_n_mem 32", "-gpgpu_n_mem 6")
        .replace("1132.0:1132.0:1132.0:850.0", "700:700:700:924")
        .replace("-gpgpu_n_mem_per_ctrlr 1", "-gpgpu_n_mem_per_ctrlr 2")
        .replace("-gpgpu_dram_buswidth 16", "-gpgpu_dram_buswidth 4")
        .replace("-gpgpu_dram_burst_length 2", "-gpgpu_dram_burst_length 8")
        .replace("-dram_data_command_freq_ratio 2", "-dram_data_command_freq_ratio 4")
    )
    machine = imported(tmp_path, text).machine
    assert machine.dram.bandwidth_bytes_per_cycle * machine.clock_hz == pytest.approx(177.408e9)
    assert machine.dram.burst_bytes == 64


def test_the_last_of_two_counts() -> None:
    options = parse_options("-a 1 -a 2 # -a 3\n-b\n-c '", "f")
    assert (options["a"].value, options["b"].value, options["c"].line) == ("2", "", 3)
    assert parse_cache(Option(file="f", name="c", value="none", line=1)) is None


def test_the_command(run_memsim: RunMemsim, tmp_path: Path) -> None:
    config, out = tmp_path / "QV100" / "gpgpusim.config", tmp_path / "my.toml"
    config.parent.mkdir()
    config.write_text(CONFIG)
    ended = run_memsim("machines", "import", str(config), "-o", str(out))
    assert "not modelled: merging" in ended.err
    machine = load_machine(out)
    assert machine.name == "qv100"
    assert "# gpgpusim.config:" in out.read_text()
    ended = run_memsim("machines", str(out))
    assert "QV100, as GPGPU-Sim configures it" in ended.out
    config.write_text("hello")
    run_memsim.refused("machines", "import", str(config), "-o", str(out))
