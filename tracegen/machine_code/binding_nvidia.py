"""A launch on NVIDIA's GPUs: constant banks, variables, shared memory, stacks.

What the driver writes into constant bank 0 is what code that our compilers wrote reads there: sm_75 to sm_90, sm_100
and sm_120 were looked at with kernels that ask for it (`blockDim`, `gridDim`, pointers into shared and local memory,
`%dynamic_smem_size`, stacks).
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from memsim.errors import KernelError
from memsim.trace import ArrayExtent
from tracegen.compiled.model import MachineCode
from tracegen.compiled.nvidia.cubin import INITIAL, Cubin, Relocation, Variable, read_cubin
from tracegen.compiled.nvidia.nvidia_ptx import number
from tracegen.execution.operations import LOCAL_WINDOW, MOST_IN_CLUSTER, PRIVATE_WINDOW
from tracegen.machine_code.binding_memory import Bytes, Memory
from tracegen.machine_code.binding_values import (
    ConstantBytes,
    Machine,
    Shape,
    Value,
    local_places,
    pointers,
    raw,
)

BLACKWELL, CLUSTERS = 100, 90
"""The compute capabilities from which constant bank 0 is laid out anew, and blocks may run in clusters."""
LINEAR_UNTIL, BANK_BYTES = 90, 1 << 16
STACK_ALIGNMENT, DEFAULT_STACK = 16, 1024
"""A thread has cudaLimitStackSize bytes more where functions have frames of their own: ptxas does not count those of
recursive ones."""
_FUNCTION = "\n        .type           $"
_OWN_FRAME = re.compile(r"\bR1, (?:P\w+, P\w+, )?R1, (?:-0x|0xf{5})")
_LEAST_BANK = 0x400
_ALLOCATION = "__nv_reservedSMEM_tmem_allocation_pipeline_mbarrier"

MOST_GROUPS_OF_AN_AXIS = (1 << 31) - 1


@dataclass(frozen=True)
class _Layout:
    """Offsets in constant bank 0."""

    block: int
    grid: int
    shared_window: int
    local_window: int
    stack: int
    dynamic_shared: int
    parameters: int
    """The generic address of the parameters, from Hopper on."""
    cluster: tuple[int, int, int]
    """The extents of a cluster, their reciprocals, and how many blocks it has. Blackwell's code has their places plus 0xa0, less 0xa0
    times SR_CgaSize, which is 1 here."""


_UP_TO_HOPPER = _Layout(0x0, 0xC, 0x18, 0x20, 0x28, 0x2C, 0x198, (0x144, 0x150, 0x188))
_FROM_BLACKWELL = _Layout(0x360, 0x370, 0x2F0, 0x2F8, 0x37C, 0x20C, 0x348, (0x200, 0x210, 0x22C))
PARAMETERS_AT = 1 << 16
"""Where the constant bank with the parameters begins for code that takes an address of one, as of a tensor map."""


class NvidiaCode:
    """A kernel's cubin, ready for launches."""

    def __init__(self, code: MachineCode) -> None:
        self.code = code
        self.cubin: Cubin = read_cubin(code.binary, code.kernel)
        used = self.cubin.used_variables(code.listing)
        self.variables = {one.name: self._initial(one) for one in used}
        self.constants = {
            name: one.size_bytes
            for name, one in self.cubin.variables.items()
            if one.section.startswith(".nv.constant3")
        }
        self.most_threads = self.cubin.most_threads
        # clang's OpenCL: a pointer to constant memory is linear, 65536 bytes a bank (LDC.IL), and from sm_90 on one to
        # global memory. libNVVM's is an offset in bank 3.
        self.is_linear = (
            ".target" in code.intermediate and "texmode_independent" in code.intermediate
        )
        self.has_constant_arguments = not self.is_linear or number(code.target) < LINEAR_UNTIL

    def _initial(self, variable: Variable) -> bytes:
        content = self.cubin.sections[INITIAL].content if variable.section == INITIAL else b""
        data = content[variable.offset : variable.offset + variable.size_bytes]
        return data.ljust(variable.size_bytes, b"\0")

    def machine(
        self,
        memory: Memory,
        names: Mapping[str, str],
        values: Sequence[Value],
        shape: Shape,
        dynamic_bytes: int,
        constants: Mapping[str, Bytes],
    ) -> Machine:
        """What the driver prepares. names : symbol of a variable -> its array;  constants : symbol -> value"""
        cluster = self._cluster(shape)
        self._relocate_variables(memory, names)
        static = self.cubin.static_local_bytes
        places, local = local_places(values, static, dynamic_bytes, self.cubin.local_alignment)
        stack = max(self.cubin.stack_bytes, self.code.private_bytes)
        _, _, called = self.code.listing.partition(_FUNCTION)
        stack += DEFAULT_STACK if _OWN_FRAME.search(called) else 0
        private = -(-stack // STACK_ALIGNMENT) * STACK_ALIGNMENT
        banks = {bank: np.frombuffer(self.cubin.bank(bank), np.uint8).copy() for bank in (2, 3, 4)}
        for symbol, data in constants.items():
            at = self.cubin.variables[symbol].offset
            banks[3][at : at + len(data)] = data
        banks[3] = self._constant_arguments(values, places, banks[3])
        banks[0] = self._arguments(memory, values, places, shape, private, local - static)
        if number(self.code.target) >= CLUSTERS:
            _write_cluster(banks[0], self._layout.cluster, cluster)
        first = self.cubin.parameter_base
        told = {
            (0, first + offset + at): address
            for value, (offset, _) in zip(values, self.cubin.parameters, strict=True)
            for at, address in pointers(value, memory).items()
        }
        for one in self.cubin.relocations:
            section = one.section.removeprefix(".nv.constant")
            if section[0].isdigit() and section[1:] in ("", f".{self.code.kernel}"):
                told[int(section[0]), one.offset] = target = self._target(one, memory, names)
                _write(banks[int(section[0])], one.offset, one.size_bytes, target)
        if ".IL" in self.code.listing:  # addresses that count through all banks
            whole = np.zeros(3 * BANK_BYTES + len(banks[3]), np.uint8)
            for bank, data in banks.items():
                if bank <= 3:
                    whole[bank * BANK_BYTES :][: len(data)] = data
            banks[0] = whole
        layout = self._layout
        hidden: tuple[tuple[ArrayExtent, Bytes], ...] = ()
        names_address = f"c[0x0][{layout.parameters:#x}]" in self.code.listing
        if names_address and layout.parameters < first:  # before Hopper it is a parameter
            _write(banks[0], layout.parameters, 8, PARAMETERS_AT + first)
            extent = ArrayExtent(
                name="parameters", base_bytes=PARAMETERS_AT, size_bytes=len(banks[0])
            )
            hidden = ((extent, banks[0]),)
        return Machine(
            banks=banks,
            hidden=hidden,
            pointers=told,
            local_bytes=local,
            private_bytes=private,
            cluster=cluster,
            local_start=self._local_start(),
        )

    def _local_start(self) -> tuple[tuple[int, int, int], ...]:
        """What the system leaves in the shared memory that it reserves, where blocks of a pair agree on columns of tensor memory.

        The first block of a pair tells the second one which it has taken, and next waits for the answer. Both wait at a barrier in
        memory of their own for the phase whose number they count: as the first one need not wait at first, its count is one ahead.
        """
        barrier, phase = (self.cubin.variables.get(_ALLOCATION + end) for end in ("", "_parity"))
        if barrier is None or phase is None:
            return ()
        for_one = (1 << 20) - 1
        word = for_one << 1 | for_one << 43  # see ATOMIC_ARRIVE_HOPPER
        return (barrier.offset, word, word), (phase.offset, 1, 0)

    def _cluster(self, shape: Shape) -> tuple[int, ...]:
        """Blocks of a cluster along three axes."""
        kernel, declared = self.code.kernel, self.cubin.cluster
        cluster = (*shape.cluster, 1, 1)[:3] if shape.cluster else declared
        shown = " x ".join(map(str, cluster))
        if declared not in ((1, 1, 1), cluster):
            raise KernelError(
                f"kernel {kernel} is compiled for clusters of {' x '.join(map(str, declared))} blocks, not {shown}"
            )
        if math.prod(cluster) > 1 and number(self.code.target) < CLUSTERS:
            raise KernelError(f"kernel {kernel}: {self.code.target} has no clusters of blocks")
        if not 1 <= math.prod(cluster) <= MOST_IN_CLUSTER or min(cluster) < 1:
            raise KernelError(
                f"kernel {kernel} may run in clusters of up to {MOST_IN_CLUSTER} blocks, got {shown}"
            )
        grid = (*shape.grid, 1, 1)[:3]
        if any(extent % part for extent, part in zip(grid, cluster, strict=True)):
            raise KernelError(
                f"kernel {kernel} runs in clusters of {shown} blocks, which do not divide its grid of"
                f" {' x '.join(map(str, grid))}"
            )
        return tuple(cluster)

    @property
    def _layout(self) -> _Layout:
        # A target that nvdisasm does not read is shown in the code of the next one that it reads.
        return _FROM_BLACKWELL if number(self.code.target) >= BLACKWELL else _UP_TO_HOPPER

    def _constant_arguments(self, values: Sequence[Value], places: list[int], bank: Bytes) -> Bytes:
        """Constant bank 3 with the arguments that lie there; their pointers are put into `places`."""
        parts = [bank]
        end = len(bank)
        for k, value in enumerate(values):
            if isinstance(value, ConstantBytes):
                data = np.frombuffer(value.array.tobytes(order="A"), np.uint8)
                gap = -end % STACK_ALIGNMENT
                parts += [np.zeros(gap, np.uint8), data]
                places[k] = end + gap + (3 * BANK_BYTES if self.is_linear else 0)
                end += gap + len(data)
        if end > BANK_BYTES:
            raise KernelError(
                f"kernel {self.code.kernel} has {end} bytes in constant memory, of at most {BANK_BYTES}"
            )
        return np.concatenate(parts)

    def _arguments(
        self,
        memory: Memory,
        values: Sequence[Value],
        places: Sequence[int],
        shape: Shape,
        private: int,
        dynamic: int,
    ) -> Bytes:
        """Constant bank 0."""
        cubin = self.cubin
        size = max(
            (cubin.parameter_base + at + n for at, n in cubin.parameters), default=_LEAST_BANK
        )
        bank = np.zeros(max(size, _LEAST_BANK), np.uint8)
        layout = self._layout
        if max(shape.grid) > MOST_GROUPS_OF_AN_AXIS:
            raise KernelError(
                f"kernel {self.code.kernel} may have {MOST_GROUPS_OF_AN_AXIS} groups along an axis, got {max(shape.grid)}"
            )
        for at, extents in ((layout.grid, shape.grid), (layout.block, shape.group)):
            bank[at : at + 12].view(np.uint32)[:] = (*extents, 1, 1)[:3]
        for at, size, word in (
            (layout.shared_window, 8, LOCAL_WINDOW),
            (layout.local_window, 8, PRIVATE_WINDOW),
            (layout.stack, 4, private),
            (layout.dynamic_shared, 4, dynamic),
        ):
            _write(bank, at, size, word)
        if len(values) != len(cubin.parameters):
            raise KernelError(
                f"kernel {self.code.kernel} has {len(cubin.parameters)} parameters in its machine code,"
                f" not {len(values)}"
            )
        for value, place, (offset, size) in zip(values, places, cubin.parameters, strict=True):
            data = raw(value, memory, place)[:size]
            at = cubin.parameter_base + offset
            bank[at : at + len(data)] = data
        return bank

    def _relocate_variables(self, memory: Memory, names: Mapping[str, str]) -> None:
        for one in self.cubin.relocations:
            owner = self.cubin.owner(one.section, one.offset)
            if owner is not None and owner.name in self.variables:
                view = memory.views[names[owner.name]]
                target = self._target(one, memory, names)
                _write(view, one.offset - owner.offset, one.size_bytes, target)
                memory.raw[names[owner.name]] = view.tobytes()

    def _target(self, one: Relocation, memory: Memory, names: Mapping[str, str]) -> int:
        """The address that a relocation writes; that of a variable which nobody reaches is 0."""
        symbol = one.variable
        if not symbol.is_object and not symbol.name:  # a section, in which the addend says where
            inner = self.cubin.owner(symbol.section, one.addend)
            if inner is None or inner.name not in names:
                return 0
            return memory.bases[names[inner.name]] + one.addend - inner.offset
        if symbol.name in names:
            return memory.bases[names[symbol.name]] + one.addend
        return 0 if symbol.is_object else symbol.offset + one.addend


def _write_cluster(bank: Bytes, places: tuple[int, int, int], cluster: tuple[int, ...]) -> None:
    """What code finds out of its cluster: the block's number along an axis is truncated after a product with the reciprocal, so
    that is the next float above where it is inexact."""
    extents, reciprocals, count = places
    exact = 1 / np.array(cluster, np.float64)
    rounded = exact.astype(np.float32)
    rounded = np.where(rounded < exact, np.nextafter(rounded, np.float32(2)), rounded)
    bank[extents : extents + 12].view(np.uint32)[:] = cluster
    bank[reciprocals : reciprocals + 12].view(np.float32)[:] = rounded
    _write(bank, count, 4, math.prod(cluster))


def _write(data: Bytes, at: int, size: int, word: int) -> None:
    packed = struct.pack("<Q", word & (1 << 64) - 1)[:size]
    data[at : at + size] = np.frombuffer(packed, np.uint8)
