"""Which memory a pointer in a kernel may point to, and which pointers are equal."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from tracegen.cuda.flow_graph import FlowGraph
from tracegen.cuda.ir import VALUE, Function, Instruction, Module, split

UNKNOWN, STACK = "unknown", "stack"
"""Anything; and, followed by the variable's name, private memory."""
_DERIVED = frozenset(["getelementptr", "bitcast", "addrspacecast", "freeze"])
_PURE = frozenset(
    [
        "add",
        "sub",
        "mul",
        "sdiv",
        "udiv",
        "srem",
        "urem",
        "shl",
        "lshr",
        "ashr",
        "and",
        "or",
        "xor",
        "sext",
        "zext",
        "trunc",
        "icmp",
        "select",
        "fptosi",
        "fptoui",
        "getelementptr",
        "bitcast",
        "addrspacecast",
        "freeze",
        "ptrtoint",
        "inttoptr",
    ]
)
_KEEPING = _DERIVED | {"load", "phi", "select", "icmp", "alloca"}
"""What does not show a pointer's value to anything else."""
_BY_VALUE = re.compile(r"\bbyval\((.*?)\) ")
_PHI = re.compile(r"\[ (.+?), %(\S+) \]")

Roots = frozenset[str]
"""Where a pointer comes from: `%x` (a parameter), `@x` (a variable), private memory or UNKNOWN."""


def is_private(root: str) -> bool:
    return root.startswith(STACK)


@dataclass
class Pointers:
    """What is known of a function's values.

    definitions : value -> the instruction that computes it
    roots : pointer -> its origins
    numbers : value -> a number that equal values share
    varying : value's number -> headers of the loops in which it may change
    private : variable in private memory -> its type
    escaped : roots of the private memory that pointers of unknown origin may point to
    """

    definitions: dict[str, Instruction] = field(default_factory=dict)
    roots: dict[str, Roots] = field(default_factory=dict)
    numbers: dict[str, int] = field(default_factory=dict)
    varying: dict[int, frozenset[str]] = field(default_factory=dict)
    private: dict[str, str] = field(default_factory=dict)
    escaped: set[str] = field(default_factory=set)

    def of(self, operand: str) -> Roots:
        """The origins of an operand, which may be a constant expression."""
        if operand in self.roots:
            return self.roots[operand]
        found = {name for name in VALUE.findall(operand) if name.startswith("@")}
        return frozenset(found) if found else frozenset([UNKNOWN])

    def number(self, operand: str) -> int:
        if operand not in self.numbers:
            self.numbers[operand] = len(self.numbers)
        return self.numbers[operand]


def incoming(phi: Instruction) -> list[tuple[str, str]]:
    """(value, label of the block that it comes from) of a phi."""
    return [(value.strip(), label) for value, label in _PHI.findall(phi.text)]


def pointers(module: Module, function: Function, graph: FlowGraph) -> Pointers:
    found = Pointers()
    for part in _parameters(module, function):
        name = part.split()[-1]
        if part.startswith("ptr"):
            by_value = _BY_VALUE.search(part)
            if by_value:
                found.private[name] = by_value[1]
            # A struct that is passed in registers may hold pointers: they can point anywhere.
            root = STACK + name if by_value else UNKNOWN if ".coerce" in name else name
            found.roots[name] = frozenset([root])
    instructions = _in_order(function, graph)
    found.definitions = {one.result: one for _, one in instructions if one.result}
    found.private |= {
        one.result: one.parts[0]
        for one in function.blocks[0].instructions
        if one.opcode == "alloca"
    }
    _follow_roots(found, [one for _, one in instructions])
    found.escaped = {
        root
        for _, one in instructions
        if one.opcode not in _KEEPING
        for value in (VALUE.findall(one.parts[0]) if one.opcode == "store" else one.operands)
        for root in found.roots.get(value, ())
        if is_private(root)
    }
    _number_values(found, instructions, graph)
    return found


def _parameters(module: Module, function: Function) -> Iterable[str]:
    header = module.lines[function.header]
    start = header.index("(") + 1
    depth, end = 1, start
    while depth:
        depth += {"(": 1, ")": -1}.get(header[end], 0)
        end += 1
    return [part for part in split(header[start : end - 1]) if part]


def _in_order(function: Function, graph: FlowGraph) -> list[tuple[str, Instruction]]:
    blocks = {block.label: block for block in function.blocks}
    return [(label, one) for label in graph.order for one in blocks[label].instructions]


def _sources(one: Instruction) -> list[str]:
    """The pointers that a pointer derives from."""
    if one.opcode in _DERIVED:
        part = next((p for p in one.parts if p.startswith("ptr ")), "")
        return [part.partition(" ")[2].split(" to ")[0]] if part else []
    if one.opcode == "phi" and one.text.startswith("phi ptr"):
        return [value for value, _ in incoming(one)]
    if one.opcode == "select":
        return [part.partition(" ")[2] for part in one.parts[1:] if part.startswith("ptr ")]
    return []


def _follow_roots(found: Pointers, instructions: list[Instruction]) -> None:
    derived = []
    for one in instructions:
        if not one.result:
            continue
        if one.opcode == "alloca":
            found.roots[one.result] = frozenset([STACK + one.result])
        elif one.opcode == "call" and one.callee == "memsim_warp":
            found.roots[one.result] = frozenset([STACK])
        elif sources := _sources(one):
            found.roots[one.result] = frozenset()
            derived.append((one.result, sources))
    changed = True
    while changed:
        changed = False
        for result, sources in derived:
            new: Roots = frozenset().union(
                *(
                    found.of(source)
                    for source in sources
                    if source not in ("null", "undef", "poison")
                )
            )
            if new != found.roots[result]:
                found.roots[result], changed = new, True


def _number_values(
    found: Pointers, instructions: list[tuple[str, Instruction]], graph: FlowGraph
) -> None:
    known: dict[str, int] = {}
    around: Mapping[str, frozenset[str]] = {
        label: frozenset(loop.header for loop in graph.loops if label in loop.blocks)
        for label in graph.labels
    }
    for label, one in instructions:
        if not one.result:
            continue
        number = found.number(one.result)
        if one.opcode not in _PURE:
            found.varying[number] = around[label]
            continue
        operands = one.operands
        text = VALUE.sub(lambda match: f"v{found.number(match[0])}", one.text)
        text = re.sub(r"\b(?:nuw|nsw|nneg|inbounds|disjoint|exact) ", "", text)
        number = known.setdefault(text, number)
        found.numbers[one.result] = number
        found.varying[number] = frozenset().union(
            *(found.varying.get(found.number(name), frozenset()) for name in operands)
        )
