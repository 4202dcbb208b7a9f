"""What remedies look at: the inames of a Loopy kernel, its accesses, and what its arrays cost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import islpy as isl
from loopy.diagnostic import ExpressionNotAffineError
from loopy.kernel.array import ComputedStrideArrayDimTag, FixedStrideArrayDimTag
from loopy.kernel.data import GroupInameTag, LocalInameTag
from loopy.symbolic import CoefficientCollector, get_dependencies
from pymbolic import evaluate
from pymbolic import primitives as p

from calib.counting import sizes_of
from calib.counting.instruction_reader import AccessFinder
from calib.polynomials.isl_forms import fix
from tracegen import Workload

SET, PARAMETER = isl.dim_type.set, isl.dim_type.param


@dataclass(frozen=True)
class Access:
    """A static access to a global array. loops : inames of its instruction and of reductions around it."""

    array: str
    index: tuple[Any, ...]
    instruction: str
    is_store: bool
    loops: frozenset[str]

    @property
    def names(self) -> frozenset[str]:
        """The variables of its index."""
        return frozenset().union(*(get_dependencies(part) for part in self.index))

    def axis_of(self, iname: str) -> int | None:
        """The axis of the array along which an iname moves; None for none or several."""
        axes = [k for k, part in enumerate(self.index) if iname in get_dependencies(part)]
        return axes[0] if len(axes) == 1 else None

    def coefficient(self, iname: str) -> tuple[Any, ...] | None:
        """By axis, the coefficient of an iname in the index; None where it is not affine."""
        try:
            collect = CoefficientCollector([iname])
            return tuple(collect(part).get(p.Variable(iname), 0) for part in self.index)
        except (ExpressionNotAffineError, NotImplementedError):
            return None


@dataclass(frozen=True)
class Facts:
    """A Loopy workload, read for its remedies.

    cost : array -> its part of the bytes that the first level requests from below
    """

    workload: Workload
    cost: Mapping[str, float]

    @cached_property
    def kernel(self) -> Any:
        return self.workload.kernel.default_entrypoint

    @cached_property
    def sizes(self) -> dict[str, int]:
        return sizes_of(self.workload)

    @cached_property
    def lanes(self) -> dict[int, str]:
        """Local axis -> iname; an axis that several inames share is left out."""
        return self._tagged(LocalInameTag)

    @cached_property
    def groups(self) -> dict[int, str]:
        """Axis of the grid -> iname, likewise."""
        return self._tagged(GroupInameTag)

    @cached_property
    def reductions(self) -> frozenset[str]:
        found: set[str] = set()
        for instruction in self.kernel.instructions:
            found |= instruction.reduction_inames()
        return frozenset(found)

    @cached_property
    def loops(self) -> tuple[str, ...]:
        """Sequential loops, those of reductions included."""
        return tuple(sorted(name for name, iname in self.kernel.inames.items() if not iname.tags))

    @cached_property
    def accesses(self) -> tuple[Access, ...]:
        """Accesses to arguments."""
        found: list[Access] = []
        find = AccessFinder(self.kernel.arg_dict)
        for instruction in self.kernel.instructions:
            loops = instruction.within_inames | instruction.reduction_inames()
            for is_store, expression in _sides(instruction):
                found += [
                    Access(
                        node.aggregate.name,
                        node.index_tuple,
                        instruction.id,
                        is_store and node is expression,
                        loops,
                    )
                    for node in find(expression)
                    if isinstance(node, p.Subscript)
                ]
        return tuple(found)

    @cached_property
    def bounding(self) -> frozenset[str]:
        """Arrays from which the bounds of loops are read.

        Loopy 2025.2 does not order a fetch of such an array before the loop: bounds are then undefined.
        """
        parameters = frozenset().union(
            *(domain.get_var_names(PARAMETER) for domain in self.kernel.domains)
        )
        writers = {
            one.id for one in self.kernel.instructions if parameters & set(one.assignee_var_names())
        }
        return frozenset(one.array for one in self.accesses if one.instruction in writers)

    def of(self, array: str) -> list[Access]:
        return [access for access in self.accesses if access.array == array]

    @property
    def arrays(self) -> list[str]:
        """Arrays that are accessed, the most expensive first."""
        names = dict.fromkeys(access.array for access in self.accesses)
        return sorted(names, key=lambda name: -self.cost.get(name, 0.0))

    @property
    def read_only(self) -> list[str]:
        return [name for name in self.arrays if not any(one.is_store for one in self.of(name))]

    def extent(self, iname: str) -> int | None:
        """Iterations for the workload's sizes; None where they are read from memory."""
        domain = self.kernel.get_inames_domain(frozenset({iname})).to_set()
        if not set(domain.get_var_names(PARAMETER)) <= self.sizes.keys():
            return None
        domain = fix(domain, self.sizes)
        at = domain.find_dim_by_name(SET, iname)
        low, high = domain.dim_min_val(at), domain.dim_max_val(at)
        return int((high - low).to_python()) + 1 if low.is_int() and high.is_int() else None

    def is_row_major(self, array: str) -> bool:
        """Whether an array's last axis is the fastest, the one before it the next, and so on."""
        tags = self.kernel.arg_dict[array].dim_tags or ()
        if not tags or not all(
            isinstance(tag, (ComputedStrideArrayDimTag, FixedStrideArrayDimTag)) for tag in tags
        ):
            return False
        levels = [tag.layout_nesting_level for tag in tags]
        return levels == sorted(levels, key=lambda level: -(level or 0))

    def divides(self, parts: int, array: str) -> bool:
        """Whether the last axis of an array has a multiple of `parts` elements, for the workload's sizes."""
        shape = self.kernel.arg_dict[array].shape
        try:
            return bool(shape) and evaluate(shape[-1], self.sizes) % parts == 0
        except (ArithmeticError, LookupError, TypeError, ValueError):  # a shape that is not known
            return False

    def fresh(self, name: str) -> str:
        """A name that the kernel does not use."""
        return str(self.kernel.get_var_name_generator()(name))

    def _tagged(self, kind: type) -> dict[int, str]:
        found: dict[int, list[str]] = {}
        for name, iname in self.kernel.inames.items():
            for tag in iname.tags:
                if isinstance(tag, kind):
                    found.setdefault(tag.axis, []).append(name)  # type: ignore[attr-defined]
        return {axis: names[0] for axis, names in sorted(found.items()) if len(names) == 1}


def _sides(instruction: Any) -> list[tuple[bool, Any]]:
    """(whether it is stored to, expression) of an assignment; other instructions have no sides."""
    if not hasattr(instruction, "expression"):
        return []
    stored = [(True, one) for one in instruction.assignees if isinstance(one, p.Subscript)]
    conditions = [(False, one) for one in instruction.predicates]
    return [*stored, (False, instruction.expression), *conditions]
