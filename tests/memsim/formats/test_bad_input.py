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
from tests.support.foreign_files import ACCEL_SIM as GOOD
from tests.support.foreign_files import CSV

WRONG = [
    ("-kernel name = k\n", "", r"the header must have '-kernel name"),
    ("(2,1,1)", "(2,1)", r"line 2: grid dim must be \(x,y,z\)"),
    ("(2,1,1)", "(0,1,1)", r"line 2: grid dim must be a shape of 1 to"),
    ("(2,1,1)", "(65536,65536,65536)", r"line 2: grid dim must be a shape of 1 to"),
    ("(64,1,1)", "(-64,1,1)", r"line 3: block dim must be \(x,y,z\)"),
    ("-shmem = 0", "-shmem = -5", r"line 4: shmem must be a number, got '-5'"),
    ("-nregs = 8", "-nregs = 99999999999", r"line 5: nregs must be at most 65536"),
    ("version = 3", "version = 2", r"line 6: accelsim tracer version must be 3 to 6, got '2'"),
    ("-accelsim tracer version = 3\n", "", r"must have '-accelsim tracer version"),
    ("-shmem = 0", "hello", r"line 4: a line of the header must be '-name = value', got 'hello'"),
    ("thread block = 0,0,0", "thread block = 2,0,0", r"line 9: .* must lie in the grid"),
    ("thread block = 0,0,0", "thread block = -1,0,0", r"line 9: .* must lie in the grid"),
    ("thread block = 0,0,0\n", "", r"line 9: 'warp = k' must be inside a thread block"),
    ("warp = 1", "warp = 2", r"line 15: a warp must lie in its thread block"),
    ("warp = 1", "warp = 0", r"warp 0 of thread block 0 must occur once"),
    ("block = 1,0,0", "block = 0,0,0", r"warp 0 of thread block 0 must occur once"),
    ("insts = 3", "insts = 4", r"line 15: the warp has fewer instructions"),
    ("insts = 3", "insts = 2", r"line 14: the warp has more instructions"),
    ("insts = 3", "insts = -3", r"line 11: 'insts = m' must follow"),
    ("insts = 3", "insts = 99999999999999999999999999", r"line 11: 'insts = m' must follow"),
    ("insts = 3\n", "", r"line 11: 'insts = m' must follow"),
    ("1 R4 LDG.E 1 R2", "17 R4 LDG.E 1 R2", r"line 12: .* at most 16 registers"),
    ("1 R4 LDG.E 1 R2", "-1 R4 LDG.E 1 R2", r"line 12: .* at most 16 registers"),
    ("LDG.E 1 R2", "L" * 64 + " 1 R2", r"line 12: .* opcode of at most 63 letters"),
    ("LDG.E 1 R2", "\x01\x02 1 R2", r"line 12: .* opcode of at most 63 letters"),
    ("LDG.E 1 R2", "LD\xc3 1 R2", r"line 12: an opcode must be ASCII"),
    ("LDG.E 1 R2", "=LDG 1 R2", r"line 12: an opcode must be letters, digits and dots"),
    ("ffffffff 1 R4", "1ffffffff 1 R4", r"line 12: an instruction must begin with a PC"),
    ("4 1 0x7000 4", "4 3 0x7000 4", r"line 12: the address mode must be 0, 1 or 2"),
    ("4 1 0x7000 4", "x 1 0x7000 4", r"line 12: the width must be a number"),
    ("4 1 0x7000 4", "4 1 0x7000", r"line 12: a stride or delta"),
    ("4 1 0x7000 4", "4 1 0x7000 999999999999999999", r"line 12: a stride or delta"),
    ("4 1 0x7000 4", "4 1 0xfffffffffffffffffff 4", r"line 12: an address must be hexadecimal"),
    ("4 1 0x7000 4", "4 1 0x0 -4", r"line 12: an address must be between 0 and 2\^57"),
    ("0x7000 8 8 -64", "0x7000 8", r"line 13: a stride or delta"),
    ("0x7000 8 8 -64", "0x7000 8 8 -640000", r"line 13: an address must be between"),
    ("0x7000 0x7100", "0x7000", r"line 17: an address must be hexadecimal"),
    ("0x7000 0x7100", "0x7000 0x71g0", r"line 17: an address must be hexadecimal"),
    ("#END_TB\n#BEGIN_TB\n", "#BEGIN_TB\n", r"line 18: #BEGIN_TB inside a thread block"),
    ("#END_TB\n#BEGIN_TB\n", "#END_TB\n#END_TB\n", r"line 19: #END_TB outside"),
    ("#END_TB\n#BEGIN_TB\n", "#END_TB\nhello\n", r"line 19: neither a header"),
    ("#END_TB\n#BEGIN_TB\n", "#END_TB\ncluster id = 0,0,0\n", r"line 19: neither a header"),
]


@pytest.mark.parametrize(("old", "new", "message"), WRONG, ids=[new[:24] for _, new, _ in WRONG])
def test_the_culprit_is_named(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert old in GOOD
    path = tmp_path / "k.traceg"
    path.write_text(GOOD.replace(old, new, 1))
    with pytest.raises(TraceError, match=message) as caught:
        read_any(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_cut_anywhere(tmp_path: Path) -> None:
    path = tmp_path / "k.traceg"
    path.write_text(GOOD)
    assert read_any(path).launches[0].n_access == 4
    first_end = GOOD.index("#END_TB") + len("#END_TB")
    for length in range(0, len(GOOD), 7):
        path.write_text(GOOD[:length])
        if GOOD[:length].rstrip().endswith("#END_TB"):
            continue
        if first_end <= length < GOOD.index("#BEGIN_TB", first_end) + len("#BEGIN_TB"):
            continue
        with pytest.raises(TraceError, match=r"k\.traceg"):
            read_any(path)


@pytest.mark.parametrize("pack", [gzip.compress, lzma.compress])
def test_a_packed_file_cut_short(tmp_path: Path, pack: object) -> None:
    assert callable(pack)
    path = tmp_path / "k.traceg.gz"
    data = pack(GOOD.encode())
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


CSV_WRONG = [
    ("group,subgroup,site", "group,site", "line 3: the first row must be group,subgroup,site"),
    ("0,1,b[i]", "0,-1,b[i]", "line 6: subgroup must be 0 to"),
    ("0,1,b[i]", "99999999999,1,b[i]", "line 6: group must be 0 to"),
    ("0,1,b[i]", "0,1,", "line 6: site must be a name"),
    (",store,8", ",stored,8", "line 6: direction must be load, store, atomic or barrier"),
    (",store,8", ",store,0", "line 6: bytes must be 1 to 128"),
    (",8,3,", ",8,0,", "line 6: mask must have an active lane"),
    (",8,3,", ",8,zz,", "line 6: mask must be up to 64 bits"),
    (",8,3,", ",8,7,", "line 6: there must be an address for each of 3 active lanes, got 2"),
    ("4096 0x2000", "4096 -1", r"line 6: an address must be between 0 and 2\^57, got -1"),
    ("4096 0x2000", "4096 zz", "line 6: an address must be a number"),
    ("4096 0x2000", "4096 0x2000,1", "line 6: a row must have 7 columns, got 8"),
    ("1,0,c", "0,0,c", "line 7: the rows of sub-group 0 of group 0 must be consecutive"),
    ("1,0,c", '1,0,"c', "not CSV"),
    ("64 64 96", "", "line 7: there must be an address"),
    (",barrier,,,", ",barrier,4,,", "line 5: a barrier has neither"),
    ("1,0,c,atomic,4,,64", "1,0,b[i],store,4,,64", "line 7: bytes of site .* must be 8 as before"),
    ("subgroup_size = 32", "subgroup_size = -32", "line 2: subgroup_size must be 1 to"),
    ("subgroup_size = 32", "subgroup_size = 33", "subgroup_size must be 8, 16, 32 or 64"),
    ("subgroup_size = 32", "n_groups = 1", "n_groups must be above every group"),
    ("a[i],load", "a[i]\0,load", "line 4: must not contain zero bytes"),
]


@pytest.mark.parametrize(("old", "new", "message"), CSV_WRONG)
def test_csv_rows(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert old in CSV
    path = tmp_path / "k.csv"
    path.write_text(CSV.replace(old, new, 1))
    with pytest.raises(TraceError, match=message) as caught:
        read_any(path)
    assert str(path) in str(caught.value)


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
    good.write_text(GOOD)
    head = GOOD[: GOOD.index("warp = 1")].encode()
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
