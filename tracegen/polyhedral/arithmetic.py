"""The integer arithmetic of the walk: values of forms, and the divisions of C and of Loopy."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from memsim.compile import inner
from tracegen.polyhedral import code as c
from tracegen.polyhedral.code import Code, Forms

_MULTIPLY, _DIVIDE, _REMAINDER, _FLOOR_DIVIDE, _MODULO, _LEAST = range(6)
assert (_MULTIPLY, _MODULO, _LEAST) == (c.MULTIPLY, c.MODULO, c.LEAST)


@inner
def value_shared(form: int, forms: Forms, shared: npt.NDArray[np.int64]) -> np.int64:
    """The part of a form's value that all lanes share."""
    value: np.int64 = forms.const[form]
    for term in range(forms.term_offset[form], forms.term_offset[form + 1]):
        value += forms.term_coefficient[term] * shared[forms.term_symbol[term]]
    return value


@inner
def value_of_lane(
    form: int,
    lane: int,
    level: int,
    code: Code,
    subgroup: int,
    own: npt.NDArray[np.int64],
) -> np.int64:
    """A form's value in one lane; level : the part that all lanes share"""
    forms = code.forms
    value: np.int64 = level + code.parts[forms.part[form], subgroup, lane]
    for term in range(forms.lane_offset[form], forms.lane_offset[form + 1]):
        value += forms.lane_coefficient[term] * own[forms.lane_slot[term], lane]
    return value


@inner
def operate(operation: int, a: int, b: int) -> int:
    """An operation that is not affine. A division by 0 gives 0: only an idle lane divides by it."""
    if operation == _MULTIPLY:
        return a * b
    if operation >= _LEAST:
        return min(a, b) if operation == _LEAST else max(a, b)
    if b == 0:
        return 0
    if operation == _FLOOR_DIVIDE:
        return a // b
    if operation == _MODULO:
        return a % b
    quotient = abs(a) // abs(b)
    if (a < 0) != (b < 0):
        quotient = -quotient
    return quotient if operation == _DIVIDE else a - quotient * b
