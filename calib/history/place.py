"""Where a user's history lies unless another place is named."""

from __future__ import annotations

import os
from pathlib import Path

VARIABLE = "MEMSIM_HISTORY"


def default_path() -> Path:
    """What MEMSIM_HISTORY names, else `memsim/history.db` in the user's data folder (XDG)."""
    named = os.environ.get(VARIABLE, "").strip()
    if named:
        return Path(named)
    data = os.environ.get("XDG_DATA_HOME", "").strip()
    return (Path(data) if data else Path.home() / ".local" / "share") / "memsim" / "history.db"
