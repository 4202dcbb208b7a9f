"""Where a Loopy kernel is written: the file, and the line of every instruction.

While a kernel is loaded, every call that makes a Loopy kernel is recorded with the place of the call and
the instructions as they were written. Instructions keep their ids through transformations, so that their
lines are known wherever the kernel was made: in the named file or one that it imports, and also where a
file has several kernels with the same text.
"""

from __future__ import annotations

import contextlib
import linecache
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType
from typing import Any

MOST_RECORDED = 1000
"""Kernels that are kept while one file is loaded."""
MOST_CALLERS = 8
"""Calls that are searched for the text of a kernel, from Loopy outwards."""


_TRACEGEN = str(Path(__file__).parents[1])


@dataclass(frozen=True)
class Origin:
    """The call that made a kernel.

    kernel : its name;  file : where the call is;  first, last : 1-based lines that hold its text
    call : the line of the call, in the same file; None where a workload, not the call, names the place
    lines : id of an instruction -> the line on which it begins, for those that are found
    instructions : ids of all its instructions
    """

    kernel: str
    file: str
    first: int
    last: int
    lines: Mapping[str, int]
    instructions: frozenset[str]
    call: int | None = None

    def line(self, instruction: str, array: str, text: str) -> int | None:
        """The line of an access.

        That of its instruction, or of the one that its instruction was split from; else, as for a prefetch,
        the only line with the text, or the only one that names the array.

        instruction : its id;  text : the access as source code
        """
        source = self.source
        known = [name for name in self.lines if _stems_from(instruction, name)]
        if known:
            start = self.lines[max(known, key=len)]
            return _within(source, self._statement(start), array) or start
        for pattern in (_as_written(text), re.compile(rf"(?<!\w){re.escape(array)}\s*\[")):
            found = [n for n in range(self.first, self.last + 1) if pattern.search(source[n - 1])]
            if len(found) == 1:
                return found[0]
        return None

    @property
    def source(self) -> list[str]:
        return linecache.getlines(self.file)

    def _statement(self, start: int) -> range:
        """The lines from a statement's first one to before the next statement."""
        after = [line for line in self.lines.values() if line > start]
        return range(start, min([*after, self.last + 1]))


@contextlib.contextmanager
def recording_origins() -> Iterator[list[Origin]]:
    """Records every Loopy kernel that is made meanwhile, in order."""
    import loopy
    from loopy.kernel import creation

    plain: Callable[..., Any] = creation.make_function
    origins: list[Origin] = []

    def recording(*arguments: Any, **options: Any) -> Any:
        unit = plain(*arguments, **options)
        frames = _callers()
        if frames and len(origins) < MOST_RECORDED:
            origins.extend(_with_call(_origin(kernel, frames), frames) for kernel in _kernels(unit))
        return unit

    creation.make_function = loopy.make_function = recording
    try:
        yield origins
    finally:
        creation.make_function = loopy.make_function = plain


def origin_of(unit: Any, origins: Sequence[Origin]) -> Origin | None:
    """The origin of a kernel: of those with its name, the one with most of its instructions, the latest
    where several have as many; None where no call was recorded."""
    best, most = None, 0
    for kernel in _kernels(unit):
        ids = {instruction.id for instruction in kernel.instructions}
        for origin in origins:
            shared = len(ids & origin.instructions)
            if origin.kernel == kernel.name and shared >= max(most, 1):
                best, most = origin, shared
    return best


def origin_of_caller(unit: Any) -> Origin | None:
    """The origin of a kernel for which a workload is made in the function or the file that contains its text;
    None elsewhere."""
    loopy = sys.modules.get("loopy")
    if loopy is None or not isinstance(unit, loopy.TranslationUnit):
        return None
    frame = next(iter(_callers()), None)
    if frame is None or frame.f_code.co_filename.startswith(_TRACEGEN):
        return None
    if not any(re.search(r"\bmake_(kernel|function)\b", line) for line in _lines_of(frame)):
        return None
    for kernel in _kernels(unit):
        origin = _origin(kernel, [frame])
        results = _writers_of_results(kernel)
        if 2 * len(results & set(origin.lines)) > len(results):  # fewer may be of another kernel
            return origin
    return None


def _writers_of_results(kernel: Any) -> set[str]:
    """Ids of the instructions that write arguments: those that fill temporaries may be made by Loopy."""
    names = set(kernel.arg_dict)
    return {str(one.id) for one in kernel.instructions if names & set(one.assignee_var_names())}


def _lines_of(frame: FrameType) -> list[str]:
    return linecache.getlines(frame.f_code.co_filename)


def _kernels(unit: Any) -> list[Any]:
    from loopy.kernel.function_interface import CallableKernel

    callables = unit.callables_table.values()
    return [one.subkernel for one in callables if isinstance(one, CallableKernel)]


def _callers() -> list[FrameType]:
    """The frames that called Loopy, the nearest first, without those of Loopy itself."""
    import loopy

    ours = (
        str(Path(loopy.__file__).parent),
        __file__,
        str(Path(__file__).parent / "workload.py"),
        "<string>",
    )
    frame: FrameType | None = sys._getframe(1)
    frames: list[FrameType] = []
    while frame is not None and len(frames) < MOST_CALLERS:
        file = frame.f_code.co_filename
        if not file.startswith(ours):
            if frames and file.startswith(_TRACEGEN):
                break  # what loads the user's file
            frames.append(frame)
        frame = frame.f_back
    return frames


def _origin(kernel: Any, frames: Sequence[FrameType]) -> Origin:
    """The text is in the call, or in the function around it, or elsewhere in its file; or in one of their
    callers', where a function makes kernels of given texts."""
    ids = frozenset(str(instruction.id) for instruction in kernel.instructions)
    for frame in frames:
        code, file = frame.f_code, frame.f_code.co_filename
        source = linecache.getlines(file)
        own = [line for _, _, line in code.co_lines() if line]
        around = (min(own, default=1), max(own, default=1))
        for start, end in (_call(frame), around, (1, len(source))):
            first, last = start or 1, min(end or 0, len(source))
            lines = _instruction_lines(kernel, source, first, last)
            if lines:
                return Origin(kernel.name, file, first, last, lines, ids)
    file = frames[0].f_code.co_filename
    return Origin(kernel.name, file, 1, len(linecache.getlines(file)), {}, ids)


def _call(frame: FrameType) -> tuple[int | None, int | None]:
    """The first and the last line of what a frame is calling."""
    return list(frame.f_code.co_positions())[frame.f_lasti // 2][:2]


def _with_call(origin: Origin, frames: Sequence[FrameType]) -> Origin:
    """The origin with the line of the call in its file."""
    frame = next(one for one in frames if one.f_code.co_filename == origin.file)
    return replace(origin, call=_call(frame)[0])


def _instruction_lines(kernel: Any, source: Sequence[str], first: int, last: int) -> dict[str, int]:
    """Instructions stand in their order: each is looked for after the one before it."""
    lines: dict[str, int] = {}
    at = first
    for instruction in kernel.instructions:
        names: Sequence[str] = getattr(instruction, "assignee_var_names", tuple)()
        pattern = _assignment(names) if names else None
        if pattern is None:
            continue
        found = next((n for n in range(at, last + 1) if pattern.search(source[n - 1])), None)
        if found is not None:
            lines[str(instruction.id)] = found
            at = found
            if pattern.search(source[found - 1].split("=", 1)[-1]) is None:
                at = found + 1
    return lines


def _assignment(names: Sequence[str]) -> re.Pattern[str]:
    """`name = `, `name[i, j] = ` or `name, other = `, also with `+=` and the like."""
    first = re.escape(names[0])
    return re.compile(rf"(?<![\w.]){first}\s*(?:\[[^=]*\])?\s*(?:,[^=\"'()]*)?[-+*/]?=(?!=)")


def _stems_from(instruction: str, written: str) -> bool:
    """Whether an id is that of a written instruction, or made from it: `insn_j_update` from `insn`."""
    return instruction == written or instruction.startswith(f"{written}_")


def _as_written(text: str) -> re.Pattern[str]:
    """The text, whatever its blanks."""
    parts = re.findall(r"\w+|[^\w\s]", text)
    return re.compile(r"(?<!\w)" + r"\s*".join(re.escape(part) for part in parts))


def _within(source: Sequence[str], lines: range, array: str) -> int | None:
    """The only one of a statement's lines that names the array."""
    named = re.compile(rf"(?<!\w){re.escape(array)}\s*\[")
    found = [n for n in lines if n <= len(source) and named.search(source[n - 1])]
    return found[0] if len(found) == 1 else None
