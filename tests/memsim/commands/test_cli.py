"""The command line's promises: help is instant and complete, errors are one line with exit code 2."""

from __future__ import annotations

import importlib.metadata
import os
import re
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import pytest

from memsim.commands import cli
from memsim.errors import KernelError, MemsimError
from tests.support.command_line import RunMemsim

COMMANDS = ("compare", "doctor", "machines", "profile", "replay", "trace")
HEAVY = ("loopy", "pyopencl", "islpy", "numba", "numpy", "scipy", "xarray", "matplotlib", "rich")


def test_help_lists_every_command_with_its_line(run_memsim: RunMemsim) -> None:
    ended = run_memsim("--help")
    for name in COMMANDS:
        line = next(line for line in ended.out.splitlines() if line.startswith(f"  {name} "))
        assert len(line.split()) > 3
        assert "cannot be loaded" not in line


def test_without_a_command_there_is_help(run_memsim: RunMemsim) -> None:
    ended = run_memsim()
    assert ended.out == run_memsim("--help").out


@pytest.mark.parametrize("command", COMMANDS)
def test_every_help_shows_an_example(run_memsim: RunMemsim, command: str) -> None:
    ended = run_memsim(command, "--help")
    assert f"  memsim {command}" in ended.out
    assert "Example" in ended.out


def test_help_imports_nothing_heavy() -> None:
    program = (
        "import sys; from memsim.commands.cli import main; main(['--help']);"
        f"print([name for name in {HEAVY!r} if name in sys.modules], file=sys.stderr)"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert ended.stderr.strip() == "[]"


def test_version_is_the_distributions(run_memsim: RunMemsim) -> None:
    ended = run_memsim("--version")
    assert ended.out == f"memsim {importlib.metadata.version('memsim')}\n"


PROFILE = ("profile", "k.py:k", "-m", "v100")
MISTAKES: list[tuple[tuple[str, ...], str]] = [
    (("--nonsense",), "--nonsense"),
    (("trace", "--nonsense"), "see 'memsim trace --help'"),
    (("nonsense",), "nonsense"),
    (("profile",), "KERNEL"),
    (("profile", "k.py:k"), "--machine"),
    ((*PROFILE, "--trials", "0"), "--trials"),
    ((*PROFILE, "--trials", "many"), "--trials"),
    ((*PROFILE, "--groups", "0"), "--groups"),
    ((*PROFILE, "--jobs", "0"), "--jobs"),
    *(((*PROFILE, "--ci", value), "--ci") for value in ("nan", "0", "1")),
    ((*PROFILE, "--sampler", "best"), "--sampler"),
    ((*PROFILE, "--set", "n"), "NAME=VALUE"),
    ((*PROFILE, "--set", "=4"), "NAME=VALUE"),
    ((*PROFILE, "--set", "n=1,1"), "'n' is set to '1' twice"),
    ((*PROFILE, "--backend", "dask"), "--scheduler"),
    ((*PROFILE, "--scheduler", "tcp://h:1"), "--backend dask"),
    ((*PROFILE, "--html", "out", "--json", "out"), "that is what --html writes"),
    ((*PROFILE, "--html", "-"), "--html must be a file"),
    ((*PROFILE, "--carry-l2", "--snapshots", "2"), "--snapshots"),
    (("trace", "k.py:k", "-m", "v100"), "--out"),
    (("trace", "k.py:k", "-m", "v100", "-m", "a100", "-o", "k.trace"), "trace takes one machine, got v100, a100"),
    (("advise", "k.py:k", "-m", "v100", "-m", "a100"), "advise takes one machine"),
    (("trace", "k.py:k", "-m", "no-such-machine", "-o", "k.trace"), "no-such-machine"),
    (("profile", "no-such-file.py:k", "-m", "v100"), "no-such-file.py"),
]  # fmt: skip
"""Words of a command line and what is said of it. No kernel exists: these checks come first."""


@pytest.mark.parametrize(("arguments", "culprit"), MISTAKES)
def test_a_users_mistake_is_one_line_and_exit_code_2(
    run_memsim: RunMemsim,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    arguments: tuple[str, ...],
    culprit: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert culprit in run_memsim.refused(*arguments)


@pytest.mark.parametrize(
    ("place", "rule"),
    [("missing/out", "there is no folder"), (".", "must be a file"), ("kept", "read-only")],
)
def test_outputs_are_checked_before_the_work(
    run_memsim: RunMemsim, tmp_path: Path, place: str, rule: str
) -> None:
    kept = tmp_path / "kept"
    kept.write_text("mine")
    kept.chmod(0o444)
    if place == "kept" and os.access(kept, os.W_OK):
        pytest.skip("this user may write read-only files")
    for option in ("--html", "--json", "--save", "--trace-out"):
        error = run_memsim.refused(*PROFILE, option, str(tmp_path / place))
        assert option in error
        assert rule in error


class FakeEntry:
    """An entry point of somebody else's distribution."""

    dist = None
    module = "elsewhere"

    def __init__(self, name: str, load: Callable[[], Any]) -> None:
        self.name = name
        self.load = load


@pytest.fixture
def add_command(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, Callable[[], Any]], None]:
    def add(name: str, load: Callable[[], Any]) -> None:
        entries = {**cli._entry_points(cli.GROUP), name: FakeEntry(name, load)}
        monkeypatch.setattr(cli, "_entry_points", lambda _: entries)

    return add


def command_that(action: Callable[[], Any]) -> Callable[[], click.Command]:
    return lambda: click.Command("theirs", callback=action)


def raises(error: BaseException) -> Callable[[], Any]:
    def action() -> Any:
        raise error

    return action


@pytest.mark.parametrize(
    ("load", "why"),
    [
        (raises(ImportError("no module named 'gone'")), "ImportError: no module named 'gone'"),
        (raises(RuntimeError("two\nlines")), "RuntimeError: two lines"),
        (lambda: 42, "not a click command but a int"),
    ],
)
def test_a_broken_command_of_a_third_party_breaks_only_itself(
    run_memsim: RunMemsim, add_command: Callable[..., None], load: Callable[[], Any], why: str
) -> None:
    add_command("theirs", load)
    shown = run_memsim("--help")
    assert "theirs" in shown.out
    assert "doctor" in shown.out
    assert why in run_memsim.refused("theirs", "--with", "arguments")


def test_commands_of_third_parties_are_found(
    run_memsim: RunMemsim, add_command: Callable[..., None]
) -> None:
    add_command("theirs", command_that(lambda: click.echo("done")))
    assert run_memsim("theirs").out == "done\n"


def test_nobody_takes_over_a_name_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    ours = next(e for e in importlib.metadata.entry_points(group=cli.GROUP) if e.name == "doctor")
    theirs = importlib.metadata.EntryPoint("doctor", "elsewhere:doctor", cli.GROUP)
    entries = [theirs, ours, theirs]
    monkeypatch.setattr(cli.importlib.metadata, "entry_points", lambda group: entries)
    assert cli._entry_points.__wrapped__(cli.GROUP) == {"doctor": ours}


def test_a_build_log_follows_its_line(
    run_memsim: RunMemsim, add_command: Callable[..., None]
) -> None:
    error = KernelError("kernel k does not build\n<source>:3:1: error: expected ';'")
    error.add_note("log of PoCL")
    add_command("theirs", command_that(raises(error)))
    lines = "kernel k does not build\n<source>:3:1: error: expected ';'\nlog of PoCL\n"
    assert run_memsim("theirs", code=2).err == f"memsim: {lines}"


BUG = "memsim: a bug of memsim: "


@pytest.mark.parametrize(
    ("error", "code", "start"),
    [
        (MemsimError("n must be positive, got 0"), 2, "memsim: n must be positive, got 0\n"),
        (MemsimError("\x1b]0;mine\x07\u202e\ud800 is bad"), 2, r"memsim: \x1b]0;mine\x07\u202e\ud800 is bad"),
        (OSError(28, "No space left on device", "out"), 2, "memsim: out: No space left on device\n"),
        (OSError(36, "File name too long", "x" * 9000), 2, "memsim: xxxx"),
        (KeyboardInterrupt(), 130, "memsim: interrupted\n"),
        (ZeroDivisionError("ours"), 70, f"{BUG}ZeroDivisionError: ours;"),
        (ValueError("two\nlines \x1b[31m"), 70, rf"{BUG}ValueError: two lines \x1b"),
        (EOFError("Ran out of input"), 70, f"{BUG}EOFError: Ran out of input;"),
        (RecursionError(), 70, f"{BUG}RecursionError;"),
        (MemoryError("Unable to allocate 8 TiB"), 2, "memsim: out of memory: Unable to allocate"),
        (MemoryError(), 2, "memsim: out of memory\n"),
    ],
)  # fmt: skip
def test_an_error_is_one_line_and_an_exit_code(
    run_memsim: RunMemsim, add_command: Callable[..., None], error: BaseException, code: int, start: str,
) -> None:  # fmt: skip
    add_command("theirs", command_that(raises(error)))
    ended = run_memsim("theirs", code=code)
    assert ended.err.startswith(start)
    assert ended.err.count("\n") == 1
    assert len(ended.err) < 2200
    if code == 70:
        assert "MEMSIM_DEBUG=1" in ended.err


PYTHON = (sys.executable, "-c")
CALLBACK = (
    "import sys, time, click; from memsim.commands import cli; cli.memsim.callback = lambda: "
)
"""The beginning of a program in which an expression stands for the help of memsim."""
MAIN = "; sys.exit(cli.main([]))"


def test_a_terminal_without_unicode_loses_nothing(tmp_path: Path) -> None:
    """Tables have letters that ASCII lacks; files must be written nevertheless."""
    shown = "(print('\\u2013 \\ud800'), print('done', file=sys.stderr))"
    done = subprocess.run(
        [*PYTHON, CALLBACK + shown + MAIN],
        env=os.environ | {"PYTHONIOENCODING": "ascii"}, capture_output=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (0, b"\\u2013 \\ud800\n", b"done\n")


def test_the_debug_variable_shows_where_an_error_arose(
    run_memsim: RunMemsim, add_command: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(cli.DEBUG_VARIABLE, "1")
    add_command("theirs", command_that(raises(MemsimError("bad"))))
    with pytest.raises(MemsimError, match="bad"):
        run_memsim("theirs")


def test_a_warning_is_one_line(run_memsim: RunMemsim, add_command: Callable[..., None]) -> None:
    def warn() -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("default")
            warnings.warn("the snapshot\nis small", UserWarning, stacklevel=1)

    add_command("theirs", command_that(warn))
    assert run_memsim("theirs").err == "memsim: warning: the snapshot is small\n"


def test_a_reader_that_leaves_early_is_no_error() -> None:
    program = f"{CALLBACK}[click.echo('x' * 1000) for _ in range(1000)]{MAIN}"
    with subprocess.Popen(
        [*PYTHON, program], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as child:
        child.stdout.read(10)
        child.stdout.close()
        assert child.stderr.read() == b""
    assert child.returncode == cli.EXIT_BROKEN_PIPE


def test_every_run_has_the_same_hashes() -> None:
    """A negative control: without memsim's start they differ."""
    script = "from memsim.commands.cli import main; print(hash('memsim')); main()"
    plain = "print(hash('memsim'))"
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONHASHSEED"}

    def hashes(code: str, n: int) -> set[bytes]:
        words = [*PYTHON, code, "--version"]
        printed = [subprocess.check_output(words, env=environment) for _ in range(n)]
        return {one.splitlines()[-2:][0] for one in printed}

    assert len(hashes(script, 2)) == 1
    assert len(hashes(plain, 3)) == 3


@pytest.mark.parametrize(
    ("script", "code", "error"),
    [
        ('"$@" machines v100 >&- 2>&- <&-', 0, ""),
        ('"$@" machines v100 >/dev/full', 2, "memsim: standard output: No space left on device\n"),
        ('mkdir gone && cd gone && rmdir ../gone && "$@" replay ../k.trace -m v100', 2, "memsim: .*\n"),
        ('COLUMNS=0 "$@" machines v100 | grep -q n_cores', 0, ""),
    ],
    ids=["no standard streams", "a full output", "no current folder", "no width"],
)  # fmt: skip
@pytest.mark.skipif(os.name != "posix", reason="needs a shell")
def test_odd_surroundings(tmp_path: Path, script: str, code: int, error: str) -> None:
    done = subprocess.run(
        ["sh", "-c", script, "sh", sys.executable, "-m", "memsim.commands.start"],
        cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == code, done.stderr
    assert re.fullmatch(error, done.stderr)
