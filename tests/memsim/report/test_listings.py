"""Which listings a page shows, and in which order."""

from __future__ import annotations

import dataclasses
import re
from types import SimpleNamespace
from typing import Any

import pytest

from memsim.machine import load_machine
from memsim.report import html
from memsim.report.source_view import colours, generated_listing
from tests.support.fake_replay import fake_dataset

SITE: Any = SimpleNamespace(site="x[i]", user_file="body.h", user_line=2, source_line=3)


def titles(program: str) -> list[str]:
    """The titles of a page for a program most of whose accesses lie in `body.h`."""
    summary: Any = SimpleNamespace(
        compiled=SimpleNamespace(instructions=()),
        generated_source=program,
        user_source="// body\ny[i] = x[i];\n",
        sites=[SITE],
    )
    listings = html.listings(summary)
    accessed = {one.title: [line.number for line in one.lines if line.sites] for one in listings}
    assert accessed["body.h"] == [2]
    assert [3] in [accessed[title] for title in accessed if title != "body.h"]
    return list(accessed)


def test_a_program_in_cuda_comes_before_the_files_that_it_includes() -> None:
    assert titles('#include "body.h"\n__global__ void k() {\n  body();\n}\n') == [
        "CUDA C++",
        "body.h",
    ]


def test_generated_opencl_comes_after_the_users_file() -> None:
    assert titles("__kernel void k()\n{\n  y[i] = x[i];\n}\n") == ["body.h", "Generated OpenCL"]


def test_only_what_has_a_colour_of_its_own_is_marked() -> None:
    """Of a kernel with 300 accesses, marks on names and blanks were a quarter of the page."""
    text = "  float s = a[i + 1] < 2; /* twice */\n"
    listing = generated_listing(text, [])
    (line,) = listing.lines
    assert line.code.striptags() == " ".join(text.split())
    assert re.findall(r'class="(\w+)"', line.code) == ["kt", "o", "o", "mi", "o", "mi", "cm"]
    styled = set(re.findall(r"\.code \.(\w+) ", colours()))
    assert {"kt", "o", "mi", "cm"} <= styled
    assert not styled & {"n", "p", "w", "err"}


@pytest.mark.parametrize(("fetched", "is_explained"), [(32, False), (64, True)])
def test_the_page_says_why_dram_reads_more_than_l2(fetched: int, is_explained: bool) -> None:
    machine = load_machine("v100")
    l2 = dataclasses.replace(machine.levels[1], fill_bytes=fetched)
    dataset = fake_dataset(n_trials=2, machine=machine.replace(levels=(machine.levels[0], l2)))
    words = f"A miss in L2 fetches {fetched} B, so more may be read from DRAM than is requested."
    assert (words in html.replay_page(dataset).replace("\N{NO-BREAK SPACE}", " ")) == is_explained
