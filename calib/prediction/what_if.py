"""What-if: a machine, a launch or a program with something changed, as `predict --what-if` names it.

blocks_per_core=4     so many groups on a core
l1=64KiB, l2=12MiB    the size of a level, by its name
no-barriers           groups are not held together
no-latency            every load's data are there at once
NAME=FACTORx          a bandwidth or a throughput: dram=2x, l2=1.5x, fp32_fma=2x
registers=40          32-bit registers of a work-item
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from dataclasses import dataclass

from calib.prediction.basic_blocks import Program
from memsim.errors import MachineError, MemsimError
from memsim.machine import Level, Machine

_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*(B|[kK]i?B|[mM]i?B)")
_FACTOR = re.compile(r"(\d+(?:\.\d+)?)x")
_UNITS = {"b": 1, "kib": 1024, "kb": 1024, "mib": 1024**2, "mb": 1024**2}
_ALONE = ("no-barriers", "no-latency")


class WhatIfError(MemsimError):
    """A change that is not understood, or that the machine cannot have."""


@dataclass(frozen=True, kw_only=True)
class Changes:
    """groups_per_core, registers : None where they stay;  text : as they were given"""

    text: str
    machine: Machine
    groups_per_core: int | None = None
    registers: int | None = None
    barriers: bool = True
    latency: bool = True

    @property
    def needs_replay(self) -> bool:
        """Whether where requests are served may change."""
        return self.groups_per_core is not None or self.registers is not None


def parse(text: str, machine: Machine) -> Changes:
    """Raises WhatIfError that names the part of the text and what may stand there."""
    found = Changes(text=text, machine=machine)
    for part in (piece.strip() for piece in text.split(",")):
        name, _, value = part.partition("=")
        if part == "no-barriers":
            found = dataclasses.replace(found, barriers=False)
        elif part == "no-latency":
            found = dataclasses.replace(found, latency=False)
        elif name in ("blocks_per_core", "groups_per_core"):
            found = dataclasses.replace(found, groups_per_core=_whole(part, value))
        elif name == "registers":
            found = dataclasses.replace(found, registers=_whole(part, value))
        else:
            found = dataclasses.replace(found, machine=_changed(found.machine, part, name, value))
    return found


def without_barriers(program: Program) -> Program:
    """The program with nothing that holds a group's sub-groups together but its end."""
    blocks = [
        dataclasses.replace(
            block,
            barrier=False,
            operations={k: v for k, v in block.operations.items() if k != "barrier"},
        )
        for block in program.blocks
    ]
    last = program.steps[-1]
    if isinstance(last, int):  # a group's room is free when all of it has ended, as before
        blocks[last] = dataclasses.replace(blocks[last], barrier=program.blocks[last].barrier)
    return Program(blocks=tuple(blocks), steps=program.steps)


def _changed(machine: Machine, part: str, name: str, value: str) -> Machine:
    levels = {level.name.lower(): level for level in machine.levels}
    size, factor = _SIZE.fullmatch(value), _FACTOR.fullmatch(value)
    if size and name.lower() in levels:
        wanted = float(size[1]) * _UNITS[size[2].lower()]
        return _with_level(machine, _resized(machine, levels[name.lower()], round(wanted), part))
    if factor and float(factor[1]) > 0:
        times = float(factor[1])
        if name.lower() == "dram":
            dram = dataclasses.replace(
                machine.dram,
                bandwidth_bytes_per_cycle=machine.dram.bandwidth_bytes_per_cycle * times,
                sustained_bandwidth_bytes_per_cycle=(
                    machine.dram.sustained_bandwidth_bytes_per_cycle * times
                ),
            )
            return machine.replace(dram=dram)
        if name.lower() in levels:
            level = levels[name.lower()]
            return _with_level(
                machine,
                dataclasses.replace(
                    level, bandwidth_bytes_per_cycle=level.bandwidth_bytes_per_cycle * times
                ),
            )
        if name in machine.throughputs:
            rates = {**machine.throughputs, name: machine.throughputs[name] * times}
            return machine.replace(throughputs=rates)
    known = ", ".join(
        [
            *("blocks_per_core=4", "registers=40", *_ALONE),
            *(f"{name}=64KiB" for name in levels),
            *(f"{name}=2x" for name in (*levels, "dram", *machine.throughputs)),
        ]
    )
    raise WhatIfError(f"--what-if does not know {part!r} on {machine.name}; it takes {known}")


def _resized(machine: Machine, level: Level, size_bytes: int, part: str) -> Level:
    try:
        return level.resized(size_bytes)
    except MachineError as error:
        raise WhatIfError(f"--what-if {part}: {error}") from None


def _with_level(machine: Machine, level: Level) -> Machine:
    levels: Sequence[Level] = [
        level if other.name == level.name else other for other in machine.levels
    ]
    return machine.replace(levels=tuple(levels))


def _whole(part: str, value: str) -> int:
    if not value.isdigit() or int(value) < 1:
        raise WhatIfError(f"--what-if {part}: a positive whole number is wanted, got {value!r}")
    return int(value)
