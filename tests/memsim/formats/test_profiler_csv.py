"""CSV of Nsight Compute: every page, and every way of writing numbers; of rocprof, all three versions."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from memsim.errors import TraceError
from memsim.formats.any_trace import read_counters
from memsim.formats.profilers import nsight
from memsim.formats.profilers.counter_file import CounterFile
from tests.support.foreign_files import NSIGHT_DETAILS as DETAILS
from tests.support.foreign_files import NSIGHT_LEAD as LEAD
from tests.support.foreign_files import NSIGHT_RAW as RAW
from tests.support.foreign_files import NSIGHT_SOURCE as SOURCE
from tests.support.foreign_files import ROCPROF_1 as V1
from tests.support.foreign_files import ROCPROF_2 as V2
from tests.support.foreign_files import ROCPROF_3 as V3


def written(path: Path, text: str) -> CounterFile:
    path.write_text(text)
    return read_counters(path)


def test_the_raw_page(tmp_path: Path) -> None:
    found = written(tmp_path / "raw.csv", RAW)
    assert found.tool == "nsight"
    first, second = found.launches
    assert first.kernel == "void spmv<double>(int const *, double *)"
    assert (first.id, second.id) == ("0", "1")
    assert first.n_groups == 512
    assert first.counters == {
        "dram__bytes_read.sum": 1_234_500_000,
        "lts__t_sectors_op_read.sum": 2_000_250,
        "l1tex__t_sector_hit_rate.pct": 65.77,
    }
    assert second.counters == {"dram__bytes_read.sum": 1.5e6, "l1tex__t_sector_hit_rate.pct": 0}


def test_units_in_the_names(tmp_path: Path) -> None:
    text = RAW.replace('"dram__bytes_read.sum"', '"dram__bytes_read.sum [Mbyte]"')
    text = "\n".join(line for line in text.split("\n") if not line.startswith('"",'))
    found = written(tmp_path / "raw.csv", text)
    assert found.launches[0].counters["dram__bytes_read.sum"] == 1_234_500_000


def test_the_details_page_sums_nothing_and_skips_rules(tmp_path: Path) -> None:
    (launch,) = written(tmp_path / "d.csv", DETAILS).launches
    assert launch.n_groups == 16
    assert launch.counters == {"dram__bytes_read.sum": 1024, "L2 Hit Rate": 83.25}


def test_the_other_decimal_sign(tmp_path: Path) -> None:
    """`27.595` alone is ambiguous; another number of the file determines the decimal sign."""
    text = DETAILS.replace("1,024", "27.595").replace("83.25", "65,77")
    (launch,) = written(tmp_path / "d.csv", text).launches
    assert launch.counters == {"dram__bytes_read.sum": 27595, "L2 Hit Rate": 65.77}
    (launch,) = written(tmp_path / "d.csv", text.replace("65,77", "65.77")).launches
    assert launch.counters["dram__bytes_read.sum"] == 27.595


def test_the_source_page_keeps_lines_of_source(tmp_path: Path) -> None:
    found = written(tmp_path / "s.csv", SOURCE)
    first, second = found.lines
    assert (first.kernel, first.file, first.line) == ("spmv", "/home/u/spmv.cu", 11)
    assert first.source == "double a = val[j];"
    assert first.counters == {
        "Instructions Executed": 4096,
        "L1 Tag Requests Global": 2048,
        "L2 Theoretical Sectors Global": 57344,
        "L2 Theoretical Sectors Global Ideal": 16384,
    }
    assert second.line == 12
    assert found.notes == ()


def test_pages_of_several_launches_are_averaged(tmp_path: Path) -> None:
    again = SOURCE.replace("57344", "57346")
    found = written(tmp_path / "s.csv", SOURCE + again)
    assert found.lines[0].counters["L2 Theoretical Sectors Global"] == 57345


def test_a_page_of_machine_code_alone_says_what_to_do(tmp_path: Path) -> None:
    text = """\
"Kernel Name","spmv"
"#","Address","Source","L2 Theoretical Sectors Global"
"0","0x7f00","LDG.E.64 R2, [R4]","57344"
"""
    found = written(tmp_path / "s.csv", text)
    assert found.lines == ()
    assert "-lineinfo" in found.notes[0]


def test_packed(tmp_path: Path) -> None:
    path = tmp_path / "raw.csv.gz"
    path.write_bytes(gzip.compress(RAW.encode()))
    assert len(read_counters(path).launches) == 2


def test_many_columns_and_counters_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    many = ",".join(f'"lts__{i}"' for i in range(20_000))
    with pytest.raises(TraceError, match="line 1: a row must have at most 20000 columns"):
        written(tmp_path / "k.csv", f"{LEAD},{many}\n")
    monkeypatch.setattr(nsight, "_MOST_CELLS", 4000)
    names = ",".join(f'"lts__{i}"' for i in range(50))
    row = '"0","1","a","h","k","1","7","(1,1,1)","(1,1,1)","0","7.0",' + ",".join(["1"] * 50)
    with pytest.raises(TraceError, match="at most 4000 counters"):
        written(tmp_path / "k.csv", f"{LEAD},{names}\n" + f"{row}\n" * 81)
    assert written(tmp_path / "k.csv", f"{LEAD},{names}\n" + f"{row}\n" * 80).launches


def test_version_1_of_rocprof(tmp_path: Path) -> None:
    found = written(tmp_path / "results.csv", V1)
    assert found.tool == "rocprof"
    first, second = found.launches
    assert first.kernel == second.kernel == "laplacian(double*, double const*, int)"
    assert first.n_groups == 256
    assert first.counters == {"FetchSize": 2048.5, "L2CacheHit": 81.25, "TCC_HIT_sum": 128}
    assert second.counters["TCC_HIT_sum"] == 130


def test_version_2_of_rocprof(tmp_path: Path) -> None:
    (launch,) = written(tmp_path / "results.csv", V2).launches
    assert (launch.kernel, launch.n_groups) == ("laplacian", 4)  # the last group is not full
    assert launch.counters == {"TCC_MISS_sum": 77}


def test_version_3_of_rocprof_adds_the_units_of_one_counter(tmp_path: Path) -> None:
    found = written(tmp_path / "counter_collection.csv", V3)
    first, other = found.launches
    assert first.counters == {"TCC_EA_RDREQ_sum": 10, "TCC_HIT_sum": 5}
    assert (other.kernel, other.n_groups) == ("other", 2)
    assert other.counters == {"WRITE_SIZE": pytest.approx(0.0248342814)}


def test_a_file_of_rocprof_without_memory_counters_has_a_note(tmp_path: Path) -> None:
    text = V3.replace("TCC_EA0_RDREQ_sum", "SQ_BUSY").replace("TCC_HIT", "SQ_X")
    found = written(tmp_path / "k.csv", text.replace("WRITE_SIZE", "SQ_Y"))
    assert found.launches == ()
    assert "no counter of TCP" in found.notes[0]
