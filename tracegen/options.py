"""The options of tracing: the command line, Python keywords and the documentation derive from them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from memsim.errors import KernelError, MemsimError
from memsim.options import Options, option

if TYPE_CHECKING:
    from memsim.machine import Machine

Tracer = Literal["auto", "polyhedral", "instrumented", "machine"]
Compiler = Literal["auto", "nvrtc", "nvvm", "clang"]
MEMORY_PART, MOST_MEMORY_BYTES = 8, 1 << 32
"""Recording may use one part in so many of this computer's memory: to write and read files takes several times as long. But at most so much:
in a container it may be more than there is."""
DEFAULT_SUBGROUP_SIZE = 32
MOST_SUBGROUP_SIZE = 1024
"""Lanes of the largest sub-group that features are counted for."""


def _number_of_groups(context: Any, parameter: Any, text: Any) -> int | None:
    import click

    try:
        return None if text is None else click.IntRange(min=1).convert(text, parameter, context)
    except click.BadParameter:
        rule = f"must be a number of at least 1, got {str(text)[:20]}"
        raise click.BadParameter(rule, context, parameter) from None


def computer_bytes() -> int:
    """The memory of this computer; of a system that does not say, 8 GiB."""
    if not hasattr(os, "sysconf"):
        return 8 << 30
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


@dataclass(frozen=True, kw_only=True)
class TraceOptions(Options):
    """What to trace of a workload, and how; see `tracegen.trace`."""

    error: ClassVar[type[MemsimError]] = KernelError

    groups: int | Sequence[int] | None = option(
        None,
        "Trace N consecutive work-groups from amid the launch; in Python also the ids of groups.",
        metavar="N",
        default_text="a few waves of what the machine holds resident",
        parse=_number_of_groups,
        recorded=False,
    )
    launch: int | None = option(
        None,
        "Which launch, from 0, of a kernel that has several.",
        least=0,
        metavar="I",
        default_text="the only one",
        recorded=False,
    )
    tracer: Tracer = option(
        "auto",
        "'machine' runs the machine code that the compilers make for the machine's GPU, instruction by instruction, on"
        " this computer's processor. Loopy kernels can be traced in the order of their source, too: 'instrumented'"
        " runs a copy with probes on an OpenCL device, 'polyhedral' derives the addresses from Loopy's schedule and runs"
        " nothing. 'auto' is 'machine'; for a Loopy kernel without a machine, with an OpenCL context or without"
        " compilers it is 'polyhedral', or 'instrumented' where addresses depend on data.",
        recorded=False,
    )
    compiler: Compiler = option(
        "auto",
        "What translates the kernel. For NVIDIA's GPUs 'auto' takes NVIDIA's compiler libraries for CUDA C++ and OpenCL C"
        " where these are installed and take the text ('nvrtc', 'nvvm': nothing else will do), and clang for all else"
        " ('clang': for everything).",
    )
    subgroup_size: int | None = option(
        None,
        "Lanes of a sub-group: 8, 16, 32 or 64.",
        flags=(),
        default_text="the machine's, or 32",
        recorded=False,
    )
    reduced: bool = option(
        True,
        "In the order of the source: leave out redundant accesses, which a compiler would drop.",
        flags=(),
    )
    waves: int | None = option(
        None,
        "Length of a snapshot, in numbers of groups that the machine holds resident.",
        least=1,
        flags=(),
        default_text="12",
        recorded=False,
    )
    earlier: bool = option(
        True,
        "Whether a snapshot records what the groups before it have touched, from which bounds of its"
        " hit ratios follow.",
        flags=(),
        recorded=False,
    )
    start: bool = option(
        False,
        "Whether the start of a layer of groups and that of the launch are traced as well, after the other"
        " snapshots.",
        flags=(),
        recorded=False,
    )
    memory_bytes: int = option(
        min(computer_bytes() // MEMORY_PART, MOST_MEMORY_BYTES),
        "Memory that recording may use at a time. Larger traces are written to temporary files.",
        least=1,
        unit="bytes",
        flags=(),
        default_text="an eighth of this computer's memory, at most 4 GiB",
        recorded=False,
    )

    def lanes(self, machine: Machine | None) -> int:
        """Lanes of a sub-group: as specified, else those of the machine, else 32."""
        if self.subgroup_size is not None:
            return self.subgroup_size
        return DEFAULT_SUBGROUP_SIZE if machine is None else machine.subgroup_size
