"""Every reader of other programs' files, as what fuzzers call; by itself, a run of atheris.

    NUMBA_DISABLE_JIT=1 python tests/support/fuzzed_readers.py FOLDER -max_total_time=3600

begins with the small files below and keeps what it finds in FOLDER. Compiled loops are not
bounds-checked, and tell atheris nothing: without numba an index beyond an array is an IndexError, and
every branch is seen. atheris is installed by hand (`pip install atheris`). Without it, `damaged` makes
random files of good ones.
"""

from __future__ import annotations

import gzip
import re
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

from tests.support import foreign_files as files

LONGEST_MESSAGE = 2000
LIST = "MemcpyHtoD,0x7000,256\nkernel-1.traceg\nMemcpyDtoH,0x7000,8\nkernel-1.traceg\n"
GPGPUSIM = """\
-gpgpu_n_clusters 46
-gpgpu_n_mem 16
-gpgpu_n_sub_partition_per_mchannel 2 # slices
-gpgpu_clock_domains 1320.0:1320.0:1320.0:3500.0
-gpgpu_shader_registers 65536
-gpgpu_shader_core_pipeline 1024:32
-gpgpu_shader_cta 32
-gpgpu_coalesce_arch 75
-gpgpu_cache:dl1 S:4:128:64,L:T:m:L:L,A:256:32,16:0,32
-gpgpu_l1_latency 20
-gpgpu_shmem_size 65536
-gpgpu_cache:dl2 S:64:128:16,L:B:m:L:P,A:192:4,32:0,32
-gpgpu_l2_rop_latency 160
-dram_latency 100
-gpgpu_dram_buswidth 2
-gpgpu_dram_burst_length 16
-gpgpu_mem_addr_mapping dramid@8;00000000.00000000.00000000.00000000.0000RRRR.RRRRRRRR.RBBBCCCC.BCCSSSSS
-gpgpu_dram_timing_opt "nbk=16:CCD=1:RCD=20:RP=20:
                        CL=20:WL=8"
"""


@dataclass(frozen=True)
class Reader:
    """name : the file's; seeds : whole files; read : raises MemsimError for what is none
    unpacks : reads gzip too
    """

    name: str
    seeds: tuple[str, ...]
    read: Callable[[Path], Any]
    unpacks: bool = True


def _trace(path: Path, **others: str) -> None:
    from memsim.formats import launch_names, read_any

    for name, text in others.items():
        (path.parent / f"{name}.traceg").write_text(text)
    found = read_any(path)
    assert len(launch_names(path)) == len(found.launches)
    for trace in found.launches:
        assert int(trace.granule_offset[-1]) == trace.n_granule
        assert int(trace.subgroup_offset[-1]) == trace.n_access
        assert (trace.waits[trace.waits >= 0] < trace.n_access).all()
        assert not trace.n_access or trace.site.max() < len(trace.sites)


def _listed(path: Path) -> None:
    _trace(path, **{"kernel-1": files.ACCEL_SIM})


def _counters(path: Path) -> None:
    from memsim.formats.profilers.read import read_counters

    found = read_counters(path)
    assert found.kernels or found.notes


def _machine(path: Path) -> None:
    from memsim.formats.gpgpusim.machine import import_config

    import_config(path)


READERS = (
    Reader("k.traceg", (files.ACCEL_SIM,), _trace),
    Reader("kernelslist.g", (LIST,), _listed),
    Reader("k.csv", (files.CSV,), _trace),
    Reader("kernel_1_block_0.mem", (files.PPT_GPU,), _trace),
    Reader("raw.csv", (files.NSIGHT_RAW, files.NSIGHT_DETAILS, files.NSIGHT_SOURCE), _counters),
    Reader("results.csv", (files.ROCPROF_1, files.ROCPROF_2, files.ROCPROF_3), _counters),
    Reader("gpgpusim.config", (GPGPUSIM,), _machine, unpacks=False),
)


def check(folder: Path, data: bytes) -> bool:
    """Reads data[1:] as data[0] says; True where it was accepted.

    Raises AssertionError, or whatever a reader lets through, where it is neither read nor refused in
    one line.
    """
    from memsim.errors import MemsimError

    if not data:
        return False
    reader = READERS[data[0] % len(READERS)]
    path = folder / reader.name
    path.write_bytes(data[1:])
    refused = ""
    try:
        reader.read(path)
    except MemsimError as error:
        refused = str(error)
    assert "\n" not in refused
    assert len(refused) < LONGEST_MESSAGE
    return not refused


def seeds() -> Iterator[bytes]:
    """Good files, plain and packed, behind the byte that says whose they are."""
    for k, reader in enumerate(READERS):
        for text in reader.seeds:
            yield bytes([k]) + text.encode()
            if reader.unpacks:
                yield bytes([k]) + gzip.compress(text.encode(), mtime=0)


NUMBERS = (b"0", b"-1", b"4294967296", b"9" * 17, b"9" * 19, b"-" + b"9" * 40, b"1e308", b"nan")
WORDS = (b"", b"\n", b"\0", b" ", b",", b'"', b"=", b"#", b"\xff", b"(", b"0x", b"\r\n", b"=" * 300)


def damaged(rng: Random) -> bytes:
    """A good file, cut, spliced, with numbers out of range; packed now and then, and hurt after it."""
    good = [data for data in seeds() if data[1:3] != b"\x1f\x8b"]
    whole = rng.choice(good)
    data = whole[1:]
    for _ in range(rng.randint(0, 4)):
        data = _hurt(rng, data, rng.choice(good)[1:])
    if rng.random() < 0.2:
        data = gzip.compress(data)
        if rng.random() < 0.5:
            data = _hurt(rng, data, data)
    return whole[:1] + data


def _hurt(rng: Random, data: bytes, other: bytes) -> bytes:
    begin = rng.randrange(len(data) + 1)
    end = min(begin + rng.choice((0, 1, 4, 30, 400)), len(data))
    numbers = [found.span() for found in re.finditer(rb"-?\d+", data)]
    kind = rng.random()
    if kind < 0.35 and numbers:
        begin, end = rng.choice(numbers)
        return data[:begin] + rng.choice(NUMBERS) + data[end:]
    if kind < 0.45:
        return data[:begin]
    if kind < 0.6:
        return data[:end] + data[begin:end] * rng.randint(1, 50) + data[end:]
    if kind < 0.75:
        lines = data.splitlines(keepends=True)
        rng.shuffle(lines)
        return b"".join(lines[: rng.randint(0, len(lines))])
    if kind < 0.85:
        at = rng.randrange(len(other) + 1)
        return data[:begin] + other[at : at + 200] + data[end:]
    return data[:begin] + rng.choice(WORDS) + data[end:]


@contextmanager
def working_folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="memsim-fuzz-") as folder:
        yield Path(folder)


def _one(folder: Path, data: bytes) -> None:
    check(folder, data)


def main() -> None:
    import atheris  # type: ignore[import-not-found]

    corpus = Path(sys.argv[1])
    corpus.mkdir(parents=True, exist_ok=True)
    for k, data in enumerate(seeds()):
        (corpus / f"seed-{k}").write_bytes(data)
    with atheris.instrument_imports(include=["memsim"]):
        import memsim.formats.accel_sim.scan
        import memsim.formats.gpgpusim.machine
        import memsim.formats.ppt_gpu
        import memsim.formats.profilers.counter_file
        import memsim.formats.profilers.nsight
        import memsim.formats.profilers.rocprof  # noqa: F401
    with working_folder() as folder:
        atheris.Setup(sys.argv, partial(_one, folder))
        atheris.Fuzz()


if __name__ == "__main__":
    main()
