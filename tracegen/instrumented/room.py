"""Room for the tokens of work-items whose paths differ from run to run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from memsim.errors import KernelError
from tracegen.instrumented.launch import LoopyLaunch

MOST_TRIES = 8
"""How often work-items whose paths differ from run to run are given more room."""

Lengths = npt.NDArray[np.uint32]


def offsets(lengths: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """(n + 1,) where each of n rows begins that lie one after another, and where the last ends."""
    offset = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offset[1:])
    return offset


def recorded(
    launch: LoopyLaunch, run: Callable[[Lengths], Lengths], again: Callable[[], None], room: Lengths
) -> tuple[Lengths, Lengths]:
    """Runs a launch until no work-item needs more room than it has.

    run : takes the tokens that each work-item may write; returns how many it would have written
    again : restores what a run has changed

    Returns what the last run returned, and its room. Raises KernelError if that is too small each time.
    """
    for _ in range(MOST_TRIES):
        took = run(room)
        if (took <= room).all():
            return took, room
        again()
        most = np.maximum(took, room).astype(np.int64)
        room = np.minimum(most + most // 4 + 16, np.iinfo(np.uint32).max).astype(np.uint32)
    raise KernelError(
        f"launch {launch.index} ({launch.name}) took longer paths each of the {MOST_TRIES} times that"
        " it was run: it has a data race"
    )


def written(tokens: Any, took: Lengths, room: Lengths) -> Any:
    """The tokens without the room that was left."""
    if np.array_equal(took, room):
        return tokens
    start = np.repeat(offsets(room)[:-1], room)
    return tokens[np.arange(len(tokens)) - start < np.repeat(took, room)]
