"""What a shell completes: machines, kernels in files, and accesses in traces and in the text of kernels.

Imports nothing heavy: the group's help loads it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from pathlib import Path

import click
from click.shell_completion import BashComplete, CompletionItem, add_completion_class

MOST_BYTES = 1 << 20
"""Largest file that is searched for kernels; completion must not wait for a larger one."""
_IN_C = re.compile(r"(?:__kernel|\bkernel|__global__)\b[^;{]*?\b(\w+)\s*\(")
_ATTRIBUTE = re.compile(
    r"__(?:attribute|launch_bounds)__\s*\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)"
)
_IN_FORTRAN = re.compile(r"^\s*subroutine\s+(\w+)", re.IGNORECASE | re.MULTILINE)
_SUBSCRIPTED = re.compile(r"\b([A-Za-z_]\w*)\[")
_UNREADABLE = (OSError, ValueError, SyntaxError, RecursionError, MemoryError)
_KERNEL_FILES = (".py", ".cl", ".cu", ".hip", ".floopy")


class ColonComplete(BashComplete):
    """bash, for which `file.py:name` is one word only where the colon breaks none."""

    source_template = "COMP_WORDBREAKS=${COMP_WORDBREAKS//:}\n" + BashComplete.source_template


add_completion_class(ColonComplete)


class Completed(click.ParamType):  # type: ignore[type-arg]
    """A text; complete : (context, how it begins) -> what it may be"""

    def __init__(
        self, name: str, complete: Callable[[click.Context, str], list[CompletionItem]]
    ) -> None:
        self.name, self._complete = name, complete

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        return self._complete(ctx, incomplete)


def _machine(ctx: click.Context, incomplete: str) -> list[CompletionItem]:
    """The name of a shipped machine, or a path of a .toml file."""
    return machines(incomplete) or [CompletionItem(incomplete, type="file")]


def _kernel(ctx: click.Context, incomplete: str) -> list[CompletionItem]:
    """FILE:NAME, where NAME is completed with what the file defines."""
    file, colon, begin = incomplete.rpartition(":")
    if not colon:
        return _files(incomplete)
    return [CompletionItem(f"{file}:{n}") for n in kernels_in(Path(file)) if n.startswith(begin)]


def _access(ctx: click.Context, incomplete: str) -> list[CompletionItem]:
    """The name of an access or an array: from the trace of the command line, or from the text of its kernel."""
    # While the option has no value yet, click leaves all arguments unparsed.
    words = [*ctx.args, *map(str, filter(None, map(ctx.params.get, ("trace_file", "kernels"))))]
    names = [name for word in words for name in sites_in(Path(word)) or arrays_in(word)]
    return [CompletionItem(name) for name in names if name.startswith(incomplete)]


MACHINE, KERNEL = Completed("machine", _machine), Completed("kernel", _kernel)
SITE = Completed("access", _access)


def machines(incomplete: str) -> list[CompletionItem]:
    """The shipped machines whose names begin so."""
    shipped = Path(__file__).parents[1] / "machine" / "shipped"
    names = sorted(file.stem for file in shipped.glob("*.toml"))
    return [CompletionItem(name) for name in names if name.startswith(incomplete)]


def sites_in(file: Path) -> list[str]:
    """The names of the accesses in a trace file of memsim; nothing for another file."""
    from memsim.errors import MemsimError
    from memsim.trace.file import read_launches

    if not file.is_file():
        return []
    try:
        launches = read_launches(file, verify=False).launches
    except MemsimError:
        return []
    return list(dict.fromkeys(name for launch in launches for name in launch.site_names))


def arrays_in(kernel: str) -> list[str]:
    """The names that stand before a square bracket in the file of FILE:NAME, in its order; of Python in its texts,
    where Loopy's instructions are."""
    file = Path(kernel.rpartition(":")[0])
    if file.suffix not in _KERNEL_FILES:
        return []
    try:
        text = _begin(file)
        if file.suffix == ".py":
            constants = [n.value for n in ast.walk(ast.parse(text)) if isinstance(n, ast.Constant)]
            text = "\n".join(one for one in constants if isinstance(one, str))
    except _UNREADABLE:
        return []
    return list(dict.fromkeys(_SUBSCRIPTED.findall(text)))


def kernels_in(file: Path) -> list[str]:
    """The names in a file that may be kernels, in its order; nothing of the file is executed."""
    try:
        text = _begin(file)
        if file.suffix == ".py":
            return _in_python(text)
    except _UNREADABLE:
        return []
    if file.suffix == ".floopy":
        return list(dict.fromkeys(_IN_FORTRAN.findall(text)))
    return list(dict.fromkeys(_IN_C.findall(_ATTRIBUTE.sub(" ", text))))


def _begin(file: Path) -> str:
    with open(file, encoding="utf-8", errors="replace") as opened:
        return opened.read(MOST_BYTES)


def _in_python(text: str) -> list[str]:
    """Functions and variables of a module, without private ones."""
    names: dict[str, None] = {}
    for node in ast.parse(text).body:
        if isinstance(node, ast.FunctionDef):
            names[node.name] = None
        elif isinstance(node, ast.Assign):
            names |= {t.id: None for t in node.targets if isinstance(t, ast.Name)}
    return [name for name in names if not name.startswith("_")]


def _files(incomplete: str) -> list[CompletionItem]:
    """Folders, and files that may hold kernels, with the colon that follows them."""
    begin = Path(incomplete)
    folder = begin if incomplete.endswith("/") else begin.parent
    stem = "" if incomplete.endswith("/") else begin.name
    found = []
    try:
        for entry in sorted(folder.iterdir()):
            if entry.name.startswith(stem) and (stem or not entry.name.startswith(".")):
                if entry.is_dir():
                    found.append(CompletionItem(f"{entry}/"))
                elif entry.suffix in _KERNEL_FILES:
                    found.append(CompletionItem(f"{entry}:"))
    except OSError:
        return []
    return found
