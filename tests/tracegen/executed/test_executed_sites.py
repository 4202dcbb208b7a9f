"""The sites of executed accesses, from code and records made by hand."""

from __future__ import annotations

import itertools
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from memsim.trace import ArrayExtent, SourceLocation
from tracegen.compiled.model import BasicBlock, Instruction, Location, MachineCode
from tracegen.executed.sites import PRIVATE_MEMORY, Sites, access_text, code_table, line_of
from tracegen.execution import operations as o
from tracegen.execution.code import Assembler, Code
from tracegen.execution.slicing import address_loads
from tracegen.machine_code.bound import KnownAccess

WORD = 4 << o.BYTES
TEXT = """float v = a[i] + b[a[i]];
out[i] = v;
atomicAdd(&out[k], v);"""
PLACES, ARRAYS = ("first", "pair", "gather", "store", "spill", "scalar", "atomic"), ("a", "b", "out")  # fmt: skip


def program() -> tuple[MachineCode, Code]:
    """a[i], once alone and once as a pair that is an address; b there; out; a spilled register; a scalar load of a; an atomic
    operation. One micro-operation each."""
    text = Assembler()
    text.block()
    index, address, value = text.rows("i", 2), text.rows("address", 2), text.rows("v", 1)
    accesses: list[tuple[str, dict[str, int], int]] = [
        ("LOAD", {"d": value, "a": index, "x": WORD}, 1),
        ("LOAD", {"d": address, "a": index, "x": 8 << o.BYTES}, 1),
        ("LOAD", {"d": value, "a": address, "x": WORD | o.BYPASS_L1}, 1),
        ("STORE", {"c": value, "a": index, "x": WORD}, 2),
        ("STORE", {"c": value, "a": index, "x": WORD | o.PRIVATE | o.SPILL}, 2),
        ("LOAD", {"d": value, "a": index, "x": WORD | o.ONE_LANE}, 1),
        ("ATOMIC", {"c": value, "a": index, "x": WORD | o.FLOATING | o.NO_RESULT}, 3),
    ]
    instructions = []
    for number, (name, fields, line) in enumerate(accesses):
        text.instruction(number, 16 * number)
        text.emit(name, **fields)  # type: ignore[arg-type]
        location = Location(line, 11 if line == 3 else 1)
        instructions.append(
            Instruction(opcode=name, text=f"{name};", pipe="load_store", location=location)
        )
    block = BasicBlock(label="", instructions=tuple(instructions))
    machine_code = MachineCode(kernel="k", target="sm_80", blocks=(block,), registers_per_item=8)
    return machine_code, text.finish()


def numbers(sites: Sites, *found: str) -> list[int]:
    """The site of each of `place array`, with private memory for an unknown array; of a barrier for ""."""
    access = []
    for one in found:
        place, array = one.split() if one else ("", "")
        region = ARRAYS.index(array) if array in ARRAYS else len(ARRAYS)
        access.append((len(ARRAYS) + 1) * PLACES.index(place) + region if one else -1)
    return [int(number) for number in sites.numbers(np.array(access, np.int32))]


def nothing_met(*known: KnownAccess) -> Sites:
    machine_code, code = program()
    regions = [
        SimpleNamespace(extent=ArrayExtent(name=name, base_bytes=0, size_bytes=1), hidden=False)
        for name in ARRAYS
    ]
    bound: Any = SimpleNamespace(
        code=machine_code,
        launch_to_read=SimpleNamespace(regions=regions),
        text=TEXT,
        lines=TEXT.splitlines(),
        accesses=known,
        source=lambda line: SourceLocation(user_file="k.cu", user_line=line),
    )
    return Sites(bound, code, list(range(len(PLACES))))


def test_sites_are_lines_and_arrays() -> None:
    sites = nothing_met()
    met = ("first a", "pair a", "gather b", "", "store out", "spill -", "scalar a", "atomic out")
    assert numbers(sites, *met) == [0, 0, 1, -1, 2, 3, 4, 5]
    assert [(one.name, one.array, one.direction, one.itemsize_bytes, one.depends_on) for one in sites.sites] == [
        ("a[i]", "a", "load", 8, ()),
        ("b[a[i]]", "b", "load", 4, ("a[i]",)),
        ("store out[i]", "out", "store", 4, ()),
        ("store spilled registers", PRIVATE_MEMORY, "store", 4, ()),
        ("a[i], scalar", "a", "load", 4, ()),
        ("&out[k]", "out", "atomic", 4, ()),
    ]  # fmt: skip
    flags = [(one.bypasses_l1, one.scalar, one.floating) for one in sites.sites]
    none = (False, False, False)
    assert flags == [none, (True, False, False), none, none, (False, True, False), (False, False, True)]  # fmt: skip
    assert [one.source.user_line for one in sites.sites] == [1, 1, 2, None, 1, 3]
    listed = code_table(sites.bound.code, sites)
    assert listed["site"] == [0, 0, 1, 2, 3, 4, 5]
    assert listed["line"] == [1, 1, 1, 2, 2, 1, 3]


def test_a_predicate_is_no_part_of_an_address() -> None:
    """a decides whether b is loaded; the place in b that is loaded next has been selected by that."""
    text = Assembler()
    text.block()
    value, index, other = text.rows("v", 1), text.rows("i", 2), text.rows("j", 2)
    mask = text.mask("p")

    def do(name: str, **fields: int) -> None:
        text.instruction(next(number))
        text.emit(name, **fields)

    number = itertools.count()
    do("LOAD", d=value, a=index, x=WORD)
    do("COMPARE_U", d=mask, a=value, b=text.constant(7), x=o.LESS)
    do("LOAD", d=value, a=index, x=WORD, guard=2 * mask)
    do("SELECT", d=other, a=index, b=text.constant(9), m=2 * mask)
    do("LOAD", d=value, a=other, x=WORD)
    assert address_loads(text.finish()) == [set(), set(), {0}]


def test_later_accesses_add_sites_behind_the_others() -> None:
    """An instruction that meets a second array has a second site there; the numbers of earlier ones stay."""
    sites = nothing_met()
    assert numbers(sites, "store out") == [0]
    assert numbers(sites, "store b", "store out") == [1, 0]
    assert [one.array for one in sites.sites] == ["out", "b"]


def test_generated_text_names_its_accesses() -> None:
    """Two on one line cannot be told apart, so these are named as the text has them."""
    source = SourceLocation(generated_line=1, user_file="k.py", user_line=9)
    known = KnownAccess("a", "load", "x[ind[j]]", "insn", 1, source)
    sites = nothing_met(known)
    numbers(sites, "first a", "gather b")
    named, other = sites.sites
    assert (named.name, named.instruction, named.source) == ("x[ind[j]]", "insn", source)
    assert (other.name, other.instruction) == ("b[a[i]]", "")
    twice = nothing_met(known, known._replace(label="x[3]"))
    numbers(twice, "first a")
    assert twice.sites[0].name == "a[i]"


@pytest.mark.parametrize(
    ("line", "column", "array", "direction", "text"),
    [
        ("y[i] = x[p[i]];", 8, "x", "load", "x[p[i]]"),  # where clang says that it is
        ("y[i] = x[p[i]];", 1, "x", "load", "x[p[i]]"),  # where the statement begins
        ("y[i] = x[p[i]];", 1, "p", "load", "p[i]"),
        ("y[i] = x[p[i]];", 1, "y", "store", "store y[i]"),
        ("x[i + 1] = x[i];", 1, "x", "store", "store x[i + 1]"),
        ("s += w[2 * i] * w[2 * i + 1];", 1, "w", "load", "w[2 * i] and w[2 * i + 1]"),
        ("s = w[0] + w[1] + w[2];", 1, "w", "load", "w[0] and 2 more"),
        ("x[i] = x[i] + x[i - 1];", 1, "x", "load", "x[i] and x[i - 1]"),
        ("y[i] += x[i];", 1, "y", "load", "y[i]"),
        ("if (i < n) y[i] = x[i];", 1, "y", "store", "store y[i]"),
        ("p[i].x += p[i].vx;", 1, "p", "load", "p[i].x and p[i].vx"),
        ("best = fmaxf(best, row[c]);", 1, "in", "load", "row[c]"),  # a pointer into `in`
        ("y[c] = (x[c] - mean) * gamma[c];", 1, "gamma", "load", "gamma[c]"),
        ("y[c] = (x[c] - mean) * gamma[c];", 1, "in", "load", "load of in"),  # x or gamma
        ("y[c] = *p;", 8, "in", "load", "*p"),
        ("y[c] = *p;", 1, "in", "load", "load of in"),
        ("atomicAdd(&bins[key[i]], w[i]);", 1, "bins", "atomic", "atomicAdd(&bins[key[i]], w[i])"),
        ("atomicAdd(&bins[key[i]], w[i]);", 1, "key", "load", "key[i]"),
        ("old = f(p);", 1, "bins", "atomic", "atomic of bins"),
        ("f(p);", 1, "x", "load", "load of x"),
        ("x = tl.load(p + at[:, None] * n, mask=m)", 5, "p", "load", "tl.load(p + at[:, None] * n)"),
        ("x = tl.load( p + tl.arange(0, B) )", 5, "p", "load", "tl.load(p + tl.arange(0, B))"),
        ("x = tl.load(p + (a * (b + c)))", 5, "p", "load", "tl.load(p + (a * (b + c)))"),
        ("tl.atomic_add(p[0], x)", 1, "p", "atomic", "tl.atomic_add(p[0])"),
    ],
)  # fmt: skip
def test_text_of_an_access(line: str, column: int, array: str, direction: str, text: str) -> None:
    assert access_text(line, column, array, direction) == text


def test_an_access_in_triton_may_stand_on_several_lines() -> None:
    text = """\
        x = tl.load(
            p + at * n  # of a row
            + k,
            mask=at < m,
        )
        y = x + tl.load(q)
        f(
            y)""".splitlines()
    assert access_text(line_of(text, 1), 13, "p", "load") == "tl.load(p + at * n + k)"
    assert [line_of(text, k) for k in (2, 6, 7)] == [text[1], text[5], text[6]]
