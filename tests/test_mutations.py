"""Any change to a file, ours or another tool's, gives a result or an error of ours; never anything else."""

from __future__ import annotations

import gzip
import itertools
import os
import subprocess
import sys
from pathlib import Path

import pytest

from experiments.kernels.matrices import read_matrix_market
from tests.support import mutations
from tests.support.mutated_inputs import FOREIGN, FORMATS, MATRICES, Format, check, use_foreign

NAMES = [chosen.name for chosen in FORMATS]
CHILD = """
import collections, resource, sys, warnings
from pathlib import Path
warnings.simplefilter("ignore")
sys.path.insert(0, sys.argv[1])
from tests.support.mutated_inputs import FORMATS, check
chosen = [one for one in FORMATS if one.name in sys.argv[2].split()]
found, before = collections.Counter(), 0
for seed in range(int(sys.argv[3]), int(sys.argv[4])):
    one = chosen[seed % len(chosen)]
    print(one.name, "seed", seed, file=sys.stderr, flush=True)
    found[one.name, check(one, seed, Path(sys.argv[5]), replays=True)] += 1
    before = before or resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
for one in chosen:
    n = found[one.name, True] + found[one.name, False]
    print(f"{one.name}: {found[one.name, True]} of {n} accepted")
    assert found[one.name, True] > one.accepted * n - 1
    assert found[one.name, False] > one.refused * n - 1
"""


@pytest.mark.parametrize("name", FOREIGN)
def test_whole_files_of_other_tools(name: str, tmp_path: Path) -> None:
    """Plain, and packed where the tool packs them."""
    packs = (bytes,) if name == "gpgpusim.config" else (bytes, gzip.compress)
    for text, pack in itertools.product(FOREIGN[name], packs):
        (tmp_path / name).write_bytes(pack(text.encode()))
        use_foreign(tmp_path / name, False)


@pytest.mark.parametrize("last", [" ", "\t", "J", "\0", "\x8a", "", "\n \n"])
@pytest.mark.parametrize("good", MATRICES)
def test_what_follows_the_last_number_of_a_matrix(good: str, last: str, tmp_path: Path) -> None:
    path = tmp_path / "a.mtx"
    path.write_text(good.rstrip() + last, encoding="latin-1")
    if last.strip():
        why = mutations.refused(lambda: read_matrix_market(path))
        assert "below its comments are numbers, got" in why
    else:
        assert read_matrix_market(path).nnz > 0


@pytest.mark.parametrize("chosen", FORMATS, ids=NAMES)
def test_changed_files(chosen: Format, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEMSIM_CACHE_DIR", str(tmp_path))
    accepted = sum(check(chosen, seed, tmp_path, replays=False) for seed in range(chosen.n))
    if chosen.n >= 30:
        assert accepted >= chosen.accepted * chosen.n
        assert chosen.n - accepted >= chosen.refused * chosen.n


MODES: dict[str, dict[str, str]] = {
    "trusted": {},
    "bounds": {"NUMBA_BOUNDSCHECK": "1"},
    "interpreted": {"NUMBA_DISABLE_JIT": "1"},
}
OTHERS = " ".join(FOREIGN)
RUNS = [
    *((OTHERS, "trusted", 20_000), (OTHERS, "bounds", 20_000), (OTHERS, "interpreted", 4_000)),
    *(("k.trace", "trusted", 3000), ("k.trace", "bounds", 3000), ("k.trace", "interpreted", 500)),
    *(("m.toml", "trusted", 3000), ("m.toml", "bounds", 3000), ("m.toml", "interpreted", 150)),
    *(("damaged.trace", "trusted", 2000), ("damaged.trace", "bounds", 2000)),
    *(("damaged.trace", "interpreted", 300), ("k.nc", "trusted", 2000)),
    ("damaged.nc", "trusted", 2000),
    *(("model.json", "trusted", 5000), ("counts.json", "trusted", 1000)),
    *(("words.txt", "trusted", 5000), ("history.db", "trusted", 4000)),
    *(("gemm.host", "trusted", 4000), ("a.mtx", "trusted", 10_000)),
]
"""Format, mode and number of files. Reading and showing saved replays runs no compiled loop."""


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(("names", "mode", "n"), RUNS, ids=lambda value: str(value)[:20])
def test_many_changed_files(names: str, mode: str, n: int, tmp_path: Path) -> None:
    """With bounds checked, or interpreted, an index beyond an array is an IndexError; otherwise it would be
    silent. Files of other tools are read in bounded memory."""
    own = MODES[mode] | ({"NUMBA_CACHE_DIR": str(tmp_path)} if mode == "bounds" else {})
    first = 100_000 * list(MODES).index(mode)
    done = subprocess.run(
        [sys.executable, "-c", CHILD, str(Path(__file__).parents[1]), names, str(first), str(first + n), str(tmp_path)],
        env=os.environ | own | {"MEMSIM_CACHE_DIR": str(tmp_path)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    more_kib, *lines = done.stdout.splitlines()
    for line in lines:
        print(f"{mode}: {line}")
    assert int(more_kib) < 200_000 or names != OTHERS
