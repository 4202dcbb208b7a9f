"""Errors pass from worker processes to a command."""

from __future__ import annotations

import pickle

import pytest

from memsim.errors import KernelError, MemsimError
from memsim.machine.rules import RuleError
from tracegen.compiled.request import CompileError
from tracegen.tools.toolchain import CompilerMissing


@pytest.mark.parametrize(
    "error",
    [
        KernelError("no such kernel"),
        RuleError("levels[0].ways", "ways must be at least 1, got 0"),
        CompileError("undeclared identifier", 7),
        CompilerMissing("there is no clang", "install it"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_error_of_another_process_says_the_same(error: MemsimError) -> None:
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error)
    assert str(again) == str(error)
    assert repr(vars(again)) == repr(vars(error))
