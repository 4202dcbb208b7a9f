"""Tracing in a process of its own: crashes, limits and interrupts end in one line."""

from __future__ import annotations

import ctypes
import dataclasses
import faulthandler
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from memsim.errors import KernelError
from memsim.options import declared
from tracegen import own_process
from tracegen.own_process import Limits, in_own_process

SOURCE = """\
__kernel void quiet(__global float *out)
{
  __local int never;
  never = 0;
  while (atomic_or(&never, 0) != 1) ;
  out[0] = never;
}
"""
ARGS = """\
import numpy as np
import tracegen


def make():
    return tracegen.OpenCLWorkload(
        path="k.cl", arguments=[np.zeros(128, np.float32)], global_size=128, local_size=64
    )
"""
WORDS = "trace k.cl:quiet --args a.py:make -m a100 -o k.trace"
TRACE = [sys.executable, "-m", "memsim.commands.start", *WORDS.split()]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "k.cl").write_text(SOURCE)
    (tmp_path / "a.py").write_text(ARGS)
    return tmp_path


def test_a_loop_without_accesses_ends(folder: Path) -> None:
    command = [*TRACE, "--time-limit", "1"]
    ended = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert ended.returncode == 2
    assert "k.cl:quiet: its run took more than 1 s: its loops may not end" in ended.stderr
    assert not (folder / "k.trace").exists()


def test_an_interrupt_ends_the_run(folder: Path) -> None:
    process = subprocess.Popen(TRACE, cwd=folder, stderr=subprocess.PIPE, text=True)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    end = time.monotonic() + 120
    while not children.read_text() and time.monotonic() < end:
        time.sleep(0.1)
    (child,) = children.read_text().split()
    time.sleep(1)  # the kernel may run by now, or be compiled
    process.send_signal(signal.SIGINT)
    _, error = process.communicate(timeout=60)
    assert process.returncode == 130
    assert error.splitlines()[-1] == "memsim: interrupted"
    # While code is imported the command ends at once, and the system ends the child.
    while Path(f"/proc/{child}").exists() and time.monotonic() < end:
        time.sleep(0.1)
    assert not Path(f"/proc/{child}").exists()
    assert sorted(path.name for path in folder.iterdir() if path.suffix != "") == ["a.py", "k.cl"]


@pytest.fixture
def forks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets this process fork, although it uses OpenCL: the work below does not."""
    monkeypatch.delitem(sys.modules, "pyopencl", raising=False)


LIMITS = Limits(time_limit=30.0)


@pytest.mark.usefixtures("forks")
def test_what_the_process_returns(tmp_path: Path) -> None:
    path = tmp_path / "map"
    np.arange(1000).tofile(path)

    def work() -> Any:
        mapped = np.memmap(path, np.int64, mode="r")
        return [os.getpid(), mapped, np.empty((0, 3)), {"a": np.arange(7.0)[::2], "b": "text"}]

    process, mapped, empty, others = in_own_process(work, LIMITS, "k")
    assert process != os.getpid()
    assert type(mapped) is np.ndarray
    np.testing.assert_array_equal(mapped, np.arange(1000))
    assert empty.shape == (0, 3)
    np.testing.assert_array_equal(others["a"], [0, 2, 4, 6])
    others["a"][0] = 5  # what was no map can be written


@pytest.mark.usefixtures("forks")
def test_what_the_process_raises() -> None:
    class LocalError(Exception):
        pass

    def refuse() -> None:
        raise KernelError("the rule")

    def fail() -> None:
        raise ZeroDivisionError("a bug")

    def local() -> None:
        raise LocalError("cannot be pickled")

    def hungry() -> None:
        np.ones(1 << 33, np.uint8)

    def leave() -> None:
        os._exit(3)

    def crash() -> None:
        faulthandler.disable()
        ctypes.string_at(0)

    def die() -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    with pytest.raises(KernelError, match=r"^the rule$"):
        in_own_process(refuse, LIMITS, "k")
    with pytest.raises(ZeroDivisionError, match="a bug") as caught:
        in_own_process(fail, LIMITS, "k")
    assert "in fail" in caught.value.__notes__[0]
    with pytest.raises(RuntimeError, match="LocalError: cannot be pickled"):
        in_own_process(local, LIMITS, "k")
    with pytest.raises(KernelError, match=r"needs more memory than 4 GiB \(--memory-limit\)"):
        in_own_process(hungry, LIMITS.replace(memory_limit=4.0), "k")
    with pytest.raises(KernelError, match="k: its run ended with exit code 3"):
        in_own_process(leave, LIMITS, "k")
    broken = r"^k: its run crashed \(SIGSEGV\): code of the function of --args, a library or the OpenCL driver is broken$"
    with pytest.raises(KernelError, match=broken):
        in_own_process(crash, LIMITS, "k")
    with pytest.raises(KernelError, match="k: its run was ended by SIGKILL: perhaps it needs more"):
        in_own_process(die, LIMITS, "k")
    with pytest.raises(KernelError, match=r"k: its run took more than 0\.1 s"):
        in_own_process(lambda: time.sleep(60), LIMITS.replace(time_limit=0.1), "k")


@pytest.mark.usefixtures("forks")
def test_an_error_meanwhile_ends_the_process() -> None:
    children: list[str] = []

    def fail() -> None:
        listed = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text().split()
        children.extend(listed)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        in_own_process(lambda: time.sleep(60), LIMITS, "k", fail)
    assert children
    assert not any(Path(f"/proc/{child}/fd").exists() for child in children[-1:])


def test_a_process_that_uses_opencl_does_not_fork(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyopencl", sys)
    assert in_own_process(os.getpid, LIMITS, "k") == os.getpid()


def test_the_readme_has_the_limits() -> None:
    readme = Path(own_process.__file__).with_name("README.md").read_text(encoding="utf-8")
    for field in dataclasses.fields(Limits):
        assert f"| `--{field.name.replace('_', '-')}` |" in readme
        assert declared(field).help in readme
