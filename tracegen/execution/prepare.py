"""Compiles the interpreter's loops, without a kernel and its compilers."""

from __future__ import annotations

import numpy as np

from memsim.trace import ArrayExtent
from tracegen.execution.code import Assembler
from tracegen.execution.operations import BYTES
from tracegen.execution.run import Execution, Launch, Region


def prepare() -> None:
    """Runs a copy of 64 words; what is compiled for it is kept for later processes."""
    assembler = Assembler()
    rows = assembler.rows("R", 4)
    assembler.block()
    assembler.instruction(0)
    assembler.emit(
        "MULTIPLY_WIDE_U",
        d=rows,
        a=assembler.special("item_x"),
        b=assembler.constant(4),
        c=assembler.constant(1 << 20, 0),
    )
    assembler.emit("LOAD", d=rows + 2, a=rows, x=4 << BYTES)
    assembler.emit("BARRIER")
    assembler.emit("STORE", a=rows, c=rows + 2, x=4 << BYTES, y=256)
    assembler.emit("EXIT")
    words = np.arange(128, dtype=np.uint32).view(np.uint8)
    extent = ArrayExtent(name="words", base_bytes=1 << 20, size_bytes=len(words))
    launch = Launch(grid=(1,), group_shape=(64,), regions=[Region(extent=extent, content=words)])
    Execution(assembler.finish(), launch).run(np.zeros(1, np.int64))
