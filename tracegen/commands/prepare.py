"""Compiles what `memsim profile` needs, so that no first command of a user waits for it."""

from __future__ import annotations

from typing import Any

MACHINES = ("v100", "mi250x")
"""Loops are compiled for the features of a machine; these two have those of most others."""


def gather(n: int = 1 << 19) -> Any:
    """A kernel whose addresses depend on data, so that it is run and recorded; with a loop and a store."""
    import loopy as lp
    import numpy as np

    from tracegen import Workload

    kernel = lp.make_kernel(
        ["{[i]: 0 <= i < n}", "{[j]: 0 <= j < 4}"],
        "out[i] = sum(j, table[index[i] + j])",
        name="gather",
        lang_version=(2018, 2),
    )
    kernel = lp.split_iname(kernel, "i", 128, outer_tag="g.0", inner_tag="l.0")
    index = np.arange(n, dtype=np.int32)[::-1].copy()
    return Workload(kernel, {"table": np.ones(n + 4, np.float32), "index": index})


def prepare(name: str) -> None:
    """Profiles a small kernel on a machine; what is compiled for it is kept for later processes.

    Raises MemsimError where kernels cannot be traced or replayed at all.
    """
    import memsim
    from memsim.commands import progress_bar, timed
    from memsim.report import summarise
    from tracegen.commands.kernel import KernelSpec, trace_snapshots
    from tracegen.options import TraceOptions
    from tracegen.own_process import Limits

    machine = memsim.load_machine(name)
    kernel = KernelSpec(f"{__name__}:{gather.__name__}", {}, None)
    traces = trace_snapshots(kernel, machine, TraceOptions(start=True), 3, Limits())
    with progress_bar("replaying") as progress:
        replay = memsim.replay(traces, machine, progress=progress)
    summarise(timed(replay, traces, machine).dataset)
