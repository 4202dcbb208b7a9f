"""Which listings a page shows, and in which order."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from memsim.report import html

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
