"""Loop domains in which the bounds of a loop do not depend on the fetches inside it.

Loopy derives a loop's bounds from its entire domain. If that domain contains the local inames of
two fetches, a work-item's trips end where its part of *either* fetch ends. A barrier in the loop
hides this, because the bounds are then those of the whole group; without the barrier accesses would
be lost. Therefore groups and loops get one domain, and each set of local inames gets one nested in
it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from loopy.kernel.data import LocalInameTag

from calib.polynomials.isl_forms import DIM
from memsim.errors import KernelError


def separated(kernel: Any, instructions: Sequence[Any]) -> list[Any]:
    """The kernel's domains; those with several sets of local inames are split.

    Raises KernelError if a loop's bounds depend on the local inames of such a domain.
    """
    domains = []
    for domain in kernel.domains:
        names = [domain.get_dim_name(DIM.set, k) for k in range(domain.dim(DIM.set))]
        local = {name for name in names if kernel.iname_tags_of_type(name, LocalInameTag)}
        used = sorted(
            {frozenset(each.within_inames) & local for each in instructions} - {frozenset()},
            key=sorted,
        )
        if len(used) < 2:
            domains.append(domain)
            continue
        shared = [name for name in names if name not in local]
        root = _onto(domain, shared)
        domains.append(root)
        domains += [_leaf(kernel, domain, root, sorted(inames), shared) for inames in used]
    return domains


def _leaf(kernel: Any, domain: Any, root: Any, inames: Sequence[str], shared: Any) -> Any:
    wide = _onto(domain, [*shared, *inames])
    if not _onto(wide, shared).is_equal(root):
        raise KernelError(
            f"loops of {kernel.name} have bounds that depend on the work-item ({', '.join(inames)}):"
            " their work cannot be separated"
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
