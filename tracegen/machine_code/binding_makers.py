"""What of a launch depends on the maker of the GPU."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from tracegen.compiled.model import MachineCode
from tracegen.machine_code.binding_memory import Bytes, Memory
from tracegen.machine_code.binding_nvidia import NvidiaCode
from tracegen.machine_code.binding_values import Machine, Shape, Value


class DeviceCode(Protocol):
    """A kernel's machine code, ready for launches.

    variables : symbol -> initial bytes, of the variables in memory that the code reaches
    constants : symbol -> size in bytes, of those in a constant bank
    most_threads : of a group, None where the kernel does not say
    has_constant_arguments : whether arguments that point to constant memory are in a constant bank
    """

    code: MachineCode
    variables: dict[str, bytes]
    constants: dict[str, int]
    most_threads: int | None
    has_constant_arguments: bool

    def machine(
        self,
        memory: Memory,
        names: Mapping[str, str],
        values: Sequence[Value],
        shape: Shape,
        dynamic_bytes: int,
        constants: Mapping[str, Bytes],
    ) -> Machine:
        """What the driver prepares; addresses in the initial values of variables are written, too.

        names : symbol of a variable -> its array in memory;  values : of the parameters in order
        dynamic_bytes : local memory that the launch adds
        constants : symbol -> its value
        """
        ...


def code_of(code: MachineCode) -> DeviceCode:
    """`code.kernel` is the symbol."""
    if code.target.startswith("sm_"):
        return NvidiaCode(code)
    from tracegen.machine_code.binding_amd import AmdCode

    return AmdCode(code)
