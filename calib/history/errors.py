"""Errors and warnings of a history."""

from __future__ import annotations

from memsim.errors import MemsimError


class HistoryError(MemsimError):
    """A history cannot be read, or a sample or query breaks its rules."""


class HistoryWarning(UserWarning):
    """Launches could not be timed, or a damaged history was renamed."""
