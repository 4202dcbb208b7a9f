"""Machine code is kept as it was read, and what is no machine code is not read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from memsim import disk_cache
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
    cache.save(KEY, code, {})
    assert cache.load(KEY, MachineCode) == code


def test_a_header_that_changed(tmp_path: Path) -> None:
    cache.save(KEY, read("row_sums.sm_80.sass"), {str(tmp_path / "value.h"): "7 bytes"})
    assert cache.load(KEY, MachineCode) is None


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
    cache.save(KEY, read("row_sums.sm_80.sass"), {})
    content = disk_cache.load(cache.KIND, KEY)
    damage(content["content"])
    disk_cache.save(cache.KIND, KEY, content)
    assert disk_cache.load(cache.KIND, KEY) == content
    assert cache.load(KEY, MachineCode) is None


@pytest.mark.parametrize("text", ["", "[]", "7", "{", "[" * 100_000])
def test_text_that_is_no_code(text: str) -> None:
    disk_cache.save_bytes(cache.KIND, KEY, text.encode())
    assert cache.load(KEY, MachineCode) is None
