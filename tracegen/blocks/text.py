"""A kernel's text as basic blocks: what runs as one, under which loops and branches, and what follows it.

A block is a straight piece of code: it ends where the text branches. A loop has a block for its test,
which also runs when the loop ends. `?:`, `&&` and `||` are no branches here, as a GPU's compiler makes
selects of them; what a called function does belongs to the block that calls it.

Most blocks run as often as another: all pieces under the same branches do. So only decisions are counted
as events (branches taken, loops' back-edges), and a block's count is a sum of events.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Literal

from memsim.errors import KernelError
from tracegen.blocks.model import (
    EVERYONE,
    Block,
    BlockKind,
    Control,
    Cut,
    Insertion,
)
from tracegen.c_source.statements import Function, closing, kernel_functions
from tracegen.instrumented.marks import CALL, COMMENT, strip

_BLANK = re.compile(r"(?:\s|/\*.*?\*/|//[^\n]*|^[ \t]*#[^\n]*$)*", re.DOTALL | re.MULTILINE)
_WORD = re.compile(r"[A-Za-z_]\w*")
_JUMPS = ("return", "break", "continue")
_REFUSED = ("switch", "goto", "case", "default", "asm", "__asm")
LENGTH = 60
"""Characters of a block's text that are kept."""


def cut_text(text: str, only: str | None = None) -> list[Cut]:
    """The kernels of a program in textual order, or one of them; `text` may hold marks.

    Raises KernelError for statements that cannot be cut into blocks (switch, goto).
    """
    found: list[Cut] = []
    for function in kernel_functions(text):
        if only in (None, function.name):
            first_number = sum(len(cut.blocks) for cut in found)
            found.append(_Cutter(text, function, first_number).run())
    return found


def hit(event: int) -> str:
    return f"BC_HIT({event})"


class _Cutter:
    def __init__(self, text: str, function: Function, first_number: int) -> None:
        self.text, self.function, self.first_number = text, function, first_number
        self.blocks: list[Block] = []
        self.insertions: list[Insertion] = []
        self.n_events = 0
        self.block: Block | None = None
        self.open: list[Block] = []
        self.ends: list[Block] = []
        self.controls: tuple[Control, ...] = ()
        self.region: int = EVERYONE
        self.kind: BlockKind = "entry"
        self.jumps = False
        self.loops: list[tuple[list[Block], list[Block]]] = []
        self.unsettled = EVERYONE

    def run(self) -> Cut:
        self._sequence(self.function.body_start, self.function.body_end)
        if not self.blocks:
            self._current(self.function.body_start)
        for block in [*self._leaving(), *self.ends]:
            block.followers.append(-1)
        return Cut(self.function, tuple(self.blocks), self.n_events, tuple(self.insertions))

    # Blocks

    def _current(self, at: int) -> Block:
        """The block that is being filled; a new one where control has just come together or apart."""
        if self.block is None:
            self.block = self._new(self.kind, at, (self.region,))
            self.kind = "next"
        return self.block

    def _new(self, kind: BlockKind, at: int, events: tuple[int, ...]) -> Block:
        number = self.first_number + len(self.blocks)
        at = min(self._skip(at), self.function.body_end)
        plain_before = strip(self.text[:at])
        block = Block(
            number=number,
            launch=self.function.name,
            kind=kind,
            line=plain_before.count("\n") + 1,
            text=self._words(at),
            controls=self.controls,
            events=events,
            jumps=self.jumps,
        )
        for before in self.open:
            before.followers.append(number)
        self.open = []
        self.blocks.append(block)
        return block

    def _leaving(self) -> list[Block]:
        """The blocks that what comes next follows."""
        return [self.block] if self.block is not None else self.open

    def _part(self, control: Control, kind: BlockKind, before: list[Block]) -> None:
        self.controls = (*self.controls, control)
        self.region, self.kind = control.event, kind
        self.block, self.open = None, list(before)

    def _event(self) -> int:
        self.n_events += 1
        return self.n_events - 1

    def _add(self, block: Block, start: int, end: int) -> None:
        block.spans.append((start, end))
        for match in COMMENT.finditer(self.text, start, end):
            if match.group(1) == "i":
                block.marks.append(int(match.group(2)))
        for match in CALL.finditer(self.text, start, end):
            if "clamp" not in match.group():
                block.accesses.append(int(match.group(1)))

    # Statements

    def _sequence(self, start: int, end: int) -> None:
        kept = self.controls, self.region, self.jumps
        while self._skip(start) < end:
            start = self._statement(start)
        self.controls, self.region, self.jumps = kept

    def _statement(self, start: int) -> int:
        """Offset behind the statement that begins at the first code from `start` on."""
        text, at = self.text, self._skip(start)
        if text[at] == "{":
            end = closing(text, at)
            self._sequence(at + 1, end)
            return end + 1
        match = _WORD.match(text, at)
        word = match.group() if match else ""
        if word == "__attribute__":
            return self._statement(closing(text, self._skip(at + len(word))) + 1)
        if word in _REFUSED:
            raise KernelError(
                f"kernel {self.function.name}: {word!r} in line {self._line(at)} cannot be cut into"
                " basic blocks; write it with if and loops"
            )
        if word == "if":
            return self._if(start, at)
        if word in ("for", "while"):
            return self._loop(start, at, word)
        if word == "do":
            return self._do(start, at)
        end = self._end(at)
        block = self._current(at)
        self._add(block, start, end)
        if word in _JUMPS:
            self._jump(word, block, at, end)
        return end

    def _jump(self, word: str, block: Block, at: int, end: int) -> None:
        if word == "return":
            self.insertions.append(Insertion(at, end, "{ BC_FLUSH return; }"))
            self.ends.append(block)
        else:
            self.loops[-1][0 if word == "continue" else 1].append(block)
        self.block, self.open = None, []

    def _if(self, start: int, at: int) -> int:
        text = self.text
        opening = self._skip(at + 2)
        end = closing(text, opening)
        block = self._current(at)
        self._add(block, start, end + 1)
        condition = plain(text[opening + 1 : end])
        kept = self.controls, self.region
        n_jumps = self._n_jumps()
        behind, after_then = self._branch("then", condition, block, end + 1)
        self.controls, self.region = kept
        word = self._skip(behind)
        if re.compile(r"else\b").match(text, word):
            behind, after_else = self._branch("else", condition, block, word + len("else"))
            self.controls, self.region = kept
        else:
            after_else = [block]
        self.block, self.open, self.kind = None, [*after_then, *after_else], "next"
        if self._n_jumps() > n_jumps and self.open:
            event = self._event()
            self.insertions.append(Insertion(behind, behind, f" {hit(event)};"))
            self.controls = (*self.controls, Control("after", condition, event))
            self.region, self.jumps = event, True
        return behind

    def _branch(
        self, kind: Literal["then", "else"], condition: str, block: Block, start: int
    ) -> tuple[int, list[Block]]:
        event = self._event()
        at = self._skip(start)
        self.insertions.append(Insertion(at, at, f"{{ {hit(event)}; "))
        self._part(Control(kind, condition, event), kind, [block])
        behind = self._statement(start)
        self.insertions.append(Insertion(behind, behind, " }"))
        return behind, self._leaving()

    def _loop(self, start: int, at: int, word: str) -> int:
        text = self.text
        opening = self._skip(at + len(word))
        end = closing(text, opening)
        first = opening + 1
        header = plain(text[first:end])
        before = self._current(at)
        if word == "for":
            first, _ = _semicolons(text, opening, end)
            self._add(before, start, first)
        self.open, self.block = [before], None
        outer = self.region
        test = self._new("test", at, ())
        self._add(test, first, end)
        return self._body(test, outer, header, end + 1, word, at)

    def _body(
        self, test: Block, outer: int, header: str, start: int, word: str, keyword: int
    ) -> int:
        """A loop's body; afterwards control is where the test failed."""
        kept = self.controls, self.region, self.jumps
        behind, edge, leaving, breaks = self._turn(header, start, [test])
        for block in leaving:
            block.followers.append(test.number)
        self._insert_edge(word, keyword, behind, edge)
        test.events = (outer, edge)
        self.controls, self.region, self.jumps = kept
        self.block, self.open, self.kind = None, [test, *breaks], "next"
        return behind

    def _turn(
        self, header: str, start: int, before: list[Block]
    ) -> tuple[int, int, list[Block], list[Block]]:
        """A loop's body: its end, the event of its back-edge, who gets there, and who breaks off."""
        at = self._skip(start)
        jumping = _has_jump(self.text, at, self._end_of_body(start))
        if jumping:
            trip = self._event()
            self.insertions.append(Insertion(at, at, f"{{ {hit(trip)}; "))
        else:
            # A trip is a back-edge, whose number comes behind all others of the body.
            self.unsettled -= 1
            trip = self.unsettled
        self.loops.append(([], []))
        first_block = len(self.blocks)
        self._part(Control("loop", header, trip), "body", before)
        behind = self._statement(start)
        leaving = self._leaving()
        continues, breaks = self.loops.pop()
        edge = self._event()
        if jumping:
            self.insertions.append(Insertion(behind, behind, " }"))
        else:
            for block in self.blocks[first_block:]:
                block.controls = tuple(
                    replace(c, event=edge) if c.event == trip else c for c in block.controls
                )
                block.events = tuple(edge if e == trip else e for e in block.events)
        return behind, edge, [*leaving, *continues], breaks

    def _insert_edge(self, word: str, keyword: int, behind: int, edge: int) -> None:
        text = self.text
        opening = self._skip(keyword + len(word))
        end = closing(text, opening)
        if word == "while":
            self.insertions.append(Insertion(keyword, opening + 1, "for (; "))
            self.insertions.append(Insertion(end, end, f"; {hit(edge)}"))
            return
        _, second = _semicolons(text, opening, end)
        empty = not plain(text[second + 1 : end])
        self.insertions.append(Insertion(end, end, f"{'' if empty else ', '}{hit(edge)}"))

    def _do(self, start: int, at: int) -> int:
        """A loop whose test comes last, and runs as often as the body."""
        text = self.text
        kept = self.controls, self.region, self.jumps
        before = self._current(at)
        self._add(before, start, at)
        n_before = len(self.blocks)
        behind, edge, leaving, breaks = self._turn("", at + len("do"), [before])
        opening = text.index("(", text.index("while", behind))
        end = closing(text, opening)
        self.controls, self.region, self.jumps = kept
        self.open, self.block = leaving, None
        test = self._new("test", opening + 1, (edge,))
        self._add(test, opening, end)
        test.followers.append(self.blocks[n_before].number)
        self.insertions.append(Insertion(opening + 1, opening + 1, f"{hit(edge)}, ("))
        self.insertions.append(Insertion(end, end, ")"))
        self.block, self.open, self.kind = None, [test, *breaks], "next"
        return text.index(";", end) + 1

    # Text

    def _end(self, at: int) -> int:
        """Behind the semicolon of a simple statement."""
        text = self.text
        while text[at] != ";":
            if text[at] in "([{":
                at = closing(text, at)
            at = self._skip(at + 1)
        return at + 1

    def _end_of_body(self, start: int) -> int:
        text, at = self.text, self._skip(start)
        if text[at] == "{":
            return closing(text, at) + 1
        match = _WORD.match(text, at)
        word = match.group() if match else ""
        if word in ("for", "while", "if"):
            end = self._end_of_body(closing(text, self._skip(at + len(word))) + 1)
            other = self._skip(end)
            if word == "if" and re.compile(r"else\b").match(text, other):
                return self._end_of_body(other + len("else"))
            return end
        return self._end(at)

    def _n_jumps(self) -> int:
        return len(self.ends) + sum(len(part) for pair in self.loops for part in pair)

    def _skip(self, position: int) -> int:
        match = _BLANK.match(self.text, position)
        assert match is not None
        return match.end()

    def _line(self, at: int) -> int:
        return strip(self.text[:at]).count("\n") + 1

    def _words(self, at: int) -> str:
        ends = [k for k in (self.text.find(c, at) for c in ";{\n") if k >= 0]
        return plain(self.text[at : min(ends, default=len(self.text))])[:LENGTH]


def plain(text: str) -> str:
    return " ".join(re.sub(r"/\*.*?\*/", " ", strip(text), flags=re.DOTALL).split())


def _has_jump(text: str, start: int, end: int) -> bool:
    return any(word.group() in _JUMPS for word in _WORD.finditer(text, start, end))


def _semicolons(text: str, opening: int, end: int) -> tuple[int, int]:
    """Offsets of the semicolons of a for's header."""
    found = list(_top_level(text, opening + 1, end))
    assert len(found) == 2, "a for without its two semicolons"
    return found[0], found[1]


def _top_level(text: str, start: int, end: int) -> Iterator[int]:
    at = start
    while at < end:
        if text[at] in "([{":
            at = closing(text, at)
        elif text[at] == ";":
            yield at
        at += 1
