"""Exact counts: the closed form of a block in the kernel's sizes, where its control flow is static.

The points at which a block runs (`static_control`) are counted per work-item and per sub-group, with
the host's loops around a launch. The result is a piecewise quasi-polynomial, exact at any size.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import islpy as isl
import numpy as np
import numpy.typing as npt

from calib.block_counts.static_control import DataDependent, Frame, points_under
from calib.counting.count_formulas import PerSize, Solved, solve
from calib.counting.granularity import points
from calib.counting.iteration_domains import grid, loop_domain, with_axis
from calib.counting.options import SUBGROUP_SIZE
from calib.counting.scheduled import Scheduled, as_kernel_error, schedule
from calib.polynomials.isl_forms import DIM, fix, parameters_of
from calib.polynomials.piecewise import Piecewise
from memsim.errors import KernelError
from tracegen.blocks import EVERYONE, Block, BlockCounter, Control
from tracegen.c_source import assignment, read_statements
from tracegen.instrumented import strip

STEP = "_step"
"""The name of the host loop's variable in the closed form of a launch."""
ObjectArray = npt.NDArray[Any]


@dataclass(frozen=True)
class ExactCount:
    """A block's count: the sum of the numbers of points of its events.

    parts : one for each event
    """

    parts: tuple[Solved, ...]

    @property
    def parameters(self) -> tuple[str, ...]:
        return tuple(sorted({name for part in self.parts for name in part.parameters}))

    @property
    def symbolic(self) -> bool:
        """Whether every part has a closed form, and none is counted anew for each size."""
        return not any(isinstance(part, PerSize) for part in self.parts)

    def at(self, sizes: Mapping[str, int]) -> int:
        return int(sum((part.at(sizes) for part in self.parts), Fraction(0)))

    def at_many(self, sizes: Mapping[str, npt.NDArray[Any]]) -> ObjectArray:
        """Counts as Python integers, because they may exceed 64 bits."""
        total: Any = 0
        for part in self.parts:
            total = total + part.at_many(sizes)
        return np.asarray(total, object)

    def __str__(self) -> str:
        if all(isinstance(part, Piecewise) for part in self.parts):
            return str(Piecewise.total((part, Fraction(1)) for part in self.parts))  # type: ignore[misc]
        return " + ".join(str(part) for part in self.parts)


@dataclass(frozen=True)
class OverLaunches:
    """The closed form of one launch, summed over the host's loop around it.

    of_launch : in the kernel's sizes and the loop's variable, STEP
    steps : the loop's values, as the text of an isl.Set
    """

    of_launch: Piecewise
    steps: str

    @cached_property
    def _steps(self) -> Any:
        return isl.Set(self.steps)

    @property
    def parameters(self) -> tuple[str, ...]:
        names = {*self.of_launch.parameters, *parameters_of(self._steps)}
        return tuple(sorted(names - {STEP}))

    def at(self, values: Mapping[str, int]) -> Fraction:
        steps = fix(self._steps, {name: int(values[name]) for name in self.parameters})
        if steps.is_empty():
            return Fraction(0)
        first, last = (
            int(bound.get_pieces()[0][1].get_constant_val().to_python())
            for bound in (steps.dim_min(0), steps.dim_max(0))
        )
        sizes: dict[str, Any] = {name: np.array(int(values[name])) for name in self.parameters}
        counts = self.of_launch.at_many(sizes | {STEP: np.arange(first, last + 1)})
        return Fraction(sum(np.broadcast_to(counts, last + 1 - first).tolist()))

    def at_many(self, values: Mapping[str, npt.NDArray[Any]]) -> ObjectArray:
        columns = np.broadcast_arrays(*(np.asarray(values[name]) for name in self.parameters))
        rows = zip(*(column.ravel().tolist() for column in columns), strict=True)
        flat = [int(self.at(dict(zip(self.parameters, row, strict=True)))) for row in rows]
        result = np.empty(len(flat), object)
        result[:] = flat
        return result.reshape(columns[0].shape if columns else ())

    def __str__(self) -> str:
        return f"sum over launches {STEP} of {self.of_launch}"


@dataclass(frozen=True)
class BlockForm:
    """How often a block runs, or why its text does not determine it.

    by_items, by_subgroups : executions by work-items and by sub-groups; None where they must be learned
    reason : why there is a closed form, or why not
    """

    block: Block
    by_items: ExactCount | None
    by_subgroups: ExactCount | None
    reason: str

    @property
    def is_exact(self) -> bool:
        return self.by_items is not None


def block_forms(counter: BlockCounter, subgroup_size: int = SUBGROUP_SIZE) -> tuple[BlockForm, ...]:
    """The closed forms of a counted workload's blocks, in their order.

    subgroup_size : lanes of a sub-group
    Raises KernelError for a kernel that Loopy cannot schedule.
    """
    if not counter.loopy:
        why = "OpenCL C is not analysed: only the bounds of Loopy's loops are known"
        return tuple(BlockForm(block, None, None, why) for block in counter.blocks)
    with as_kernel_error(str(counter.prepared.name)):
        return _all_forms(counter, subgroup_size)


def _all_forms(counter: BlockCounter, subgroup_size: int) -> tuple[BlockForm, ...]:
    scheduled = schedule(counter.scheduled)
    assumptions = isl.Set.from_basic_set(scheduled.kernel.assumptions).params()
    solver = _Solver(assumptions, subgroup_size)
    forms: list[BlockForm] = []
    for launch, name in enumerate(scheduled.names):
        cut = counter.cuts[name]
        text = strip(counter.text[cut.function.body_start : cut.function.body_end])
        paths = _paths(cut.blocks)
        try:
            frame = _frame(scheduled, launch, text)
        except KernelError as error:
            forms += [BlockForm(block, None, None, str(error)) for block in cut.blocks]
            continue
        forms += [_form(block, frame, paths, solver) for block in cut.blocks]
    return tuple(sorted(forms, key=lambda form: form.block.number))


def _form(
    block: Block, frame: Frame, paths: Mapping[int, tuple[Control, ...]], solver: _Solver
) -> BlockForm:
    if block.jumps:
        return BlockForm(
            block, None, None, "whether it runs depends on an earlier return, break or continue"
        )
    try:
        domains = [points_under(frame, paths[event]) for event in block.events]
    except DataDependent as error:
        return BlockForm(block, None, None, str(error))
    try:
        by_items = ExactCount(tuple(solver.items(domain, frame) for domain in domains))
        by_subgroups = ExactCount(tuple(solver.subgroups(domain, frame) for domain in domains))
    except KernelError as error:
        return BlockForm(block, None, None, str(error))
    conditions = [c.text for c in block.controls]
    if not conditions and block.kind != "test":
        reason = "runs once per work-item"
    else:
        reason = "its loops and branches are affine in ids and sizes"
    if not (by_items.symbolic and by_subgroups.symbolic):
        reason += "; there is no closed form, so points are counted anew for each size"
    return BlockForm(block, by_items, by_subgroups, reason)


class _Solver:
    """Counts the points of sets, equal sets only once."""

    def __init__(self, assumptions: Any, subgroup_size: int) -> None:
        self.assumptions, self.subgroup_size = assumptions, subgroup_size
        self.known: dict[str, Solved] = {}

    def items(self, domain: Any, frame: Frame) -> Solved:
        return self._solved(domain, frame.n_host)

    def subgroups(self, domain: Any, frame: Frame) -> Solved:
        chosen = points(domain, frame.n_outside, frame.local_sizes, "sub-group", self.subgroup_size)
        return self._solved(chosen, frame.n_host)

    def _solved(self, domain: Any, n_host: int) -> Solved:
        key = str(domain)
        if key not in self.known:
            solved = solve(domain, self.assumptions)
            if isinstance(solved, PerSize) and n_host == 1:
                solved = self._by_launch(domain) or solved
            self.known[key] = solved
        return self.known[key]

    def _by_launch(self, domain: Any) -> OverLaunches | None:
        """The count with the host loop's variable as a size; None where this has no closed form either."""
        loop = domain.project_out(DIM.set, 1, domain.dim(DIM.set) - 1)
        n = domain.dim(DIM.param)
        single = domain.move_dims(DIM.param, n, DIM.set, 0, 1).set_dim_name(DIM.param, n, STEP)
        of_launch = solve(single, self.assumptions)
        if not isinstance(of_launch, Piecewise):
            return None
        return OverLaunches(of_launch, str(loop.compute_divs()))


def _frame(scheduled: Scheduled, launch: int, text: str) -> Frame:
    shape = grid(scheduled, launch)
    loops = scheduled.launch_loops[launch]
    domain, trips = loop_domain(scheduled, loops, f"the launch of {scheduled.names[launch]}")
    if trips:
        raise KernelError(f"the bounds of the host's loop {trips[0]} are values from memory")
    names = list(loops)
    for axis, size in enumerate(shape.groups):
        domain = with_axis(domain, f"_g{axis}", size)
        names.append(f"gid({axis})")
    n_outside = len(names)
    for axis, size in enumerate(shape.locals):
        domain = with_axis(domain, f"_l{axis}", size)
        names.append(f"lid({axis})")
    assigned: dict[str, list[str]] = {}
    for statement in read_statements(text, 0, len(text)):
        for inner in statement.walk():
            target = None
            if inner.kind == "expression":
                target = assignment(text, inner.start, inner.end)
            if target is not None and target.name and not target.selector:
                value = text[target.equals + 1 : inner.end].rsplit(";", 1)[0]
                assigned.setdefault(target.name, []).append(" ".join(value.split()))
    return Frame(domain, tuple(names), len(loops), n_outside, shape.local_sizes, assigned)


def _paths(blocks: tuple[Block, ...]) -> dict[int, tuple[Control, ...]]:
    """event -> the branches and loops that enclose it; the last is the event's own."""
    paths: dict[int, tuple[Control, ...]] = {EVERYONE: ()}
    for block in blocks:
        for k, control in enumerate(block.controls):
            paths.setdefault(control.event, block.controls[: k + 1])
    return paths
