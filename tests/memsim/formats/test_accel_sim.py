"""Accel-Sim's traces: fixtures written by hand, with the granules that they must come to."""

from __future__ import annotations

import lzma
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import memsim
from memsim.errors import TraceError
from memsim.formats import launch_names, read_any, read_one
from memsim.formats.accel_sim import reading
from memsim.trace.launches import Copy
from memsim.trace.model import BARRIER_SITE, Launch, Trace

A, B = 0x7FB0FC430000, 0x7FB0FC440000


def head(
    name: str = "k", grid: str = "(1,1,1)", block: str = "(32,1,1)", version: object = 3,
    more: str = "",
) -> str:  # fmt: skip
    return f"""\
-kernel name = {name}
-kernel id = 1
-grid dim = {grid}
-block dim = {block}
-shmem = 2048
-nregs = 40
-binary version = 70
-cuda stream id = 0
-shmem base_addr = 0x00007f0000000000
-local mem base_addr = 0x00007f0002000000
-nvbit version = 1.5
-accelsim tracer version = {version}
-something nobody knows = 12
{more}
#traces format = PC mask dest_num [reg_dests] opcode src_num [reg_srcs] mem_width ...

"""


def warp(k: int, *lines: str) -> str:
    return f"\nwarp = {k}\ninsts = {len(lines)}\n" + "".join(f"{line}\n" for line in lines)


def of_one_warp(*lines: str) -> str:
    return head() + block(warp(0, *lines))


def block(*warps: str, at: str = "0,0,0") -> str:
    return f"#BEGIN_TB\n\nthread block = {at}\n{''.join(warps)}\n#END_TB\n\n"


@pytest.fixture
def read(tmp_path: Path) -> Callable[[str], Trace]:
    def read(text: str) -> Trace:
        path = tmp_path / "kernel-1.traceg"
        path.write_text(text)
        return read_one(path)

    return read


def rows(trace: Trace) -> list[tuple[str, int, list[tuple[int, int]]]]:
    """(site, lanes, [(byte address, mask), ...]) of every access."""
    found = []
    for i in range(trace.n_access):
        low, high = trace.granule_offset[i], trace.granule_offset[i + 1]
        pairs = [
            (int(g) * 32, int(m))
            for g, m in zip(trace.granule[low:high], trace.byte_mask[low:high], strict=True)
        ]
        site = trace.site[i]
        name = "barrier" if site == BARRIER_SITE else trace.sites[site].name
        found.append((name, int(trace.lanes[i]), pairs))
    return found


FULL = 0xFFFFFFFF


def test_the_three_address_modes(read: Callable[[str], Trace]) -> None:
    """The list of the format's own example, a base with a stride, a base with deltas."""
    listed = " ".join(f"0x{A + 128 * k:016x}" for k in range(4))
    text = of_one_warp(
        f"00a0 0000000f 1 R4 LDG.E 1 R4 4 0 {listed} 0",
        f"00b0 ffffffff 1 R6 LDG.E 1 R8 4 1 0x{A:x} 4 0",
        f"00c0 f0000001 1 R6 LDG.E.64 1 R8 8 2 0x{A + 32:x} 24 -32 0 64",
        f"00d0 80000000 1 R6 LDG.E 1 R8 4 2 0x{A + 28:x}",
        f"00e0 0000ff00 0 STG.E.U8 2 R8 R6 1 1 0x{B:x} 1",
    )
    trace = read(text)
    assert rows(trace) == [
        ("00a0 LDG.E", 4, [(A + 128 * k, 0xF) for k in range(4)]),
        ("00b0 LDG.E", 32, [(A + 32 * k, FULL) for k in range(4)]),
        # A+32, A+56, twice A+24, A+88, with 8 bytes each.
        ("00c0 LDG.E.64", 5, [(A, 0xFF000000), (A + 32, 0xFF0000FF), (A + 64, 0xFF000000)]),
        ("00d0 LDG.E", 1, [(A, 0xF0000000)]),
        ("00e0 STG.E.U8", 8, [(B, 0xFF)]),
    ]
    assert trace.lane_groups.tolist()[4:8] == [1, 2, 4, 8]
    assert trace.lane_groups.tolist()[-1] == 2
    assert [site.itemsize_bytes for site in trace.sites] == [4, 4, 8, 4, 1]
    assert [site.direction for site in trace.sites] == ["load"] * 4 + ["store"]


def test_the_head_is_the_launch(read: Callable[[str], Trace]) -> None:
    trace = read(head("_Z1kPf", "(2,3,1)", "(8,8,1)", 5) + block(warp(1), at="1,2,0"))
    assert trace.launch == Launch(
        kernel="_Z1kPf",
        n_groups=6,
        group_items=64,
        grid=(2, 3, 1),
        group_shape=(8, 8, 1),
        local_memory_bytes=2048,
        registers_per_item=40,
    )
    assert trace.workgroup.tolist() == [5]
    assert not trace.whole
    assert (trace.n_subgroup, trace.n_access) == (1, 0)


def test_what_does_not_reach_global_memory_is_counted(read: Callable[[str], Trace]) -> None:
    shared, local = 0x7F0000000010, 0x7F0002000010
    text = of_one_warp(
        "0000 ffffffff 1 R1 LDS 1 R2 4 1 0x10 4",
        "0010 ffffffff 0 STS.64 2 R2 R3 8 1 0x10 8",
        "0020 ffffffff 1 R1 LDL 1 R2 4 1 0xfffc10 4",
        "0030 ffffffff 1 R1 LDC.64 1 R2 8 1 0x10 0",
        f"0040 ffffffff 1 R1 LD.E 1 R2 4 1 0x{shared:x} 4",
        f"0050 ffffffff 0 ST.E 2 R2 R3 4 1 0x{local:x} 4",
        f"0060 00000001 1 R1 LD.E.128 1 R2 16 1 0x{A:x} 16",
        f"0070 00000001 1 R1 ATOMS.ADD 1 R2 4 1 0x{shared:x} 4",
        f"0080 00000003 1 R1 ATOM.E.ADD.F64.RN 2 R2 R3 8 2 0x{B:x} 0",
        f"0090 00000001 0 RED.E.ADD 2 R2 R3 4 2 0x{B:x}",
        f"00a0 00000000 1 R1 LDG.E 1 R2 4 1 0x{A:x} 0",
        "00b0 ffffffff 1 R1 MUFU.RCP 1 R2 0",
    )
    trace = read(text)
    assert rows(trace) == [
        ("0060 LD.E.128", 1, [(A, 0xFFFF)]),
        ("0080 ATOM.E.ADD.F64.RN", 2, [(B, 0xFF)]),
        ("0090 RED.E.ADD", 1, [(B, 0xF)]),
    ]
    assert trace.provenance["skipped"] == {"shared": 4, "local": 2, "constant": 1}
    assert trace.lane_hits.tolist() == [1, 2, 1]
    assert [site.direction for site in trace.sites] == ["load", "atomic", "atomic"]


def test_registers_and_barriers_give_sequences_and_waits(read: Callable[[str], Trace]) -> None:
    def load(pc: int, to: str, at: str) -> str:
        return f"{pc:04x} ffffffff 1 {to} LDG.E 1 {at} 4 1 0x{A:x} 4"

    text = of_one_warp(
        load(0x00, "R4", "R2"),  # access 0
        load(0x10, "R6", "R2"),  # 1: independent
        "0020 ffffffff 1 R4 IADD3 2 R4 R255 0",  # uses 0
        load(0x30, "R8", "R4"),  # 2: its address comes from 0, through an addition
        load(0x40, "R9", "R2"),  # 3: independent of what began since
        f"0050 ffffffff 0 STG.E 2 R2 R9 4 1 0x{B:x} 4",  # 4: stores what 3 loaded
        "0060 ffffffff 0 BAR.SYNC 1 R255 0",  # 5
        load(0x70, "R4", "R2"),  # 6
        "0080 ffffffff 1 R20 LDG.E.128 1 R2 16 1 0x1000 16",  # 7: R20 to R23
        load(0x90, "R5", "R23"),  # 8
        load(0x70, "R4", "R2"),  # 9: the PC fell
        load(0x80, "R4", "R255"),  # 10
    )
    trace = read(text)
    starts = [True, False, True, False, False, True, True, False, True, True, False]
    assert trace.starts_sequence.tolist() == starts
    assert trace.waits.tolist() == [-1, -1, 0, 0, 3, 3, 3, 3, 7, 7, 7]
    by_name = {site.name: site for site in trace.sites}
    assert by_name["0030 LDG.E"].depends_on == ("0000 LDG.E",)
    assert by_name["0040 LDG.E"].depends_on == ()
    assert rows(trace)[5] == ("barrier", 0, [])


def test_arrivals_do_not_wait_and_uncached_loads_are_separate_sites(
    read: Callable[[str], Trace],
) -> None:
    text = of_one_warp(
        "0000 ffffffff 0 BAR.ARV 1 R255 0",
        "0010 00000000 0 BAR.SYNC.DEFER_BLOCKING 1 R255 0",
        f"0020 ffffffff 1 R4 LDG.E.STRONG.GPU 1 R2 4 1 0x{A:x} 4",
        f"0030 ffffffff 1 R4 LDG.E.CONSTANT.SYS 1 R2 4 1 0x{A:x} 4",
        f"0040 ffffffff 1 R4 LDG.E.STRONG.SYS 1 R2 4 1 0x{A:x} 4",
        f"0050 0000000f 1 R4 LDG.E.CG 1 R4 4 1 0x{A:x} 4 ",
    )
    trace = read(text)
    assert trace.n_access == 4
    passing = [site.name for site in trace.sites if site.bypasses_l1]
    assert passing == ["0020 LDG.E.STRONG.GPU", "0040 LDG.E.STRONG.SYS", "0050 LDG.E.CG"]


def test_line_numbers(read: Callable[[str], Trace]) -> None:
    trace = read(
        head(version=5, more="-enable lineinfo = 1")
        + block(warp(0, f"42 00a0 00000001 1 R4 LDG.E 1 R4 4 1 0x{A:x} 4 0"))
    )
    assert trace.sites[0].source.user_line == 42
    assert rows(trace) == [("00a0 LDG.E", 1, [(A, 0xF)])]


def lines(pc: int, step: int, *rest: str) -> tuple[str, ...]:
    """Instructions at a pitch, as a tracer prints them: with a blank at each line's end."""
    return tuple(f"{pc + step * k:04x} {line} " for k, line in enumerate(rest))


def test_a_trace_of_a_hopper(read: Callable[[str], Trace]) -> None:
    """Clusters, uniform registers, copies to shared memory, two immediates, values: versions 5, 6."""
    body = lines(
        0, 16,
        "ffffffff 1 UR4 S2UR 0 0 0 0 NoVal",
        "ffffffff 1 R4 LDC.64 0 0 0 0 NoVal",
        f"ffffffff 1 R8 LDG.E.128 1 R4 16 1 0x{A:x} 16 0 0 NoVal",
        "ffffffff 1 UR8 R2UR 1 R8 0 0 0 NoVal",
        f"0000ffff 0 LDGSTS.E.BYPASS.LTC128B.128 2 R2 R4 16 1 0x{B:x} 16 -4 0 Val 1 12 1 7",
        f"0000ffff 0 STG.E.64 2 R4 R8 8 2 0x{B:x} {'8 ' * 15}0 0 NoVal",
        "ffffffff 0 UTMALDG.2D 2 UR8 UR4 0 0 0 NoVal",
        "ffffffff 0 EXIT 0 0 0 0 NoVal",
    )  # fmt: skip
    placed = "cluster id = 0,0,0\ncluster cta = 0,0,0\ncluster rank = 0\n"
    for version in (5, 6):
        text = head(grid="(1,1,1)", version=version) + block(placed + warp(0, *body))
        trace = read(text.replace("-nregs = 40", "-nregs = 21955"))
        assert [(name, lanes) for name, lanes, _ in rows(trace)] == [
            ("0020 LDG.E.128", 32),
            ("0040 LDGSTS.E.BYPASS.LTC128B.128", 16),
            ("0050 STG.E.64", 16),
        ]
        assert [len(pairs) for _, _, pairs in rows(trace)] == [16, 8, 4]
        assert trace.waits.tolist() == [-1, 0, 0]
        # More registers than a thread can have: a tracer that reads another CUDA's structures.
        assert trace.launch.registers_per_item is None


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    load = f"0000 00000001 1 R4 LDG.E 1 R2 4 1 0x{A:x} 4"
    store = f"0000 00000001 0 STG.E 2 R2 R4 4 1 0x{B + 64:x} 4"
    (tmp_path / "kernel-1.traceg").write_text(head("first") + block(warp(0, load)))
    packed = lzma.compress((head("second") + block(warp(0, store))).encode())
    (tmp_path / "kernel-2.traceg.xz").write_bytes(packed)
    copies = [f"MemcpyHtoD,0x{A:016x},4096", "kernel-1.traceg", f"MemcpyDtoH,0x{A:016x},16",
              f"MemcpyHtoD,0x{B:016x},512", f"MemcpyHtoD,0x{A:016x},64", "kernel-2.traceg"]  # fmt: skip
    (tmp_path / "kernelslist.g").write_text("".join(f"{line}\n" for line in copies))
    return tmp_path


def test_a_folder_is_launches_with_copies(folder: Path) -> None:
    found = read_any(folder)
    assert [trace.launch.kernel for trace in found.launches] == ["first", "second"]
    assert found.between == (
        (Copy(array=f"0x{B:x}", size_bytes=512), Copy(array=f"0x{A:x}", size_bytes=64)),
    )
    assert {a.name: (a.base_bytes, a.size_bytes) for a in found.launches[0].arrays} == {
        f"0x{A:x}": (A, 4096),
        f"0x{B:x}": (B, 512),
    }
    assert [trace.sites[0].array for trace in found.launches] == [f"0x{A:x}", f"0x{B:x}"]
    assert launch_names(folder) == ["first", "second"]
    assert read_one(folder, 1).launch.kernel == "second"
    with pytest.raises(TraceError, match=r"holds 2 launches: .* 0 \(first\), 1 \(second\)"):
        read_one(folder)
    with pytest.raises(TraceError, match="--launch must be below 2, got 2"):
        read_one(folder, 2)


@pytest.mark.parametrize("pack", ["plain", "gzip", "lzma", "zstandard"])
def test_packed_files_are_known_by_their_content(tmp_path: Path, pack: str) -> None:
    text = head() + block(warp(0, f"0000 00000001 1 R4 LDG.E 1 R2 4 1 0x{A:x} 4"))
    path = tmp_path / "whatever"
    compress = bytes if pack == "plain" else pytest.importorskip(pack).compress
    path.write_bytes(compress(text.encode()))
    assert rows(read_one(path)) == [("0000 LDG.E", 1, [(A, 0xF)])]


def test_zstd_without_its_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "k.traceg.zst"
    path.write_bytes(b"\x28\xb5\x2f\xfd and more")
    monkeypatch.setitem(sys.modules, "zstandard", None)
    with pytest.raises(TraceError, match="install the package zstandard"):
        read_one(path)


def test_columns_beyond_memory_go_to_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """More batches than one, each moved to disk: the same trace."""
    address = [f"0x{A + 36 * k:x}" for k in range(4500)]
    lines = [
        f"{16 * (k % 7):04x} ffffffff 1 R4 LDG.E 1 R2 4 1 {at} 128" for k, at in enumerate(address)
    ]
    path = tmp_path / "k.traceg"
    path.write_text(head(grid="(2,1,1)") + block(warp(0, *lines)) + block(warp(0), at="1,0,0"))
    monkeypatch.setattr(reading, "_LEAST_BYTES", 1000)
    small = reading.read(path, memory_bytes=1000).launches[0]
    large = read_one(path)
    assert isinstance(small.granule, np.memmap) or isinstance(small.granule.base, np.memmap)
    for name in ("site", "granule", "byte_mask", "granule_offset", "subgroup_offset", "waits"):
        np.testing.assert_array_equal(getattr(small, name), getattr(large, name))
    assert large.n_granule >= 32 * 4500


@pytest.mark.parametrize(("copied", "hits"), [(0, 32), (2048, 16), (4096, 0)])
def test_l2_carries_over_from_kernel_to_kernel(tmp_path: Path, copied: int, hits: int) -> None:
    """The second kernel finds what the first one loaded, but for what the host wrote in between."""
    loads = [f"{16 * k:04x} ffffffff 1 R4 LDG.E 1 R2 4 1 0x{A + 128 * k:x} 4" for k in range(32)]
    for k in (1, 2):
        text = head(f"kernel{k}") + block(warp(0, *loads))
        (tmp_path / f"kernel-{k}.traceg").write_text(text)
    copy = f"MemcpyHtoD,0x{A:x},{copied}\n" if copied else ""
    listed = f"MemcpyHtoD,0x{A:x},4096\nkernel-1.traceg\n{copy}kernel-2.traceg\n"
    (tmp_path / "kernelslist.g").write_text(listed)
    # Machine v100-accelsim fetches one sector of 32 bytes a miss from memory: no neighbours.
    first, second = memsim.replay_launches(read_any(tmp_path), "v100-accelsim", trials=2)
    for replay, found in ((first, 0), (second, 4 * hits)):
        load = replay.dataset.isel(trial=0)
        assert int((load.hits + load.pending).sel(level="L1").sum()) == 0  # it begins empty
        assert int(load.accesses.sel(level="L2").sum()) == 128
        assert int((load.hits + load.pending).sel(level="L2").sum()) == found
