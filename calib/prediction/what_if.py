"""What-if changes to a machine, a launch or a program, as `memsim predict --what-if` takes them.

groups_per_core=4     resident groups on a core (also: blocks_per_core=4)
l1=64KiB, l2=12MiB    the size of a cache level, by its name
no-barriers           without the barriers of the program
no-latency            without the latency of loads
NAME=FACTORx          a bandwidth or a throughput times a factor: dram=2x, l2=1.5x, fp32_fma=2x
registers=40          32-bit registers of a work-item
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from dataclasses import dataclass

from calib.prediction.basic_blocks import Program
from calib.prediction.machine_pipes import PREFIX, RATES
from calib.words import whole
from memsim.errors import MachineError, MemsimError
from memsim.machine import Level, Machine
from memsim.visible import shown

MOST_OF_CORE = 10**6
"""Most groups, or registers of a work-item, of a core."""
MOST_TIMES = 1e6
"""How many times faster a unit may become."""
_SIZE = re.compile(r"(\d{1,15}(?:\.\d{1,15})?)\s*(B|[kK]i?B|[mM]i?B)")
_FACTOR = re.compile(r"(\d{1,15}(?:\.\d{1,15})?)x")
_UNITS = {"b": 1, "kib": 1024, "kb": 1024, "mib": 1024**2, "mb": 1024**2}
_DRAM_RATES = (
    "bandwidth_bytes_per_cycle",
    "sustained_bandwidth_bytes_per_cycle",
    "read_bandwidth_bytes_per_cycle",
    "row_activations_per_cycle",
)
_ALONE = ("no-barriers", "no-latency")


class WhatIfError(MemsimError):
    """A change is unknown, or impossible on the machine."""


@dataclass(frozen=True, kw_only=True)
class Changes:
    """A set of changes.

    text : as the user wrote them;  machine : with its changes
    groups_per_core, registers : None where they do not change
    barriers, latency : False where they are removed
    """

    text: str
    machine: Machine
    groups_per_core: int | None = None
    registers: int | None = None
    barriers: bool = True
    latency: bool = True

    @property
    def needs_replay(self) -> bool:
        """Whether requests may be served by other levels, apart from changes of the machine."""
        return self.groups_per_core is not None or self.registers is not None


def parse(text: str, machine: Machine) -> Changes:
    """The changes that a text such as `groups_per_core=4,l1=64KiB` lists.

    Raises WhatIfError, which names the unknown part and the possible changes.
    """
    changes = Changes(text=text, machine=machine)
    for part in (piece.strip() for piece in text.split(",")):
        name, _, value = part.partition("=")
        if part == "no-barriers":
            changes = dataclasses.replace(changes, barriers=False)
        elif part == "no-latency":
            changes = dataclasses.replace(changes, latency=False)
        elif name in ("blocks_per_core", "groups_per_core"):
            changes = dataclasses.replace(changes, groups_per_core=_positive(part, value))
        elif name == "registers":
            changes = dataclasses.replace(changes, registers=_positive(part, value))
        else:
            machine = _changed(changes.machine, part, name, value)
            changes = dataclasses.replace(changes, machine=machine)
    return changes


def without_barriers(program: Program) -> Program:
    """The program without barriers, except the one that stands for the end of a group."""
    blocks = [
        dataclasses.replace(
            block,
            barrier=False,
            operations={
                k: v
                for k, v in block.operations.items()
                if k not in ("barrier", PREFIX + "barrier")
            },
        )
        for block in program.blocks
    ]
    # Resources are still freed when the whole group has ended.
    if isinstance(program.steps[-1], int):
        for last in program.last_blocks:
            blocks[last] = dataclasses.replace(blocks[last], barrier=program.blocks[last].barrier)
    return dataclasses.replace(program, blocks=tuple(blocks))


def _changed(machine: Machine, part: str, name: str, value: str) -> Machine:
    levels = {level.name.lower(): level for level in machine.levels}
    size, factor = _SIZE.fullmatch(value), _FACTOR.fullmatch(value)
    if size and name.lower() in levels:
        wanted = float(size[1]) * _UNITS[size[2].lower()]
        return _with_level(machine, _resized(machine, levels[name.lower()], round(wanted), part))
    times = float(factor[1]) if factor else 0.0
    if 0 < times <= MOST_TIMES:
        if name.lower() == "dram":
            faster = {name: getattr(machine.dram, name) * times for name in _DRAM_RATES}
            return machine.replace(dram=dataclasses.replace(machine.dram, **faster))
        if name.lower() in levels:
            level = levels[name.lower()]
            bandwidth = level.bandwidth_bytes_per_cycle * times
            faster_level = dataclasses.replace(level, bandwidth_bytes_per_cycle=bandwidth)
            return _with_level(machine, faster_level)
        if name in RATES and name in machine.throughputs:
            rates = {**machine.throughputs, name: machine.throughputs[name] * times}
            return machine.replace(throughputs=rates)
    known = ", ".join(
        [
            *("blocks_per_core=4", "registers=40", *_ALONE),
            *(f"{name}=64KiB" for name in levels),
            *(
                f"{name}=2x"
                for name in (*levels, "dram", *(one for one in machine.throughputs if one in RATES))
            ),
        ]
    )
    raise WhatIfError(
        f"--what-if: no change {shown(part)} is possible on {machine.name}; possible are {known}"
    )


def _resized(machine: Machine, level: Level, size_bytes: int, part: str) -> Level:
    try:
        return level.resized(size_bytes)
    except MachineError as error:
        raise WhatIfError(f"--what-if {shown(part)}: {error}") from None


def _with_level(machine: Machine, level: Level) -> Machine:
    levels: Sequence[Level] = [
        level if other.name == level.name else other for other in machine.levels
    ]
    return machine.replace(levels=tuple(levels))


def _positive(part: str, value: str) -> int:
    number = whole(value)
    if not number or number > MOST_OF_CORE:
        raise WhatIfError(
            f"--what-if {shown(part)}: must be a whole number from 1 to {MOST_OF_CORE}"
        )
    return number
