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


MODES: dict[str, dict[str, str]] = {
    "trusted": {},
    "bounds": {"NUMBA_BOUNDSCHECK": "1"},
    "interpreted": {"NUMBA_DISABLE_JIT": "1"},
}
RUNS = [
    *(("k.trace", "trusted", 3000), ("k.trace", "bounds", 3000), ("k.trace", "interpreted", 500)),
    *(("m.toml", "trusted", 3000), ("m.toml", "bounds", 3000), ("m.toml", "interpreted", 150)),
    *(("damaged.trace", "trusted", 2000), ("damaged.trace", "bounds", 2000)),
    *(
        ("damaged.trace", "interpreted", 300),
        ("k.nc", "trusted", 2000),
        ("damaged.nc", "trusted", 2000),
    ),
]
"""Format, mode and number of files. Reading and showing saved replays runs no compiled loop."""


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(("name", "mode", "n"), RUNS, ids=lambda value: str(value))
def test_many_changed_files(name: str, mode: str, n: int, tmp_path: Path) -> None:
    """With bounds checked, or interpreted, an index beyond an array is an IndexError; otherwise it would be
    silent."""
    own = MODES[mode] | ({"NUMBA_CACHE_DIR": str(tmp_path)} if mode == "bounds" else {})
    first = 10_000 * list(MODES).index(mode)
    done = subprocess.run(
        [
            *(sys.executable, "-c", CHILD, str(Path(__file__).parents[1])),
            *(name, str(first), str(first + n)),
        ],
        env=os.environ | own,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    accepted, refused = map(int, done.stdout.split())
    print(f"{name}, {mode}: {accepted} read, {refused} refused")
    assert accepted + refused == n
    assert refused > n // 50
    assert accepted > n // 50 or name.startswith("damaged")
