"""Transformations of Loopy kernels that the advice needs and Loopy does not have.

They take and return a loopy.TranslationUnit, as Loopy's own do, so that a line of advice can be copied
into the user's file behind `from calib import advice`.
"""

from __future__ import annotations

from typing import Any

import islpy as isl
import loopy as lp
from loopy.diagnostic import LoopyError
from loopy.kernel.data import InameImplementationTag
from loopy.translation_unit import for_each_kernel

SET, PARAMETER = isl.dim_type.set, isl.dim_type.param


@for_each_kernel  # type: ignore[untyped-decorator]
def untag(kernel: Any, *inames: str) -> Any:
    """The kernel with inames that are plain loops again."""
    for iname in inames:
        kernel = lp.untag_inames(kernel, iname, InameImplementationTag)
    return kernel


@for_each_kernel  # type: ignore[untyped-decorator]
def own_domain(kernel: Any, iname: str) -> Any:
    """The kernel with a domain for `iname` alone; the loops beside it take it as a parameter.

    Loopy refuses a parallel iname in a domain whose bounds are read from memory. Here its own bounds are
    constant, which those of the loops beside it need not be. Raises LoopyError where they are not.
    """
    domains = []
    for domain in kernel.domains:
        names = domain.get_var_names(SET)
        if iname not in names or len(names) == 1:
            domains.append(domain)
            continue
        length = kernel.get_constant_iname_length(iname)
        if not isinstance(length, int):
            raise LoopyError(f"the length of {iname} is not constant")
        domains.append(isl.BasicSet(f"{{ [{iname}] : 0 <= {iname} < {length} }}"))
        at = names.index(iname)
        domains.append(domain.move_dims(PARAMETER, domain.dim(PARAMETER), SET, at, 1))
    return kernel.copy(domains=domains)


@for_each_kernel  # type: ignore[untyped-decorator]
def pad(kernel: Any, array: str, elements: int) -> Any:
    """The kernel for a row-major array whose rows have some more elements, which nothing accesses.

    array : an argument, or an array in local or private memory
    """
    held = kernel.arg_dict.get(array) or kernel.temporary_variables[array]
    shape = (*held.shape[:-1], held.shape[-1] + elements)
    if array in kernel.arg_dict:
        wider = lp.GlobalArg(
            array, held.dtype, shape=shape, is_input=held.is_input, is_output=held.is_output
        )
        kernel = kernel.copy(args=[wider if arg.name == array else arg for arg in kernel.args])
    else:
        wider = held.copy(shape=shape)
        kernel = kernel.copy(temporary_variables={**kernel.temporary_variables, array: wider})
    return lp.tag_array_axes(kernel, array, ",".join(f"N{k}" for k in reversed(range(len(shape)))))
