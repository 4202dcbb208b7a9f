"""The options of tracing are the same in Python, in the commands and in the documentation."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import click
import pytest

import tracegen
from memsim.errors import KernelError
from memsim.options import declared, markdown_table
from tests.support.loopy_kernels import copy
from tracegen.commands.profile import profile
from tracegen.commands.trace import trace
from tracegen.options import TraceOptions


@pytest.mark.parametrize("command", [trace, profile], ids=lambda c: c.name)
def test_commands_have_the_defaults_of_python(command: click.Command) -> None:
    of_command = {parameter.name: parameter for parameter in command.params}
    for field in dataclasses.fields(TraceOptions):
        assert (field.name in of_command) == (declared(field).flags != ())
        if field.name in of_command:
            assert of_command[field.name].default == field.default
            assert of_command[field.name].help == declared(field).help


def test_the_readme_shows_the_options() -> None:
    readme = Path(tracegen.__file__).with_name("README.md").read_text(encoding="utf-8")
    assert markdown_table(TraceOptions) in readme


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"launch": -1}, "launch must be at least 0"),
        ({"tracer": "magic"}, "tracer must be one of auto, polyhedral, instrumented"),
        ({"memory_bytes": 0}, "memory_bytes must be at least 1"),
        ({"snapshot": 3}, "there is no option 'snapshot'"),
        ({"groups": 0}, "groups must be at least 1"),
    ],
)
def test_wrong_options_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(KernelError, match=message):
        tracegen.trace(copy(64), **options)


def test_one_launch_cannot_be_every_launch() -> None:
    with pytest.raises(KernelError, match="leave out launch=0"):
        tracegen.trace_launches(copy(64), launch=0)
