"""The cache of results on disk."""

from __future__ import annotations

import errno
import json
import os
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from memsim import disk_cache
from memsim.disk_cache import writable_caches


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MEMSIM_CACHE_DIR", str(tmp_path))
    return tmp_path / "texts"


def test_what_was_saved_is_loaded(folder: Path) -> None:
    assert disk_cache.load("texts", "a") is None
    disk_cache.save("texts", "a", {"text": "x" * 100})
    assert disk_cache.load("texts", "a") == {"text": "x" * 100}
    (path,) = folder.iterdir()
    assert path.name == "a.json"
    assert json.loads(path.read_text())["content"] == {"text": "x" * 100}


@pytest.mark.parametrize(
    "spoil",
    [
        lambda text: text.replace("unspoilt", "spoilt"),
        lambda text: text + " ",
        lambda text: text[:-1],
        lambda text: text[:20],
        lambda text: "",
        lambda text: text.replace('"a"', '"b"'),
    ],
)
def test_a_damaged_file_is_not_loaded(spoil: Callable[[str], str], folder: Path) -> None:
    disk_cache.save("texts", "a", {"text": "unspoilt"})
    path = folder / "a.json"
    assert disk_cache.load("texts", "a") == {"text": "unspoilt"}
    path.write_text(spoil(path.read_text()))
    assert disk_cache.load("texts", "a") is None


@pytest.mark.parametrize("content", [b"", b"{", b"[" * 100_000])
def test_content_that_is_no_json(content: bytes, folder: Path) -> None:
    disk_cache.save_bytes("texts", "a", content)
    assert disk_cache.load_bytes("texts", "a") == content
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


def test_a_full_disk_is_told_once_and_keeps_nothing(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def half(path: Path, data: bytes) -> None:
        path.write_text(data[: len(data) // 2].decode(), encoding="utf-8")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "write_bytes", half)
    disk_cache._warn.cache_clear()
    with pytest.warns(UserWarning, match=r"texts cannot be written \(No space left") as told:
        [disk_cache.save("texts", name, "x" * 1000) for name in "ab"]
    assert len(told) == 1
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("before", [None, "given"])
def test_caches_that_cannot_be_written_are_temporary(
    before: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file stands where the caches of this user lie."""
    home = tmp_path / "home"
    (home / ".cache" if before is None else home / before).parent.mkdir()
    (home / (before or ".cache")).write_text("no folder")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.delenv("MEMSIM_CACHE_DIR", raising=False)
    if before is not None:
        monkeypatch.setenv("XDG_CACHE_HOME", str(home / before))
    disk_cache._warn.cache_clear()
    environment = dict(os.environ)

    def used() -> Path:
        with writable_caches():
            disk_cache.save("texts", "a", 1)
            (kept,) = Path(os.environ["XDG_CACHE_HOME"]).rglob("*.json")
            return kept

    with pytest.warns(UserWarning, match="cannot be written .*: caches are temporary"):
        kept = used()
    assert kept.parts[-3:] == ("memsim", "texts", "a.json")
    assert kept.is_relative_to(tempfile.gettempdir())
    assert not kept.parents[2].exists()
    assert dict(os.environ) == environment


def test_caches_that_can_be_written_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with writable_caches():
        assert os.environ["XDG_CACHE_HOME"] == str(tmp_path)
    assert list(tmp_path.iterdir()) == []
