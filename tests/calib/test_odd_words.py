"""Odd words that users give: an answer, or an error of one line."""

from __future__ import annotations

import re

import pytest

from calib.commands.blocks_settings import parsed_range, settings_of_sizes
from calib.prediction.what_if import parse
from calib.words import MOST, whole
from memsim.errors import MemsimError
from memsim.machine import load_machine
from memsim.visible import shown


@pytest.mark.parametrize(
    ("text", "number"),
    [
        *(("0", 0), ("007", 7), (str(MOST), MOST)),
        *((t, None) for t in (str(MOST + 1), "9" * 5000, "", "-1", "1_0", " 1", *"\u00b2\u0663")),
    ],
)
def test_whole_numbers(text: str, number: int | None) -> None:
    assert whole(text) == number


def test_texts_in_errors() -> None:
    assert shown("n=1") == "'n=1'"
    assert shown("\x1b[31m\u202e\n") == r"'\x1b[31m\u202e\n'"
    assert len(shown("9" * 5000)) < 100


def test_what_if_words() -> None:
    for word in ("l1=" + "9" * 5000 + "MiB", "dram=" + "9" * 400 + "x", "dram=9999999x"):
        with pytest.raises(MemsimError, match=r"^[^\n]*no change[^\n]*$"):
            parse(word, load_machine("v100"))


NO_RANGES = ("1024:0", "0:8", "8:4", "1:2:3", "\u00b2:4", f"1:{'9' * 5000}", ":")


@pytest.mark.parametrize("sizes", NO_RANGES)
def test_sizes_that_are_no_range(sizes: str) -> None:
    rule = re.escape("must be NAME=LOW:HIGH with 0 < LOW <= HIGH < 2^63")
    with pytest.raises(MemsimError, match=f"--train {rule}") as caught:
        parsed_range("--train", f"n={sizes}")
    assert len(str(caught.value)) < 200
    assert "\n" not in str(caught.value)
    if sizes in (*NO_RANGES[:3], NO_RANGES[5]):
        with pytest.raises(MemsimError, match=f"--set {rule}"):
            settings_of_sizes({"n": sizes})
