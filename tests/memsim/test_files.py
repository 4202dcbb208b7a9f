"""Files are written whole, under names that nobody can guess, and nothing of a killed run stays."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from memsim.errors import ResultError
from memsim.files import (
    temporary_folder,
    whole_folder,
    write_bytes,
    write_picture,
    write_text,
    write_whole,
)

OLD = 1_000_000_000


def make_old(path: Path) -> None:
    os.utime(path, (OLD, OLD))


def test_an_error_leaves_everything_as_it_was(tmp_path: Path) -> None:
    target = tmp_path / "out.json"
    target.write_text("before")

    def fail(path: Path) -> None:
        path.write_text("half")
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        write_whole(target, fail)
    assert target.read_text() == "before"
    assert list(tmp_path.iterdir()) == [target]


def test_a_folder_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    target = tmp_path / "out"
    target.mkdir()
    with whole_folder(target) as folder:
        (folder / "a").write_text("new")
        assert not list(target.iterdir())
    assert (target / "a").read_text() == "new"
    with pytest.raises(ResultError, match="must be a new or an empty folder"), whole_folder(target):
        pytest.fail("a folder with files is not replaced")
    with (
        pytest.raises(ResultError, match="cannot be written: No such"),
        whole_folder(tmp_path / "no" / "out"),
    ):
        pytest.fail("there is no such place")

    def fail() -> None:
        with whole_folder(tmp_path / "other") as folder:
            (folder / "a").write_text("half")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_a_picture_that_cannot_be_drawn_leaves_the_old_one(tmp_path: Path) -> None:
    class Broken:
        def savefig(self, path: Path, dpi: int) -> None:
            path.write_bytes(b"half" * dpi)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    target = tmp_path / "p.png"
    target.write_text("before")
    with pytest.raises(ResultError, match=r"cannot write .*p\.png: No space left on device"):
        write_picture(target, Broken(), 90)
    assert target.read_text() == "before"
    assert list(tmp_path.iterdir()) == [target]


def test_a_planted_link_is_never_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    victim = tmp_path / "victim"
    victim.write_text("mine")
    monkeypatch.setattr("secrets.token_hex", lambda n: "0" * 2 * n)
    (tmp_path / f".out-{'0' * 16}.txt").symlink_to(victim)
    with pytest.raises(ResultError, match="File exists"):
        write_text(tmp_path / "out.txt", "theirs")
    assert victim.read_text() == "mine"


KILLED = """
import sys
from pathlib import Path
from memsim.files import temporary_folder, whole_file
with temporary_folder(Path(sys.argv[1])) as folder, whole_file(Path(sys.argv[1]) / "out.txt") as file:
    (folder / "0").mkdir()
    file.write_text("half")
    print("ready", flush=True)
    sys.stdin.read()
"""


def test_what_a_killed_run_left_is_removed_by_the_next(tmp_path: Path) -> None:
    child = subprocess.Popen(
        [sys.executable, "-c", KILLED, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert child.stdin is not None
    assert child.stdout.readline() == b"ready\n"
    left = sorted(tmp_path.iterdir())
    assert len(left) == 2
    for path in left:
        make_old(path if path.is_file() else path / ".memsim-lock")
    # As long as the process lives, nobody takes its files away.
    write_text(tmp_path / "out.txt", "whole")
    with temporary_folder(tmp_path):
        pass
    assert sorted(tmp_path.iterdir()) == sorted([*left, tmp_path / "out.txt"])
    child.send_signal(signal.SIGKILL)
    child.wait()
    child.stdin.close()
    child.stdout.close()
    write_text(tmp_path / "out.txt", "again")
    with temporary_folder(tmp_path):
        pass
    assert list(tmp_path.iterdir()) == [tmp_path / "out.txt"]
    assert (tmp_path / "out.txt").read_text() == "again"


def test_nothing_but_ours_is_removed(tmp_path: Path) -> None:
    mine = tmp_path / "memsim-results"
    mine.mkdir()
    (mine / "k.nc").write_text("mine")
    other = tmp_path / "memsim-other"
    other.mkdir()
    (other / ".memsim-lock").write_text("another computer")
    make_old(other / ".memsim-lock")
    (tmp_path / "memsim-link").symlink_to(mine)
    hidden = tmp_path / ".out-notes.txt"
    hidden.write_text("mine")
    with temporary_folder(tmp_path) as folder:
        assert folder.is_dir()
    write_text(tmp_path / "out.txt", "x")
    assert (mine / "k.nc").read_text() == "mine"
    assert other.is_dir()
    assert hidden.read_text() == "mine"


def test_a_full_disk_is_one_line(tmp_path: Path) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("there is no /dev/full")
    with pytest.raises(ResultError, match=r"cannot write /dev/full: No space left on device"):
        write_bytes("/dev/full", b"x" * 100_000)


@pytest.mark.parametrize("name", ["x" * 300, "a\0b", "\ud800/b"])
def test_names_that_no_file_can_have(tmp_path: Path, name: str) -> None:
    with pytest.raises(ResultError, match="cannot write") as caught:
        write_text(f"{tmp_path}/{name}", "x")
    assert "\0" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_a_long_name_that_is_allowed(tmp_path: Path) -> None:
    write_text(tmp_path / ("x" * 251 + ".nc"), "x")
    assert len(list(tmp_path.iterdir())) == 1


def test_many_writers_of_one_file(tmp_path: Path) -> None:
    program = (
        "import sys; from memsim.files import write_text\n"
        "for k in range(100): write_text(sys.argv[1], sys.argv[2] * 1000)"
    )
    path = tmp_path / "out.txt"
    children = [
        subprocess.Popen([sys.executable, "-c", program, str(path), letter]) for letter in "abcd"
    ]
    deadline = time.monotonic() + 60
    while any(child.poll() is None for child in children):
        assert time.monotonic() < deadline
        if path.exists():
            assert len(set(path.read_text())) == 1
    assert all(child.returncode == 0 for child in children)
    assert list(tmp_path.iterdir()) == [path]
