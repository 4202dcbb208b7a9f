"""The kernels of the benchmark of seconds over size, as workloads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import tracegen

FOLDER = Path(__file__).parents[1] / "bench" / "sizes"


def sized(kernel: str, **settings: int) -> Any:
    """A kernel of kernels.cu in the launch that arguments.py describes."""
    texts = {name: str(value) for name, value in settings.items()}
    return tracegen.load_kernel(
        f"{FOLDER / 'kernels.cu'}:{kernel}", texts, f"{FOLDER / 'arguments.py'}:{kernel}"
    )
