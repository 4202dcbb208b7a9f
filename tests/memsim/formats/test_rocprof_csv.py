"""rocprof's CSV of all three versions, and what is broken."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memsim.errors import TraceError
from memsim.formats.measured import CounterFile, read_counters

V1 = """\
Index,KernelName,gpu-id,queue-id,queue-index,pid,tid,grd,wgr,lds,scr,arch_vgpr,accum_vgpr,sgpr,wave_size,sig,obj,FetchSize,L2CacheHit,TCC_HIT[0],TCC_HIT[1],VALUBusy,DispatchNs,BeginNs,EndNs,CompleteNs
0,"laplacian(double*, double const*, int) [clone .kd]",0,0,0,7,7,65536,256,0,0,20,4,16,64,0x0,0x7f2b4d282500,2048.5,81.25,100,28,99,1,2,3,4
1,"laplacian(double*, double const*, int) [clone .kd]",0,0,0,7,7,65536,256,0,0,20,4,16,64,0x0,0x7f2b4d282500,2047.5,81.75,101,29,99,5,6,7,8
"""
V2 = """\
Dispatch_ID,GPU_ID,Queue_ID,PID,TID,Grid_Size,Workgroup_Size,LDS_Per_Workgroup,Kernel_Name,Start_Timestamp,End_Timestamp,TCC_MISS_sum
3,0,1,7,7,1000,256,0,"laplacian.kd",1,2,77
"""
V3 = """\
"Correlation_Id","Dispatch_Id","Agent_Id","Queue_Id","Process_Id","Thread_Id","Grid_Size","Kernel_Id","Kernel_Name","Workgroup_Size","LDS_Block_Size","Scratch_Size","VGPR_Count","Accum_VGPR_Count","SGPR_Count","Counter_Name","Counter_Value","Start_Timestamp","End_Timestamp"
1,1,"Agent 5",1,20,20,128,9,"laplacian(double*)",128,0,0,64,0,80,"TCC_EA0_RDREQ_sum",10,1000,1100
1,1,"Agent 5",1,20,20,128,9,"laplacian(double*)",128,0,0,64,0,80,"TCC_HIT",2,1000,1100
1,1,"Agent 5",1,20,20,128,9,"laplacian(double*)",128,0,0,64,0,80,"TCC_HIT",3.000000,1000,1100
1,1,"Agent 5",1,20,20,128,9,"laplacian(double*)",128,0,0,64,0,80,"SQ_WAVES",2,1000,1100
2,2,"Agent 5",1,20,20,256,9,"other",128,0,0,64,0,80,"WRITE_SIZE",2.48342814e-02,1000,1100
"""


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


def test_nothing_of_memory_is_said(tmp_path: Path) -> None:
    text = V3.replace("TCC_EA0_RDREQ_sum", "SQ_BUSY").replace("TCC_HIT", "SQ_X")
    found = written(tmp_path / "k.csv", text.replace("WRITE_SIZE", "SQ_Y"))
    assert found.launches == ()
    assert "no counter of TCP" in found.notes[0]


WRONG = [
    (V1, "2048.5", "-2048.5", "line 2: FetchSize must be 0 to"),
    (V1, "2048.5", "lots", "line 2: FetchSize must be a number, got 'lots'"),
    (V1, "2047.5", "1e300", "line 3: FetchSize must be 0 to"),
    (V1, ",2048.5", "", "line 2: a row must have 26 columns, got 25"),
    (V1, '"laplacian(double*', '"laplacian"(double*', "line 2: "),
    (V3, '"Counter_Value"', '"Value"', "line 1: .* must have the column Counter_Value"),
    (V3, '"TCC_EA0_RDREQ_sum",10', '"TCC_EA0_RDREQ_sum",-10', "line 2: TCC_EA0_RDREQ_sum must be"),
    (
        V3,
        '"TCC_EA0_RDREQ_sum",10',
        f'"TCC_{"A" * 5000}",10',
        "line 2: Counter_Name must be at most",
    ),
]


@pytest.mark.parametrize(("good", "old", "new", "message"), WRONG)
def test_the_culprit_is_named(tmp_path: Path, good: str, old: str, new: str, message: str) -> None:
    assert old in good
    path = tmp_path / "k.csv"
    path.write_text(good.replace(old, new, 1))
    with pytest.raises(TraceError, match=message) as caught:
        read_counters(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("good", [V1, V2, V3])
@settings(
    max_examples=80,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    edits=st.lists(
        st.tuples(st.integers(0, 1 << 12), st.integers(0, 12), st.binary(max_size=12)), max_size=4
    ),
    cut=st.integers(0, 1 << 12),
)
def test_edited_and_cut_files_are_read_or_refused(
    tmp_path: Path, good: str, edits: list[tuple[int, int, bytes]], cut: int
) -> None:
    data = good.encode()
    for at, length, new in edits:
        at %= len(data) + 1
        data = data[:at] + new + data[at + length :]
    path = tmp_path / "k.csv"
    path.write_bytes(data[: len(data) - cut % len(data)])
    refused = ""
    try:
        found = read_counters(path)
        assert all(v >= 0 for one in found.launches for v in one.counters.values())
    except TraceError as error:
        refused = str(error)
        assert refused.startswith(str(path))
    assert "\n" not in refused
    assert len(refused) < 1000
