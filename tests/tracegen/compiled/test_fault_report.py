"""The report of a faulty access, compiled for a GPU whose lanes run in lockstep."""

from __future__ import annotations

import pytest

from tests.support.compilers import needs_amd
from tracegen.compiled import compile_kernel
from tracegen.compiled.model import MachineCode
from tracegen.probes.tokens import FUNCTIONS

REPORT = FUNCTIONS[FUNCTIONS.index("static inline void _tg_report") :]
KERNEL = """
__kernel void k(__global int *x, __global long *fault, int n)
{
  _tg_state tg;
  tg.fault = fault;
  int i = get_global_id(0);
  if (i >= n)
    _tg_report(&tg, 1, i, 2, 3);
  else
    x[i] = 1;
}
"""


def compiled(report: str) -> MachineCode:
    text = f"typedef struct {{ __global long *fault; }} _tg_state;\n{report}{KERNEL}"
    return compile_kernel(text, "k", "gfx90a")


def block_of(code: MachineCode, opcode: str) -> int:
    (found,) = (
        k for k, block in enumerate(code.blocks) if opcode in {one.opcode for one in block.instructions}
    )  # fmt: skip
    return found


def follows(code: MachineCode, first: int, later: int) -> bool:
    """Whether control may pass from a block to another one."""
    seen, open_ = {first}, [first]
    while open_:
        for k in code.blocks[open_.pop()].successors:
            if k not in seen:
                seen.add(k)
                open_.append(k)
    return later in seen


@needs_amd
@pytest.mark.parametrize("waits", ["volatile int waits", "int waits"])
def test_a_lane_that_waits_for_the_lock_lets_another_one_unlock_it(waits: str) -> None:
    """Two lanes of a wavefront want the lock. The one that has it unlocks it within the loop, and the other tries
    again; a compiler that may move the unlocking behind the loop would make both wait forever."""
    code = compiled(REPORT.replace("volatile int waits", waits))
    locks, unlocks = block_of(code, "global_atomic_cmpswap"), block_of(code, "global_atomic_swap")
    assert follows(code, unlocks, locks) == waits.startswith("volatile")
