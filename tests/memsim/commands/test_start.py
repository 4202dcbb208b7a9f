"""Ctrl-C ends the program in one line, from its first import on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

NOW = "__import__('os').kill(__import__('os').getpid(), 2)"
CALLBACK = "cli.memsim.callback = "
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
        files = {"late.py": f"{NOW}\nprint('not ended')"}
        ended = run(files, "lambda: __import__('late')", tmp_path)
    finally:
        signal.signal(signal.SIGINT, old)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "not ended\n", "")


def test_no_file_takes_the_number_of_a_closed_stream(tmp_path: Path) -> None:
    """What a library prints would otherwise be in that file."""
    text = "import os\nnumber = os.open('out', os.O_CREAT | os.O_WRONLY)\nos.write(1, b'printed')\n"
    (tmp_path / "late.py").write_text(text)
    program = f"from memsim.commands import cli, start; {CALLBACK}lambda: __import__('late')"
    done = subprocess.run(
        ["sh", "-c", '"$@" >&-', "sh", sys.executable, "-c", f"{program}; start.main()"],
        cwd=tmp_path,
        check=False,
    )
    assert done.returncode == 0
    assert (tmp_path / "out").read_bytes() == b""


def test_a_reader_that_leaves_before_a_table(tmp_path: Path) -> None:
    """Rich would end the process with exit code 1."""
    words = [sys.executable, "-m", "memsim.commands.start", "machines"]
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(words, stdout=writer, stderr=subprocess.PIPE, check=False)
    os.close(writer)
    assert (done.returncode, done.stderr) == (141, b"")


def run(files: dict[str, str], command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """`memsim` without a command, beside these modules, and with `command` in place of its help."""
    for name, text in files.items():
        (folder / name).write_text(text)
    replaced = f"from memsim.commands import cli; {CALLBACK}{command};" if command else ""
    main = "from memsim.commands.start import main; sys.exit(main())"
    return subprocess.run(
        [sys.executable, "-c", f"import sys; sys.argv = ['memsim']; {replaced} {main}"],
        env=os.environ | {"PYTHONPATH": str(folder)},
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
