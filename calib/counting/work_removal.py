"""`remove_work`: reduces a kernel to chosen global accesses, in their original loops.

Stevens and Klöckner 2020, section 7.1.1 and Algorithm 3. Every instruction with a load to keep
becomes

    read_tgt = read_tgt + a[...]    or    read_tgt = a[...] + b[...] + ... + read_tgt

within the original loops, branches and grid; arithmetic, local memory and barriers are removed. A
global store that is kept stores read_tgt. If no store follows the last load, each work-item stores
read_tgt into read_tgt_dest with stride 1, so that no compiler removes the loads. Instructions that
compute addresses, loop bounds or conditions of a kept access do not change.

Loopy derives a loop's bounds from its entire domain. If that domain contains the local inames of
two fetches, a work-item's trips end where its part of *either* fetch ends. A barrier in the loop
hides this, because the bounds are then those of the whole group; without the barrier accesses would
be lost. Therefore groups and loops get one domain, and each set of local inames gets one nested in
it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import islpy as isl
import loopy as lp
import numpy as np
from constantdict import constantdict
from loopy.kernel import KernelState
from loopy.kernel.data import AddressSpace, ArrayArg, GroupInameTag, Iname, LocalInameTag
from loopy.kernel.instruction import Assignment, MultiAssignmentBase
from loopy.symbolic import pw_aff_to_expr
from pymbolic import primitives as p

from calib.counting.instruction_reader import AccessFinder, name_of, tags_of
from calib.counting.iteration_domains import grid, is_vector, with_axis
from calib.counting.scheduled import Scheduled, schedule, translation_unit
from calib.polynomials.isl_forms import DIM, onto
from calib.words import near
from memsim.errors import KernelError
from tracegen.workloads import as_kernel_error

TARGET, SINK = "read_tgt", "read_tgt_dest"


def remove_work(
    kernel: Any,
    remove_vars: Collection[str] = (),
    *,
    keep_tags: Collection[str] | None = None,
    remove_tags: Collection[str] = (),
) -> Any:
    """A loopy.TranslationUnit that contains only the chosen global accesses of a kernel.

    kernel : loopy.TranslationUnit, tracegen.Workload or measurement kernel, with one launch
    remove_vars : global arrays whose accesses are removed; on-chip work is always removed
    keep_tags : access tags to keep; all other accesses are removed
    remove_tags : access tags to remove

    Raises KernelError for unknown names, if nothing is left, and if the address of a kept access is
    computed from a removed one.
    """
    t_unit = translation_unit(kernel)
    scheduled = schedule(t_unit)
    choice = _Choice(
        frozenset(remove_vars),
        None if keep_tags is None else frozenset(keep_tags),
        frozenset(remove_tags),
    )
    with as_kernel_error(scheduled.kernel.name):
        return _Removal(scheduled, choice).run()


@dataclass(frozen=True)
class _Choice:
    variables: frozenset[str]
    keep_tags: frozenset[str] | None
    remove_tags: frozenset[str]

    def keeps(self, node: Any) -> bool:
        tags = tags_of(node)
        return (
            name_of(node) not in self.variables
            and not tags & self.remove_tags
            and (self.keep_tags is None or bool(tags & self.keep_tags))
        )

    def removes(self, node: Any) -> bool:
        """Whether the caller named it; an access that keep_tags omits is kept if an address needs
        it."""
        return name_of(node) in self.variables or bool(tags_of(node) & self.remove_tags)


class _Removal:
    def __init__(self, scheduled: Scheduled, choice: _Choice) -> None:
        self.kernel, self.scheduled, self.choice = scheduled.kernel, scheduled, choice
        if len(scheduled.names) != 1:
            raise KernelError(
                f"kernel {self.kernel.name} has {len(scheduled.names)} launches; work is removed"
                " from kernels with one"
            )
        self.instructions = [self.kernel.id_to_insn[name] for name in scheduled.places]
        self.arrays = {
            argument.name
            for argument in self.kernel.args
            if isinstance(argument, ArrayArg) and argument.address_space == AddressSpace.GLOBAL
        } | {
            name
            for name, variable in self.kernel.temporary_variables.items()
            if variable.address_space == AddressSpace.GLOBAL
        }
        self.types: dict[str, list[Any]] = {}
        self._check_names()
        names = self.kernel.get_var_name_generator()
        self.target, self.sink = names(TARGET), names(SINK)
        self.ids = self.kernel.get_instruction_id_generator()

    def run(self) -> Any:
        parts = {each.id: self._replaced(each) for each in self.instructions}
        whole = self._needed(parts)
        new = [
            part
            for each in self.instructions
            for part in ([each] if each.id in whole else parts[each.id])
        ]
        loads = [k for k, each in enumerate(new) if self.target in written(each)]
        stores = [k for k, each in enumerate(new) if written(each) & self.arrays]
        if not loads and not stores:
            raise KernelError(f"no global access of {self.kernel.name} is left to keep")
        types = [dtype for name in parts if name not in whole for dtype in self.types.get(name, ())]
        dtype = np.result_type(*types) if types else np.dtype(np.float32)
        domain, tags, index, shape = self._grid()
        within = frozenset(tags)
        zero = self._assigned(f"init_{TARGET}", p.Variable(self.target), dtype.type(0), within)
        args = []
        last = []
        if loads and (not stores or loads[-1] > stores[-1]):
            left = p.Variable(self.sink)
            left = left[index] if index else left
            last.append(self._assigned("sink", left, p.Variable(self.target), within))
            args.append(
                lp.GlobalArg(
                    self.sink, dtype, shape=shape, order="C", is_input=False, is_output=True
                )
            )
        ordered = _in_order([zero, *new, *last])
        domains = [*separated(self.kernel, ordered), domain]
        return self._rebuilt(ordered, domains, tags, args, dtype)

    def _check_names(self) -> None:
        known = sorted(self.arrays)
        for name in sorted(self.choice.variables - self.arrays):
            raise KernelError(
                f"kernel {self.kernel.name} has no global array {name}{near(name, known)}"
            )
        nodes = [node for each in self.instructions for node in self._accesses(each)]
        tags = sorted({tag for node in nodes for tag in tags_of(node)})
        for tag in sorted((self.choice.keep_tags or frozenset()) | self.choice.remove_tags):
            if tag not in tags:
                hint = near(tag, tags) if tags else "; it has no tags"
                raise KernelError(f"kernel {self.kernel.name} has no access tagged {tag}{hint}")

    def _accesses(self, instruction: Any) -> list[Any]:
        """The global accesses of an instruction, including those of its predicates."""
        if not isinstance(instruction, MultiAssignmentBase):
            return []
        find = AccessFinder(self.arrays)
        parts = [instruction.expression, *instruction.assignees, *instruction.predicates]
        return [node for part in parts for node in find(part)]

    def _replaced(self, instruction: Any) -> list[Any]:
        """The replacement of an instruction whose result is not needed."""
        if not isinstance(instruction, MultiAssignmentBase):
            return []
        summands = _Summands(self.arrays, self.choice)
        (first, *others) = instruction.assignees
        keeps_store = any(
            name_of(each) in self.arrays and self.choice.keeps(each)
            for each in instruction.assignees
        )
        updated = {update.var_name for update in instruction.atomicity}
        loads = [each for each in summands(instruction.expression) if name_of(each) not in updated]
        if not keeps_store:
            for assignee in instruction.assignees:
                loads += summands.of_index(assignee)
        if keeps_store and (updated or others):
            raise KernelError(
                f"instruction {instruction.id} updates {name_of(first)} atomically, or has several"
                " results: name it in remove_vars"
            )
        if (loads or keeps_store) and any(
            is_vector(self.kernel, iname) for iname in instruction.within_inames
        ):
            raise KernelError(
                f"instruction {instruction.id} operates on vectors: its work cannot be removed"
            )
        self._see_types(instruction.id, [*loads, first] if keeps_store else loads)
        target = p.Variable(self.target)
        where = (instruction.within_inames, instruction.predicates)
        parts = []
        if loads:
            # The loads are added up first, so that only one addition waits for the last of them.
            terms = (target, *loads) if len(loads) == 1 else (*loads, target)
            read = self._assigned(f"read_{instruction.id}", target, p.Sum(terms), *where)
            parts.append(read)
        if keeps_store:
            parts.append(self._assigned(f"write_{instruction.id}", first, target, *where))
        return parts

    def _assigned(
        self,
        name: str,
        left: Any,
        right: Any,
        inames: frozenset[str],
        predicates: frozenset[Any] = frozenset(),
    ) -> Any:
        return Assignment(
            left,
            right,
            id=self.ids(name),
            within_inames=inames,
            within_inames_is_final=True,
            predicates=predicates,
        )

    def _see_types(self, name: str, summands: Iterable[Any]) -> None:
        """Keeps the types of the values that one instruction adds or stores."""
        types = self.types.setdefault(name, [])
        for summand in summands:
            outer = summand
            while isinstance(outer, p.If):
                outer = outer.then if self._accesses_in(outer.then) else outer.else_
            for node in self._accesses_in(outer)[:1]:
                dtype = self.kernel.get_var_descriptor(name_of(node)).dtype.numpy_dtype
                if dtype.kind in "iufc":
                    types.append(dtype)

    def _accesses_in(self, expression: Any) -> list[Any]:
        return list(AccessFinder(self.arrays)(expression))

    def _needed(self, parts: Mapping[str, list[Any]]) -> set[str]:
        """Instructions whose results determine addresses, trips or conditions of kept accesses."""
        needed_names: set[str] = set()
        nodes: list[Any] = []
        for part in (part for several in parts.values() for part in several):
            needed_names |= part.dependency_names() | self._bounds(part)
            nodes += self._accesses(part)
        temporaries = set(self.kernel.temporary_variables)
        kept: set[str] = set()
        grown = True
        while grown:
            grown = False
            for each in self.instructions:
                if each.id not in kept and written(each) & needed_names & temporaries:
                    kept.add(each.id)
                    needed_names |= each.dependency_names() | self._bounds(each)
                    nodes += self._accesses(each)
                    grown = True
        for node in nodes:
            if self.choice.removes(node):
                raise KernelError(
                    f"{name_of(node)} cannot be removed from {self.kernel.name}: an address, a"
                    " condition or a loop's bound of what is kept comes from it"
                )
        return kept

    def _bounds(self, instruction: Any) -> set[str]:
        """The parameters that bound an instruction's loops."""
        if not instruction.within_inames:
            return set()
        domain = self.kernel.get_inames_domain(instruction.within_inames)
        return set(domain.get_var_names(DIM.param))

    def _grid(self) -> tuple[Any, dict[str, Any], tuple[Any, ...], tuple[Any, ...]]:
        """New inames for all axes of the launch; index and shape of an array with one element per
        work-item."""
        sizes = grid(self.scheduled, 0)
        names = self.kernel.get_var_name_generator()
        domain = isl.Set("{ [] : }")
        tags: dict[str, Any] = {}
        made: dict[str, list[tuple[str, Any]]] = {"g": [], "l": []}
        for letter, extents, tag in (
            ("g", sizes.groups, GroupInameTag),
            ("l", sizes.locals, LocalInameTag),
        ):
            for axis, size in enumerate(extents):
                name = names(f"{TARGET}_{letter}{axis}")
                domain = with_axis(domain, name, size)
                tags[name] = tag(axis)
                made[letter].append((name, pw_aff_to_expr(size)))
        index, shape = [], []
        for axis in reversed(range(max(len(made["g"]), len(made["l"])))):
            at: Any = 0
            extent: Any = 1
            if axis < len(made["l"]):
                at, extent = p.Variable(made["l"][axis][0]), made["l"][axis][1]
            if axis < len(made["g"]):
                at = at + p.Variable(made["g"][axis][0]) * extent
                extent = extent * made["g"][axis][1]
            index.append(at)
            shape.append(extent)
        (basic,) = domain.get_basic_sets() or [isl.BasicSet("{ [] : }")]
        return basic, tags, tuple(index), tuple(shape)

    def _rebuilt(
        self, instructions: list[Any], domains: list[Any], tags: Any, args: list[Any], dtype: Any
    ) -> Any:
        used: set[str] = set()
        for each in instructions:
            used |= each.dependency_names() | written(each)
        temporaries = {
            name: variable
            for name, variable in self.kernel.temporary_variables.items()
            if name in used
        }
        temporaries[self.target] = lp.TemporaryVariable(
            self.target, dtype, shape=(), address_space=AddressSpace.PRIVATE
        )
        arguments = [
            argument
            for argument in self.kernel.args
            if not isinstance(argument, ArrayArg) or argument.name in used
        ]
        looped = frozenset(iname for each in instructions for iname in each.within_inames)
        priorities = [
            tuple(iname for iname in order if iname in looped)
            for order in self.kernel.loop_priority
        ]
        inames = dict(self.kernel.inames)
        for name, tag in tags.items():
            inames[name] = Iname(name, frozenset([tag]))
        kernel = self.kernel.copy(
            instructions=instructions,
            domains=domains,
            args=[*arguments, *args],
            temporary_variables=temporaries,
            inames=constantdict(inames),
            loop_priority=frozenset(order for order in priorities if len(order) > 1),
            linearization=None,
            state=KernelState.INITIAL,
        )
        return lp.remove_unused_inames(self.scheduled.t_unit.with_kernel(kernel))


class _Summands(AccessFinder):
    """The outermost accesses to keep, with the conditions under which they run."""

    def __init__(self, arrays: Collection[str], choice: _Choice) -> None:
        super().__init__(arrays)
        self.choice = choice

    def of_index(self, expr: Any) -> list[Any]:
        """The accesses in the index of a removed access."""
        while isinstance(expr, p.Lookup):
            expr = expr.aggregate
        if isinstance(expr, p.Variable):
            return []
        parts = expr.index_tuple if isinstance(expr, p.Subscript) else (expr.index,)
        return self.combine(self.rec(part) for part in parts)

    def _access(self, expr: Any) -> list[Any]:
        if name_of(expr) in self.arrays and self.choice.keeps(expr):
            return [expr]
        return self.of_index(expr)

    map_variable = _access
    map_tagged_variable = _access
    map_subscript = _access
    map_linear_subscript = _access
    map_lookup = _access

    def map_if(self, expr: Any) -> list[Any]:
        then, other = self.rec(expr.then), self.rec(expr.else_)
        if not then and not other:
            return list(self.rec(expr.condition))
        return [p.If(expr.condition, _sum(then), _sum(other))]


def _sum(summands: list[Any]) -> Any:
    if len(summands) > 1:
        return p.Sum(tuple(summands))
    return summands[0] if summands else 0


def _in_order(instructions: list[Any]) -> list[Any]:
    """Makes each instruction depend on the previous one, in the order of the original kernel."""
    ordered: list[Any] = []
    for each in instructions:
        before = frozenset([ordered[-1].id]) if ordered else frozenset()
        ordered.append(each.copy(depends_on=before, depends_on_is_final=True))
    return ordered


def written(instruction: Any) -> frozenset[str]:
    """The variables that an instruction assigns."""
    return frozenset(instruction.assignee_var_names())


def separated(kernel: Any, instructions: Sequence[Any]) -> list[Any]:
    """The kernel's domains; those with several sets of local inames are split.

    Raises KernelError if a loop's bounds depend on the local inames of such a domain.
    """
    domains = []
    for domain in kernel.domains:
        names = domain.get_var_names(DIM.set)
        local = {name for name in names if kernel.iname_tags_of_type(name, LocalInameTag)}
        used = sorted(
            {frozenset(each.within_inames) & local for each in instructions} - {frozenset()},
            key=sorted,
        )
        if len(used) < 2:
            domains.append(domain)
            continue
        shared = [name for name in names if name not in local]
        root = onto(domain, shared)
        domains.append(root)
        domains += [_leaf(kernel, domain, root, sorted(inames), shared) for inames in used]
    return domains


def _leaf(kernel: Any, domain: Any, root: Any, inames: Sequence[str], shared: Any) -> Any:
    wide = onto(domain, [*shared, *inames])
    if not onto(wide, shared).is_equal(root):
        raise KernelError(
            f"loops of {kernel.name} have bounds that depend on the work-item ({', '.join(inames)}):"
            " their work cannot be separated"
        )
    for name in shared:
        at = wide.find_dim_by_name(DIM.set, name)
        wide = wide.move_dims(DIM.param, wide.dim(DIM.param), DIM.set, at, 1)
    return wide
