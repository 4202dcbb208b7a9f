"""rocprof's CSV of all three versions, and what is broken."""

from __future__ import annotations

from pathlib import Path

import pytest

from memsim.formats.any_trace import read_counters
from memsim.formats.profilers.counter_file import CounterFile
from tests.support.foreign_files import ROCPROF_1 as V1
from tests.support.foreign_files import ROCPROF_2 as V2
from tests.support.foreign_files import ROCPROF_3 as V3


def written(path: Path, text: str) -> CounterFile:
    path.write_text(text)
    return read_counters(path)


def test_version_1(tmp_path: Path) -> None:
    found = written(tmp_path / "results.csv", V1)
    assert found.tool == "rocprof"
    first, second = found.launches
    assert first.kernel == second.kernel == "laplacian(double*, double const*, int)"
    assert first.n_groups == 256
    assert first.counters == {"FetchSize": 2048.5, "L2CacheHit": 81.25, "TCC_HIT_sum": 128}
    assert second.counters["TCC_HIT_sum"] == 130


def test_version_2(tmp_path: Path) -> None:
    (launch,) = written(tmp_path / "results.csv", V2).launches
    assert (launch.kernel, launch.n_groups) == ("laplacian", 4)  # the last group is not full
    assert launch.counters == {"TCC_MISS_sum": 77}


def test_version_3_adds_the_units_of_one_counter(tmp_path: Path) -> None:
    found = written(tmp_path / "counter_collection.csv", V3)
    first, other = found.launches
    assert first.counters == {"TCC_EA_RDREQ_sum": 10, "TCC_HIT_sum": 5}
    assert (other.kernel, other.n_groups) == ("other", 2)
    assert other.counters == {"WRITE_SIZE": pytest.approx(0.0248342814)}


def test_a_file_without_memory_counters_has_a_note(tmp_path: Path) -> None:
    text = V3.replace("TCC_EA0_RDREQ_sum", "SQ_BUSY").replace("TCC_HIT", "SQ_X")
    found = written(tmp_path / "k.csv", text.replace("WRITE_SIZE", "SQ_Y"))
    assert found.launches == ()
    assert "no counter of TCP" in found.notes[0]
