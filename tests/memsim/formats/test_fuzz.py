"""Thousands of damaged files for every reader, compiled and interpreted, in bounded memory.

An hour of atheris over the same readers: `tests/support/fuzzed_readers.py`.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest

from tests.support import fuzzed_readers

CHILD = """
import collections, random, resource, sys
sys.path.insert(0, sys.argv[1])
from tests.support import fuzzed_readers
first, last = int(sys.argv[2]), int(sys.argv[3])
found = collections.Counter()
with fuzzed_readers.working_folder() as folder:
    for data in fuzzed_readers.seeds():
        assert fuzzed_readers.check(folder, data)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for seed in range(first, last):
        data = fuzzed_readers.damaged(random.Random(seed))
        try:
            found[data[0], fuzzed_readers.check(folder, data)] += 1
        except BaseException:
            print("seed", seed, file=sys.stderr)
            raise
for k, reader in enumerate(fuzzed_readers.READERS):
    print(reader.name, found[k, True], found[k, False])
print("KiB more", resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before, 0)
"""


def test_every_seed_is_a_whole_file(tmp_path: Path) -> None:
    assert all(fuzzed_readers.check(tmp_path, data) for data in fuzzed_readers.seeds())


@pytest.mark.parametrize("seed", range(40))
def test_a_damaged_file(tmp_path: Path, seed: int) -> None:
    fuzzed_readers.check(tmp_path, fuzzed_readers.damaged(Random(seed)))


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    ("mode", "first", "last"),
    [
        ({}, 0, 20_000),
        ({"NUMBA_BOUNDSCHECK": "1"}, 24_000, 44_000),
        ({"NUMBA_DISABLE_JIT": "1"}, 20_000, 24_000),
    ],
    ids=["compiled", "bounds", "interpreted"],
)
def test_many_damaged_files(mode: dict[str, str], first: int, last: int, tmp_path: Path) -> None:
    """With bounds checked, or interpreted, an index beyond an array is an IndexError; otherwise it would
    be silent."""
    if "NUMBA_BOUNDSCHECK" in mode:
        mode = {**mode, "NUMBA_CACHE_DIR": str(tmp_path)}
    done = subprocess.run(
        [
            *(sys.executable, "-W", "ignore", "-c", CHILD),
            *(str(Path(fuzzed_readers.__file__).parents[2]), str(first), str(last)),
        ],
        env=os.environ | mode,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    *readers, memory = (line.rsplit(maxsplit=2) for line in done.stdout.splitlines())
    for name, accepted, refused in readers:
        print(f"{name}: {accepted} read, {refused} refused")
        assert int(accepted) > 20
        assert int(refused) > 20
    assert int(memory[1]) < 200_000
