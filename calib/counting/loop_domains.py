"""Loop domains in which the bounds of a loop do not depend on who fetches what inside it.

Loopy takes a loop's bounds from all of its domain. Where that domain holds the local inames of two
fetches, a work-item's trips end where its part of *either* fetch ends; a barrier in the loop hides
that, for then the bounds are those of the whole group. Without the barrier accesses would be lost.
So: one domain for groups and loops, and below it one for each set of local inames in use.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from loopy.kernel.data import LocalInameTag

from calib.polynomials.isl_forms import DIM
from memsim.errors import KernelError


def separated(kernel: Any, instructions: Sequence[Any]) -> list[Any]:
    """The kernel's domains, those split in which several sets of local inames meet.

    Raises KernelError where a loop's bounds depend on the local inames of such a domain.
    """
    found = []
    for domain in kernel.domains:
        names = [domain.get_dim_name(DIM.set, k) for k in range(domain.dim(DIM.set))]
        local = {name for name in names if kernel.iname_tags_of_type(name, LocalInameTag)}
        used = sorted(
            {frozenset(each.within_inames) & local for each in instructions} - {frozenset()},
            key=sorted,
        )
        if len(used) < 2:
            found.append(domain)
            continue
        shared = [name for name in names if name not in local]
        root = _onto(domain, shared)
        found.append(root)
        found += [_leaf(kernel, domain, root, sorted(inames), shared) for inames in used]
    return found


def _leaf(kernel: Any, domain: Any, root: Any, inames: Sequence[str], shared: Any) -> Any:
    wide = _onto(domain, [*shared, *inames])
    if not _onto(wide, shared).is_equal(root):
        raise KernelError(
            f"loops of {kernel.name} have bounds that depend on the work-item ({', '.join(inames)}):"
            " their work cannot be taken apart"
        )
    for name in shared:
        at = wide.find_dim_by_name(DIM.set, name)
        wide = wide.move_dims(DIM.param, wide.dim(DIM.param), DIM.set, at, 1)
    return wide


def _onto(domain: Any, names: Sequence[str]) -> Any:
    for k in reversed(range(domain.dim(DIM.set))):
        if domain.get_dim_name(DIM.set, k) not in names:
            domain = domain.project_out(DIM.set, k, 1)
    return domain
