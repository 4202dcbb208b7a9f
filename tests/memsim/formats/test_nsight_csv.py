"""Nsight Compute's CSV: every page, every way of writing numbers, and what is broken."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from memsim.errors import TraceError
from memsim.formats.any_trace import read_counters
from memsim.formats.profilers.counter_file import CounterFile
from tests.support.foreign_files import NSIGHT_DETAILS as DETAILS
from tests.support.foreign_files import NSIGHT_LEAD as LEAD
from tests.support.foreign_files import NSIGHT_RAW as RAW
from tests.support.foreign_files import NSIGHT_SOURCE as SOURCE


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


@pytest.mark.parametrize("text", ["", "hello\n", "a,b,c\n1,2,3\n", '"ID","Kernel"\n'])
def test_what_is_nobodys_counters(tmp_path: Path, text: str) -> None:
    with pytest.raises(TraceError, match="contains no counters"):
        written(tmp_path / "k.csv", text)


def test_many_columns_and_counters_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "k.csv"
    path.write_text(LEAD + "," + ",".join(f'"lts__{i}"' for i in range(20_000)) + "\n")
    with pytest.raises(TraceError, match="line 1: a row must have at most 20000 columns"):
        read_counters(path)
    names = ",".join(f'"lts__{i}"' for i in range(5000))
    row = '"0","1","a","h","k","1","7","(1,1,1)","(1,1,1)","0","7.0",' + ",".join(["1"] * 5000)
    path.write_text(f"{LEAD},{names}\n" + (row + "\n") * 81)
    with pytest.raises(TraceError, match="at most 400000 counters"):
        read_counters(path)
