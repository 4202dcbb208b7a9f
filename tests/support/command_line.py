"""What the fixture run_memsim is, and what it returns."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from memsim.commands.cli import main
from memsim.progress import COMPILING


@dataclass(frozen=True)
class Ended:
    """The output of a command line."""

    out: str
    err: str


@dataclass(frozen=True)
class RunMemsim:
    """Runs `memsim ARGUMENTS...` in this process, and the kernels that it traces too.

    folder : of the test's files
    """

    captured: pytest.CaptureFixture[str]
    folder: Path

    def __call__(self, *arguments: str, code: int = 0) -> Ended:
        """code : with which it must end"""
        self.captured.readouterr()
        found = main(arguments)
        captured = self.captured.readouterr()
        # The first command of a new installation says that it compiles, whatever else it says.
        said = "".join(line for line in captured.err.splitlines(True) if COMPILING not in line)
        assert found == code, said
        return Ended(captured.out, said)

    def refused(self, *arguments: str) -> str:
        """The line that says what the user can mend; but for warnings nothing else is printed, and no file is written."""
        before = self._files()
        ended = self(*arguments, code=2)
        assert ended.out == ""
        (line,) = (one for one in ended.err.splitlines() if "memsim: warning: " not in one)
        assert line.startswith("memsim: ")
        assert self._files() == before
        return line

    def _files(self) -> dict[Path, bytes | None]:
        found = (path for path in self.folder.rglob("*") if "__pycache__" not in path.parts)
        return {path: path.read_bytes() if path.is_file() else None for path in found}
