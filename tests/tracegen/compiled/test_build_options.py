"""Build options, sorted for clang."""

from __future__ import annotations

import os

import pytest

from memsim.errors import KernelError
from tracegen.compiled.build_options import read_options


def test_what_describes_the_program_reaches_clang() -> None:
    options = read_options("-DN=4 -D M -U K -I sub -cl-mad-enable -w")
    folder = os.path.abspath("sub")
    assert options.arguments == (
        *("-cl-std=CL1.2", "-DN=4", "-DM", "-UK", f"-I{folder}", "-cl-mad-enable"),
    )
    assert options.ignored == ()


def test_the_standard_and_the_precision_are_chosen() -> None:
    assert read_options(["-cl-std=CL2.0"]).arguments == ("-cl-std=CL2.0",)
    assert not read_options("").is_relaxed
    assert read_options("-cl-fast-relaxed-math").is_relaxed
    assert read_options("-cl-fp32-correctly-rounded-divide-sqrt").divides_exactly


def test_nothing_else_reaches_clang() -> None:
    given = ["-o", "/etc/x", "-Xclang", "-load", "-fplugin=x.so", "@file", "-cl-std", "x.cl"]
    options = read_options(given)
    assert options.arguments == ("-cl-std=CL1.2",)
    assert options.ignored == tuple(given)


def test_a_limit_of_registers_is_a_number() -> None:
    for text in ("-cl-nv-maxrregcount=32", "-cl-nv-maxrregcount 32"):
        assert read_options(text).registers_limit == 32
    for text in ("-cl-nv-maxrregcount", "-cl-nv-maxrregcount=many"):
        with pytest.raises(KernelError, match="needs a number"):
            read_options(text)
