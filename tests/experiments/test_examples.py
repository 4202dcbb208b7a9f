"""The numbered examples run, and say what a count by hand says."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "experiments" / "examples"
SAID = {
    "01_gather": "table hits L1",
    "02_coalescing": "store out[x * n + y]: 32 sectors an access",
    "03_predicted_time": "a100: ",
    "04_another_cache": "L2 of 24 MiB: 100%",
    "05_by_hand": "512 accesses, 2048 sectors requested",
    "06_blocks": "run 4096 times",  # 64 groups of 8 sub-groups, 128 / 16 turns of what the compiler unrolled
    "07_counted_formula": "f_sync_barrier_local: n/8",
    "08_two_variants": "sectors a store",
}
"""A part of what each prints; of 4 lanes in a sector, 32 of a column of a matrix, 16 groups of 32 lines."""


def test_every_example_is_run() -> None:
    assert sorted(SAID) == sorted(path.stem for path in EXAMPLES.glob("*.py"))


@pytest.mark.parametrize("name", sorted(SAID))
def test_an_example(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    path = EXAMPLES / f"{name}.py"
    assert len(path.read_text(encoding="utf-8").splitlines()) <= 40
    runpy.run_path(str(path), run_name="__main__")
    assert SAID[name] in capsys.readouterr().out
