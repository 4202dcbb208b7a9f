"""Basic blocks from a trace: a block is a bulk sequence with loads, and the stores before it.

A trace records which loads are issued together (`starts_sequence`) and where barriers are. Of code with asynchronous copies or
matrix instructions, a block ends where a sub-group waits for more than before, or at a barrier, and what is loaded may be waited
for several blocks later: `waits` says for which loads, in software pipelines for all but the last ones. A trace of
machine code also records the instructions before each access (`work`); they are operations
of the block with the access. Of other traces the caller may specify what each loaded value is used in.
"""

from __future__ import annotations

import bisect
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from calib.prediction.basic_blocks import (
    Block,
    BlockError,
    Program,
    Repeat,
    Step,
    make_program,
    n_blocks,
    renamed,
)
from calib.prediction.machine_pipes import PREFIX
from memsim.trace import BARRIER_SITE, AccessSite, Trace

PIPELINED = re.compile("copies|tensor_.+|wgmma_.+|tcgen05.+")
"""Kinds of work whose kernels load ahead of what they compute."""
PerLoad = Callable[[AccessSite], Sequence[Mapping[str, float]]]
"""Site of a load -> for each of the next blocks, operation -> how many use a value that is loaded."""
SUBGROUPS = 256
"""Sub-groups whose programs are examined, evenly spread over the trace."""
GROUPS = 8
"""Groups whose sub-groups are compared, evenly spread over the trace."""
LONGEST_PATH, LONGEST_PIPELINE = 128, 1 << 14
"""Most blocks of a sub-group that is simulated along its own path; in software pipelines, where some sub-groups copy and others
compute, one path cannot stand for all."""
LONGEST_PERIOD = 64
"""Most blocks in one iteration of a loop that folding recognises."""


def blocks_from_trace(
    trace: Trace,
    *,
    per_load: PerLoad = lambda _: (),
    ends_with_barrier: bool = True,
    one_counter: bool = False,
    at_once: bool = False,
    subgroups: int = SUBGROUPS,
) -> Program:
    """The program with most of the accesses among a trace's sub-groups; also the paths of a group's sub-groups,
    where they differ.

    Loops are recognised as repeated sequences. Where sub-groups differ only in how often they iterate (the
    length of a row, the neighbours of a particle), the repeat counts are their means, and so are the instructions
    between accesses where only these differ.

    per_load : the operations of a trace in the source's order
    ends_with_barrier : whether a group's resources are freed only when all its sub-groups have ended
    at_once : whether all groups of the launch begin at once
    one_counter : whether one counter counts loads and stores under way, so that a wait for a load is one for the stores of its
        block before it. Stores that a block leaves under way are taken to be done before the next wait is over

    Raises BlockError where the trace has no access.
    """
    if not trace.n_access:
        raise BlockError(f"the trace of {trace.launch.kernel} has no access to cut into blocks")
    kinds: dict[Any, int] = {}
    blocks: list[Block] = []
    programs: Counter[Any] = Counter()
    alike: dict[Any, list[Sequence[Step]]] = {}
    accesses = np.diff(trace.subgroup_offset)
    chosen = np.unique(np.linspace(0, trace.n_subgroup - 1, subgroups).astype(np.int64))
    known: dict[bytes, tuple[list[Step], list[int]]] = {}

    def steps_of(subgroup: int) -> tuple[list[Step], list[int]]:
        """Folded, and one by one."""
        content = _content(trace, subgroup)
        if content not in known:
            order = []
            for block in _blocks_of(trace, subgroup, per_load, ends_with_barrier, one_counter):
                if block.key not in kinds:
                    kinds[block.key] = len(blocks)
                    blocks.append(block)
                order.append(kinds[block.key])
            known[content] = fold(order), order
        return known[content]

    folded = [steps_of(int(subgroup))[0] for subgroup in chosen]
    repeated = {step.steps[0] for steps in folded for step in _repeats(steps) if _is_single(step)}
    for subgroup, steps in zip(chosen, folded, strict=True):
        shaped = _with_single_turns(steps, repeated)
        shape = _shape(shaped, lambda number: blocks[number].key[1:])
        programs[shape] += int(accesses[subgroup])
        alike.setdefault(shape, []).append(shaped)
    shape, _ = programs.most_common(1)[0]
    same = alike[shape]
    longest = LONGEST_PIPELINE if _is_pipelined(trace) else LONGEST_PATH
    shared: list[list[int]] = []
    share = 1.0
    if trace.warming is None:
        shared, share = _shared_orders(trace, steps_of, at_once)
    if _is_pipelined(trace):
        shared = _with_last_barriers(shared, blocks)
    paths = _paths(shared, blocks, longest)

    def mean_block(numbers: Sequence[int], weights: Sequence[float]) -> int:
        if len(set(numbers)) == 1:
            return numbers[0]
        total: Counter[str] = Counter()
        for number, weight in zip(numbers, weights, strict=True):
            for name, count in blocks[number].operations.items():
                total[name] += count * weight / sum(weights)  # type: ignore[assignment]
        blocks.append(replace(blocks[numbers[0]], operations=dict(total)))
        return len(blocks) - 1

    steps = list(_mean(same, [1.0] * len(same), mean_block))
    return make_program(blocks, steps, paths, share if paths else 1.0)


def blocks_from_windows(
    traces: Sequence[Trace], *, ends_with_barrier: bool = True, one_counter: bool = False
) -> Program:
    """The program of a sub-group whose run is traced in windows: from its start, each goes on for as long as what it stands
    for; see `blocks_from_trace`."""
    samples = [one for one in traces if not one.own_share]
    ends = [one for one in traces if one.own_share]  # the end of the run, and its start
    share = (1 - sum(one.own_share for one in ends)) / max(len(samples), 1)
    blocks: list[Block] = []
    steps: list[Step] = []
    for one in [*ends[1:], *samples, *ends[:1]]:
        if one.n_access:
            program = blocks_from_trace(one, ends_with_barrier=False, one_counter=one_counter)
            numbers = list(range(len(blocks), len(blocks) + len(program.blocks)))
            part = one.traced_part / (one.own_share or share)
            steps += _going_on(renamed(program.steps, numbers), part)
            blocks += program.blocks
    if ends_with_barrier:
        steps.append(len(blocks))
        blocks.append(Block(barrier=True))
    return _with_instructions(make_program(blocks, steps), traces)


def _with_instructions(program: Program, traces: Sequence[Trace]) -> Program:
    """A program that has as many instructions of each kind as a sub-group executes, of which traces have their parts."""
    wanted: Counter[str] = Counter()
    for one in traces:
        if one.work is not None and one.work_table is not None:
            rows = np.bincount(one.work, minlength=len(one.work_table))
            for kind, count in zip(one.work_kinds, rows @ one.work_table, strict=True):
                wanted[PREFIX + kind] += count
    n_whole = sum(one.n_subgroup * one.traced_part for one in traces)
    found: Counter[str] = Counter()
    for number, times in program.occurrences().items():
        for kind, count in program.blocks[number].operations.items():
            found[kind] += times * count  # type: ignore[assignment]
    scale = {kind: wanted[kind] / n_whole / found[kind] for kind in wanted if found[kind]}
    blocks = tuple(
        replace(one, operations={k: n * scale.get(k, 1.0) for k, n in one.operations.items()})
        for one in program.blocks
    )
    return replace(program, blocks=blocks)


def _going_on(steps: Sequence[Step], part: float) -> list[Step]:
    """The steps of what a window stands for, of which it has this part: its longest loop goes on, or ends earlier where windows
    overlap."""
    runs = [n_blocks(step) for step in steps]
    longest = int(np.argmax(runs))
    missing = sum(runs) * (1 / part - 1)
    found = steps[longest]
    if not isinstance(found, Repeat):
        return [Repeat(tuple(steps), 1 / part)]
    more = missing / (runs[longest] / found.count)
    turns = max(found.count + more, 0.0)
    return [*steps[:longest], Repeat(found.steps, turns), *steps[longest + 1 :]]


def _shared_orders(
    trace: Trace, steps_of: Callable[[int], tuple[list[Step], list[int]]], at_once: bool
) -> tuple[list[list[int]], float]:
    """The blocks of a group's sub-groups, if the steps of most groups are the same, else none; and the share of a mean group.

    In a software pipeline those of the most frequent kind, or of the longest where all begin at once, as where each group stays and
    computes one tile after another. Of a cluster the first group counts: it does what is done once for all.
    """
    n = -(-trace.launch.group_items // trace.subgroup_size)
    groups = np.unique(trace.workgroup)
    first = groups[groups % trace.launch.cluster_groups == 0]
    some = first[np.unique(np.linspace(0, len(first) - 1, GROUPS).astype(np.int64))]
    found: Counter[tuple[tuple[Step, ...], ...]] = Counter()
    orders: dict[tuple[tuple[Step, ...], ...], list[list[int]]] = {}
    for group in some:
        members = np.flatnonzero(trace.workgroup == group)
        if len(members) == n:
            both = [steps_of(int(subgroup)) for subgroup in members]
            steps = tuple(tuple(folded) for folded, _ in both)
            found[steps] += 1
            orders.setdefault(steps, [order for _, order in both])
    if not found:
        return [], 1.0
    length = {steps: sum(map(len, order)) for steps, order in orders.items()}
    if not _is_pipelined(trace):
        shared, times = found.most_common(1)[0]
        return (orders[shared] if 2 * times > len(some) else []), 1.0
    if not at_once:
        return orders[max(found, key=lambda steps: (found[steps], -length[steps]))], 1.0
    longest = max(length.values())
    mean = sum(length[steps] * times for steps, times in found.items()) / found.total()
    return next(orders[steps] for steps in orders if length[steps] == longest), mean / longest


def _is_pipelined(trace: Trace) -> bool:
    return any(PIPELINED.fullmatch(kind) for kind in trace.work_kinds)


def _with_last_barriers(orders: list[list[int]], blocks: list[Block]) -> list[list[int]]:
    """As many barriers in each: sub-groups that end early do not keep the others waiting at the last ones of the group."""
    counts = [sum(blocks[step].barrier for step in order) for order in orders]
    if len(set(counts)) < 2:
        return orders
    blocks.append(Block(barrier=True))
    most, number = max(counts), len(blocks) - 1
    return [
        [*order, *[number] * (most - count)] for order, count in zip(orders, counts, strict=True)
    ]


def _paths(orders: list[list[int]], blocks: Sequence[Block], longest: int) -> list[list[int]]:
    """The blocks that a group's sub-groups run, if they differ, and are few, with equally many barriers; else none."""
    if len(set(map(tuple, orders))) < 2 or max(map(len, orders)) > longest:
        return []
    barriers = {sum(blocks[step].barrier for step in order) for order in orders}
    return orders if len(barriers) == 1 else []


def fold(order: Sequence[int]) -> list[Step]:
    """A list of blocks with consecutive repetitions as Repeats, shortest periods first."""
    steps: list[Step] = list(order)
    for period in range(1, LONGEST_PERIOD + 1):
        if 2 * period > len(steps):
            break
        made: list[Step] = []
        k = 0
        while k < len(steps):
            turn = steps[k : k + period]
            times = 1
            while len(turn) == period and _alike(
                steps[k + times * period : k + (times + 1) * period], turn
            ):
                times += 1
            if times > 1:
                turns = [steps[k + t * period : k + (t + 1) * period] for t in range(times)]
                made.append(Repeat(_mean(turns, [1.0] * times), times))
                k += times * period
            else:
                made.append(steps[k])
                k += 1
        steps = made
    return steps


def _content(trace: Trace, subgroup: int) -> bytes:
    """All that a sub-group's blocks depend on: most sub-groups share it with others."""
    begin, end = (int(trace.subgroup_offset[subgroup + k]) for k in (0, 1))
    columns = (trace.site, trace.starts_sequence, trace.waits, trace.work)
    return b"".join(column[begin:end].tobytes() for column in columns if column is not None)


def _blocks_of(
    trace: Trace, subgroup: int, per_load: PerLoad, ends_with_barrier: bool, one_counter: bool
) -> list[Block]:
    begin, end = (int(trace.subgroup_offset[subgroup + k]) for k in (0, 1))
    blocks: list[Block] = []
    accesses: list[str] = []
    loads: list[str] = []
    work: list[int] = []
    uses: list[Counter[str]] = []  # of loaded values, in this block and those after it
    first = k = 0  # index of the block's first access within the sub-group, and of the present one
    pipelined, of_bulk = _is_pipelined(trace), any(site.bulk for site in trace.sites)
    settled = -1  # what has been waited for
    ends: list[int] = []  # index behind each block's last access
    sizes = {site.name: float(site.itemsize_bytes) for site in trace.sites}
    rows = None if trace.work is None else trace.work[begin:end].tolist()

    def close(barrier: bool, *, end: bool = False, lag: int = 0) -> None:
        nonlocal accesses, loads, work
        ends.append(k + barrier)
        operations: dict[str, float] = dict(uses.pop(0)) if uses else {}
        if barrier and rows is None and not end:  # no instruction ends a group
            operations["barrier"] = 1
        blocks.append(
            Block(
                operations=operations | _instructions(trace, work),
                accesses=tuple(accesses),
                waits_for=tuple(loads),
                bytes_per_item=sum(sizes[name] for name in accesses),
                barrier=barrier,
                lag=lag,
            )
        )
        accesses, loads, work = [], [], []

    def close_under_way() -> None:
        """Ends a block for whose loads a later one waits, if any."""
        nonlocal loads
        if accesses:
            loads = []
            close(barrier=False, lag=-1)

    def close_waiting(latest: int, barrier: bool) -> None:
        """Ends a block in which loads up to the latest one are waited for, which earlier blocks have."""
        nonlocal loads
        awaited = [
            trace.sites[n] for n in trace.site[begin:end][settled + 1 : latest + 1] if n >= 0
        ]
        loads = [site.name for site in awaited if site.direction != "store"]
        close(barrier, lag=len(ends) - bisect.bisect_right(ends, latest) if loads else 0)

    def await_stores(latest: int) -> None:
        """Adds the stores of this block that are counted before the latest access that is waited for, or are it; scalar
        loads have another counter."""
        sites = [trace.sites[n] for n in trace.site[begin:end][first : latest + 1]]
        if sites[-1].direction != "store":
            while sites and (sites[-1].direction != "load" or sites[-1].scalar):
                sites.pop()
        loads.extend(site.name for site in sites if site.direction == "store")

    columns = (trace.site, trace.starts_sequence, trace.waits)
    listed = zip(*(column[begin:end].tolist() for column in columns), strict=True)
    for k, (number, starts, waits) in enumerate(listed):
        if (pipelined and waits > settled and waits < first) or (
            pipelined and number == BARRIER_SITE
        ):
            close_under_way()
            if number == BARRIER_SITE:
                if of_bulk and waits > settled:  # what came is computed with before the barrier
                    close_waiting(waits, barrier=False)
                    settled = waits
                work += [] if rows is None else [rows[k]]
            close_waiting(waits, barrier=number == BARRIER_SITE)
        settled = max(settled, waits)
        if one_counter and accesses and waits >= first:
            await_stores(waits)
        if pipelined and number == BARRIER_SITE:
            first = k + 1
            continue
        if number == BARRIER_SITE:
            if loads:  # their values are used before the barrier
                close(barrier=False)
            work += [] if rows is None else [rows[k]]
            close(barrier=True)
            continue
        if not (accesses or loads):
            first = k
        if loads and (waits >= first or (starts and not pipelined)):
            close(barrier=False)
            first = k
        site = trace.sites[number]
        accesses.append(site.name)
        work += [] if rows is None else [rows[k]]
        if site.direction == "load":
            loads.append(site.name)
            for later, used in enumerate(per_load(site), 1):
                uses += [Counter() for _ in range(len(uses), later + 1)]
                uses[later].update(used)
    if loads:  # the last loaded values are used before the end
        close(barrier=False)
    if accesses or ends_with_barrier or not blocks:
        close(barrier=ends_with_barrier, end=True)
    return blocks


def _instructions(trace: Trace, rows: Sequence[int]) -> dict[str, float]:
    """Kind of instruction -> how many the rows of a trace's work count."""
    if trace.work_table is None or not rows:
        return {}
    counts = trace.work_table[rows].sum(axis=0).tolist()
    return {
        PREFIX + kind: count for kind, count in zip(trace.work_kinds, counts, strict=True) if count
    }


def _alike(left: Sequence[Step], right: Sequence[Step]) -> bool:
    return len(left) == len(right) and _shape(left) == _shape(right)


def _shape(steps: Sequence[Step], named: Callable[[int], Any] = lambda number: number) -> Any:
    """Steps without their counts. named : what of a block counts"""
    return tuple(
        (_shape(step.steps, named),) if isinstance(step, Repeat) else named(step) for step in steps
    )


def _mean(
    alike: Sequence[Sequence[Step]],
    weights: Sequence[float],
    mean_block: Callable[[Sequence[int], Sequence[float]], int] = lambda numbers, _: numbers[0],
) -> tuple[Step, ...]:
    """Programs of equal shape as one program with the mean repeat counts.

    An inner loop's count is weighted by how often the loop around it iterates.
    """
    steps: list[Step] = []
    for column in zip(*alike, strict=True):
        repeats = [step for step in column if isinstance(step, Repeat)]
        if not repeats:
            steps.append(mean_block([step for step in column if isinstance(step, int)], weights))
            continue
        turns = [weight * step.count for weight, step in zip(weights, repeats, strict=True)]
        inner = _mean([step.steps for step in repeats], turns, mean_block)
        steps.append(Repeat(inner, sum(turns) / sum(weights)))
    return tuple(steps)


def _repeats(steps: Sequence[Step]) -> list[Repeat]:
    repeats: list[Repeat] = []
    for step in steps:
        if isinstance(step, Repeat):
            repeats += [step, *_repeats(step.steps)]
    return repeats


def _is_single(step: Repeat) -> bool:
    return len(step.steps) == 1 and not isinstance(step.steps[0], Repeat)


def _with_single_turns(steps: Sequence[Step], repeated: set[Any]) -> list[Step]:
    """The steps, in which blocks that repeat in other sub-groups are Repeats of one iteration."""
    made: list[Step] = []
    for step in steps:
        if isinstance(step, Repeat):
            made.append(
                step
                if _is_single(step)
                else Repeat(tuple(_with_single_turns(step.steps, repeated)), step.count)
            )
        else:
            made.append(Repeat((step,), 1) if step in repeated else step)
    return made
