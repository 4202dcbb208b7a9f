"""Plain tables: numbers to the right, texts as they are, and every cell readable on a narrow console."""

from __future__ import annotations

import pytest

from memsim.report import PlainTable
from tests.support.outline import printed

COLUMNS = ("block", "executions", "waits for", "note")
ROWS = [("B0", "1,024", "values[j]", "begins [bold]here[/bold]"), ("B1", "7", "x[indices[j]]", "-")]


def lines_of(columns: int, rows: list[tuple[str, ...]] = ROWS) -> list[str]:
    table = PlainTable("blocks of k", COLUMNS, rows)
    return printed(table, columns).rstrip("\n").split("\n")


def test_numbers_stand_to_the_right_and_markup_is_text() -> None:
    title, head, first, second = (line.rstrip() for line in lines_of(80))
    assert title == "blocks of k"
    assert head.index("executions") + len("executions") == first.index("1,024") + len("1,024")
    assert second.index("7") == first.index("4", first.index("1,02"))
    assert first.index("values[j]") == second.index("x[indices[j]]")
    assert first.endswith("begins [bold]here[/bold]")


@pytest.mark.parametrize("columns", [80, 20])
def test_what_a_terminal_would_obey_is_text(columns: int) -> None:
    lines = lines_of(columns, [("a\x1b[31mb\u202e", "1", "two\nlines", "\x07")])
    assert all(line.isprintable() for line in lines)
    assert r"a\x1b[31mb\u202e" in "".join(line.strip() for line in lines)


def test_narrow_console_gives_a_line_to_each_cell() -> None:
    lines = lines_of(40)
    assert lines[1:5] == [
        "B0".ljust(len(lines[1])),
        *(f"  {name}: {cell}".ljust(len(lines[1])) for name, cell in zip(COLUMNS[1:], ROWS[0][1:], strict=True)),
    ]  # fmt: skip
    assert max(map(len, lines)) <= 40


def test_long_names_lose_their_middle() -> None:
    text = "".join(lines_of(40, [("B" * 500, "3", "", "a\nb")]))
    assert 100 < text.count("B") < 130
    assert " … " in text
    assert "a, b" in text
    assert "waits for" not in text


def test_no_rows_are_a_head() -> None:
    assert [line.split() for line in lines_of(80, [])][1] == [
        "block",
        "executions",
        "waits",
        "for",
        "note",
    ]


@pytest.mark.parametrize("width", [60, 80, 100, 160])
def test_long_heads_of_numbers_leave_room_for_the_names(width: int) -> None:
    heads = ["variant", *(f"at least, for resource {k}" for k in range(6))]
    table = PlainTable("", heads, [["v100@1000MHz", *["819.2 ns"] * 6]])
    lines = printed(table, width).splitlines()
    assert max(map(len, lines)) <= width
    assert any(line.startswith("v100@1000MHz") for line in lines)
    assert sum(line.count("819.2 ns") for line in lines) == 6
