"""CSV and PPT-GPU: fixtures written by hand, with the granules that they must come to."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from memsim.errors import TraceError
from memsim.formats import launch_names, read_any, read_one
from memsim.trace.model import BARRIER_SITE


def test_csv(tmp_path: Path) -> None:
    path = tmp_path / "k.csv"
    path.write_text(
        "# kernel = gather\n# group_items = 64\n# n_groups = 3\n# registers_per_item = 24\n"
        "# anything else\n"
        "group,subgroup,site,direction,bytes,mask,addresses\n"
        "1,0,a[i],load,4,ffffffff,0x1000+4\n"
        '1,0,"b[i,j]",load,8,0x3,4100 0x100C\n'
        "1,0,,barrier,,,\n"
        "1,1,c,store,2,80000000,64\n"
        "# between\n"
        "0,0,c,atomic,4,,64 64 96\n"
    )
    trace = read_one(path)
    assert [(s.name, s.direction, s.itemsize_bytes) for s in trace.sites] == [
        ("a[i]", "load", 4),
        ("b[i,j]", "load", 8),
        ("c (store)", "store", 2),
        ("c (atomic)", "atomic", 4),
    ]
    assert trace.workgroup.tolist() == [0, 1, 1]
    assert trace.subgroup_offset.tolist() == [0, 1, 4, 5]
    assert trace.site.tolist() == [3, 0, 1, BARRIER_SITE, 2]
    assert trace.lanes.tolist() == [3, 32, 2, 0, 1]
    assert trace.granule_offset.tolist() == [0, 2, 6, 7, 7, 8]
    assert trace.granule.tolist() == [2, 3, 128, 129, 130, 131, 128, 2]
    full = 0xFFFFFFFF
    assert trace.byte_mask.tolist() == [0xF, 0xF, full, full, full, full, 0xFFFF0, 0x3]
    assert trace.lane_groups.tolist() == [1, 1, 1, 2, 4, 8, 1, 8]
    assert trace.lane_hits.tolist()[:2] == [2, 1]
    launch = trace.launch
    assert (launch.kernel, launch.n_groups, launch.group_items) == ("gather", 3, 64)
    assert launch.registers_per_item == 24
    assert not trace.whole
    assert {a.name: a.size_bytes for a in trace.arrays} == {"0x40": 64, "0x1000": 128}


def test_csv_of_wide_subgroups_under_another_name(tmp_path: Path) -> None:
    path = tmp_path / "trace.txt"
    path.write_text(
        "group,subgroup,site,direction,bytes,mask,addresses\n"
        "0,0,a,load,4,8000000000000001,0x1000+4\n"
    )
    trace = read_one(path)
    assert (trace.subgroup_size, trace.launch.group_items) == (64, 64)
    assert trace.granule.tolist() == [128, 135]
    assert trace.lane_groups.tolist() == [1, 128]


CONFIG = """\
app_kernels_id = [1, 2]

kernel_1 = {

\t"kernel_name"\t\t\t: "first",
\t"num_registers"\t\t\t: 18,
\t"shared_mem_bytes"\t\t: 96,
\t"grid_size"\t\t\t: 4,
\t"block_size"\t\t\t: 64,
\t"cuda_stream_id"\t\t: 0
}
"""


@pytest.fixture
def ppt(tmp_path: Path) -> Path:
    folder = tmp_path / "memory_traces"
    folder.mkdir()
    (tmp_path / "app_config.py").write_text(CONFIG)
    (folder / "kernel_1_block_0.mem").write_text(
        "LDG.E.SYS 7f0000 7f0004 0x7f0100 \n=====\nSTG.E.64.SYS 7f0008\n=====\nLDL 1f000\n"
    )
    (folder / "kernel_1_block_2.mem").write_text(
        "LDG.E.SYS 1 7f0000\nLDG.E.SYS 0 7f0020\nRED.E.ADD 1 7f0040 7f0040\n"
    )
    (folder / "kernel_2_block_0.mem").write_text("LDG.E.U8 7f0003\n")
    return tmp_path


def test_ppt_gpu(ppt: Path) -> None:
    assert launch_names(ppt) == ["first", "kernel 2"]
    trace = read_one(ppt, 0)
    assert [site.name for site in trace.sites] == [
        "global load",
        "global store, 8 bytes",
        "local load",
        "global atomic",
    ]
    assert trace.workgroup.tolist() == [0, 2, 2]
    assert trace.subgroup_offset.tolist() == [0, 3, 4, 6]
    assert trace.site.tolist() == [0, 1, 2, 0, 0, 3]
    first = 0x7F0000 // 32
    granules = [first, first + 8, first, 0x1F000 // 32, first + 1, first, first + 2]
    assert trace.granule.tolist() == granules
    assert trace.byte_mask.tolist() == [0xFF, 0xF, 0xFF00, 0xF, 0xF, 0xF, 0xF]
    launch = trace.launch
    assert (launch.kernel, launch.n_groups, launch.group_items) == ("first", 4, 64)
    assert (launch.registers_per_item, launch.local_memory_bytes) == (18, 96)
    assert len(read_any(ppt / "memory_traces").launches) == 2
    assert read_one(ppt / "memory_traces" / "kernel_2_block_0.mem").granule.tolist() == [first]
    with pytest.raises(TraceError, match=r"holds 2 launches: .* 1 \(kernel 2\)"):
        read_one(ppt)


def test_many_sites_in_many_subgroups(tmp_path: Path) -> None:
    """Reading took 193 s for 32,000 sites, because each was compared with all others."""
    path = tmp_path / "k.csv"
    rows = [f"{i},0,s{i},load,4,ffffffff,{4096 * i}+4\n" for i in range(20_000)]
    path.write_text("group,subgroup,site,direction,bytes,mask,addresses\n" + "".join(rows))
    begin = time.process_time()
    trace = read_one(path)
    assert (len(trace.sites), len(trace.arrays), trace.n_groups) == (20_000, 20_000, 20_000)
    assert trace.sites[-1].array == f"0x{4096 * 19_999:x}"
    assert time.process_time() - begin < 30
