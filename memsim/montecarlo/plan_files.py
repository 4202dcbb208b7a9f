"""Plans in files, whose arrays worker processes map.

Arrays are written out of band (protocol 5 of pickle), one after another into one file. A trace is therefore in memory once
for any number of workers, and ten thousand launches take as many maps as one. A run reads no files but its own.
"""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np

_UNIT_BYTES = 64
"""An array begins at a multiple of it, as compiled loops expect."""


def save(plan: Any, folder: Path) -> None:
    """Write a plan, or a sequence of plans, into an existing folder."""
    buffers: list[pickle.PickleBuffer] = []
    content = pickle.dumps(plan, 5, buffer_callback=buffers.append)
    places = []
    with open(folder / "arrays", "wb") as file:
        for buffer in buffers:
            begin = file.tell()
            places.append((begin, begin + file.write(buffer.raw())))
            file.write(bytes(-file.tell() % _UNIT_BYTES))
        file.write(bytes(1))  # an empty file cannot be mapped
    (folder / "plan").write_bytes(pickle.dumps((content, places)))


def load(folder: Path) -> Any:
    """What `save` has written into a folder."""
    content, places = pickle.loads((folder / "plan").read_bytes())
    # Mapped copy-on-write: never written to, and of the same type for the compiler as an array in
    # memory, so that workers compile nothing anew.
    mapped = np.memmap(folder / "arrays", np.uint8, "c")
    return pickle.loads(content, buffers=[mapped[begin:end] for begin, end in places])
