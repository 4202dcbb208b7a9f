"""Everything in a kernel that can be counted, as plain data; isl sets are stored as text."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import islpy as isl
from loopy.symbolic import get_access_map

from calib.counting.instruction_reader import InstructionReader, StaticAccess
from calib.counting.iteration_domains import (
    Grid,
    Reach,
    grid,
    is_vector,
    loop_domain,
    reach,
    reordered,
    with_axis,
)
from calib.counting.options import Granularity
from calib.counting.scheduled import Scheduled
from calib.counting.strides import axis_strides, by_trips
from calib.polynomials.isl_forms import DIM, Conjunction, conditions, with_names
from calib.polynomials.quasi_polynomial import QuasiPolynomial
from memsim.errors import MemsimError
from tracegen.workloads import as_kernel_error


@dataclass(frozen=True)
class DomainRecord:
    """Points at which something runs, as text of an isl.Set over group axes, local axes and loops.

    trips : loops bounded by values from memory; taken : conditions on such values, and whether
        they hold
    """

    points: str
    n_group: int
    local_sizes: tuple[int | None, ...]
    trips: tuple[str, ...] = ()
    taken: tuple[tuple[str, bool], ...] = ()


@dataclass(frozen=True)
class AccessRecord:
    """One static memory access.

    local_strides, group_strides : by axis, in elements; None where unknown
    domain : number of its DomainRecord
    footprint : text of the isl.Set of accessed elements; None if isl cannot determine it
    """

    instruction: str
    text: str
    memory: Literal["global", "local"]
    array: str
    dtype: str
    direction: Literal["load", "store", "atomic"]
    tag: str | None
    local_strides: tuple[QuasiPolynomial | None, ...]
    group_strides: tuple[QuasiPolynomial | None, ...]
    domain: int
    footprint: str | None

    @property
    def uniform(self) -> bool:
        """Whether all lanes of a row access one element: the stride of lid(0) is 0."""
        if not self.local_strides:
            return True
        first = self.local_strides[0]
        return first is not None and not first.terms

    @property
    def granularity(self) -> Granularity:
        """On-chip and uniform global accesses count once per sub-group, others once per
        work-item."""
        if self.memory == "local" or (self.uniform and self.direction != "atomic"):
            return "sub-group"
        return "work-item"

    @property
    def pattern(self) -> tuple[Any, ...]:
        """The fields that accesses of one pattern share; their footprints are united."""
        return (
            self.memory,
            self.array,
            self.dtype,
            self.direction,
            self.tag,
            self.local_strides,
            self.group_strides,
        )


@dataclass(frozen=True)
class OpRecord:
    """Operations of one kind in one instruction."""

    name: str
    dtype: str
    number: int
    domain: int
    in_index: bool


@dataclass(frozen=True)
class BarrierRecord:
    """A barrier, executed at each point of its domain by every work-item of its group."""

    kind: str
    domain: int


@dataclass(frozen=True)
class LaunchRecord:
    """A kernel function: the domain of its groups and that of the host's loops around it."""

    groups: int
    times: int


@dataclass(frozen=True)
class Inventory:
    """What can be counted in a kernel, and the sizes that its assumptions allow.

    parameters : integer arguments; assumptions : conditions on them, as text of an isl.Set

    Raises ValueError where something refers to a domain that is not there.
    """

    name: str
    parameters: tuple[str, ...]
    assumptions: str
    domains: tuple[DomainRecord, ...]
    launches: tuple[LaunchRecord, ...]
    accesses: tuple[AccessRecord, ...]
    ops: tuple[OpRecord, ...]
    barriers: tuple[BarrierRecord, ...]

    def __post_init__(self) -> None:
        counted: tuple[AccessRecord | OpRecord | BarrierRecord, ...]
        counted = (*self.accesses, *self.ops, *self.barriers)
        used = [one.domain for one in counted]
        used += [number for each in self.launches for number in (each.groups, each.times)]
        if any(not 0 <= number < len(self.domains) for number in used):
            raise ValueError("a domain that is not there")

    @cached_property
    def allowed(self) -> tuple[Conjunction, ...]:
        return conditions(isl.Set(self.assumptions))

    @property
    def sets(self) -> tuple[str, ...]:
        """All texts of isl sets."""
        footprints = [access.footprint for access in self.accesses if access.footprint is not None]
        return self.assumptions, *(domain.points for domain in self.domains), *footprints

    @property
    def tags(self) -> tuple[str, ...]:
        return tuple(sorted({access.tag for access in self.accesses if access.tag}))


def take_inventory(scheduled: Scheduled) -> Inventory:
    """Lists what can be counted in a kernel; raises KernelError for what cannot."""
    with as_kernel_error(scheduled.kernel.name):
        return _Builder(scheduled).run()


class _Builder:
    def __init__(self, scheduled: Scheduled) -> None:
        self.scheduled = scheduled
        self.domains: dict[DomainRecord, int] = {}
        self.accesses: list[AccessRecord] = []
        self.ops: list[OpRecord] = []

    def run(self) -> Inventory:
        scheduled = self.scheduled
        launches, barriers = [], []
        for launch, name in enumerate(scheduled.names):
            shape = grid(scheduled, launch)
            self._instructions(launch, shape)
            launches.append(self._launch(launch, name, shape))
        for place, kind in scheduled.barriers:
            loops = (*place.host_loops, *place.loops)
            domain, trips = loop_domain(scheduled, loops, f"a {kind} barrier")
            record = DomainRecord(_text(domain), 0, (), tuple(trips))
            barriers.append(BarrierRecord(kind, self._number(record)))
        assumptions = scheduled.kernel.assumptions
        return Inventory(
            name=scheduled.kernel.name,
            parameters=scheduled.parameters,
            assumptions=str(isl.Set.from_basic_set(assumptions).params()),
            domains=tuple(self.domains),
            launches=tuple(launches),
            accesses=tuple(self.accesses),
            ops=tuple(self.ops),
            barriers=tuple(barriers),
        )

    def _launch(self, launch: int, name: str, shape: Grid) -> LaunchRecord:
        loops = self.scheduled.launch_loops[launch]
        times, trips = loop_domain(self.scheduled, loops, f"the launch of {name}")
        box = _box(shape.groups, times)
        n = len(shape.groups)
        return LaunchRecord(
            self._number(DomainRecord(_text(box), n, (), tuple(trips))),
            self._number(DomainRecord(_text(times), 0, (), tuple(trips))),
        )

    def _instructions(self, launch: int, shape: Grid) -> None:
        guards: tuple[Any, ...] = ()
        place_before = None
        for name, place in self.scheduled.places.items():
            if place.launch != launch:
                continue
            instruction = self.scheduled.kernel.id_to_insn[name]
            where = reach(self.scheduled, instruction, shape)
            predicates = sorted(instruction.predicates, key=str)
            shared = guards if place == place_before else ()
            for predicate in predicates:
                reader = InstructionReader(self.scheduled.kernel, self.scheduled.callables)
                reader.condition(predicate, where)
                # neighbouring instructions under one condition evaluate it once
                if predicate not in shared:
                    self._add(name, reader, shape)
                where = where.under(predicate, True)
            guards, place_before = tuple(predicates), place
            reader = InstructionReader(self.scheduled.kernel, self.scheduled.callables)
            reader.instruction(instruction, where)
            self._add(name, reader, shape)

    def _add(self, instruction: str, reader: InstructionReader, shape: Grid) -> None:
        self.accesses += [self._access(instruction, seen, shape) for seen in reader.accesses]
        for op in reader.ops:
            domain = self._domain(op.reach, shape)
            self.ops.append(OpRecord(op.name, op.dtype, op.number, domain, op.in_index))

    def _access(self, instruction: str, seen: StaticAccess, shape: Grid) -> AccessRecord:
        kernel, where = self.scheduled.kernel, seen.reach
        axes = where.inames[: where.n_group + where.n_local]
        index = by_trips(seen.index, where.starts)
        strides = axis_strides(kernel, seen.array, index, axes, self.scheduled.parameters)
        if seen.memory == "global":
            where = _vector_once(kernel, seen, where)
        return AccessRecord(
            instruction=instruction,
            text=seen.text,
            memory=seen.memory,
            array=seen.array.name,
            dtype=seen.dtype,
            direction=seen.direction,
            tag=seen.tag,
            local_strides=strides[where.n_group :],
            group_strides=strides[: where.n_group],
            domain=self._domain(where, shape),
            footprint=_footprint(kernel, seen),
        )

    def _domain(self, where: Reach, shape: Grid) -> int:
        return self._number(
            DomainRecord(
                _text(where.domain), where.n_group, shape.local_sizes, where.trips, where.taken
            )
        )

    def _number(self, record: DomainRecord) -> int:
        return self.domains.setdefault(record, len(self.domains))


def _vector_once(kernel: Any, seen: StaticAccess, where: Reach) -> Reach:
    """Counts one access for all components of a vector."""
    for name in where.inames:
        if is_vector(kernel, name) and seen.array.vector_length() > 1:
            at = where.domain.find_dim_by_name(DIM.set, name)
            inames = tuple(each for each in where.inames if each != name)
            domain = where.domain.project_out(DIM.set, at, 1)
            where = dataclasses.replace(where, domain=domain, inames=inames)
    return where


def _footprint(kernel: Any, seen: StaticAccess) -> str | None:
    if not seen.index or seen.reach.trips or seen.reach.taken:
        return None
    try:
        image = get_access_map(seen.reach.domain, seen.index).range()
    except (isl.Error, MemsimError, TypeError, ValueError, NotImplementedError):
        return None
    except Exception as error:
        if type(error).__module__.startswith("loopy"):
            return None
        raise
    return _text(image.coalesce())


def _text(domain: Any) -> str:
    """An isl.Set as text, its dims renamed by position, because an iname may be a keyword of
    isl."""
    return str(with_names(domain, [f"i{k}_" for k in range(domain.dim(DIM.set))]))


def _box(sizes: Sequence[Any], times: Any) -> Any:
    """The product of the box 0 <= x < size, one axis per size, with a set."""
    domain = times
    for axis, size in enumerate(sizes):
        domain = with_axis(domain, f"_g{axis}", size)
    n = times.dim(DIM.set)
    names = domain.get_var_names(DIM.set)
    return reordered(domain, [*names[n:], *names[:n]])
