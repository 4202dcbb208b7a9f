"""Machine code is kept as it was read, and what is no machine code is not read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tracegen.compiled import kept_code
from tracegen.compiled.amd.gcn import read_gcn
from tracegen.compiled.model import Instruction, MachineCode
from tracegen.compiled.nvidia.sass import read_sass
from tracegen.tools import cache

LISTINGS = Path(__file__).parent / "listings"
KEY = "0" * 64


def read(name: str) -> MachineCode:
    text = (LISTINGS / name).read_text(encoding="utf-8")
    if name.endswith(".s"):
        blocks, notes = read_gcn(text, "row_sums", None)
    else:
        blocks, notes = read_sass(text, name.partition(".")[0])
    return MachineCode(
        kernel="k",
        target="sm_80",
        blocks=blocks,
        registers_per_item=32,
        listing=text,
        tools={"ptxas": "12.9"},
        notes=tuple(notes),
    )


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MEMSIM_CACHE_DIR", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize("name", ["row_sums.sm_80.sass", "calls.sm_80.sass", "small.gfx90a.s"])
def test_code_is_kept_as_it_was_read(name: str) -> None:
    code = read(name)
    assert any(one.memory for block in code.blocks for one in block.instructions)
    kept_code.save(KEY, code, {})
    assert kept_code.load(KEY) == code


def test_a_header_that_changed(tmp_path: Path) -> None:
    kept_code.save(KEY, read("row_sums.sm_80.sass"), {str(tmp_path / "value.h"): "7 bytes"})
    assert kept_code.load(KEY) is None


def damaged(code: Any, field: str, value: Any) -> None:
    """Changes a field of the first instruction, which is kept as a row."""
    code["blocks"][0]["instructions"][0][Instruction.__struct_fields__.index(field)] = value


@pytest.mark.parametrize(
    "damage",
    [
        lambda code: code.pop("blocks"),
        lambda code: code["blocks"][0].pop("label"),
        lambda code: damaged(code, "pipe", "oil"),
        lambda code: damaged(code, "reads", [7]),
        lambda code: damaged(code, "stall_cycles", "4"),
        lambda code: code["blocks"][0]["instructions"][0].clear(),
        lambda code: code.update(registers_per_item=None),
    ],
)
def test_content_that_lacks_something(damage: Any) -> None:
    kept_code.save(KEY, read("row_sums.sm_80.sass"), {})
    content = cache.load(KEY)
    damage(content["code"])
    cache.save(KEY, content)
    assert cache.load(KEY) == content
    assert kept_code.load(KEY) is None


@pytest.mark.parametrize("text", ["", "[]", "7", "{", "[" * 100_000])
def test_text_that_is_no_code(text: str) -> None:
    cache.save_bytes(KEY, text.encode())
    assert kept_code.load(KEY) is None
