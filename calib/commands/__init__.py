"""The commands of calib, one per module.

A module imports nothing heavy at its top, because the help of the command group loads it.
"""

from __future__ import annotations

from pathlib import Path

from memsim.errors import MemsimError

PICTURES = (".png", ".svg", ".pdf")


def check_picture(option: str, path: Path | None) -> None:
    """Raises MemsimError where the name of a picture, if one is wanted, does not tell its format."""
    if path is not None and path.suffix.lower() not in PICTURES:
        raise MemsimError(f"{option} must end in {', '.join(PICTURES)}, got {path}")
