"""The columns of a growing trace: live in memsim, whose readers of other tools' traces grow too."""

from memsim.columns import GrowingColumns

__all__ = ["GrowingColumns"]
