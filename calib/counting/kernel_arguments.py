"""Arguments of a kernel for one size, and the sizes that a workload's arguments imply."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import loopy as lp
import numpy as np
from loopy.symbolic import get_dependencies
from pymbolic import evaluate, primitives, substitute

from memsim.errors import KernelError
from tracegen.workloads import Workload, arguments


def workload_of(kernel: Any, env: Mapping[str, int]) -> Workload:
    """A kernel with arguments for one size.

    A Workload and a measurement kernel bring their arguments; raises KernelError if those are of
    another size. For a bare TranslationUnit arguments are generated.
    """
    if isinstance(kernel, lp.TranslationUnit):
        scalars = {a.name for a in kernel.default_entrypoint.args if isinstance(a, lp.ValueArg)}
        given = {name: str(value) for name, value in env.items() if name in scalars}
        return Workload(kernel, arguments(kernel, given))
    if isinstance(kernel, Workload):
        workload = kernel
    else:
        made = kernel.arguments
        workload = Workload(kernel.kernel, dict(made() if callable(made) else made))
    known = {**sizes_of(workload), **getattr(kernel, "env", {})}
    for name, value in env.items():
        if known.get(name, value) != value:
            raise KernelError(
                f"the kernel's own arguments are for {name} = {known[name]}, not {value}"
            )
    return workload


def sizes_of(workload: Any) -> dict[str, int]:
    """The integer arguments of a workload: those given, and those that follow from array shapes.

    An extent such as `n` or `4*n + 1` determines n if n is its only unknown and it is linear in n.
    Raises KernelError if the kernel is not a Loopy kernel.
    """
    if not isinstance(workload, Workload):
        named = getattr(workload, "kernel", None) or "this one"
        raise KernelError(
            f"only Loopy kernels can be counted: {named} is of type {type(workload).__name__}"
        )
    kernel = workload.kernel.default_entrypoint
    scalars = {a.name for a in kernel.args if isinstance(a, lp.ValueArg)}
    sizes = {
        name: int(value)
        for name, value in workload.arguments.items()
        if name in scalars and isinstance(value, (int, np.integer))
    }
    for _ in range(len(scalars)):
        for argument in kernel.args:
            value = workload.arguments.get(argument.name)
            shape = getattr(argument, "shape", None)
            if isinstance(value, np.ndarray) and isinstance(shape, tuple):
                for extent, size in zip(shape, value.shape, strict=False):
                    _solve(extent, int(size), scalars, sizes)
    return sizes


def _solve(extent: Any, size: int, scalars: set[str], sizes: dict[str, int]) -> None:
    if not isinstance(extent, primitives.ExpressionNode):
        return
    unknown = get_dependencies(extent) - sizes.keys()
    if len(unknown) != 1 or not unknown <= scalars:
        return
    (name,) = unknown
    at: list[int] = [int(evaluate(substitute(extent, sizes), {name: x})) for x in (0, 1, 2)]
    slope = at[1] - at[0]
    if slope and at[2] - at[1] == slope and (size - at[0]) % slope == 0:
        sizes[name] = (size - at[0]) // slope
