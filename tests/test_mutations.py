"""Any change to a file of ours gives a result or an error of ours; never anything else.

The text formats of other tools: tests/memsim/formats/test_fuzz.py.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.mutated_inputs import FORMATS, Format, check

NAMES = [chosen.name for chosen in FORMATS]
CHILD = """
import collections, sys, tempfile, warnings
from pathlib import Path
warnings.simplefilter("ignore")
sys.path.insert(0, sys.argv[1])
from tests.support.mutated_inputs import FORMATS, check
[chosen] = [one for one in FORMATS if one.name == sys.argv[2]]
found = collections.Counter()
with tempfile.TemporaryDirectory() as folder:
    for seed in range(int(sys.argv[3]), int(sys.argv[4])):
        print("seed", seed, file=sys.stderr, flush=True)
        found[check(chosen, seed, Path(folder), replays=True)] += 1
print(found[True], found[False])
"""


@pytest.mark.parametrize("chosen", FORMATS, ids=NAMES)
def test_changed_files(chosen: Format, tmp_path: Path) -> None:
    for seed in range(12 if chosen.name.endswith(".nc") else 40):
        check(chosen, seed, tmp_path, replays=False)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(
    ("name", "last"),
    [
        ("k.trace", 3000),
        ("m.toml", 3000),
        ("k.nc", 2000),
        ("damaged.trace", 2000),
        ("damaged.nc", 2000),
    ],
    ids=NAMES,
)
@pytest.mark.parametrize("bounds", [False, True], ids=["trusted", "bounds"])
def test_many_changed_files(name: str, last: int, bounds: bool, tmp_path: Path) -> None:
    """With bounds checked, an index beyond an array is an IndexError; otherwise it would be silent."""
    own = {"NUMBA_BOUNDSCHECK": "1", "NUMBA_CACHE_DIR": str(tmp_path)} if bounds else {}
    first = last if bounds else 0
    done = subprocess.run(
        [
            *(sys.executable, "-c", CHILD, str(Path(__file__).parents[1])),
            *(name, str(first), str(first + last)),
        ],
        env=os.environ | own,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    accepted, refused = map(int, done.stdout.split())
    assert accepted + refused == last
    assert refused > last // 50
    assert accepted > last // 50 or name.startswith("damaged")
