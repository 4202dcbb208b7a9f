"""Cuts the text of a kernel into basic blocks, with the loops and branches around each.

A basic block is a piece of straight code: it ends where the text branches. The test of a loop is a block
of its own, which also runs when the loop ends. `?:`, `&&` and `||` do not count as branches,
because GPU compilers turn them into selects. The body of a called function belongs to the block with the call.

All blocks under the same branches run equally often. Therefore only decisions are counted as events
(branches taken, back-edges of loops), and a block's count is a sum of events.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
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
from tracegen.c_source.statements import (
    Function,
    Statement,
    kernel_functions,
    read_statements,
    skip,
    split,
)
from tracegen.instrumented.marks import CALL, COMMENT, strip

_WORD = re.compile(r"\w*")
LENGTH = 60
"""Characters of its text that a block keeps."""


def cut_text(text: str, only: str | None = None) -> list[Cut]:
    """The kernels of a program in textual order, or one of them; `text` may hold marks.

    Raises KernelError for statements that cannot be cut into blocks (switch, goto).
    """
    cuts: list[Cut] = []
    for function in kernel_functions(text):
        if only in (None, function.name):
            first_number = sum(len(cut.blocks) for cut in cuts)
            cuts.append(_Cutter(text, function, first_number).run())
    return cuts


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
        body = self.function.body_start, self.function.body_end
        self._sequence(read_statements(self.text, *body))
        if not self.blocks:
            self._current(self.function.body_start)
        for block in [*self._leaving(), *self.ends]:
            block.followers.append(-1)
        return Cut(self.function, tuple(self.blocks), self.n_events, tuple(self.insertions))

    # Blocks

    def _current(self, at: int) -> Block:
        """The current block; a new one where control has just branched or joined."""
        if self.block is None:
            self.block = self._new(self.kind, at, (self.region,))
            self.kind = "next"
        return self.block

    def _new(self, kind: BlockKind, at: int, events: tuple[int, ...]) -> Block:
        number = self.first_number + len(self.blocks)
        at = min(skip(self.text, at), self.function.body_end)
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
        """The blocks after which the next block runs."""
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

    def _sequence(self, listed: Sequence[Statement]) -> None:
        kept = self.controls, self.region, self.jumps
        for statement in listed:
            self._statement(statement)
        self.controls, self.region, self.jumps = kept

    def _statement(self, statement: Statement) -> None:
        at = statement.first
        if statement.kind == "block":
            self._sequence(statement.children)
        elif statement.kind == "if":
            self._if(statement)
        elif statement.kind in ("for", "while"):
            self._loop(statement)
        elif statement.kind == "do":
            self._do(statement)
        elif statement.kind == "unsupported":
            raise KernelError(
                f"kernel {self.function.name}: {self._word(at)!r} in line {self._line(at)} cannot be"
                " cut into basic blocks; write it with if and loops"
            )
        else:
            block = self._current(at)
            self._add(block, statement.start, statement.end)
            if statement.kind == "jump":
                self._jump(self._word(at), block, at, statement.end)

    def _jump(self, word: str, block: Block, at: int, end: int) -> None:
        if word == "return":
            self.insertions.append(Insertion(at, end, "{ BC_FLUSH return; }"))
            self.ends.append(block)
        else:
            self.loops[-1][0 if word == "continue" else 1].append(block)
        self.block, self.open = None, []

    def _if(self, statement: Statement) -> None:
        start, end = statement.header
        block = self._current(statement.first)
        self._add(block, statement.start, end + 1)
        condition = plain(self.text[start:end])
        kept = self.controls, self.region
        n_jumps = self._n_jumps()
        then, *otherwise = statement.children
        after_then = self._branch("then", condition, block, end + 1, then)
        self.controls, self.region = kept
        after_else = [block]
        for child in otherwise:
            behind_else = skip(self.text, then.end) + len("else")
            after_else = self._branch("else", condition, block, behind_else, child)
            self.controls, self.region = kept
        self.block, self.open, self.kind = None, [*after_then, *after_else], "next"
        if self._n_jumps() > n_jumps and self.open:
            event = self._event()
            self.insertions.append(Insertion(statement.end, statement.end, f" {hit(event)};"))
            self.controls = (*self.controls, Control("after", condition, event))
            self.region, self.jumps = event, True

    def _branch(
        self,
        kind: Literal["then", "else"],
        condition: str,
        block: Block,
        start: int,
        child: Statement,
    ) -> list[Block]:
        """One branch of an if; returns the blocks that leave it."""
        event = self._event()
        at = skip(self.text, start)
        self.insertions.append(Insertion(at, at, f"{{ {hit(event)}; "))
        self._part(Control(kind, condition, event), kind, [block])
        self._statement(child)
        self.insertions.append(Insertion(child.end, child.end, " }"))
        return self._leaving()

    def _loop(self, statement: Statement) -> None:
        """A for or a while; afterwards control is where the test failed."""
        first, end = statement.header
        header = plain(self.text[first:end])
        before = self._current(statement.first)
        if statement.kind == "for":
            first = split(self.text, first, end, ";")[0][1]
            self._add(before, statement.start, first)
        self.open, self.block = [before], None
        outer = self.region
        test = self._new("test", statement.first, ())
        self._add(test, first, end)
        kept = self.controls, self.region, self.jumps
        edge, leaving, breaks = self._body(header, end + 1, statement.children[0], [test])
        for block in leaving:
            block.followers.append(test.number)
        self._insert_edge(statement, edge)
        test.events = (outer, edge)
        self.controls, self.region, self.jumps = kept
        self.block, self.open, self.kind = None, [test, *breaks], "next"

    def _body(
        self, header: str, start: int, body: Statement, before: list[Block]
    ) -> tuple[int, list[Block], list[Block]]:
        """A loop's body: the event of its back-edge, the blocks that reach it, and those that break."""
        at = skip(self.text, start)
        jumping = any(inner.kind == "jump" for inner in body.walk())
        if jumping:
            trip = self._event()
            self.insertions.append(Insertion(at, at, f"{{ {hit(trip)}; "))
        else:
            # A trip is a back-edge, whose event is numbered after all events of the body.
            self.unsettled -= 1
            trip = self.unsettled
        self.loops.append(([], []))
        first_block = len(self.blocks)
        self._part(Control("loop", header, trip), "body", before)
        self._statement(body)
        leaving = self._leaving()
        continues, breaks = self.loops.pop()
        edge = self._event()
        if jumping:
            self.insertions.append(Insertion(body.end, body.end, " }"))
        else:
            for block in self.blocks[first_block:]:
                block.controls = tuple(
                    replace(c, event=edge) if c.event == trip else c for c in block.controls
                )
                block.events = tuple(edge if e == trip else e for e in block.events)
        return edge, [*leaving, *continues], breaks

    def _insert_edge(self, loop: Statement, edge: int) -> None:
        first, end = loop.header
        if loop.kind == "while":
            self.insertions.append(Insertion(loop.first, first, "for (; "))
            self.insertions.append(Insertion(end, end, f"; {hit(edge)}"))
            return
        *_, (update, _) = split(self.text, first, end, ";")
        separator = ", " if plain(self.text[update:end]) else ""
        self.insertions.append(Insertion(end, end, f"{separator}{hit(edge)}"))

    def _do(self, statement: Statement) -> None:
        """A loop whose test comes last, and runs as often as the body."""
        first, end = statement.header
        kept = self.controls, self.region, self.jumps
        before = self._current(statement.first)
        self._add(before, statement.start, statement.first)
        n_before = len(self.blocks)
        behind_do = statement.first + len("do")
        edge, leaving, breaks = self._body("", behind_do, statement.children[0], [before])
        self.controls, self.region, self.jumps = kept
        self.open, self.block = leaving, None
        test = self._new("test", first, (edge,))
        self._add(test, first - 1, end)
        test.followers.append(self.blocks[n_before].number)
        self.insertions.append(Insertion(first, first, f"{hit(edge)}, ("))
        self.insertions.append(Insertion(end, end, ")"))
        self.block, self.open, self.kind = None, [test, *breaks], "next"

    # Text

    def _n_jumps(self) -> int:
        return len(self.ends) + sum(len(part) for pair in self.loops for part in pair)

    def _word(self, at: int) -> str:
        match = _WORD.match(self.text, at)
        return "" if match is None else match.group()

    def _line(self, at: int) -> int:
        return strip(self.text[:at]).count("\n") + 1

    def _words(self, at: int) -> str:
        ends = [k for k in (self.text.find(c, at) for c in ";{\n") if k >= 0]
        return plain(self.text[at : min(ends, default=len(self.text))])[:LENGTH]


def plain(text: str) -> str:
    return " ".join(re.sub(r"/\*.*?\*/", " ", strip(text), flags=re.DOTALL).split())
