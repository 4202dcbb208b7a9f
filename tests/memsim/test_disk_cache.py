"""The cache of results on disk."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from memsim import disk_cache


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MEMSIM_CACHE_DIR", str(tmp_path))
    return tmp_path / "texts"


def test_what_was_saved_is_loaded(folder: Path) -> None:
    assert disk_cache.load("texts", "a") is None
    disk_cache.save("texts", "a", {"text": "x" * 100})
    assert disk_cache.load("texts", "a") == {"text": "x" * 100}
    assert [path.name for path in folder.iterdir()] == ["a.json"]


def test_a_damaged_file_is_not_loaded(folder: Path) -> None:
    disk_cache.save("texts", "a", {"text": "unspoilt"})
    path = folder / "a.json"
    path.write_text(path.read_text().replace("unspoilt", "spoilt"))
    assert disk_cache.load("texts", "a") is None


def test_the_files_that_were_not_used_for_longest_are_deleted(folder: Path) -> None:
    for position, name in enumerate("abc"):
        disk_cache.save("texts", name, "x" * 1000)
        os.utime(folder / f"{name}.json", (position, position))
    size = (folder / "a.json").stat().st_size
    disk_cache.load("texts", "a")  # now b is the oldest
    disk_cache.save("texts", "d", "x" * 1000, most_bytes=3 * size)
    assert sorted(path.stem for path in folder.iterdir()) == ["a", "c", "d"]
    disk_cache.save("texts", "e", "x" * 1000, most_bytes=3 * size - 1)
    assert sorted(path.stem for path in folder.iterdir()) == ["d", "e"]


def test_different_sequences_have_different_fingerprints() -> None:
    sequences = [["ab", "c"], ["a", "bc"], ["abc"], ["abc", ""], []]
    assert len({disk_cache.fingerprint(parts) for parts in sequences}) == 5
