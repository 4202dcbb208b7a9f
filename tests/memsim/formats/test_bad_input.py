"""Damaged and hostile files of other tools: one clear error with file and line, in bounded memory."""

from __future__ import annotations

import functools
import gzip
import lzma
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from memsim.errors import TraceError
from memsim.formats import read_any
from tests.memsim.formats.test_gpgpusim_config import CONFIG, DL1
from tests.support.foreign_files import ACCEL_SIM, CSV, ROCPROF_1, ROCPROF_3
from tests.support.foreign_files import NSIGHT_DETAILS as DETAILS
from tests.support.foreign_files import NSIGHT_RAW as RAW
from tests.support.foreign_files import NSIGHT_SOURCE as SOURCE
from tests.support.mutated_inputs import use_foreign
from tests.support.mutations import refused

CHANGES: dict[tuple[str, str], list[tuple[str, str, str]]] = {
    ("k.traceg", ACCEL_SIM): [
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
    ],
    ("k.csv", CSV): [
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
    ],
    ("raw.csv", RAW): [
        ('"65.77"', '"many"', "line 5: l1tex__t_sector_hit_rate.pct must be a number, got 'many'"),
        ('"65.77"', '"-5"', "line 5: .* must be 0 to 1e"),
        ('"65.77"', '"1e400"', "line 5: .* must be 0 to 1e"),
        ('"65.77"', '"' + "9" * 60 + '"', "line 5: .* must be 0 to 1e"),
        ('"65.77"', '"' + "9" * 100 + '"', "line 5: .* must be a number"),
        ('"65.77"', '"1.2.3.4,5,6"', "line 5: .* must be a number"),
        ('"1,234.5",', "", "line 5: a row must have 15 columns, got 14"),
        ('"Ksector"', '"Zsector"', "line 5: Metric Unit must be a known unit"),
        ('"117,344"', '"117,344', "line 5: not CSV: a quoted cell must end on its line"),
        ('"117,344"', '"\0"', "line 5: must not contain zero bytes"),
        ("double", "d" * 5000, "line 5: Kernel Name must be at most 4096 letters"),
    ],
    ("raw.csv", DETAILS): [
        ('"1,024",""', '"-1",""', "line 2: dram__bytes_read.sum must be 0 to"),
        ('"byte","1,024",""', "", "line 2: a row must have 16 columns, got 14"),
        ('"Metric Value"', '"Value"', "line 1: .* must have the column Metric Value"),
    ],
    ("raw.csv", SOURCE): [
        ('"57344"', '"-57344"', "line 4: L2 Theoretical Sectors Global must be 0 to"),
        ('"57344",', "", "line 4: a row must have 8 columns, got 7"),
    ],
    ("results.csv", ROCPROF_1): [
        ("2048.5", "-2048.5", "line 2: FetchSize must be 0 to"),
        ("2048.5", "lots", "line 2: FetchSize must be a number, got 'lots'"),
        ("2047.5", "1e300", "line 3: FetchSize must be 0 to"),
        (",2048.5", "", "line 2: a row must have 26 columns, got 25"),
        ('"laplacian(double*', '"laplacian"(double*', "line 2: "),
    ],
    ("results.csv", ROCPROF_3): [
        ('"Counter_Value"', '"Value"', "line 1: .* must have the column Counter_Value"),
        ('"TCC_EA0_RDREQ_sum",10', '"TCC_EA0_RDREQ_sum",-10', "line 2: TCC_EA0_RDREQ_sum must be"),
        ('"TCC_EA0_RDREQ_sum",10', f'"TCC_{"A" * 5000}",10', "line 2: Counter_Name must be at most"),
    ],
    ("gpgpusim.config", CONFIG): [
        (f"-gpgpu_cache:dl1 {DL1}", "-gpgpu_cache:dl1 S:4:128", "23: -gpgpu_cache:dl1 must be <N|S>"),
        (DL1, DL1.replace("S:", "Z:"), "23: -gpgpu_cache:dl1 must have N or S for kind, not Z"),
        (DL1, DL1.replace("L:T", "Q:T"), "23: .* must have L or F for replacement, not Q"),
        (DL1, DL1.replace(":T:", ":Z:"), "23: .* must have R, B, T, E or L for write, not Z"),
        (DL1, DL1.replace("m:L:L", "m:L:Z"), "23: .* must have L, P, H, X or C for index, not Z"),
        (DL1, DL1.replace("m:L:L", "f:L:L"), "23: .* must allocate on miss"),
        (DL1, DL1.replace("T:m:L", "B:s:N"), "23: .* must allocate on miss"),
        (DL1, DL1.replace("m:L:L", "m:L:H"), "set_index must have 32 or 64 sets"),
        (DL1, DL1.replace("S:4", "S:0"), "23: .* must have 1 to 16777216 for n sets, not 0"),
        (DL1, DL1.replace("S:4", "S:-4"), "23: .* must be <N|S>"),
        (DL1, DL1.replace("4:128", "4:64"), "23: .* must have lines of 128 bytes where they have sectors"),
        (DL1, DL1.replace("S:4:128", "N:4:96"), "21: -gpgpu_unified_l1d_size must be a multiple of one way"),
        (DL1, DL1.replace("S:4:128", "N:4:1024"), "unified_l1d_size|line_bytes must be at most 256"),
        ("-gpgpu_n_clusters 80", "-gpgpu_n_clusters -80", "there must be an option|-gpgpu_n_clusters must"),
        ("-gpgpu_n_clusters 80", "-gpgpu_n_clusters 1e9", "3: -gpgpu_n_clusters must be a whole number"),
        ("-gpgpu_n_clusters 80", "-gpgpu_n_clusters 9999999999", "3: .* from 1 to 1048576"),
        ("-gpgpu_n_clusters 80", "", "there must be the option -gpgpu_n_clusters"),
        ("1132.0:1132.0:1132.0:850.0", "1132.0", "7: -gpgpu_clock_domains must be 4 or more numbers"),
        ("1132.0:1132.0:1132.0:850.0", "0:1:1:1", "7: -gpgpu_clock_domains must be four positive"),
        ("nbk=16:", "", "38: -gpgpu_dram_timing_opt must say nbk"),
        ("RCD=12", "RCD=-1", "38: -gpgpu_dram_timing_opt must be NAME=CYCLES"),
        ("nbk=16:", "nbk=0:", "38: -gpgpu_dram_timing_opt: n_banks must be positive"),
        ("dramid@8;", "dramid;", "37: -gpgpu_mem_addr_mapping must be dramid@BIT"),
        ("CCCSSSSS", "CCCSSSS", "37: -gpgpu_mem_addr_mapping must be dramid@BIT; and 64 letters"),
        ("RTPL=3\"", "RTPL=3", 'a quoted value must end with "'),
        ("# a Volta", "a Volta", "1: not a configuration of GPGPU-Sim: .* got 'a'"),
        ("indexing 2", "indexing 9", "29: -gpgpu_memory_partition_indexing must be a whole number from 0"),
        ("initiation_fp 2,2,2,2,4", "initiation_fp 2,2", "16: -ptx_opcode_initiation_fp must be 4 or more"),
        *(("pipeline 2048:32", f"pipeline {value}", "work-items of a core and the lanes of a warp")
          for value in ("1024:0", "1024:0.5", "16:32", "0:32")),
    ],
}  # fmt: skip
"""File and its whole text -> what is replaced in it, by what, and what is said of it."""
WHOLE: list[tuple[str, str, str]] = [
    ("kernelslist.g", "\nMemcpyHtoD,0x1000\n", "a copy must be"),
    ("kernelslist.g", "\nMemcpyHtoD,0x1000,-5\n", "a copy must be"),
    ("kernelslist.g", "\nMemcpyHtoD,0xffffffffffffffff,5\n", "a copy must end below"),
    ("kernelslist.g", "\n../secret.traceg\n", "must be in the folder of the list"),
    ("kernelslist.g", "\n/etc/passwd.traceg\n", "must be in the folder of the list"),
    ("kernelslist.g", "\nkernel-9.traceg\n", "which does not exist"),
    ("kernelslist.g", f"\n{'k' * 300}.traceg\n", "which does not exist"),
    ("kernelslist.g", "\nsomething else\n", "must be a .traceg or"),
    ("kernelslist.g", "\n# nothing\n", "lists no kernel"),
    ("kernel_1_block_0.mem", "LDG.E zz", "line 1: addresses must be hexadecimal"),
    ("kernel_1_block_0.mem", "LDG.E\n12 34", "line 2: a record must begin with an opcode"),
    ("kernel_1_block_0.mem", "FADD 10000", "line 1: an opcode must load or store, got 'FADD'"),
    ("kernel_1_block_0.mem", "LDG.E ffffffffffffffff", r"line 1: an address must be between 0 and 2\^57"),
    ("kernel_1_block_0.mem", "LDG.E " + "10000 " * 70, "line 1: addresses must be hexadecimal, at most 64"),
    ("kernel_1_block_0.mem", "", "contains no access"),
    ("some.bin", "".join(map(chr, range(256))) * 10, "not a trace file"),
    *(("raw.csv", text, "contains no counters") for text in ("", "hello\n", "a,b,c\n1,2,3\n", '"ID","Kernel"\n')),
    *(("gpgpusim.config", text, "not a configuration of GPGPU-Sim") for text in ("", "# nothing\n", "\0", "-")),
    ("gpgpusim.config", "#" * ((1 << 20) + 1), "at most 1048576 bytes"),
]  # fmt: skip
"""File, its whole text, and what is said of it."""


def wrong() -> list[tuple[str, str, str]]:
    found = list(WHOLE)
    for (name, good), changes in CHANGES.items():
        for old, new, message in changes:
            assert old in good
            found.append((name, good.replace(old, new, 1), message))
    return found


@pytest.mark.parametrize(("name", "text", "message"), wrong(), ids=lambda value: value[:24])
def test_the_culprit_is_named(tmp_path: Path, name: str, text: str, message: str) -> None:
    path = tmp_path / name
    path.write_text(text)
    why = refused(lambda: use_foreign(path, replays=False))
    assert re.search(message, why), why
    assert (name if name == "gpgpusim.config" else str(path)) in why


def test_what_is_not_there_is_named(tmp_path: Path) -> None:
    for name, message in (("", r"a folder must contain a kernelslist\.g"), ("none.traceg", "cannot be read: No such file"),
                          ("gpgpusim.config", "cannot be read")):  # fmt: skip
        assert re.search(message, refused(lambda name=name: use_foreign(tmp_path / name, False)))


def test_cut_anywhere(tmp_path: Path) -> None:
    path = tmp_path / "k.traceg"
    first_end = ACCEL_SIM.index("#END_TB") + len("#END_TB")
    second = ACCEL_SIM.index("#BEGIN_TB", first_end) + len("#BEGIN_TB")
    for length in range(0, len(ACCEL_SIM) + 1, 7):
        text = ACCEL_SIM[:length]
        path.write_text(text)
        is_whole = text.rstrip().endswith("#END_TB") or first_end <= length < second
        why = refused(lambda: read_any(path))
        assert "k.traceg" in why or is_whole, length
    path.write_text(ACCEL_SIM)
    assert read_any(path).launches[0].n_access == 4


@pytest.mark.parametrize("pack", [gzip.compress, lzma.compress])
def test_a_packed_file_cut_short(tmp_path: Path, pack: Callable[[bytes], bytes]) -> None:
    data = pack(ACCEL_SIM.encode())
    for length in (len(data) - 9, len(data) // 2):
        (tmp_path / "k.traceg.gz").write_bytes(data[:length])
        with pytest.raises(TraceError, match="damaged or cut short"):
            read_any(tmp_path / "k.traceg.gz")


def test_garbage_is_refused(tmp_path: Path) -> None:
    rng = Random(0)
    for k in range(160):
        path = tmp_path / ("a.traceg", "a.csv", "a.mem", "a")[k % 4]
        path.write_bytes(rng.randbytes(rng.choice((0, 1, 2, 8, 300))))
        assert refused(lambda path=path: read_any(path))


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
    """134 MB of zeros, line breaks or settings, packed to less than 1 MB."""
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
        content = start + unit * ((128 << 20) // len(unit))
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
