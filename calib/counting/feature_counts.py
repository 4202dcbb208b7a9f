"""`count`: the number of operations or accesses of a kernel, as a quasi-polynomial of its sizes.

Count = sum over instructions of |its points| x operations at each point (Stevens and Klöckner 2020,
Algorithm 1). The points are those at which the instruction runs: a branch of an `if` counts where
its condition holds, partial tiles count as far as they reach, and functions are inlined into the
kernel whose grid they run on. A loop bounded by memory, or a condition on a loaded value, is
refused unless the caller specifies how often it runs; `control_flow_from_trace.py` measures that.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from importlib.metadata import version
from typing import Any

import islpy as isl
import msgspec

from calib.counting.count_formulas import Count, Guard, PerSize, Solved, SumOfCounts, Term, solve
from calib.counting.granularity import points
from calib.counting.inventory import AccessRecord, DomainRecord, Inventory, take_inventory
from calib.counting.language import (
    Feature,
    FeatureError,
    MemAccessFeature,
    OpFeature,
    PlainFeature,
    parse_feature,
)
from calib.counting.options import CountOptions, Granularity, Taken, TripCounts, Trips, shares
from calib.counting.scheduled import schedule, translation_unit
from calib.polynomials.isl_forms import aligned
from calib.polynomials.piecewise import Piecewise
from calib.polynomials.quasi_polynomial import QuasiPolynomial
from calib.words import near
from memsim import __version__, disk_cache
from memsim.errors import KernelError
from tracegen.workloads import Workload

ZERO = QuasiPolynomial.number(0)
KIND = "counts"
"""The kind of files in the cache on disk."""
FORMAT = 2
"""To be increased whenever counts, or the form of the files, change."""


@dataclass(frozen=True)
class _Kept:
    """What a kernel's file holds.  forms, per_size : of what was counted, polynomials and texts of sets without one"""

    inventory: Inventory
    forms: dict[str, Piecewise]
    per_size: dict[str, str]


_ENCODER = msgspec.json.Encoder(enc_hook=str)  # fractions
_DECODER = msgspec.json.Decoder(_Kept, dec_hook=lambda kind, text: kind(text))
_UNREADABLE = (msgspec.DecodeError, ArithmeticError, ValueError, RecursionError, isl.Error)


def count(kernel: Any, feature: str | Feature, **options: Any) -> Count:
    """Counts what a feature names in a kernel.

    kernel : loopy.TranslationUnit or tracegen.Workload
    feature : one of the counted features: f_op_..., f_mem_access_..., f_sync_..., f_thread_groups
    options : the fields of CountOptions

        count(matmul, "f_op_float32_madd").at(n=1024)

    Raises FeatureError for a text that is not a counted feature or names a tag that is not in the
    kernel, KernelError for a kernel that cannot be counted.
    """
    chosen = CountOptions().replace(**options)
    return kernel_counts(kernel).count(feature, chosen)


class KernelCounts:
    """A kernel's inventory and the counts made so far, which are kept on disk too."""

    def __init__(self, t_unit: Any, key: str) -> None:
        self.key = key
        self.solved: dict[str, Solved] = {}
        self.counts: dict[Any, Count] = {}
        self.from_disk = self._load()
        if not self.from_disk:
            self.inventory = take_inventory(schedule(t_unit))
            self._save()
        self.assumptions = isl.Set(self.inventory.assumptions)

    def count(self, feature: str | Feature, options: CountOptions) -> Count:
        key = (feature, options.key)
        if key not in self.counts:
            before = len(self.solved)
            self.counts[key] = self._count(feature, options)
            if len(self.solved) > before:
                self._save()
        return self.counts[key]

    def _count(self, text: str | Feature, options: CountOptions) -> Count:
        feature = parse_feature(text) if isinstance(text, str) else text
        counted: tuple[list[Term], str]
        if isinstance(feature, OpFeature):
            counted = self._ops(feature, options)
        elif isinstance(feature, MemAccessFeature):
            counted = self._accesses(feature, options)
        elif feature == PlainFeature.BARRIERS:
            counted = self._barriers(options)
        elif isinstance(feature, PlainFeature):
            launched = feature == PlainFeature.LAUNCHES
            domains = [one.times if launched else one.groups for one in self.inventory.launches]
            counted = [self._term(each, "work-item", options) for each in domains], ""
        else:
            raise FeatureError(
                f"{feature} is not counted from a kernel's text; calib.features.evaluate returns its"
                " value"
            )
        terms, unit = counted
        return Count(tuple(terms), self.inventory.allowed, self.inventory.name, str(feature), unit)

    def _ops(self, feature: OpFeature, options: CountOptions) -> tuple[list[Term], str]:
        unit = options.granularity or "sub-group"
        return [
            self._term(op.domain, unit, options, op.number)
            for op in self.inventory.ops
            if (op.name, op.dtype) == (feature.operation, feature.dtype)
            and (options.index_arithmetic or not op.in_index)
        ], unit

    def _accesses(self, feature: MemAccessFeature, options: CountOptions) -> tuple[list[Term], str]:
        terms, units = [], []
        for access in self.selected(feature):
            guards = self._guards(feature, access, options)
            if guards is None:
                continue
            unit = options.granularity or access.granularity
            units.append(unit)
            terms.append(self._term(access.domain, unit, options, 1, guards))
        return terms, " or ".join(sorted(set(units))) or "work-item"

    def selected(self, feature: MemAccessFeature) -> list[AccessRecord]:
        """The accesses that match a feature's fields, regardless of its constraints.

        Raises FeatureError for a tag that is not in the kernel.
        """
        if feature.tag is not None and feature.tag not in self.inventory.tags:
            tags = self.inventory.tags
            hint = near(feature.tag, tags) if tags else "; it has no tags"
            raise FeatureError(
                f"kernel {self.inventory.name} has no access tagged {feature.tag}{hint}"
            )
        fields = ("tag", "memory", "dtype", "direction")
        return [
            access
            for access in self.inventory.accesses
            if all(getattr(feature, name) in (None, getattr(access, name)) for name in fields)
        ]

    def matching(
        self, feature: MemAccessFeature, options: CountOptions, sizes: Mapping[str, int]
    ) -> list[AccessRecord]:
        """The accesses that match a feature's fields and constraints at one size."""
        guarded = ((one, self._guards(feature, one, options)) for one in self.selected(feature))
        return [
            access
            for access, guards in guarded
            if guards is not None and all(guard.holds(sizes) for guard in guards)
        ]

    def _guards(
        self, feature: MemAccessFeature, access: AccessRecord, options: CountOptions
    ) -> tuple[Guard, ...] | None:
        """The constraints that depend on sizes; None if a constraint fails at every size."""
        guards: list[Guard] = []
        for constraints, strides in (
            (feature.local_strides, access.local_strides),
            (feature.group_strides, access.group_strides),
        ):
            for axis, constraint in constraints:
                stride = strides[axis] if axis < len(strides) else ZERO
                if stride is None:
                    return None
                guards.append(Guard(constraint, stride=stride))
        if feature.afr is not None:
            accesses, footprint = self.access_footprint(access, options)
            guards.append(Guard(feature.afr, accesses=accesses, footprint=footprint))
        for guard in guards:
            if not guard.parameters and not guard.holds({}):
                return None
        return tuple(guard for guard in guards if guard.parameters)

    def access_footprint(
        self, access: AccessRecord, options: CountOptions
    ) -> tuple[Solved, Solved]:
        """The accesses by work-items of one pattern, and the number of distinct elements accessed.

        A pattern consists of all accesses that share array, type, direction, tag and strides; its
        footprint is the union of theirs (Stevens and Klöckner 2020, Algorithm 2). Raises
        KernelError if an index is not affine.
        """
        same = [other for other in self.inventory.accesses if other.pattern == access.pattern]
        united = None
        for other in same:
            if other.footprint is None:
                raise KernelError(
                    f"the footprint of {other.text} in {self.inventory.name} is unknown: its index"
                    " is not an affine form of loops and sizes (lp.fix_parameters makes products of"
                    " sizes numbers)"
                )
            elements = isl.Set(other.footprint)
            united = elements if united is None else _union(united, elements)
        assert united is not None
        footprint = self._solved(f"footprint {united}", lambda: united)
        terms = [self._term(other.domain, "work-item", options) for other in same]
        parts = [(term.value, term.factor) for term in terms]
        if all(isinstance(value, Piecewise) for value, _ in parts):
            return Piecewise.total(parts), footprint  # type: ignore[arg-type]
        return SumOfCounts(tuple(parts)), footprint

    def _barriers(self, options: CountOptions) -> tuple[list[Term], str]:
        unit = options.granularity or "work-item"
        local = [one for one in self.inventory.barriers if one.kind == "local"]
        terms = [self._term(one.domain, "work-item", options) for one in local]
        if terms and unit != "work-item":
            raise KernelError(
                "barriers are counted as one work-item executes them; multiply by f_thread_groups"
            )
        return terms, unit

    def _term(
        self,
        number: int,
        unit: Granularity,
        options: CountOptions,
        times: int = 1,
        guards: tuple[Guard, ...] = (),
    ) -> Term:
        value = self._points(number, unit, options.subgroup_size)
        record, name = self.inventory.domains[number], self.inventory.name
        factor = factor_of(record, name, options.trip_counts, options.taken, unit)
        return Term(value, times * factor, guards)

    def _points(self, number: int, unit: Granularity, subgroup_size: int) -> Solved:
        record = self.inventory.domains[number]

        def made() -> Any:
            domain = isl.Set(record.points)
            return points(domain, record.n_group, record.local_sizes, unit, subgroup_size)

        width = f" {subgroup_size}" if unit == "sub-group" else ""
        return self._solved(f"{number} {unit}{width}", made)

    def points_at(
        self, number: int, unit: Granularity, subgroup_size: int, sizes: Mapping[str, int]
    ) -> Fraction:
        """The points of one of the inventory's domains at one size, without data-dependent
        factors."""
        return self._points(number, unit, subgroup_size).at(sizes)

    def domain_count(
        self, number: int, unit: Granularity, options: CountOptions, sizes: Mapping[str, int]
    ) -> Fraction:
        """The points of one of the inventory's domains at one size."""
        term = self._term(number, unit, options)
        return term.value.at(sizes) * term.factor

    def _solved(self, key: str, made: Callable[[], Any]) -> Solved:
        if key not in self.solved:
            self.solved[key] = solve(made(), self.assumptions)
        return self.solved[key]

    def _load(self) -> bool:
        content = disk_cache.load_bytes(KIND, self.key)
        if content is None:
            return False
        try:
            kept = _DECODER.decode(content)
            for text in (*kept.inventory.sets, *kept.per_size.values()):
                isl.Set(text)
        except _UNREADABLE:
            return False
        self.inventory = kept.inventory
        self.solved = {**kept.forms, **{k: PerSize(text) for k, text in kept.per_size.items()}}
        return True

    def _save(self) -> None:
        forms = {k: value for k, value in self.solved.items() if isinstance(value, Piecewise)}
        per_size = {k: v.points for k, v in self.solved.items() if isinstance(v, PerSize)}
        content = _ENCODER.encode(_Kept(self.inventory, forms, per_size))
        disk_cache.save_bytes(KIND, self.key, content)


def fingerprint(t_unit: Any) -> str:
    """A hash of a loopy.TranslationUnit and of everything that its counts depend on."""
    from loopy.tools import LoopyKeyBuilder

    parts = [str(FORMAT), LoopyKeyBuilder()(t_unit), __version__]
    return disk_cache.fingerprint([*parts, *map(version, ("loopy", "islpy", "pymbolic"))])


_BY_OBJECT: dict[int, tuple[Any, KernelCounts]] = {}
"""By id of the kernel object, with a weak reference to check that it is still the same object."""
_BY_FINGERPRINT: weakref.WeakValueDictionary[str, KernelCounts] = weakref.WeakValueDictionary()


def kernel_counts(kernel: Any) -> KernelCounts:
    """The counts of a kernel; equal kernels share them."""
    if not isinstance(kernel, Workload):  # whose arguments may determine types
        kernel = translation_unit(kernel)
    number = id(kernel)
    cached = _BY_OBJECT.get(number)
    if cached is not None and cached[0]() is kernel:
        return cached[1]
    t_unit = translation_unit(kernel)
    key = fingerprint(t_unit)
    counts = _BY_FINGERPRINT.get(key)
    if counts is None:
        counts = _BY_FINGERPRINT[key] = KernelCounts(t_unit, key)
    _BY_OBJECT[number] = (weakref.ref(kernel, lambda _: _BY_OBJECT.pop(number, None)), counts)
    return counts


def _union(left: Any, right: Any) -> Any:
    left, right = aligned(left, right)
    return (left | right).coalesce()


def _trips_of(name: str, kernel: str, trip_counts: TripCounts, unit: Granularity) -> Fraction:
    """Trips of a loop in one unit; raises KernelError if they are not specified."""
    if name not in trip_counts:
        raise KernelError(
            f"loop {name} of {kernel} is bounded by values from memory: specify its average trips,"
            f" trip_counts={{{name!r}: ...}}, or measure them with calib.measure_control_flow"
        )
    trips = trip_counts[name]
    if isinstance(trips, Trips):
        return Fraction(trips.by_items if unit == "work-item" else trips.by_subgroups)
    return Fraction(trips)


def _share_of(
    condition: str, holds: bool, kernel: str, taken: Taken, unit: Granularity
) -> Fraction:
    """The share of times that a condition holds, or fails; raises KernelError if it is unknown."""
    if isinstance(taken, str):
        return Fraction(1)
    if condition not in taken:
        raise KernelError(
            f"condition {condition} of {kernel} depends on values from memory: specify how often it"
            f" holds, taken={{{condition!r}: share}}, or taken='both' to count both branches in full"
        )
    by_items, by_subgroups, others = shares(taken[condition])
    assert by_items is not None
    assert by_subgroups is not None
    if unit == "work-item":
        return Fraction(by_items) if holds else 1 - Fraction(by_items)
    if holds:
        return Fraction(by_subgroups)
    if others is None:
        raise KernelError(
            f"{kernel}: the share of sub-groups in which {condition} fails for a lane is unknown;"
            " specify it as calib.counting.Share"
        )
    return Fraction(others)


def factor_of(
    record: DomainRecord, kernel: str, trip_counts: TripCounts, taken: Taken, unit: Granularity
) -> Fraction:
    """The factor of the data-dependent loops and conditions of a domain."""
    factor = Fraction(1)
    for loop in record.trips:
        factor *= _trips_of(loop, kernel, trip_counts, unit)
    for condition, holds in record.taken:
        factor *= _share_of(condition, holds, kernel, taken, unit)
    return factor
