"""What decided a row of the scoreboard, and how often it has changed since: the model's sources, the machine file, the compilers."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import io
import json
import os
import subprocess
import tokenize
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import tracegen
from tracegen.tools import CLANG_VARIABLE, CompilerMissing, amd_tools, nvidia_tools, nvrtc_tool

ROOT = Path(tracegen.__file__).parent.parent
_REPLAY = ("memsim/hierarchy", "memsim/montecarlo")
MODELS: Mapping[str, tuple[str, ...]] = {
    "file": (),
    "replay": _REPLAY,
    "time": (*_REPLAY, "calib/prediction"),
}
"""By what a row's numbers are computed -> folders of the sources that decide them: the hot loops of a replay, and the time model.
The interpreter of machine code is none of them: what a kernel accesses is right or wrong, and tests say which."""
SHOWN = ("report.py", "notebook.py", "what_if.py", "timeline.py", "options.py")
"""Modules of these folders that show numbers or are no part of a default run."""
DERIVED = ("time_error_percent", "model_error_points")
"""Keys of machine files that come from comparisons, and decide no number of them."""
MEASURED_CLANG = {"mi250x-convolution": "clang-14", "mi250x-dedispersion": "clang-14"}
"""Of figures whose GPU ran another clang's code than the newest one's: that clang."""
PARTS = ("model", "machine_file", "compiler")


def fingerprint(
    by: str, machines: str, *, compiled: bool, clang: str = "", root: Path = ROOT
) -> dict[str, str]:
    """What decides a row today, by the names of PARTS.

    by : of MODELS;  machines : names with blanks between;  compiled : whether kernels were;  clang : of MEASURED_CLANG
    """
    sources = [
        path
        for folder in MODELS[by]
        for path in sorted((root / folder).glob("*.py"))
        if path.name not in SHOWN
    ]
    return {
        "model": _hash(_code(str(path), path.read_text("utf-8")) for path in sources)
        if sources
        else "none",
        "machine_file": _hash(
            _code(str(path), path.read_text("utf-8"))
            for path in (root / one for one in _machine_files(machines))
        ),
        "compiler": compilers(machines, clang) if compiled else "none",
    }


def changed(row: Mapping[str, str]) -> list[str]:
    """The parts of a row's fingerprint that differ today; compilers that are not here, or were not recorded, do not count."""
    today = fingerprint(
        row["by"],
        row["machine"],
        compiled=row["compiler"] not in ("none", ""),
        clang=MEASURED_CLANG.get(row["figure"], ""),
    )
    return [
        part
        for part in PARTS
        if row[part] != today[part] and "unknown" not in (row[part], today[part])
    ]


def changes(row: Mapping[str, str]) -> int:
    """How many commits since the row was recorded changed code or numbers that decide it.

    Raises OSError or CalledProcessError where there is no history.
    """
    paths = [*MODELS[row["by"]], *_machine_files(row["machine"])]
    found = _git(
        "log",
        "--no-renames",
        "--name-only",
        "--format=commit %H",
        f"--since={row['date']}Z",
        "--",
        *paths,
    )
    commits = [one.split() for one in found.split("commit ")[1:]]
    return sum(
        any(_changed_in(commit, path) for path in of if not path.endswith(SHOWN))
        for commit, *of in commits
    )


def has_history() -> bool:
    """Whether this is a whole clone of the repository."""
    try:
        return _git("rev-parse", "--is-shallow-repository", "--show-prefix").split() == ["false"]
    except (OSError, subprocess.CalledProcessError):
        return False


@functools.cache
def _changed_in(commit: str, path: str) -> bool:
    texts = []
    for at in (commit, f"{commit}^"):
        try:
            texts.append(_code(path, _git("show", f"{at}:{path}")))
        except subprocess.CalledProcessError:  # there was no such file
            texts.append("")
    return texts[0] != texts[1]


def _git(*arguments: str) -> str:
    command = ["git", "-C", str(ROOT), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


@contextlib.contextmanager
def using(clang: str) -> Iterator[None]:
    """Kernels are compiled by this clang, or as ever where it is empty."""
    before = os.environ.get(CLANG_VARIABLE)
    if clang:
        os.environ[CLANG_VARIABLE] = clang
    try:
        yield
    finally:
        if clang:
            del os.environ[CLANG_VARIABLE]
            os.environ.update({} if before is None else {CLANG_VARIABLE: before})


@functools.cache
def compilers(machines: str, clang: str = "") -> str:
    """The versions of the programs that compile kernels for these machines; `unknown` where they are missing."""
    try:
        if machines.startswith(("mi", "rx")):
            with using(clang):
                return ", ".join(f"{tool} {no}" for tool, no in amd_tools().versions.items())
        versions = {**nvidia_tools().versions, "NVRTC": str(nvrtc_tool())}
    except CompilerMissing:
        return "unknown"
    return ", ".join(f"{tool} {version}" for tool, version in versions.items())


def _machine_files(machines: str) -> Iterator[str]:
    for name in machines.split():
        yield f"memsim/machine/shipped/{name.split('@')[0]}.toml"


def _hash(texts: Iterator[str]) -> str:
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:8]


@functools.cache
def _code(path: str, text: str) -> str:
    """What of a file decides numbers: code without comments and docstrings, values without sources."""
    if path.endswith(".toml"):
        return json.dumps(_values(tomllib.loads(text)))
    words, last = [], tokenize.NEWLINE
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type in (tokenize.COMMENT, tokenize.NL):
            continue
        begins = last in (tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT)
        if not (token.type == tokenize.STRING and begins):
            words.append(token.string)
        last = token.type
    return " ".join(words)


def _values(table: Any) -> Any:
    if isinstance(table, dict):
        return {k: _values(v) for k, v in table.items() if k not in ("source", "title", *DERIVED)}
    return [_values(one) for one in table] if isinstance(table, list) else table
