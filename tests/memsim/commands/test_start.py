"""Ctrl-C ends the program in one line, from its first import on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

NOW = "__import__('os').kill(__import__('os').getpid(), 2)"
IN_AN_IMPORT = f"""
class Descriptor:
    def __set_name__(self, owner, name):
        {NOW}
        print("lost")

class Owner:
    descriptor = Descriptor()
"""
"""Python makes a RuntimeError of what __set_name__ raises."""

IN_A_DESTRUCTOR = f"""
import time

class Destroyed:
    def __del__(self):
        {NOW}
        print("begun", flush=True)

def command():
    Destroyed()
    time.sleep(20)
    print("lost")
"""
"""Python prints what __del__ raises, and goes on."""


@pytest.mark.parametrize(
    ("files", "command"),
    [
        ({"click.py": f"{NOW}\nprint('lost')"}, ""),
        ({"late.py": IN_AN_IMPORT}, "lambda: __import__('late')"),
        ({"late.py": IN_A_DESTRUCTOR}, "__import__('late').command"),
        ({}, f"lambda: __import__('atexit').register(lambda: {NOW} or print('lost'))"),
    ],
    ids=["before the command", "in an import", "in a destructor", "at the end"],
)
def test_ctrl_c_is_never_lost(files: dict[str, str], command: str, tmp_path: Path) -> None:
    ended = run(files, command, tmp_path)
    assert (ended.returncode, ended.stderr) == (130, "memsim: interrupted\n")
    assert "lost" not in ended.stdout


def test_nohup_is_respected(tmp_path: Path) -> None:
    """A shell ignores Ctrl-C for programs in the background, and so do they."""
    old = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        ended = run(
            {"late.py": f"{NOW}\nprint('not ended')"}, "lambda: __import__('late')", tmp_path
        )
    finally:
        signal.signal(signal.SIGINT, old)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "not ended\n", "")


def run(files: dict[str, str], command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """`memsim` without a command, beside these modules, and with `command` in place of its help."""
    for name, text in files.items():
        (folder / name).write_text(text)
    replaced = (
        f"from memsim.commands import cli; cli.memsim.callback = {command};" if command else ""
    )
    begin = "import sys; sys.argv = ['memsim'];"
    return subprocess.run(
        [
            *(sys.executable, "-c"),
            f"{begin} {replaced} from memsim.commands.start import main; sys.exit(main())",
        ],
        env=os.environ | {"PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
