"""The groups of requests that a replay has in flight to memory (Baghsorkhi et al. 2012, section 3.2.3).

A microbenchmark that loads their addresses measures a kernel's memory latency T_m on a device.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from calib.probes.outcome import Unclear
from memsim.hierarchy import LOAD, sample_positions, trial_sequence
from memsim.machine import Machine
from memsim.montecarlo import Workspace, make_plan, run_trial, unpack_many
from memsim.trace import GRANULE_BYTES, Trace


@dataclass(frozen=True, kw_only=True)
class DramGroups:
    """Groups of requests.

    address_bytes : (n,) int64 addresses of all requests, from 0 on
    offset : (n_group + 1,) int64
    kernel, machine : of the replay
    """

    address_bytes: npt.NDArray[np.int64]
    offset: npt.NDArray[np.int64]
    kernel: str
    machine: str


def dram_groups(trace: Trace, machine: Machine, seed: int = 0) -> DramGroups:
    """Random groups of the reads from memory in a replay of the trace on the machine.

    Raises Unclear where no read reaches memory.
    """
    plan, _ = make_plan(trace, machine)
    work = Workspace(plan)
    run_trial(plan, seed, 0, workspace=work)
    queue, geometry = work.queues[-1], work.levels[-1].geometry
    line, mask, _, _, kind, counted = unpack_many(queue.record[: queue.used[0]])
    reads = (kind == LOAD) & (counted == 1)
    if not reads.any():
        raise Unclear(f"'{trace.launch.kernel}' reads nothing from memory on {machine.name}")
    line, mask = line[reads], mask[reads]
    lowest = np.array([(m & -m).bit_length() - 1 if m else 0 for m in range(256)])[mask]
    address = plan.space.true_granule(line * geometry.granules_per_line + lowest) * GRANULE_BYTES
    rng = np.random.default_rng(trial_sequence(seed, 0, 0).spawn(1)[0])
    position, offset = sample_positions(rng, len(address), machine.n_cores, machine.subgroup_size)
    return DramGroups(
        address_bytes=address[position] - address.min(),
        offset=offset,
        kernel=trace.launch.kernel,
        machine=machine.name,
    )
