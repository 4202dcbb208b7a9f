"""The flow of control in a function: loops, an order of its blocks, and what decides whether they run.

In the order, a block comes after those that lead to it, and a loop's blocks follow each other: lanes that
left a loop or skipped a branch can be lined up with the others again.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tracegen.cuda.ir import Block, Function


@dataclass(frozen=True)
class Loop:
    """A natural loop. latches : its blocks that jump back to the header"""

    header: str
    blocks: frozenset[str]
    latches: tuple[str, ...]


class FlowGraph:
    """The blocks of a function by label, and what follows from their edges."""

    def __init__(self, function: Function, position: Callable[[Block], float]) -> None:
        """position : where a block begins in the source; of two branches the earlier one comes first"""
        self.entry = function.blocks[0].label
        self.after = {block.label: list(block.successors) for block in function.blocks}
        reached = _postorder(self.entry, self.after)
        self.labels = [block.label for block in function.blocks if block.label in set(reached)]
        self.before: dict[str, list[str]] = {label: [] for label in self.labels}
        for label in self.labels:
            for following in self.after[label]:
                self.before[following].append(label)
        self.rank = {
            block.label: (position(block), number) for number, block in enumerate(function.blocks)
        }
        self.dominators = _dominators(self.entry, self.after, self.before)
        self.loops = self._loops()
        self.order = self._ordered(frozenset(self.labels), self.entry, self.loops)

    def _loops(self) -> list[Loop]:
        """Outer loops first."""
        latches: dict[str, list[str]] = {}
        for label in self.labels:
            for header in self.after[label]:
                if header in self.dominators[label]:
                    latches.setdefault(header, []).append(label)
        loops = []
        for header, ends in latches.items():
            blocks, waiting = {header}, list(ends)
            while waiting:
                label = waiting.pop()
                if label not in blocks:
                    blocks.add(label)
                    waiting.extend(self.before[label])
            loops.append(Loop(header, frozenset(blocks), tuple(ends)))
        return sorted(loops, key=lambda loop: -len(loop.blocks))

    def _ordered(self, blocks: frozenset[str], entry: str, loops: Sequence[Loop]) -> list[str]:
        """A topological order in which each loop is one node, with its own order inside."""
        outermost: list[Loop] = []
        node_of = {label: label for label in blocks}
        for loop in loops:
            if loop.header != entry and not any(loop.header in o.blocks for o in outermost):
                outermost.append(loop)
                node_of.update(dict.fromkeys(loop.blocks, loop.header))
        members: dict[str, list[str]] = {}
        for label in self.labels:
            if label in blocks:
                members.setdefault(node_of[label], []).append(label)
        after = {
            node: list(
                dict.fromkeys(
                    node_of[following]
                    for label in inside
                    for following in self.after[label]
                    if following in blocks and node_of[following] != node and following != entry
                )
            )
            for node, inside in members.items()
        }
        inner = {loop.header: loop for loop in outermost}
        order = []
        for node in self._topological(node_of[entry], after):
            if node in inner:
                loop = inner[node]
                own = [other for other in loops if other.blocks < loop.blocks]
                order.extend(self._ordered(loop.blocks, loop.header, own))
            else:
                order.append(node)
        return order

    def _topological(self, entry: str, after: Mapping[str, Sequence[str]]) -> list[str]:
        """Every node after those that lead to it, else in the order of the source.

        Where ways without a header form a circle, it is cut before its first node.
        """
        open_edges = Counter(following for ways in after.values() for following in ways)
        ready = [(self.rank[entry], entry)]
        order: list[str] = []
        done: set[str] = set()
        while len(order) < len(after):
            if not ready:
                left = min((self.rank[node], node) for node in after if node not in done)
                heapq.heappush(ready, left)
            node = heapq.heappop(ready)[1]
            if node in done:
                continue
            done.add(node)
            order.append(node)
            for following in after[node]:
                open_edges[following] -= 1
                if open_edges[following] == 0 and following not in done:
                    heapq.heappush(ready, (self.rank[following], following))
        return order

    def controls(self) -> dict[str, frozenset[str]]:
        """Block -> the blocks whose branches decide whether it runs, also indirectly."""
        behind = _post_dominators(self.labels, self.after)
        direct: dict[str, set[str]] = {label: set() for label in self.labels}
        for label in self.labels:
            if len(self.after[label]) < 2:
                continue
            for following in self.after[label]:
                for block in behind[following] - (behind[label] - {label}):
                    direct[block].add(label)
        changed = True
        while changed:
            changed = False
            for found in direct.values():
                wider = found.union(*(direct[label] for label in found))
                if wider != found:
                    found |= wider
                    changed = True
        return {label: frozenset(found) for label, found in direct.items()}


def _postorder(entry: str, after: Mapping[str, Sequence[str]]) -> list[str]:
    order, seen = [], {entry}
    stack = [(entry, iter(after[entry]))]
    while stack:
        label, rest = stack[-1]
        following = next((f for f in rest if f not in seen), None)
        if following is None:
            order.append(label)
            stack.pop()
        else:
            seen.add(following)
            stack.append((following, iter(after[following])))
    return order


def _dominators(
    entry: str, after: Mapping[str, Sequence[str]], before: Mapping[str, Sequence[str]]
) -> dict[str, set[str]]:
    """Block -> the blocks through which every way to it leads, itself included."""
    order = list(reversed(_postorder(entry, after)))
    everything = set(order)
    found = {label: set(everything) for label in order}
    found[entry] = {entry}
    changed = True
    while changed:
        changed = False
        for label in order[1:]:
            new = {label}.union(
                set.intersection(*(found[b] for b in before[label])) if before[label] else set()
            )
            if new != found[label]:
                found[label], changed = new, True
    return found


def _post_dominators(
    labels: Sequence[str], after: Mapping[str, Sequence[str]]
) -> dict[str, set[str]]:
    """Block -> the blocks through which every way from it to the end leads, itself included."""
    found = {label: set(labels) for label in labels}
    changed = True
    while changed:
        changed = False
        for label in reversed(labels):
            follow = [found[f] for f in after[label]]
            new = {label} | (set.intersection(*follow) if follow else set())
            if new != found[label]:
                found[label], changed = new, True
    return found
