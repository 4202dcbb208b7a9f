"""A workload's arguments, checked against the kernel's parameters, and their memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from memsim.errors import KernelError
from tracegen.workloads import checks

MOST_ARRAYS = 60
_NUMBERS = "iufb"


@dataclass(frozen=True)
class Parameter:
    """A parameter as `headers/memsim/signature.h` describes it."""

    name: str
    size_bytes: int
    kind: str
    element: str
    is_constant: bool
    element_bytes: int


@dataclass
class Arguments:
    """The arguments of a launch.

    arrays : name -> the array that is copied into the kernel's memory
    owners : pointer parameter -> the name of its array
    values : of the parameters in order: the name of an array or None for pointers, else bytes; a struct
        is a record, whose fields of dtype object name arrays in `pointers`
    writable : names of arrays that the kernel may write
    """

    parameters: Sequence[Parameter]
    kernel: str
    arrays: dict[str, npt.NDArray[Any]] = field(default_factory=dict)
    owners: dict[str, str] = field(default_factory=dict)
    values: list[Any] = field(default_factory=list)
    writable: set[str] = field(default_factory=set)
    _names: dict[int, str] = field(default_factory=dict)

    def owner(self, name: str, array: npt.NDArray[Any]) -> str:
        """The name of an array, which is its own where it is new."""
        known = self._names.setdefault(id(array), name)
        if known not in self.arrays:
            if len(self.arrays) >= MOST_ARRAYS:
                raise KernelError(f"kernel {self.kernel} reaches more than {MOST_ARRAYS} arrays")
            self.arrays[known] = array
            if array.dtype.hasobject:
                self._reach(known, array)
        return known

    def _reach(self, name: str, array: npt.NDArray[Any]) -> None:
        """Adds the arrays that the pointers in an array or record point to."""
        for place, value in pointers_in(array):
            if value is not None and not isinstance(value, np.ndarray):
                raise KernelError(f"{name}{place} is a pointer: it takes an array or None")
            if value is not None:
                self.writable.add(self.owner(f"{name}{place}", value))

    def add_pointers(self, symbols: Mapping[str, Any]) -> None:
        """Adds the arrays that variables with a value point to."""
        for name, value in symbols.items():
            if isinstance(value, np.ndarray) and value.dtype.hasobject:
                self._reach(name if value.ndim else f"*{name}", value)

    def add(self, parameter: Parameter, kernel: str, value: Any) -> None:
        what = f"argument {parameter.name.removeprefix('argument ')} of kernel {kernel}"
        if parameter.kind == "p":
            self._add_array(parameter, what, value)
        elif parameter.kind in "tT":
            self._add_tensor(parameter, what, value)
        elif parameter.kind == "s":
            whole = checks.record(what, parameter.size_bytes, value, objects=True).reshape(-1)
            if whole.dtype.hasobject:
                self._reach(parameter.name, whole if len(whole) > 1 else whole.reshape(()))
            self.values.append(whole)
        else:
            is_truth = parameter.kind == "b"
            dtype = np.dtype("?" if is_truth else f"{parameter.kind}{parameter.size_bytes}")
            self.values.append(np.array([checks.number(what, dtype, value)]))

    def _add_tensor(self, parameter: Parameter, what: str, value: Any) -> None:
        """An accessor of PyTorch, `headers/torch.h`: a pointer, the extents of the axes, and their strides in elements."""
        index = np.dtype(np.int32 if parameter.kind == "t" else np.int64)
        n_axes = (parameter.size_bytes - 8) // (2 * index.itemsize)
        value = checks.check_array(what, value)
        if value.ndim != n_axes:
            raise KernelError(
                f"{what} takes an array with {n_axes} axes, got one with {value.ndim}"
            )
        checks.check_gaps(what, value)
        _check_elements(what, parameter, value)
        name = self.owner(parameter.name, value)
        if not parameter.is_constant:
            self.writable.add(name)
        axes = np.array(
            [value.shape, [stride // value.itemsize for stride in value.strides]], index
        )
        whole = np.zeros(1, [("data", object), ("axes", index, axes.shape)])
        whole["data"][0], whole["axes"][0] = value, axes
        self.values.append(whole)

    def _add_array(self, parameter: Parameter, what: str, value: Any) -> None:
        if value is None:
            self.values.append(None)
            self.owners[parameter.name] = parameter.name
            self.arrays[parameter.name] = np.empty(0, np.uint8)
            return
        value = checks.check_array(what, value, objects=True)
        checks.check_gaps(what, value)
        _check_elements(what, parameter, value)
        name = self.owner(parameter.name, value)
        self.owners[parameter.name] = name
        if not parameter.is_constant:
            self.writable.add(name)
        self.values.append(name)


def bound(kernel: str, parameters: Sequence[Parameter], given: Any) -> Arguments:
    """The arguments of a launch. Raises KernelError that names the parameter and the rule."""
    values = checks.by_name(kernel, [parameter.name for parameter in parameters], given)
    arguments = Arguments(parameters, kernel)
    for parameter in parameters:
        arguments.add(parameter, kernel, values[parameter.name])
    return arguments


def pointers_in(array: npt.NDArray[Any]) -> list[tuple[str, Any]]:
    """The pointers in an array or record: where they are, and the array that each is."""
    if array.dtype.kind == "O":
        return [(f"[{k}]" if array.ndim else "", v) for k, v in enumerate(array.ravel("K"))]
    found = []
    for name in array.dtype.names or ():
        if array.dtype[name].hasobject:
            for place, value in pointers_in(array[name]):
                found.append((f"{place}.{name}", value))
    return found


def _check_elements(what: str, parameter: Parameter, value: npt.NDArray[Any]) -> None:
    element, size = parameter.element, parameter.element_bytes
    if not value.dtype.hasobject:
        is_number = element in _NUMBERS and size > 1
        checks.check_elements(what, value, size, f"{element}{size}" if is_number else None)
    elif element not in ("p", "s"):
        raise KernelError(f"{what} points to numbers, got an array of {value.dtype}")
