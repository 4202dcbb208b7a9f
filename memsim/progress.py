"""Reports of long work to whoever shows them: a command's display, or the process that waits for this one."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

Listener = Callable[[str, int, int], object]
"""Called with (what is being done, steps done, steps in all or 0 where their number is not known)."""

COMPILING = "compiling memsim's loops, once for this computer (a few minutes)"
AT_ONCE = frozenset({COMPILING})
"""Work that is rare and long: whoever shows reports says so when it begins."""

_listeners: list[Listener] = []


def report(what: str, done: int = 0, total: int = 0) -> None:
    """Tells every listener how far some work is."""
    for listener in tuple(_listeners):
        listener(what, done, total)


@contextlib.contextmanager
def heard_by(listener: Listener, *, alone: bool = False) -> Iterator[None]:
    """Calls `listener` with every report inside the `with` block; alone : and no other listener."""
    before = _listeners[:]
    _listeners[:] = [listener] if alone else [*before, listener]
    try:
        yield
    finally:
        _listeners[:] = before


@contextlib.contextmanager
def as_part() -> Iterator[None]:
    """What is reported inside is part of the work that was reported before, which goes on."""
    around = tuple(_listeners)

    def goes_on(what: str, done: int, total: int) -> None:
        for listener in around:
            if what in AT_ONCE:
                listener(what, done, total)
            else:
                listener("", 0, 0)

    with heard_by(goes_on, alone=True):
        yield
