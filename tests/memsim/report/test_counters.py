"""Counting as profilers count, against counts by hand; and a replay beside measured counters."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest
from click.testing import CliRunner

import memsim
from memsim.commands.compare import compare as compare_command
from memsim.errors import MemsimError, ResultError
from memsim.formats.any_trace import read_counters
from memsim.formats.profilers.counter_file import CounterFile, LaunchCounters, LineCounters
from memsim.machine.model import Machine
from memsim.montecarlo.result import Replay
from memsim.report.compare import compare
from memsim.report.counters.definitions import NSIGHT, ROCPROF
from memsim.report.counters.measurement import against, base_name
from memsim.report.html import comparison_page, replay_page
from memsim.report.json_contract import to_data
from memsim.report.launch_counts import Counts
from memsim.report.summary import summarise
from tests.support.fake_replay import fake_dataset
from tests.support.json_schema import json_schema
from tests.support.outline import in_one_kind_of_space, printed
from tests.support.small_machines import level, machine
from tests.support.traces import make_trace


def nvidia_like() -> Machine:
    """Two levels of 32-byte sectors; requested sectors stay pending for long."""
    return machine(
        level("L1", line=128, sector=32, ways=4),
        level("L2", line=128, sector=32, ways=8, write_policy="write_back", write_allocate="no_fetch"),
        miss_turns=1000.0,
    )  # fmt: skip


def amd_like() -> Machine:
    return machine(
        level("L1", line=64, ways=4),
        level("L2", line=128, sector=64, ways=8, write_policy="write_back", write_allocate="no_fetch"),
        miss_turns=1000.0,
    )  # fmt: skip


def replayed(on: Machine, accesses: list[tuple[Any, ...]]) -> Replay:
    trace = make_trace([[accesses, LATECOMER]], ("load", "store", "atomic"))
    return memsim.replay(trace, on, trials=2, deviation=False)


ACCESSES: list[tuple[Any, ...]] = [
    (0, [0, 1]),  # two sectors, both missed in both levels
    (1, [0]),  # hits in L1, for its sector is there; goes on to L2, where it is there too
    (1, [8]),  # in neither level
    (1, [9]),  # L2 has its line, but not its sector
    (2, [16]),  # an atomic: nowhere
]
LATECOMER: list[tuple[Any, ...]] = [(0, [0, 1])]
"""Another sub-group: whichever of the two loads second finds both."""


def ratios(replay: Replay) -> dict[tuple[str, str], float]:
    return {
        key: numbers.hit_ratio.mean
        for key, numbers in summarise(replay.dataset).totals.items()
        if numbers.hit_ratio.is_defined
    }


def test_nsight_by_hand() -> None:
    replay = replayed(nvidia_like(), ACCESSES)
    own = {
        ("L1", "load"): 2 / 4,
        ("L2", "read"): 0.0,
        ("L2", "write"): 1 / 3,
        ("L2", "atomic"): 0.0,
    }
    assert ratios(replay) == pytest.approx(own)
    counted = replay.recount("nsight")
    # All of L1: 4 of loads, 3 of stores, 1 atomic; hits: 2 pending, and the store of sector 0. All of L2: 2
    # reads missed, 3 writes that hit, 1 atomic missed.
    everything = {("L2", "write"): 3 / 3, ("L1", "all"): 3 / 8, ("L2", "all"): 3 / 6}
    assert ratios(counted) == pytest.approx(own | everything)
    loads = [replay.latency_cycles().values, counted.latency_cycles().values]
    assert np.array_equal(loads[0], loads[1], equal_nan=True)


def test_rocprof_by_hand() -> None:
    replay = replayed(amd_like(), ACCESSES)
    result = ratios(replay.recount("rocprof"))
    # Lines of 64 bytes: {0, 1} one line, missed, then on its way; stores to 0 (there), 8, 9 (not).
    assert result["L1", "all"] == pytest.approx(2 / 6)
    # Requests of 64 bytes: the line missed; writes: there, not, there by then; the atomic not.
    assert result["L2", "all"] == pytest.approx(2 / 5)
    assert result["L2", "write"] == ratios(replay)["L2", "write"] == pytest.approx(2 / 3)


def test_counters_that_do_not_apply_are_refused() -> None:
    nvidia, amd = replayed(nvidia_like(), ACCESSES), replayed(amd_like(), ACCESSES)
    with pytest.raises(ResultError, match="whole lines of the L1: made's L1 has sectors of 32"):
        nvidia.recount("rocprof")
    with pytest.raises(ResultError, match="sectors of 32 bytes: those of made's L1 have 64"):
        amd.recount("nsight")
    counted = nvidia.recount("nsight")
    assert counted.recount("nsight").dataset is counted.dataset
    with pytest.raises(ResultError, match="counted as nsight already"):
        counted.recount("sector")


def test_every_report_says_how_hits_are_counted() -> None:
    replay = Replay(fake_dataset(n_trials=8))
    counted = replay.recount("nsight")
    for one, semantics in ((replay, "sector"), (counted, "nsight")):
        data = to_data(summarise(one.dataset))
        jsonschema.validate(data, json_schema())
        assert data["counters"] == semantics
        assert ("all" in data["levels"]["L1"]) == (semantics == "nsight")
    assert "all kinds" in replay_page(counted.dataset)
    assert "all kinds" in comparison_page(compare(counted.dataset, counted.dataset))
    table = printed(counted.table(), 160)
    assert "counted as nsight" in table
    assert "L2 all hits" in table


READ = "lts__t_sectors_op_read.sum"


def file_of(
    counters: Mapping[str, float],
    n_groups: int | None = None,
    kernel: str = "spmv",
    tool: str = "nsight",
    lines: tuple[LineCounters, ...] = (),
) -> CounterFile:
    """What a profiler counted in one launch."""
    one = LaunchCounters(id="0", kernel=kernel, n_groups=n_groups, counters=counters)
    return CounterFile(path=Path("k.csv"), tool=tool, launches=(one,), lines=lines)


OF_NSIGHT: list[tuple[str, float, float]] = [
    ("l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum", 2, 2),
    ("l1tex__t_requests_pipe_lsu_mem_global_op_st.sum", 3, 3),
    ("l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum", 4, 4),
    ("l1tex__t_sectors_pipe_lsu_mem_global_op_ld_lookup_hit.sum", 2, 2),
    ("l1tex__t_sectors_pipe_lsu_mem_global_op_ld_lookup_miss.sum", 2, 2),
    ("l1tex__t_sector_pipe_lsu_mem_global_op_ld_hit_rate.pct", 50, 50),
    ("l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum", 3, 3),
    ("l1tex__t_sectors_pipe_lsu_mem_global_op_st_lookup_hit.sum", 1, 1),
    ("l1tex__t_sectors.sum", 8, 8),
    ("l1tex__t_sector_hit_rate.pct", 50, 100 * 3 / 8),
    ("L1/TEX Hit Rate", 50, 100 * 3 / 8),
    ("l1tex__m_xbar2l1tex_read_sectors.sum", 2, 2),
    ("lts__t_sectors_op_read.sum", 2, 2),
    ("lts__t_sectors_srcunit_tex_op_read.sum", 2, 2),
    ("lts__t_sectors.sum", 6, 6),
    ("lts__t_sectors_op_read_lookup_hit.sum", 0, 0),
    ("lts__t_sectors_op_read_lookup_miss.sum", 2, 2),
    ("lts__t_sector_op_read_hit_rate.pct", 0, 0),
    ("lts__t_sectors_op_write.sum", 3, 3),
    ("lts__t_sectors_op_write_lookup_hit.sum", 1, 3),
    ("lts__t_sector_op_write_hit_rate.pct", 100 / 3, 100),
    ("lts__t_sectors_op_atom.sum", 1, 1),
    ("lts__t_sectors_srcunit_tex.sum", 6, 6),
    ("lts__t_sectors_srcunit_tex_lookup_hit.sum", 1, 3),
    ("lts__t_sectors_srcunit_tex_lookup_miss.sum", 5, 3),
    ("lts__t_sector_hit_rate.pct", 0, 50),
    ("L2 Hit Rate", 0, 50),
    ("dram__bytes_read.sum", 96, 96),  # two sectors of the load, one of the atomic
    ("dram__sectors_read.sum", 3, 3),
    ("dram__bytes_write.sum", 0, 0),
    ("dram__sectors_write.sum", 0, 0),
]
OF_ROCPROF: list[tuple[str, float, float]] = [
    ("SQ_INSTS_VMEM_RD", 2, 2),
    ("SQ_INSTS_VMEM_WR", 3, 3),
    ("TCP_TOTAL_CACHE_ACCESSES_sum", 2, 6),
    ("TCP_TCC_READ_REQ_sum", 1, 1),
    ("TCP_TCC_WRITE_REQ_sum", 3, 3),
    ("TCC_REQ_sum", 5, 5),
    ("TCC_READ_sum", 1, 1),
    ("TCC_WRITE_sum", 3, 3),
    ("TCC_ATOMIC_sum", 1, 1),
    ("TCC_HIT_sum", 0, 2),
    ("TCC_MISS_sum", 1, 3),
    ("L2CacheHit", 0, 40),
    ("TCC_EA_RDREQ_sum", 2, 2),
    ("TCC_EA_WRREQ_sum", 0, 0),
    ("FETCH_SIZE", 128, 128),
    ("WRITE_SIZE", 0, 0),
]
"""Counter, our own count, and ours as the profiler counts."""


@pytest.mark.parametrize("tool", ["nsight", "rocprof"])
def test_every_counter_by_hand(tool: str) -> None:
    on, cases, defined = {
        "nsight": (nvidia_like(), OF_NSIGHT, NSIGHT),
        "rocprof": (amd_like(), OF_ROCPROF, ROCPROF),
    }[tool]
    file = file_of(dict.fromkeys((name for name, *_ in cases), 7.0), n_groups=1, tool=tool)
    results = {
        result.name: result for result in against(replayed(on, ACCESSES).dataset, [file]).rows
    }
    for name, ours, counted in cases:
        result = results[name]
        measured = 7 * 1024 if name in ("FETCH_SIZE", "WRITE_SIZE") else 7  # in kilobytes
        assert result.ours.mean == pytest.approx(ours), name
        assert result.counted.mean == pytest.approx(counted), name
        assert result.by_definition == pytest.approx(counted - ours), name
        assert (result.measured, result.unexplained) == (
            measured,
            pytest.approx(counted - measured),
        )
    tested = {name for name, *_ in cases}
    assert [one.names for one in defined if not tested & set(one.names)] == []


def test_counts_grow_to_the_measured_launch() -> None:
    replay = replayed(nvidia_like(), ACCESSES)
    result = against(replay.dataset, [file_of({READ: v}, n_groups=10) for v in (18.0, 24.0)])
    (one,) = result.rows
    assert one.counted.mean == 20
    assert (one.measured, one.low, one.high, one.n_launches) == (21, 18, 24, 2)
    assert one.error == pytest.approx(-1 / 21)
    assert "the measured launch has 10 groups, the traced one 1" in " ".join(result.notes)


@pytest.mark.filterwarnings("ignore::memsim.errors.SnapshotWarning")
@pytest.mark.parametrize(("warmup", "expected"), [(0, 2.5 / 4), (1, 2 / 4), (2, 1 / 4)])
def test_counts_are_scaled_for_the_uncounted_part_of_a_trial(warmup: int, expected: float) -> None:
    """Of four waves the last one is not counted, and the first one is in progress, its starts rounded down to
    one of 32 sequences."""
    groups = [[[(0, [64 * g + k]) for k in range(32)]] for g in range(64)]
    trace = make_trace(groups, ("load",), whole=False)
    on = machine(level("L1", ways=64), cores=4, max_groups=4)  # four waves of four groups a core
    replay = memsim.replay(trace, on, trials=64, deviation=True, warmup_waves=warmup)
    counts = Counts(replay.dataset, 64)
    counted = replay.dataset["accesses"].values[:, 0].sum(axis=1)
    assert counts.share == pytest.approx(counted / (64 * 32))
    assert counts.accesses(0) == pytest.approx(np.full(64, 64 * 32))
    error = counts.share.std(ddof=1) / np.sqrt(64)
    assert abs(expected - counts.share.mean()) <= 5 * error + 1 / 4 / 32


def test_lines_are_compared_with_the_replay() -> None:
    replay = Replay(fake_dataset())
    counters = {"L2 Theoretical Sectors Global": 100.0, "L1 Tag Requests Global": 5.0}
    given = (
        ("/elsewhere/spmv.py", 11, "lo = rowptr[i]", counters),
        ("x/spmv.py", 99, "?", {"L1 Tag Requests Global": 1}),
        ("x/spmv.py", 98, "}", {"L1 Tag Requests Global": 0}),
    )
    lines = tuple(
        LineCounters(kernel="spmv", file=file, line=line, source=source, counters=counts)
        for file, line, source, counts in given
    )
    result = against(replay.dataset, [CounterFile(path=Path("s.csv"), tool="nsight", lines=lines)])
    by_line = {line.line: line for line in result.lines}
    assert sorted(by_line) == [11, 12, 13, 99]
    what = {name: (ours, there) for name, ours, there in by_line[11].values}
    # 8192 groups were measured, as the replay says, of which it traced 640.
    data = replay.dataset.sel(site="rowptr[i]")
    assert what["sectors"] == (pytest.approx(float(data["site_sectors"]) * 8192 / 640), 100)
    assert what["requests"] == (pytest.approx(float(data["site_accesses"]) * 8192 / 640), 5)
    assert by_line[11].sites == ("rowptr[i]",)
    assert by_line[99].sites == ()
    assert np.isnan(by_line[99].values[0][1])


def test_the_kernel_is_chosen_by_name() -> None:
    assert base_name("void ns::spmv<double, (int)4>(int const*, double*)") == "spmv"
    replay = Replay(fake_dataset())
    files = [file_of({READ: 1.0}, kernel=name) for name in ("a", "b")]
    with pytest.raises(ResultError, match=r"no kernel named spmv: choose one by --kernel: a, b"):
        against(replay.dataset, files)
    assert against(replay.dataset, files, kernel="b").measured_kernel == "b"
    only = against(replay.dataset, files[:1])
    assert only.measured_kernel == "a"
    both = [file_of({READ: 1.0}, kernel=name) for name in ("xa", "xb")]
    with pytest.raises(ResultError, match="--kernel x matches several kernels: xa, xb"):
        against(replay.dataset, both, kernel="x")


def test_what_does_not_fit_together() -> None:
    replay = Replay(fake_dataset())
    other = CounterFile(path=Path("r.csv"), tool="rocprof", launches=())
    with pytest.raises(ResultError, match="must be of one profiler"):
        against(replay.dataset, [file_of({}), other])
    with pytest.raises(ResultError, match="whole lines of the L1"):
        against(replay.dataset, [other])
    sizes = [file_of({READ: 1.0}, n) for n in (1, 2)]
    with pytest.raises(ResultError, match=r"must have one size, got 1, 2 groups"):
        against(replay.dataset, sizes)


def test_the_command(tmp_path: Path) -> None:
    saved = str(Replay(fake_dataset()).save(tmp_path / "a.nc"))
    raw = tmp_path / "raw.csv"
    raw.write_text(
        '"ID","Kernel Name","Grid Size","lts__t_sector_hit_rate.pct"\n"","","","%"\n'
        '"0","spmv(int*)","(8192,1,1)","55.5"\n'
    )
    page = tmp_path / "c.html"
    ended = CliRunner().invoke(compare_command, [saved, str(raw), "--html", str(page)])
    assert ended.exit_code == 0, ended.exception
    assert "lts__t_sector_hit_rate.pct" in ended.output
    assert "55.5 %" in in_one_kind_of_space(page.read_text())
    ended = CliRunner().invoke(compare_command, [saved, str(raw), "--counters", "nsight"])
    assert isinstance(ended.exception, MemsimError)
    ended = CliRunner().invoke(compare_command, [saved, saved, "--counters", "nsight"])
    assert ended.exit_code == 0, ended.exception
    assert read_counters(raw).launches[0].n_groups == 8192
