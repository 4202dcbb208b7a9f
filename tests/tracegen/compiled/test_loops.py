"""Natural loops, against a slow search for them on random graphs and by hand."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tracegen.compiled.block_graph import reachable
from tracegen.compiled.loops import Loop, depths, loops
from tracegen.compiled.model import BasicBlock, Instruction, MachineCode


def graph(*successors: tuple[int, ...], opcodes: dict[int, str] | None = None) -> MachineCode:
    blocks = [
        BasicBlock(
            label="",
            instructions=(
                Instruction(opcode=(opcodes or {}).get(index, "NOP"), text="", pipe="wait"),
            ),
            successors=targets,
        )
        for index, targets in enumerate(successors)
    ]
    return MachineCode(kernel="k", target="", blocks=reachable(blocks), registers_per_item=1)


def test_nested_loops() -> None:
    code = graph((1,), (2, 5), (3,), (3, 4), (1,), ())
    assert loops(code) == (Loop(1, frozenset([1, 2, 3, 4])), Loop(3, frozenset([3])))
    assert depths(code) == (0, 1, 1, 2, 1, 0)


def test_two_calls_of_a_function_make_no_loop() -> None:
    calls = {0: "CALL.REL.NOINC", 1: "CALL.REL.NOINC", 3: "RET.REL.NODEC"}
    assert loops(graph((3,), (3,), (), (1, 2), opcodes=calls)) == ()
    assert loops(graph((3,), (3,), (), (1, 2))) == (Loop(3, frozenset([1, 3])),)


def test_a_call_in_a_loop() -> None:
    calls = {1: "CALL.REL.NOINC", 4: "RET.REL.NODEC"}
    code = graph((1,), (4,), (1, 3), (), (2,), opcodes=calls)
    assert loops(code) == (Loop(1, frozenset([1, 2])),)


graphs = st.integers(1, 8).flatmap(
    lambda n: st.lists(
        st.lists(st.integers(0, n - 1), max_size=3, unique=True).map(tuple), min_size=n, max_size=n
    )
)


@given(graphs)
def test_random_graphs(successors: list[tuple[int, ...]]) -> None:
    code = graph(*successors)
    blocks = [block.successors for block in code.blocks]
    assert {loop.header: loop.blocks for loop in loops(code)} == slow_loops(blocks)


def slow_loops(blocks: list[tuple[int, ...]]) -> dict[int, frozenset[int]]:
    """By definition: an edge to a header without which its source cannot be reached."""
    result: dict[int, set[int]] = {}
    for latch, targets in enumerate(blocks):
        for header in targets:
            if latch == header or latch not in reached(blocks, 0, without=header):
                body = {
                    block
                    for block in range(len(blocks))
                    if block == latch
                    or (block != header and latch in reached(blocks, block, without=header))
                }
                result.setdefault(header, {header}).update(body)
    return {header: frozenset(body) for header, body in result.items()}


def reached(blocks: list[tuple[int, ...]], start: int, without: int) -> set[int]:
    result: set[int] = set()
    waiting = [start]
    while waiting:
        block = waiting.pop()
        if block != without and block not in result:
            result.add(block)
            waiting.extend(blocks[block])
    return result
