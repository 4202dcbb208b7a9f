"""Runs a compiler: no shell, a bounded time, and nothing left behind."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from memsim.errors import KernelError

LONGEST_SECONDS = 120.0


@dataclass(frozen=True)
class Finished:
    """A process that came to its end."""

    status: int
    output: str
    errors: str


def run(
    command: Sequence[str], folder: Path | None = None, seconds: float = LONGEST_SECONDS
) -> Finished:
    """Runs a command in a folder, which also holds its temporary files.

    Raises KernelError if it cannot be started, or does not finish in time.
    """
    name = Path(command[0]).name
    environment = {**os.environ, "LC_ALL": "C"}
    if folder is not None:
        environment["TMPDIR"] = str(folder)
    try:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,  # so that what it starts can be ended with it
        )
    except OSError as error:
        raise KernelError(f"{command[0]} cannot be run: {error.strerror}") from None
    try:
        output, errors = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        raise KernelError(f"{name} did not finish in {seconds:g} seconds") from None
    finally:
        _end(process)
    return Finished(process.returncode, _text(output), _text(errors))


def _end(process: subprocess.Popen[bytes]) -> None:
    """Ends a process that is still running, after a time-out or an interrupt."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def _text(data: bytes) -> str:
    return data.decode("utf-8", errors="replace")
