"""What decides whether kept output of the compilers is used."""

from __future__ import annotations

from pathlib import Path

import pytest

from tracegen.tools import cache


def test_the_key_depends_on_the_code_that_runs_the_compilers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = []
    for number, text in enumerate(("OPTIONS = 1\n", "OPTIONS = 2\n", "OPTIONS = 1\n")):
        room = tmp_path / str(number) / "inside"
        room.mkdir(parents=True)
        (room / "compile.py").write_text(text)
        monkeypatch.setattr(cache, "_ROOMS", (room.parent,))
        keys.append(cache.key("clang", "text"))
    assert keys[0] == keys[2] != keys[1]
    assert all(any(room.rglob("*.py")) for room in cache._ROOMS)


def test_the_key_depends_on_clangs_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CPATH", raising=False)
    before = cache.key("text")
    monkeypatch.setenv("CPATH", "/elsewhere")
    assert cache.key("text") != before
