"""Damaged and hostile files: one clear error with file and line, in bounded memory."""

from __future__ import annotations

import functools
import gzip
import lzma
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memsim.errors import TraceError
from memsim.formats import read_any
from memsim.formats.any_trace import read_counters
from tests.support.foreign_files import ACCEL_SIM, CSV, ROCPROF_1, ROCPROF_3
from tests.support.foreign_files import NSIGHT_DETAILS as DETAILS
from tests.support.foreign_files import NSIGHT_RAW as RAW
from tests.support.foreign_files import NSIGHT_SOURCE as SOURCE

WRONG = [
    (ACCEL_SIM, "-kernel name = k\n", "", r"the header must have '-kernel name"),
    (ACCEL_SIM, "(2,1,1)", "(2,1)", r"line 2: grid dim must be \(x,y,z\)"),
    (ACCEL_SIM, "(2,1,1)", "(0,1,1)", r"line 2: grid dim must be a shape of 1 to"),
    (ACCEL_SIM, "(2,1,1)", "(65536,65536,65536)", r"line 2: grid dim must be a shape of 1 to"),
    (ACCEL_SIM, "(64,1,1)", "(-64,1,1)", r"line 3: block dim must be \(x,y,z\)"),
    (ACCEL_SIM, "-shmem = 0", "-shmem = -5", r"line 4: shmem must be a number, got '-5'"),
    (ACCEL_SIM, "-nregs = 8", "-nregs = 99999999999", r"line 5: nregs must be at most 65536"),
    (ACCEL_SIM, "version = 3", "version = 2", r"line 6: accelsim tracer version must be 3 to 6, got '2'"),
    (ACCEL_SIM, "-accelsim tracer version = 3\n", "", r"must have '-accelsim tracer version"),
    (ACCEL_SIM, "-shmem = 0", "hello", r"line 4: a line of the header must be '-name = value', got 'hello'"),
    (ACCEL_SIM, "thread block = 0,0,0", "thread block = 2,0,0", r"line 9: .* must lie in the grid"),
    (ACCEL_SIM, "thread block = 0,0,0", "thread block = -1,0,0", r"line 9: .* must lie in the grid"),
    (ACCEL_SIM, "thread block = 0,0,0\n", "", r"line 9: 'warp = k' must be inside a thread block"),
    (ACCEL_SIM, "warp = 1", "warp = 2", r"line 15: a warp must lie in its thread block"),
    (ACCEL_SIM, "warp = 1", "warp = 0", r"warp 0 of thread block 0 must occur once"),
    (ACCEL_SIM, "block = 1,0,0", "block = 0,0,0", r"warp 0 of thread block 0 must occur once"),
    (ACCEL_SIM, "insts = 3", "insts = 4", r"line 15: the warp has fewer instructions"),
    (ACCEL_SIM, "insts = 3", "insts = 2", r"line 14: the warp has more instructions"),
    (ACCEL_SIM, "insts = 3", "insts = -3", r"line 11: 'insts = m' must follow"),
    (ACCEL_SIM, "insts = 3", "insts = 99999999999999999999999999", r"line 11: 'insts = m' must follow"),
    (ACCEL_SIM, "insts = 3\n", "", r"line 11: 'insts = m' must follow"),
    (ACCEL_SIM, "1 R4 LDG.E 1 R2", "17 R4 LDG.E 1 R2", r"line 12: .* at most 16 registers"),
    (ACCEL_SIM, "1 R4 LDG.E 1 R2", "-1 R4 LDG.E 1 R2", r"line 12: .* at most 16 registers"),
    (ACCEL_SIM, "LDG.E 1 R2", "L" * 64 + " 1 R2", r"line 12: .* opcode of at most 63 letters"),
    (ACCEL_SIM, "LDG.E 1 R2", "\x01\x02 1 R2", r"line 12: .* opcode of at most 63 letters"),
    (ACCEL_SIM, "LDG.E 1 R2", "LD\xc3 1 R2", r"line 12: an opcode must be ASCII"),
    (ACCEL_SIM, "LDG.E 1 R2", "=LDG 1 R2", r"line 12: an opcode must be letters, digits and dots"),
    (ACCEL_SIM, "ffffffff 1 R4", "1ffffffff 1 R4", r"line 12: an instruction must begin with a PC"),
    (ACCEL_SIM, "4 1 0x7000 4", "4 3 0x7000 4", r"line 12: the address mode must be 0, 1 or 2"),
    (ACCEL_SIM, "4 1 0x7000 4", "x 1 0x7000 4", r"line 12: the width must be a number"),
    (ACCEL_SIM, "4 1 0x7000 4", "4 1 0x7000", r"line 12: a stride or delta"),
    (ACCEL_SIM, "4 1 0x7000 4", "4 1 0x7000 999999999999999999", r"line 12: a stride or delta"),
    (ACCEL_SIM, "4 1 0x7000 4", "4 1 0xfffffffffffffffffff 4", r"line 12: an address must be hexadecimal"),
    (ACCEL_SIM, "4 1 0x7000 4", "4 1 0x0 -4", r"line 12: an address must be between 0 and 2\^57"),
    (ACCEL_SIM, "0x7000 8 8 -64", "0x7000 8", r"line 13: a stride or delta"),
    (ACCEL_SIM, "0x7000 8 8 -64", "0x7000 8 8 -640000", r"line 13: an address must be between"),
    (ACCEL_SIM, "0x7000 0x7100", "0x7000", r"line 17: an address must be hexadecimal"),
    (ACCEL_SIM, "0x7000 0x7100", "0x7000 0x71g0", r"line 17: an address must be hexadecimal"),
    (ACCEL_SIM, "#END_TB\n#BEGIN_TB\n", "#BEGIN_TB\n", r"line 18: #BEGIN_TB inside a thread block"),
    (ACCEL_SIM, "#END_TB\n#BEGIN_TB\n", "#END_TB\n#END_TB\n", r"line 19: #END_TB outside"),
    (ACCEL_SIM, "#END_TB\n#BEGIN_TB\n", "#END_TB\nhello\n", r"line 19: neither a header"),
    (ACCEL_SIM, "#END_TB\n#BEGIN_TB\n", "#END_TB\ncluster id = 0,0,0\n", r"line 19: neither a header"),
    (CSV, "group,subgroup,site", "group,site", "line 3: the first row must be group,subgroup,site"),
    (CSV, "0,1,b[i]", "0,-1,b[i]", "line 6: subgroup must be 0 to"),
    (CSV, "0,1,b[i]", "99999999999,1,b[i]", "line 6: group must be 0 to"),
    (CSV, "0,1,b[i]", "0,1,", "line 6: site must be a name"),
    (CSV, ",store,8", ",stored,8", "line 6: direction must be load, store, atomic or barrier"),
    (CSV, ",store,8", ",store,0", "line 6: bytes must be 1 to 128"),
    (CSV, ",8,3,", ",8,0,", "line 6: mask must have an active lane"),
    (CSV, ",8,3,", ",8,zz,", "line 6: mask must be up to 64 bits"),
    (CSV, ",8,3,", ",8,7,", "line 6: there must be an address for each of 3 active lanes, got 2"),
    (CSV, "4096 0x2000", "4096 -1", r"line 6: an address must be between 0 and 2\^57, got -1"),
    (CSV, "4096 0x2000", "4096 zz", "line 6: an address must be a number"),
    (CSV, "4096 0x2000", "4096 0x2000,1", "line 6: a row must have 7 columns, got 8"),
    (CSV, "1,0,c", "0,0,c", "line 7: the rows of sub-group 0 of group 0 must be consecutive"),
    (CSV, "1,0,c", '1,0,"c', "not CSV"),
    (CSV, "64 64 96", "", "line 7: there must be an address"),
    (CSV, ",barrier,,,", ",barrier,4,,", "line 5: a barrier has neither"),
    (CSV, "1,0,c,atomic,4,,64", "1,0,b[i],store,4,,64", "line 7: bytes of site .* must be 8 as before"),
    (CSV, "subgroup_size = 32", "subgroup_size = -32", "line 2: subgroup_size must be 1 to"),
    (CSV, "subgroup_size = 32", "subgroup_size = 33", "subgroup_size must be 8, 16, 32 or 64"),
    (CSV, "subgroup_size = 32", "n_groups = 1", "n_groups must be above every group"),
    (CSV, "a[i],load", "a[i]\0,load", "line 4: must not contain zero bytes"),
    (RAW, '"65.77"', '"many"', "line 5: l1tex__t_sector_hit_rate.pct must be a number, got 'many'"),
    (RAW, '"65.77"', '"-5"', "line 5: .* must be 0 to 1e"),
    (RAW, '"65.77"', '"1e400"', "line 5: .* must be 0 to 1e"),
    (RAW, '"65.77"', '"' + "9" * 60 + '"', "line 5: .* must be 0 to 1e"),
    (RAW, '"65.77"', '"' + "9" * 100 + '"', "line 5: .* must be a number"),
    (RAW, '"65.77"', '"1.2.3.4,5,6"', "line 5: .* must be a number"),
    (RAW, '"1,234.5",', "", "line 5: a row must have 15 columns, got 14"),
    (RAW, '"Ksector"', '"Zsector"', "line 5: Metric Unit must be a known unit"),
    (RAW, '"117,344"', '"117,344', "line 5: not CSV: a quoted cell must end on its line"),
    (RAW, '"117,344"', '"\0"', "line 5: must not contain zero bytes"),
    (RAW, "double", "d" * 5000, "line 5: Kernel Name must be at most 4096 letters"),
    (DETAILS, '"1,024",""', '"-1",""', "line 2: dram__bytes_read.sum must be 0 to"),
    (DETAILS, '"byte","1,024",""', "", "line 2: a row must have 16 columns, got 14"),
    (DETAILS, '"Metric Value"', '"Value"', "line 1: .* must have the column Metric Value"),
    (SOURCE, '"57344"', '"-57344"', "line 4: L2 Theoretical Sectors Global must be 0 to"),
    (SOURCE, '"57344",', "", "line 4: a row must have 8 columns, got 7"),
    (ROCPROF_1, "2048.5", "-2048.5", "line 2: FetchSize must be 0 to"),
    (ROCPROF_1, "2048.5", "lots", "line 2: FetchSize must be a number, got 'lots'"),
    (ROCPROF_1, "2047.5", "1e300", "line 3: FetchSize must be 0 to"),
    (ROCPROF_1, ",2048.5", "", "line 2: a row must have 26 columns, got 25"),
    (ROCPROF_1, '"laplacian(double*', '"laplacian"(double*', "line 2: "),
    (ROCPROF_3, '"Counter_Value"', '"Value"', "line 1: .* must have the column Counter_Value"),
    (ROCPROF_3, '"TCC_EA0_RDREQ_sum",10', '"TCC_EA0_RDREQ_sum",-10', "line 2: TCC_EA0_RDREQ_sum must be"),
    (ROCPROF_3, '"TCC_EA0_RDREQ_sum",10', f'"TCC_{"A" * 5000}",10', "line 2: Counter_Name must be at most"),
]  # fmt: skip
NAMES = {ACCEL_SIM: "k.traceg", CSV: "k.csv"}
"""The texts of traces; the others are of counters."""


@pytest.mark.parametrize(("good", "old", "new", "message"), WRONG, ids=[new[:24] for _, _, new, _ in WRONG])  # fmt: skip
def test_the_culprit_is_named(tmp_path: Path, good: str, old: str, new: str, message: str) -> None:
    assert old in good
    path = tmp_path / NAMES.get(good, "counters.csv")
    path.write_text(good.replace(old, new, 1))
    with pytest.raises(TraceError, match=message) as caught:
        (read_any if good in NAMES else read_counters)(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_cut_anywhere(tmp_path: Path) -> None:
    path = tmp_path / "k.traceg"
    path.write_text(ACCEL_SIM)
    assert read_any(path).launches[0].n_access == 4
    first_end = ACCEL_SIM.index("#END_TB") + len("#END_TB")
    for length in range(0, len(ACCEL_SIM), 7):
        path.write_text(ACCEL_SIM[:length])
        if ACCEL_SIM[:length].rstrip().endswith("#END_TB"):
            continue
        if first_end <= length < ACCEL_SIM.index("#BEGIN_TB", first_end) + len("#BEGIN_TB"):
            continue
        with pytest.raises(TraceError, match=r"k\.traceg"):
            read_any(path)


@pytest.mark.parametrize("pack", [gzip.compress, lzma.compress])
def test_a_packed_file_cut_short(tmp_path: Path, pack: object) -> None:
    assert callable(pack)
    path = tmp_path / "k.traceg.gz"
    data = pack(ACCEL_SIM.encode())
    for length in (len(data) - 9, len(data) // 2):
        path.write_bytes(data[:length])
        with pytest.raises(TraceError, match="damaged or cut short"):
            read_any(path)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("MemcpyHtoD,0x1000", "a copy must be"),
        ("MemcpyHtoD,0x1000,-5", "a copy must be"),
        ("MemcpyHtoD,0xffffffffffffffff,5", "a copy must end below"),
        ("../secret.traceg", "must be in the folder of the list"),
        ("/etc/passwd.traceg", "must be in the folder of the list"),
        ("kernel-9.traceg", "which does not exist"),
        ("k" * 300 + ".traceg", "which does not exist"),
        ("something else", "must be a .traceg or"),
        ("# nothing", "lists no kernel"),
    ],
)
def test_lists(tmp_path: Path, line: str, message: str) -> None:
    (tmp_path / "kernelslist.g").write_text(f"\n{line}\n")
    with pytest.raises(TraceError, match=message):
        read_any(tmp_path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("LDG.E zz", "line 1: addresses must be hexadecimal"),
        ("LDG.E\n12 34", "line 2: a record must begin with an opcode"),
        ("FADD 10000", "line 1: an opcode must load or store, got 'FADD'"),
        ("LDG.E ffffffffffffffff", r"line 1: an address must be between 0 and 2\^57"),
        ("LDG.E " + "10000 " * 70, "line 1: addresses must be hexadecimal, at most 64"),
        ("", "contains no access"),
    ],
)
def test_ppt_gpu_records(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "kernel_1_block_0.mem"
    path.write_text(text)
    with pytest.raises(TraceError, match=message):
        read_any(path)


def test_what_is_nobodys_trace(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(TraceError, match=r"a folder must contain a kernelslist\.g"):
        read_any(tmp_path / "empty")
    with pytest.raises(TraceError, match="cannot be read: No such file"):
        read_any(tmp_path / "none.traceg")
    (tmp_path / "some.bin").write_bytes(bytes(range(256)) * 10)
    with pytest.raises(TraceError, match="not a trace file"):
        read_any(tmp_path / "some.bin")


@settings(
    max_examples=150,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(data=st.binary(max_size=300), name=st.sampled_from(["a.traceg", "a.csv", "a.mem", "a"]))
def test_garbage_is_refused(tmp_path: Path, data: bytes, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(data)
    with pytest.raises(TraceError):
        read_any(path)


BOMBS = """
import resource, sys
from memsim.errors import TraceError
from memsim.formats import read_any
good, *bombs = sys.argv[1:]
read_any(good)  # imports and compiled code
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
for bomb in bombs:
    try:
        read_any(bomb)
    except TraceError as error:
        print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before, error)
"""


def test_bombs_take_no_memory(tmp_path: Path) -> None:
    """200 MB of zeros, line breaks or settings, packed to less than 1 MB."""
    zstandard = pytest.importorskip("zstandard")
    good = tmp_path / "good.traceg"
    good.write_text(ACCEL_SIM)
    head = ACCEL_SIM[: ACCEL_SIM.index("warp = 1")].encode()
    bombs = []
    for kind, start, unit in (
        ("zeros", head, b"\0"),
        ("lines", head, b"\n"),
        ("head", b"", b"-a = b\n"),
        ("zstd", head, b"\0"),
    ):
        content = start + unit * ((200 << 20) // len(unit))
        pack = (
            zstandard.compress
            if kind == "zstd"
            else functools.partial(gzip.compress, compresslevel=1)
        )
        bombs.append(tmp_path / f"{kind}.traceg")
        bombs[-1].write_bytes(pack(content))
    done = subprocess.run(
        [sys.executable, "-c", BOMBS, good, *bombs], capture_output=True, text=True, check=True
    )
    for bomb, line in zip(bombs, done.stdout.splitlines(), strict=True):
        kib, message = line.split(maxsplit=1)
        assert int(kib) < 100_000
        assert f"{bomb.name}, line" in message
