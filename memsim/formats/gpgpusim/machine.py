"""The machine that a gpgpusim.config describes; the source of each number is its option.

Options that the model cannot express are listed in `Imported.notes`. The last note lists options of
pipelines, functional simulation and statistics, which do not concern caches or memory.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from memsim.errors import MachineError
from memsim.formats.gpgpusim.config import Option, read_options
from memsim.formats.gpgpusim.coverage import OptionUse
from memsim.formats.gpgpusim.levels import (
    Sourced,
    first_level,
    partition_index,
    second_level,
)
from memsim.machine.model import Machine
from memsim.machine.parts import Dram, Level, Residency
from memsim.machine.rules import RuleError
from memsim.visible import visible

_TIMING_USED = ("nbk", "RCD", "RP", "CL")


@dataclass(frozen=True, kw_only=True)
class Imported:
    """notes : options of the file that the machine does not express, one line each."""

    machine: Machine
    notes: tuple[str, ...]


def import_config(path: str | os.PathLike[str], name: str | None = None) -> Imported:
    """The machine of a gpgpusim.config.

    name : of the machine; by default that of the file's folder

    Raises MachineError, one line with file and line, where an option is missing or malformed, or
    where the machine breaks a rule of memsim.machine.
    """
    target = Path(path)
    options = read_options(target)
    reader = _MachineImporter(target, options)
    folder = target.absolute().parent.name
    plain = re.sub(r"[^A-Za-z0-9_-]+", "-", name or folder or target.stem).strip("-").lower()
    try:
        machine = reader.machine(plain or "imported", name or folder or target.stem)
    except RuleError as error:
        option = reader.option_of(error.key)
        where = f"{option.file}:{option.line}: -{option.name}: " if option else f"{target}: "
        raise MachineError(f"{where}{error}") from None
    return Imported(machine=machine, notes=reader.all_notes())


@dataclass
class _MachineImporter(OptionUse):
    """sources_of : dotted key -> where its value comes from"""

    sources_of: dict[str, str] = field(default_factory=dict)

    def machine(self, name: str, title: str) -> Machine:
        core_mhz, l2_mhz, dram_mhz = self._clocks()
        n_cores = self._n_cores()
        levels = []
        l1 = first_level(self)
        if l1 is not None:
            levels.append(Level(name="L1", **self._values("levels.L1.", l1)))
        l2 = second_level(
            self, n_cores, l2_mhz / core_mhz, hit_cycles=l1["latency_cycles"][0] if l1 else 0.0
        )
        if l2 is not None:
            levels.append(Level(name="L2", **self._values("levels.L2.", l2)))
        below = l2["latency_cycles"][0] if l2 else 0.0
        pipeline = self.need("gpgpu_shader_core_pipeline")
        items, lanes = (int(number) for number in pipeline.numbers(":", 2)[:2])
        if not 1 <= lanes <= items:
            pipeline.fail(
                "be the work-items of a core and the lanes of a warp, at least one of each"
            )
        whole: Sourced = {
            "n_cores": (n_cores, self.sources("gpgpu_n_clusters", "gpgpu_n_cores_per_cluster")),
            "clock_hz": (core_mhz * 1e6, self.need("gpgpu_clock_domains").source),
            "subgroup_size": (lanes, pipeline.source),
            "coalesce_lanes": self._coalescing(lanes),
            "cycles_per_turn": (
                4.0, "assumed: a load or store of 32 lanes in four cycles of the load/store unit",
            ),
        }  # fmt: skip
        schedulers = self.get("gpgpu_num_sched_per_core")
        if schedulers is not None:
            whole["n_schedulers"] = (schedulers.integer(1, 64), schedulers.source)
        machine = Machine(
            name=name,
            title=f"{visible(title)}, as GPGPU-Sim configures it",
            vendor="NVIDIA",
            levels=tuple(levels),
            dram=Dram(**self._values("dram.", self._dram(below, dram_mhz / core_mhz))),
            residency=Residency(**self._values("residency.", self._residency(items, lanes))),
            throughputs=self._values("throughputs.", self._throughputs(lanes)),
            compiler_target=self._compiler_target(),
            **self._values("", whole),
        )
        # Defaults that no option sets have a source that says so.
        from memsim.machine.file import NO_SOURCE, keys

        return machine.replace(
            sources={key: self.sources_of.get(key, NO_SOURCE) for key in keys(machine)}
        )

    def _n_cores(self) -> int:
        clusters = self.need("gpgpu_n_clusters").integer(1, 1 << 20)
        return clusters * self.integer("gpgpu_n_cores_per_cluster", 3, 1, 1 << 10)

    def _clocks(self) -> tuple[float, float, float]:
        option = self.need("gpgpu_clock_domains")
        core, _, l2, dram = option.numbers(":", 4)[:4]
        if min(core, l2, dram) <= 0:
            option.fail("be four positive frequencies in MHz")
        return core, l2, dram

    def _compiler_target(self) -> str:
        option = self.get("gpgpu_occupancy_sm_number")
        if option is None:
            return ""
        self.sources_of["compiler_target"] = option.source
        return f"sm_{option.integer(10, 999)}"

    def _coalescing(self, lanes: int) -> tuple[int, str]:
        option = self.get("gpgpu_coalesce_arch")
        parts = self.get("gpgpu_shmem_warp_parts")
        if option is not None and option.integer() < 20 and lanes == 32:
            return 16, f"{option.source}: half-warps are coalesced"
        if option is None and parts is not None and parts.integer(1, 32) == 2 and lanes == 32:
            return 16, f"{parts.source}: half-warps are coalesced"
        if option is None:
            return lanes, "GPGPU-Sim's default: whole warps are coalesced"
        return lanes, f"{option.source}: whole warps are coalesced"

    def _dram(self, below_cycles: float, dram_clock_ratio: float) -> Sourced:
        to_core = 1 / dram_clock_ratio
        n_mem = self.need("gpgpu_n_mem")
        chips = self.integer("gpgpu_n_mem_per_ctrlr", 1, 1, 64)
        bus = self.integer("gpgpu_dram_buswidth", 4, 1, 1 << 10)
        burst = self.integer("gpgpu_dram_burst_length", 4, 1, 1 << 10)
        rate = self.integer("dram_data_command_freq_ratio", 2, 1, 64)
        timing, timing_option = self._timing()
        mapping = self.need("gpgpu_mem_addr_mapping")
        interleave, row_bytes = _mapping(mapping)
        organised = self.sources(
            "gpgpu_n_mem_per_ctrlr",
            "gpgpu_dram_buswidth",
            "gpgpu_dram_burst_length",
            "dram_data_command_freq_ratio",
        )
        latency = self.get("dram_latency")
        queue = 30.0 if latency is None else float(latency.integer(0, 1 << 20))
        access = (timing.get("CL", 0) + burst / rate) * to_core
        source = timing_option.source
        return {
            "n_channels": (n_mem.integer(1), n_mem.source),
            "n_banks": (timing["nbk"], source),
            "row_bytes": (row_bytes, f"{mapping.source}: column and burst bits"),
            "interleave_bytes": (interleave, mapping.source),
            "burst_bytes": (bus * burst * chips, organised),
            "latency_cycles": (
                below_cycles + queue + access,
                f"assumed: L2 latency, -dram_latency {queue:g}, and CL and a burst at the DRAM's clock"
                f" ({self.path.name}), the queues empty",
            ),
            "row_miss_cycles": (timing["RCD"] * to_core, f"{source}: RCD"),
            "row_conflict_cycles": (
                (timing["RP"] + timing["RCD"]) * to_core,
                f"{source}: RP + RCD",
            ),
            "bandwidth_bytes_per_cycle": (
                n_mem.integer(1) * chips * bus * rate * dram_clock_ratio,
                f"{organised}, -gpgpu_n_mem {n_mem.value}, -gpgpu_clock_domains",
            ),
            "channel_index": partition_index(
                self.get("gpgpu_memory_partition_indexing"), self.note
            ),
        }

    def _timing(self) -> tuple[dict[str, int], Option]:
        option = self.need("gpgpu_dram_timing_opt")
        timing: dict[str, int] = {}
        for part in filter(None, re.sub(r"\s", "", option.value).split(":")):
            named = re.fullmatch(r"([A-Za-z]{1,10})=([0-9]{1,6})", part)
            if named is None:
                option.fail("be NAME=CYCLES with ':' between")
            timing[named[1]] = int(named[2])
        for name in ("nbk", "RCD", "RP"):
            if name not in timing:
                option.fail(f"say {name}")
        unused = [f"{name}={value}" for name, value in timing.items() if name not in _TIMING_USED]
        if unused:
            self.note(option, f"{':'.join(unused)}; of a bank's timing only RCD, RP and CL are")
        return timing, option

    def _residency(self, items: int, lanes: int) -> Sourced:
        pipeline = self.need("gpgpu_shader_core_pipeline")
        groups = self.need("gpgpu_shader_cta")
        registers = self.need("gpgpu_shader_registers")
        local = self.get("gpgpu_shmem_size")
        arch = self.integer("gpgpu_occupancy_sm_number", 20)
        most_items = 512 if arch < 20 else 1024
        known = "NVIDIA CUDA Occupancy Calculator, compute capability"
        capability = f"{known} {arch // 10}.{arch % 10}"
        per_item = 124 if arch < 20 else 63 if arch < 32 else 255
        rounding = "GPGPU-Sim: registers of an item are rounded up to four"
        return {
            "max_items": (items, pipeline.source),
            "max_subgroups": (max(items // lanes, 1), pipeline.source),
            "max_groups": (groups.integer(1), groups.source),
            "max_group_items": (min(items, most_items), capability),
            "registers": (registers.integer(1), registers.source),
            "max_registers_per_item": (per_item, capability),
            "register_unit": (4 * lanes, rounding),
            "register_allocation": ("subgroup", rounding),
            "local_memory_bytes": (
                (local.integer(1), local.source)
                if local
                else (16384, "assumed: GPGPU-Sim's default")
            ),
            "local_memory_unit_bytes": (1, "GPGPU-Sim: local memory is not rounded up"),
        }

    def _throughputs(self, lanes: int) -> Sourced:
        """Lanes a cycle: units times lanes over the initiation interval of an operation."""
        throughputs: Sourced = {}
        for name, units_of, interval_of, position in (
            ("fp32_fma", "gpgpu_num_sp_units", "ptx_opcode_initiation_fp", 3),
            ("fp64_fma", "gpgpu_num_dp_units", "ptx_opcode_initiation_dp", 3),
            ("int32_add", "gpgpu_num_int_units", "ptx_opcode_initiation_int", 0),
        ):
            if units_of not in self.options:
                units_of = "gpgpu_num_sp_units"
            units, intervals = self.get(units_of), self.get(interval_of)
            if units is None or intervals is None:
                continue
            values = intervals.numbers(",", position + 1)
            count = units.integer(0, 1 << 10)
            if count and values[position] > 0:
                throughputs[name] = (
                    count * lanes / values[position],
                    self.sources(units_of, interval_of),
                )
        throughputs["load_store_lanes"] = (
            float(lanes),
            "GPGPU-Sim: one memory instruction of a warp a cycle",
        )
        return throughputs

    def _values(self, prefix: str, fields: Sourced) -> dict[str, Any]:
        """The values of fields, whose sources are remembered."""
        self.sources_of |= {f"{prefix}{name}": source for name, (_, source) in fields.items()}
        return {name: value for name, (value, _) in fields.items()}

    def option_of(self, key: str) -> Option | None:
        """The option that set a dotted key: of a level its cache's, else the first that the source names."""
        of_level = re.match(r"levels\.L([12])\.", key)
        if of_level is not None:
            return self.options[f"gpgpu_cache:dl{of_level[1]}"]
        named = re.search(r"-([A-Za-z_][\w:]*) ", self.sources_of.get(key, ""))
        return self.options.get(named[1]) if named else None


def _mapping(option: Option) -> tuple[int, int]:
    """(bytes that lie in one channel together, bytes of a row) of `dramid@8;...RRBBCCSS`."""
    match = re.fullmatch(
        r"dramid@([0-9]{1,2});([0DdRrBbCcSs.]*)", re.sub(r"\s|\|", "", option.value)
    )
    bits = match[2].replace(".", "") if match else ""
    if match is None or len(bits) != 64:
        option.fail("be dramid@BIT; and 64 letters of 0, D, R, B, C and S")
    low = int(match[1])
    columns = sum(letter in "CcSs" for letter in bits)
    if not 5 <= low <= 32 or not 5 <= columns <= 30:
        option.fail("have its channel's bits from bit 5 to 32, and 5 to 30 column and burst bits")
    return 1 << low, 1 << columns
