"""Granules of one access: lives in memsim, whose readers of other tools' traces need it too."""

from memsim.coalesce import coalesce, compiled

__all__ = ["coalesce", "compiled"]
