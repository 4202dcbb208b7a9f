"""Which loads each access needs: for its address, for whether it happens, and for what it stores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tracegen.cuda.accesses import Access
from tracegen.cuda.flow_graph import FlowGraph
from tracegen.cuda.ir import VALUE, Function, Instruction
from tracegen.cuda.pointers import Pointers, Roots, incoming


@dataclass(frozen=True)
class Needs:
    """Numbers of loads. address : what an address depends on; everything : all that is waited for"""

    address: frozenset[int]
    everything: frozenset[int]


class Feeds:
    """Follows values from loads to accesses, through private and shared memory too.

    What memory holds depends on all that is stored to its variable, whatever the order. Sets of loads
    are the bits of a number.
    """

    def __init__(
        self,
        function: Function,
        graph: FlowGraph,
        pointers: Pointers,
        loads: Mapping[int, int],
    ) -> None:
        """loads : line of an instruction that loads from global memory -> number of its access"""
        self.pointers, self.loads = pointers, loads
        self.values: dict[str, int] = {}
        self.memory: dict[str, int] = {}
        blocks = {block.label: block for block in function.blocks}
        self.branches = {label: blocks[label].terminator for label in graph.labels}
        self.controls = graph.controls()
        instructions = [(label, one) for label in graph.order for one in blocks[label].instructions]
        changed = True
        while changed:
            changed = False
            for label, one in instructions:
                changed |= self._pass(label, one)

    def _pass(self, label: str, one: Instruction) -> bool:
        """Whether an instruction tells something new."""
        if one.opcode == "store" and one.line not in self.loads:
            value, pointer = one.parts[0], one.parts[1].partition(" ")[2]
            stored = self.of(value) | self.of(pointer) | self.control(label)
            return self._stored(self.pointers.of(pointer), stored)
        if one.opcode == "call" and len(one.arguments) > 1 and ".memcpy" in one.callee:
            copied = self._held(one.arguments[1]) | self.control(label)
            return self._stored(self.pointers.of(one.arguments[0]), copied)
        if not one.result:
            return False
        new = self._result(label, one)
        if new == self.values.get(one.result, 0):
            return False
        self.values[one.result] = new
        return True

    def _stored(self, roots: Roots, stored: int) -> bool:
        before = [self.memory.get(root, 0) for root in roots]
        self.memory.update({root: had | stored for root, had in zip(roots, before, strict=True)})
        return any(had | stored != had for had in before)

    def _result(self, label: str, one: Instruction) -> int:
        if one.line in self.loads:
            return 1 << self.loads[one.line]
        if one.opcode == "load":
            return self._held(one.parts[1].partition(" ")[2])
        found = self.of(one.text)
        if one.opcode == "phi":
            for _, block in incoming(one):
                found |= self.control(block)
        return found

    def _held(self, pointer: str) -> int:
        found = self.of(pointer)
        for root in self.pointers.of(pointer):
            found |= self.memory.get(root, 0)
        return found

    def of(self, text: str) -> int:
        """What the values in a text depend on."""
        found = 0
        for name in VALUE.findall(text):
            found |= self.values.get(name, 0)
        return found

    def control(self, label: str) -> int:
        """What decides whether a block runs."""
        found = 0
        for block in self.controls.get(label, ()):
            found |= self.of(self.branches[block].text)
        return found

    def needs(self, access: Access) -> Needs:
        address = self.of(access.pointer)
        everything = address | self.control(access.block)
        if access.kind != "load":
            everything |= self.of(access.value)
            for one in access.instructions:
                if one.opcode == "call" and ".mem" in one.callee:
                    everything |= self._held(one.arguments[1])
        return Needs(_bits(address), _bits(everything))

    def control_needs(self, label: str) -> frozenset[int]:
        return _bits(self.control(label))


def _bits(number: int) -> frozenset[int]:
    return frozenset(k for k in range(number.bit_length()) if number >> k & 1)


def loads_of(events: Sequence[tuple[str, object]]) -> dict[int, int]:
    """Line of an instruction that loads from global memory -> position of its access."""
    return {
        one.line: position
        for position, (_, event) in enumerate(events)
        if isinstance(event, Access) and event.kind == "load"
        for one in event.instructions
        if one.opcode == "load"
    }
