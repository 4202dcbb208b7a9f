"""A table of arrays that compiled code reads as attributes.

To hand over eighty arrays to every function took half of the time to compile it, and as long as an access to run. What is handed
over here is the address of a table, from which an array's address and extents are loaded where it is used.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import types
from numba.core.typing.templates import AttributeTemplate
from numba.extending import infer_getattr, intrinsic, lower_getattr_generic, models, register_model
from numba.np import arrayobj

_I64 = ir.IntType(64)
_NUMBERS = 3
"""Of each array: its address and two extents."""


class Listed(types.Type):
    """The type of a table. attributes : name -> (number of the array, or of a part's first one, type)"""

    def __init__(self, name: str, attributes: dict[str, tuple[int, Any]]) -> None:
        super().__init__(name=name)
        self.attributes = attributes


@register_model(Listed)
class _Model(models.PrimitiveModel):  # type: ignore[misc]
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, _I64)


@infer_getattr
class _Attributes(AttributeTemplate):  # type: ignore[misc]
    key = Listed

    def generic_resolve(self, table: Listed, attribute: str) -> Any:
        return table.attributes.get(attribute, (0, None))[1]


@lower_getattr_generic(Listed)  # type: ignore[untyped-decorator]
def _attribute(context: Any, builder: Any, table: Listed, value: Any, name: str) -> Any:
    number, kind = table.attributes[name]
    at = builder.add(value, _I64(8 * _NUMBERS * number))
    if isinstance(kind, Listed):
        return at
    numbers = builder.inttoptr(at, _I64.as_pointer())

    def loaded(k: int) -> Any:
        load = builder.load(builder.gep(numbers, [_I64(k)]))
        load.set_metadata("invariant.load", builder.module.add_metadata([]))
        return load

    array = context.make_array(kind)(context, builder)
    size = context.get_abi_sizeof(context.get_data_type(kind.dtype))
    strides = [_I64(size)]
    if kind.ndim == 2:
        strides.insert(0, builder.mul(loaded(2), _I64(size)))
    arrayobj.populate_array(
        array,
        data=builder.inttoptr(loaded(0), array.data.type),
        shape=[loaded(k) for k in range(1, kind.ndim + 1)],
        strides=strides,
        itemsize=size,
        meminfo=None,
    )
    return array._getvalue()


def opening(kind: Listed) -> Any:
    """A function of compiled code: an int64 array with the numbers -> its table."""

    def opened(typing_context: Any, numbers: Any) -> Any:
        def emit(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            array = context.make_array(signature.args[0])(context, builder, values[0])
            return builder.ptrtoint(array.data, _I64)

        return kind(types.Array(types.int64, 1, "C")), emit

    return intrinsic(opened)
