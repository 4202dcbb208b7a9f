"""What can be wrong with a history, its files, or a question put to it."""

from __future__ import annotations

from memsim.errors import MemsimError


class HistoryError(MemsimError):
    """A history cannot be read, or a sample or question breaks its rules."""


class HistoryWarning(UserWarning):
    """Launches could not be timed, or a damaged history was put aside."""
