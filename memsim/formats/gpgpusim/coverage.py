"""Which options of a gpgpusim.config a machine uses, and which the model cannot express."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from memsim.errors import MachineError
from memsim.formats.gpgpusim.config import Option

_NOT_OURS = re.compile(
    r"ptx_|gpgpu_ptx_|gpgpu_stack|gpgpu_heap|gpgpu_runtime|gpgpu_simd|gpgpu_pipeline|gpgpu_sub_core|"
    r"gpgpu_operand|gpgpu_enable_spec|gpgpu_num_(reg|sfu|tensor)|gpgpu_reg_|gpgpu_max_insn|"
    r"gpgpu_dual_issue|gpgpu_tensor|gpgpu_memlatency|gpgpu_clock_gated|enable_ptx|visualizer|trace_|"
    r"power|steady|gpuwattch|accelwattch|gpgpu_inst_fetch|gpgpu_perfect_inst|gpgpu_max_conc|"
    r"gpgpu_kernel_launch|gpgpu_TB_launch|gpgpu_ignore|specialized_unit|"
    r"gpgpu_compute_cap|gpgpu_mem_address_mask|gpgpu_cache:il1|gpgpu_const_cache|gpgpu_tex_cache"
)
_REASONS: Mapping[str, str] = {
    "gpgpu_cache:dl1PrefL1": "the cache's size where a kernel prefers it; the plain size is used",
    "gpgpu_cache:dl1PrefShared": "likewise where it prefers local memory",
    "gpgpu_shmem_size_PrefL1": "local memory where a kernel prefers cache; the plain size is used",
    "gpgpu_shmem_size_PrefShared": "local memory where a kernel prefers that; the plain size is used",
    "gpgpu_shmem_sizeDefault": "local memory by default; -gpgpu_shmem_size is used",
    "gpgpu_l1_cache_write_ratio": "a bound on the part of the L1 that stores may dirty",
    "gpgpu_l1_banks_byte_interleaving": "bank conflicts of the L1",
    "gpgpu_l1_banks_hashing_function": "bank conflicts of the L1",
    "gpgpu_flush_l1_cache": "a replay begins with an empty L1 in any case",
    "gpgpu_flush_l2_cache": "the L2 between kernels; a replay's --warm decides",
    "gpgpu_perf_sim_memcpy": "copies that fill the L2; a replay's --warm comes closest",
    "gpgpu_registers_per_block": "a bound on registers of a group beside those of a core",
    "gpgpu_shmem_per_block": "a bound on local memory of a group beside that of a core",
    "gpgpu_smem_latency": "local memory is not traced",
    "smem_latency": "local memory is not traced",
    "gpgpu_shmem_num_banks": "local memory is not traced",
    "gpgpu_shmem_warp_parts": "local memory is not traced",
    "gpgpu_shmem_limited_broadcast": "local memory is not traced",
    "gpgpu_dram_scheduler": "requests wait in no queue of the DRAM model",
    "gpgpu_frfcfs_dram_sched_queue_size": "requests wait in no queue of the DRAM model",
    "gpgpu_dram_return_queue_size": "requests wait in no queue of the DRAM model",
    "gpgpu_dram_partition_queues": "requests wait in no queue between L2 and DRAM",
    "dram_dual_bus_interface": "row and column commands on one bus or two",
    "dram_bnk_indexing_policy": "how a row's bits enter the bank",
    "dram_bnkgrp_indexing_policy": "bank groups",
    "dram_seperate_write_queue_enable": "a separate write queue",
    "dram_write_queue_size": "a separate write queue",
    "gpgpu_scheduler": "which sub-group issues next: --sampler of a replay",
    "gpgpu_n_cluster_ejection_buffer_size": "buffers of the network",
    "network_mode": "the network between cores and slices is not modelled",
    "inter_config_file": "the network between cores and slices is not modelled",
}
_NETWORK = re.compile(r"icnt_")


@dataclass
class OptionUse:
    """Options of a file. used : those that the machine uses;  notes : what it cannot express"""

    path: Path
    options: Mapping[str, Option]
    used: set[str] = field(default_factory=set)
    notes: list[str] = field(default_factory=list)

    def note(self, option: Option, text: str) -> None:
        self.notes.append(f"{option.file}:{option.line}: -{option.name}: not modelled: {text}")

    def all_notes(self) -> tuple[str, ...]:
        """Notes on options that were used, then on those that were not."""
        notes, others = list(dict.fromkeys(self.notes)), []
        for name, option in self.options.items():
            if name in self.used:
                continue
            if _NOT_OURS.match(name):
                others.append(f"-{name}")
                continue
            reason = _REASONS.get(name)
            if reason is None and _NETWORK.match(name):
                reason = _REASONS["network_mode"]
            value = option.value if len(option.value) <= 60 else option.value[:57] + "..."
            notes.append(
                f"{option.file}:{option.line}: -{name} {value}: not modelled: {reason or 'unknown option'}"
            )
        if others:
            notes.append(f"{self.path.name}: do not concern caches or memory: {', '.join(others)}")
        return tuple(notes)

    def get(self, *names: str) -> Option | None:
        for name in names:
            if name in self.options:
                self.used.add(name)
                return self.options[name]
        return None

    def need(self, *names: str) -> Option:
        option = self.get(*names)
        if option is None:
            raise MachineError(f"{self.path}: there must be the option -{names[0]}")
        return option

    def sources(self, *names: str) -> str:
        """The sources of several options together; the simulator's defaults are not named."""
        given = [self.options[name] for name in names if name in self.options]
        return f"{self.path.name}: " + ", ".join(f"-{one.name} {one.value}" for one in given)

    def integer(self, name: str, default: int, least: int = 0, most: int = 1 << 40) -> int:
        option = self.get(name)
        return default if option is None else option.integer(least, most)
