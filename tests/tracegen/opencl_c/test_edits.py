"""Changes of a source text, applied at once."""

from __future__ import annotations

from tracegen.opencl_c.edits import Edits


def test_insertions_at_one_place_are_in_the_order_of_the_calls() -> None:
    """A kernel whose body is `{}` begins and ends at one place."""
    edits = Edits()
    edits.insert(1, " begin;")
    edits.insert(1, " end;")
    assert edits.applied("{}") == "{ begin; end;}"


def test_a_repeated_insertion_appears_once() -> None:
    """A helper function that is called twice is walked twice."""
    edits = Edits()
    for _ in range(2):
        edits.insert(2, "_tg, ")
        edits.insert(2, "_tg_b, ")
    assert edits.applied("f(x)") == "f(_tg, _tg_b, x)"
